#include "kube/http/upgrade_call.h"

#include "kube/http/socket_tunnel.h"

namespace ghostfleet::kube::http {
namespace {

// A call's handler only tells that events are wanted: they come through ClientSessionEvents.
class NoHandler final : public ResponseHandler {
 public:
  void on_head(CallId, int, const HeaderList&) override {}
  void on_body(CallId, std::string_view) override {}
  void on_end(CallId) override {}
  void on_error(CallId, const Status&, bool) override {}
};

NoHandler* no_handler() {
  static NoHandler handler;
  return &handler;
}

}  // namespace

UpgradeCall::UpgradeCall(std::shared_ptr<LoopContext> context, const HttpClientOptions* options,
                         const ClientSessionConfig* config, const UpgradeOptions& upgrade_options,
                         UpgradeHandler* handler, std::function<void()> on_over)
    : context_(std::move(context)),
      options_(upgrade_options),
      handler_(handler),
      on_over_(std::move(on_over)),
      connection_(std::make_unique<ClientConnection>(context_, options, config, this, this)),
      timer_(context_->acquire_timer(this, 0)) {
  connection_->only_http1();
}

UpgradeCall::~UpgradeCall() {
  handler_ = nullptr;
  connection_.reset();
  context_->release_timer(timer_);
}

void UpgradeCall::begin(std::string_view method, std::string_view target, HeaderList headers) {
  headers.set("connection", "Upgrade");
  call_.store(method, target, &headers, {});
  call_.handler = no_handler();
  if (options_.timeout.count() > 0) context_->arm(timer_, context_->now() + options_.timeout);
  connection_->dial();
}

void UpgradeCall::cancel() { over(); }

void UpgradeCall::abandon() {
  handler_ = nullptr;
  on_over_ = nullptr;
  context_->disarm(timer_);
  connection_->close(Status(Code::kCancelled, "the client was closed"));
}

void UpgradeCall::on_connected(ClientConnection* connection) { connection->submit(&call_); }

void UpgradeCall::on_head(ClientCall*, int status, const HeaderList& headers) {
  status_ = status;
  headers_ = headers;
  if (status != 101) return;
  // The bytes behind the head come as the body; those on the socket wait for the tunnel.
  connection_->stop_reading();
  context_->loop().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->switch_protocols();
  });
}

void UpgradeCall::on_body(ClientCall*, std::string_view piece) {
  if (status_ == 101) {
    body_.append(piece);
    return;
  }
  body_.append(piece.substr(0, options_.max_body_bytes - body_.size()));
  if (body_.size() == options_.max_body_bytes) refuse();
}

void UpgradeCall::on_end(ClientCall*) {
  if (status_ != 101) refuse();
}

void UpgradeCall::switch_protocols() {
  UpgradeHandler* handler = over();
  if (!handler) return;
  const auto tunnel =
      std::make_shared<SocketTunnel>(context_, connection_->release_transport(), options_.max_backlog_bytes, nullptr);
  tunnel->begin({});
  tunnel->add_early(body_);
  handler->on_upgraded(headers_, tunnel->handle());
}

// The answer is complete, or more of it than anybody wants is here.
void UpgradeCall::refuse() {
  UpgradeHandler* handler = over();
  if (!handler) return;
  context_->loop().post(
      [self = shared_from_this()] { self->connection_->close(Status(Code::kCancelled, "the answer was read")); });
  handler->on_refused(status_, headers_, body_);
}

void UpgradeCall::on_failed(ClientCall*, const Status& status, bool) { fail(status); }

void UpgradeCall::on_gone(ClientConnection*, const Status& why, bool) { fail(why); }

void UpgradeCall::on_timer(uint64_t) {
  fail(Status(Code::kDeadlineExceeded, "no answer to the upgrade request in time"));
}

void UpgradeCall::fail(const Status& why) {
  if (UpgradeHandler* handler = over()) handler->on_error(why);
}

// The handler, once. What is on the stack may still use this object: it goes from the loop.
UpgradeHandler* UpgradeCall::over() {
  if (!handler_) return nullptr;
  context_->disarm(timer_);
  context_->loop().post([self = shared_from_this()] {
    if (self->on_over_) self->on_over_();
  });
  return std::exchange(handler_, nullptr);
}

}  // namespace ghostfleet::kube::http
