// Sender: turns the requests of machines into HTTP calls and their ends into answers. It adds credentials, keeps a pool
// of calls (so that a call costs no allocation once it runs warm), counts, measures, and reads Retry-After and Date.
//
// Thread rule: one event loop. Ownership: the clients used must be destroyed before the sender (they end its calls
// without an answer); the sink outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "agent/actions.h"
#include "emulator/fleet/fleet_stats.h"
#include "kube/client/client.h"

namespace ghostfleet::emulator {

class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void on_answer(uint32_t row, agent::Tag tag, const agent::ApiResponse& response) = 0;
  // Of every request, before on_answer. `overloaded`: 429, 503 or no connection.
  virtual void on_measured(Duration latency, bool overloaded) = 0;
};

class Sender {
 public:
  Sender(EventLoop& loop, ShardStats& stats, AnswerSink& sink);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // A status write beyond the window waits here for its turn; the clients used must then live as long as the sender is
  // in use.
  void send(kube::KubeClient& client, uint32_t row, const agent::ApiRequest& request);
  // Bodies of POST and PUT leave as protobuf, and answers are asked for in it, as by a kubelet; machines see JSON.
  void use_protobuf() { protobuf_ = true; }
  size_t in_flight() const { return in_flight_; }
  // When something other than a heartbeat or a status was last sent.
  TimePoint last_work() const { return last_work_; }

 private:
  class Call;
  using HeaderSets = std::array<kube::http::HeaderList, 5>;  // by BodyType
  struct Waiting {
    kube::KubeClient* client;
    uint32_t row;
    agent::ApiRequest request;
  };
  Call& take_call();
  void send_now(kube::KubeClient& client, uint32_t row, const agent::ApiRequest& request);
  void status_ended(bool overloaded);
  void begin_work(kube::KubeClient& client, TimePoint now);
  void finished(Call& call, int status, Duration retry_after);
  void failed(Call& call, const Status& status);
  void note_head(int status, const kube::http::HeaderList& headers, Duration* retry_after);
  const kube::http::HeaderList& headers_for(kube::KubeClient& client, agent::BodyType type);

  EventLoop& loop_;
  ShardStats& stats_;
  AnswerSink& sink_;
  std::deque<Call> calls_;
  std::vector<Call*> free_;
  bool protobuf_ = false;
  size_t in_flight_ = 0;
  // How many status writes may be on their way at once: halved when they fail, grows with each that succeeds. A server
  // that was away is met by every node's at the same time; sent all at once they would all miss their deadline there,
  // be sent again, and keep it from ever catching up.
  static constexpr double kLeastWindow = 16, kMostWindow = 4096;
  double status_window_ = kMostWindow;
  size_t status_in_flight_ = 0;
  TimePoint window_cut_;
  std::deque<Waiting> waiting_;
  TimePoint last_work_;
  std::string authorization_;
  HeaderSets headers_;
  TimePoint next_skew_check_;
};

}  // namespace ghostfleet::emulator
