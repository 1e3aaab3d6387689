// CallState: one call of an RpcServer, from its headers to its end. ServerCall, which handlers hold, is a handle on it.
//
// Thread rule: the loop of its connection. Ownership: its exchange keeps it until the stream ends (a circle that the
// end of the stream always opens), handles keep it longer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kube/grpc/message_reader.h"
#include "kube/grpc/server.h"
#include "kube/http/loop_context.h"
#include "kube/http/server.h"

namespace ghostfleet::kube::grpc {

// What calls need of their server.
struct ServerShare {
  RpcServices services;
  size_t max_message_bytes = kMaxMessageBytes;
  Duration request_timeout{0};
};

class CallState final : public http::BodyReader,
                        public http::TimerTarget,
                        public std::enable_shared_from_this<CallState> {
 public:
  CallState(std::shared_ptr<const ServerShare> share, std::shared_ptr<http::Exchange> exchange);
  ~CallState() override;

  // Looks at the headers, and answers or begins to read.
  void begin();

  const http::Request& request() const { return exchange_->request(); }
  EventLoop& loop() { return exchange_->loop(); }
  bool send_framed(SharedBytes framed);
  void finish(const RpcStatus& status);
  size_t backlog() const { return exchange_->backlog(); }
  void when_drained(size_t low_water, std::function<void()> callback) {
    exchange_->when_drained(low_water, std::move(callback));
  }
  void on_close(std::function<void()> callback);
  bool closed() const { return over_ || exchange_->closed(); }
  void read(std::function<void(std::string_view)> message, std::function<void()> half_close);
  void pause() { paused_ = true; }
  void resume();
  // The last handle is gone.
  void abandoned();

  void on_data(std::string_view piece) override;
  void on_end() override;
  void on_timer(uint64_t) override;

 private:
  struct Reader {
    std::function<void(std::string_view)> message;
    std::function<void()> half_close;
  };
  bool refuse_foreign();
  RpcStatus check_headers();
  void start_timer();
  void read_messages();
  void take_message(std::string_view message);
  void read_end();
  void dispatch_unary();
  void stop_with(const RpcStatus& status);
  void peer_gone();
  void end();

  std::shared_ptr<const ServerShare> share_;
  std::shared_ptr<http::Exchange> exchange_;
  std::shared_ptr<http::LoopContext> context_;
  const RpcServices::Method* method_ = nullptr;
  MessageReader reader_;
  http::LoopContext::TimerId timer_ = 0;
  TimePoint deadline_;  // zero: none
  bool has_timer_ = false, started_ = false, over_ = false;
  bool paused_ = false, reading_ = false, input_ended_ = false, end_told_ = false, complete_ = false;
  size_t owed_ = 0;  // bytes taken while paused: consumed by resume()
  int messages_ = 0;
  std::string message_;                        // of a unary call
  std::shared_ptr<const Reader> messages_to_;  // of a stream; whoever calls it holds it, since a call may end inside
  std::function<void()> on_close_;
};

}  // namespace ghostfleet::kube::grpc
