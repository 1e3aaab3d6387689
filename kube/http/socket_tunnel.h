// SocketTunnel: the Tunnel over a Transport that a connection has given up. Servers and clients make it; everybody else
// sees a Tunnel.
//
// Thread rule: one loop. Ownership: handle() gives the Tunnel that users hold; when its last reference is gone the
// tunnel closes as by close(), keeping itself alive until what was written has left (kCloseLimit at most).
#pragma once

#include <deque>
#include <memory>

#include "kube/http/loop_context.h"
#include "kube/http/transport.h"
#include "kube/http/tunnel.h"

namespace ghostfleet::kube::http {

class SocketTunnel final : public Tunnel,
                           public TransportEvents,
                           public TimerTarget,
                           public std::enable_shared_from_this<SocketTunnel> {
 public:
  static constexpr Duration kCloseLimit = std::chrono::seconds(10);  // for a peer that does not take the rest

  // `on_gone` is called once, from the loop or from a destructor, when the connection has ended.
  SocketTunnel(std::shared_ptr<LoopContext> context, std::shared_ptr<Transport> transport, size_t max_backlog,
               std::function<void()> on_gone);
  ~SocketTunnel() override;

  // Takes over the transport's events. `first_output` leaves before anything else.
  void begin(std::string first_output);
  // Input that was read before.
  void add_early(std::string_view bytes);
  std::shared_ptr<Tunnel> handle();
  // The owner of the connection ends it.
  void cut(const Status& why);

  void set_handler(TunnelHandler* handler) override;
  bool write(SharedBytes bytes) override;
  size_t backlog() const override { return backlog_ + (transport_ ? transport_->unsent() : 0); }
  void when_drained(size_t low_water, std::function<void()> callback) override;
  void pause() override;
  void resume() override;
  void shutdown_write() override;
  void close() override;
  void abort() override;
  bool closed() const override { return state_ == State::kClosed || state_ == State::kClosing; }
  EventLoop& loop() override { return context_->loop(); }

  void on_open() override {}
  Status on_bytes(std::string_view plain) override;
  void on_eof() override;
  bool half_open() const override { return state_ == State::kOpen || state_ == State::kClosing; }
  void fill(std::string* plain, size_t limit) override;
  bool on_flushed() override;
  void on_closed(const Status& why) override;
  void on_timer(uint64_t) override;

 private:
  enum class State : unsigned char { kOpen, kClosing, kClosed };

  void update_reading();
  void deliver_early();
  void end(const Status& why);
  void finish();
  void check_drained();

  std::shared_ptr<LoopContext> context_;
  std::shared_ptr<Transport> transport_;
  const size_t max_backlog_;
  std::function<void()> on_gone_;
  TunnelHandler* handler_ = nullptr;
  State state_ = State::kOpen;
  bool paused_ = false, input_ended_ = false, end_told_ = false, write_ended_ = false, early_posted_ = false;
  std::string early_;
  Status end_;
  std::deque<SharedBytes> queue_;
  size_t front_offset_ = 0, backlog_ = 0;
  std::function<void()> on_drained_;
  size_t low_water_ = 0;
  LoopContext::TimerId timer_;
  std::shared_ptr<SocketTunnel> self_;  // while closing
};

}  // namespace ghostfleet::kube::http
