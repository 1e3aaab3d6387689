#include "kube/grpc/server_call.h"
#include "base/text.h"

#include "kube/grpc/rpc_headers.h"

namespace ghostfleet::kube::grpc {
namespace {

constexpr std::string_view kNoMessage =
    "cardinality violation: received no request message from non-client-streaming RPC";
constexpr std::string_view kSecondMessage =
    "cardinality violation: received multiple request messages for non-client-streaming RPC";

// What a handler holds.
class Handle final : public ServerCall {
 public:
  explicit Handle(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  ~Handle() override { state_->abandoned(); }

  const http::Request& request() const override { return state_->request(); }
  EventLoop& loop() override { return state_->loop(); }
  bool send(std::string_view message) override { return state_->send_framed(frame_message(message)); }
  bool send_framed(SharedBytes framed) override { return state_->send_framed(std::move(framed)); }
  void finish(const RpcStatus& status) override { state_->finish(status); }
  size_t backlog() const override { return state_->backlog(); }
  void when_drained(size_t low_water, std::function<void()> callback) override {
    state_->when_drained(low_water, std::move(callback));
  }
  void on_close(std::function<void()> callback) override { state_->on_close(std::move(callback)); }
  bool closed() const override { return state_->closed(); }
  void read(std::function<void(std::string_view)> message, std::function<void()> half_close) override {
    state_->read(std::move(message), std::move(half_close));
  }
  void pause() override { state_->pause(); }
  void resume() override { state_->resume(); }

 private:
  std::shared_ptr<CallState> state_;
};

RpcStatus unknown_method(const RpcServices& services, std::string_view path) {
  std::string_view service, method;
  if (!split_method(path, &service, &method)) {
    return rpc_error(RpcCode::kUnimplemented, "malformed method name: " + go_quote(path));
  }
  if (!services.has_service(service)) {
    return rpc_error(RpcCode::kUnimplemented, "unknown service " + std::string(service));
  }
  return rpc_error(RpcCode::kUnimplemented,
                   "unknown method " + std::string(method) + " for service " + std::string(service));
}

}  // namespace

CallState::CallState(std::shared_ptr<const ServerShare> share, std::shared_ptr<http::Exchange> exchange)
    : share_(std::move(share)),
      exchange_(std::move(exchange)),
      context_(http::LoopContext::of(exchange_->loop())),
      reader_(Side::kServer, share_->max_message_bytes) {}

CallState::~CallState() {
  if (has_timer_) context_->release_timer(timer_);
}

void CallState::begin() {
  if (refuse_foreign()) return;
  const RpcStatus status = check_headers();
  if (!status.ok()) return exchange_->respond(200, trailers_only(status), nullptr);
  exchange_->on_close([self = shared_from_this()] { self->peer_gone(); });
  exchange_->read_body(this);
  start_timer();
  if (method_->stream) method_->stream(std::make_shared<Handle>(shared_from_this()));
}

// Requests that are not gRPC's get an HTTP status as well.
bool CallState::refuse_foreign() {
  const http::Request& r = request();
  if (!r.http2) {
    exchange_->respond(505, {{"content-type", "text/plain; charset=utf-8"}}, share("gRPC needs HTTP/2\n"));
    return true;
  }
  const std::string_view type = r.headers.get("content-type");
  if (!is_grpc_content_type(type)) {
    const std::string why = "invalid gRPC request content-type " + go_quote(type);
    exchange_->respond(415, trailers_only(rpc_error(RpcCode::kInvalidArgument, why)), nullptr);
    return true;
  }
  if (r.method != "POST") {
    const std::string why = "Received a HEADERS frame with :method " + go_quote(r.method) + " which should be POST";
    exchange_->respond(405, trailers_only(rpc_error(RpcCode::kInternal, why)), nullptr);
    return true;
  }
  return false;
}

RpcStatus CallState::check_headers() {
  const http::Request& r = request();
  if (const std::string* text = r.headers.find("grpc-timeout")) {
    const Result<Duration> timeout = parse_grpc_timeout(*text);
    if (!timeout.ok()) {
      return rpc_error(RpcCode::kInternal, "malformed grpc-timeout: " + timeout.error().message());
    }
    const TimePoint now = context_->now();
    const Duration most(std::numeric_limits<int64_t>::max() - now.ns);
    deadline_ = now + std::min(*timeout, most);
  }
  method_ = share_->services.find(r.target);
  if (method_ == nullptr) return unknown_method(share_->services, r.target);
  const std::string_view encoding = r.headers.get("grpc-encoding");
  if (!is_identity_encoding(encoding)) {
    return rpc_error(RpcCode::kUnimplemented,
                     "grpc: Decompressor is not installed for grpc-encoding " + go_quote(encoding));
  }
  return RpcStatus();
}

// The call's deadline; for a unary call also the limit for its message, whichever is sooner.
void CallState::start_timer() {
  TimePoint due = deadline_;
  const bool waits = !method_->stream && !complete_ && share_->request_timeout.count() > 0;
  if (waits) {
    const TimePoint limit = context_->now() + share_->request_timeout;
    if (due == TimePoint{} || limit < due) due = limit;
  }
  if (due == TimePoint{}) {
    if (has_timer_) context_->disarm(timer_);
    return;
  }
  if (!has_timer_) timer_ = context_->acquire_timer(this, 0);
  has_timer_ = true;
  context_->arm(timer_, due);
}

void CallState::on_timer(uint64_t) {
  const auto self = shared_from_this();
  if (over_) return;
  const bool late = deadline_ != TimePoint{} && context_->now() >= deadline_;
  stop_with(rpc_error(RpcCode::kDeadlineExceeded,
                      late ? "context deadline exceeded" : "the request message did not arrive in time"));
}

void CallState::on_data(std::string_view piece) {
  if (over_) return exchange_->consume(piece.size(), 0);
  const auto self = shared_from_this();
  reader_.append(piece);
  read_messages();
  if (paused_)
    owed_ += piece.size();
  else
    exchange_->consume(piece.size(), over_ ? 0 : reader_.buffered());
}

void CallState::read_messages() {
  if (std::exchange(reading_, true)) return;  // pause() and resume() from inside a message
  MessageReader::Next next = MessageReader::Next::kMore;
  std::string_view message;
  while (!over_ && !paused_ && (next = reader_.next(&message)) == MessageReader::Next::kMessage) take_message(message);
  reading_ = false;
  if (over_ || paused_) return;
  if (next == MessageReader::Next::kError) return stop_with(reader_.error());
  if (input_ended_) read_end();
}

void CallState::take_message(std::string_view message) {
  ++messages_;
  if (method_->stream) {
    const std::shared_ptr<const Reader> reader = messages_to_;
    if (reader && reader->message) reader->message(message);
    return;
  }
  if (messages_ > 1) return stop_with(rpc_error(RpcCode::kInternal, std::string(kSecondMessage)));
  message_.assign(message);
}

void CallState::on_end() {
  const auto self = shared_from_this();
  input_ended_ = true;
  if (!over_) read_messages();
}

void CallState::read_end() {
  if (std::exchange(end_told_, true)) return;
  const RpcStatus rest = reader_.finish();
  if (!rest.ok()) return stop_with(rest);
  if (!method_->stream) return dispatch_unary();
  const std::shared_ptr<const Reader> reader = messages_to_;
  if (reader && reader->half_close) reader->half_close();
}

void CallState::dispatch_unary() {
  if (messages_ == 0) return stop_with(rpc_error(RpcCode::kInternal, std::string(kNoMessage)));
  complete_ = true;
  start_timer();
  method_->unary(std::make_shared<Handle>(shared_from_this()), std::move(message_));
}

void CallState::resume() {
  if (!std::exchange(paused_, false) || over_) return;
  // Messages come from the loop, as always.
  loop().post([self = shared_from_this()] {
    if (self->over_ || self->paused_) return;
    self->read_messages();
    if (!self->paused_) self->exchange_->consume(std::exchange(self->owed_, 0), self->reader_.buffered());
  });
}

void CallState::read(std::function<void(std::string_view)> message, std::function<void()> half_close) {
  if (closed()) return;
  messages_to_ = std::make_shared<const Reader>(Reader{std::move(message), std::move(half_close)});
}

void CallState::on_close(std::function<void()> callback) {
  if (closed()) return;
  on_close_ = std::move(callback);
}

bool CallState::send_framed(SharedBytes framed) {
  if (closed()) return false;
  if (!std::exchange(started_, true)) exchange_->start(200, answer_headers());
  return exchange_->write(std::move(framed));
}

void CallState::finish(const RpcStatus& status) {
  if (closed()) return;
  if (started_)
    exchange_->finish_with(status_trailers(status));
  else
    exchange_->respond(200, trailers_only(status), nullptr);
  end();
}

// Ends the call for both: the peer gets the status, the handler its on_close().
void CallState::stop_with(const RpcStatus& status) {
  if (closed()) return;
  if (on_close_) loop().post(std::exchange(on_close_, nullptr));
  finish(status);
}

void CallState::peer_gone() {
  if (over_) return;
  const std::function<void()> callback = std::exchange(on_close_, nullptr);
  end();
  if (callback) callback();
}

void CallState::end() {
  over_ = true;
  if (has_timer_) context_->disarm(timer_);
  messages_to_ = nullptr;
  on_close_ = nullptr;
}

void CallState::abandoned() {
  if (!closed()) finish(rpc_unknown("the handler gave no answer"));
}

}  // namespace ghostfleet::kube::grpc
