// LogStreams: the logs that are being read: whole ones, and those that are followed. Lines are computed when they are
// due and the reader can take them: a reader that takes nothing costs what one piece holds, and delays nobody.
//
// Followed logs share one timer; every second, and when a line is due, their containers are looked at, all that are due
// together in one question.
// Thread rule: the loop of the server. Ownership: owns the sinks; backend and clock outlive it.
// Limits: kPiece bytes are rendered at a time, kHighWater may wait in a connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/kubelet_api/backend.h"
#include "agent/kubelet_api/log_model.h"
#include "agent/kubelet_api/log_options.h"
#include "base/bytes.h"
#include "base/timer_wheel.h"
#include "kube/http/server.h"
#include "kube/stream/timers.h"

namespace ghostfleet::kubelet_api {

// Where a log goes.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // False when the reader is gone.
  virtual bool write(SharedBytes bytes) = 0;
  virtual size_t backlog() const = 0;
  virtual void when_drained(size_t low_water, std::function<void()> callback) = 0;
  virtual void finish() = 0;
  virtual bool closed() const = 0;
};

// An answer in pieces; begun by the caller.
std::unique_ptr<LogSink> exchange_sink(std::shared_ptr<kube::http::Exchange> exchange);

struct LogSource {
  NodeId node = 0;
  std::string ns, pod, uid, container;
  uint32_t attempt = 0;
};

class LogStreams {
 public:
  static constexpr size_t kPiece = 32 * 1024;
  static constexpr size_t kHighWater = 64 * 1024;
  static constexpr Duration kLook = std::chrono::seconds(1);  // followed containers are looked at that often

  LogStreams(Backend& backend, const Clock& clock, std::shared_ptr<kube::stream::Timers> timers);
  ~LogStreams();
  LogStreams(const LogStreams&) = delete;
  LogStreams& operator=(const LogStreams&) = delete;

  // Writes the log; with `options.follow` until the attempt has ended or the reader is gone.
  void open(LogSource source, LogModel model, const LogOptions& options, std::unique_ptr<LogSink> sink);
  size_t open_count() const { return open_; }
  void tick();

 private:
  struct Stream;
  void pump(uint32_t slot, uint64_t serial);
  bool render(Stream& s, WallTime now, std::string* piece);
  void wait_for_reader(uint32_t slot);
  void arm(uint32_t slot);
  void schedule_tick();
  void look_at(const std::vector<uint32_t>& due);
  void looked(Stream& s, const std::vector<agent::PodView>& pods);
  void close(uint32_t slot, bool clean);

  Backend& backend_;
  const Clock& clock_;
  std::shared_ptr<kube::stream::Timers> timers_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<uint32_t> free_;
  TimerWheel wheel_;
  uint64_t next_serial_ = 1;
  size_t open_ = 0;
  bool ticking_ = false;
};

}  // namespace ghostfleet::kubelet_api
