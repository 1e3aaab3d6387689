#include "kube/grpc/client.h"

#include <unordered_map>
#include <vector>

#include "kube/grpc/rpc_headers.h"
#include "kube/http/client.h"
#include "kube/http/h2_core.h"
#include "kube/http/unix_address.h"

namespace ghostfleet::kube::grpc {
namespace {

constexpr std::string_view kUnexpectedSecond =
    "cardinality violation: expected <EOF> for non server-streaming RPCs, but received another message";
constexpr std::string_view kNoMessage =
    "cardinality violation: received no response message from non-server-streaming RPC";

std::string lower_first(std::string text) {
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] + 32);
  return text;
}

// One call, as the HTTP client sees it.
class Call final : public http::ResponseHandler {
 public:
  // What the client does for a call.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void over(Call* call, const RpcStatus& status) = 0;
    virtual void again(Call* call) = 0;
    virtual void drop_stream(http::CallId id) = 0;
    virtual std::string dial_error(const Status& status) const = 0;
  };

  Call(Owner* owner, RpcCallId id, size_t max_message) : owner_(owner), id_(id), reader_(Side::kClient, max_message) {}

  RpcCallId id() const { return id_; }
  // No further callback.
  void abandon() { over_ = true; }

  std::string method, request;
  RpcCallOptions options;
  TimePoint deadline;  // zero: none
  RpcClient::OnReply on_reply;
  RpcClient::OnMessage on_message;
  RpcClient::OnEnd on_status;
  http::CallId stream = 0;
  std::string reply;

  void on_head(http::CallId, int status, const http::HeaderList& headers) override;
  void on_body(http::CallId, std::string_view piece) override;
  void on_trailers(http::CallId, const http::HeaderList& trailers) override {
    if (!foreign_) take_status(read_status(trailers));
  }
  void on_end(http::CallId) override;
  void on_error(http::CallId, const Status& status, bool sent) override;
  void on_reset(http::CallId, uint32_t error_code, const Status& status, bool sent) override;

 private:
  void take_status(RpcStatus status) {
    status_ = std::move(status);
    has_status_ = true;
  }
  void take_message(std::string_view message);
  // Ends the call for its user before the server has ended it.
  void fail(RpcStatus status);
  void end(RpcStatus status);

  Owner* owner_;
  const RpcCallId id_;
  MessageReader reader_;
  RpcStatus status_;
  bool has_status_ = false, foreign_ = false, over_ = false;
  int messages_ = 0;
};

void Call::on_head(http::CallId, int status, const http::HeaderList& headers) {
  foreign_ = !is_grpc_content_type(headers.get("content-type"));
  if (foreign_) return take_status(status_of_foreign_answer(status, headers));
  reader_.set_encoding(headers.get("grpc-encoding"));
  if (headers.find("grpc-status")) take_status(read_status(headers));
}

void Call::on_body(http::CallId, std::string_view piece) {
  if (foreign_ || over_) return;
  reader_.append(piece);
  std::string_view message;
  MessageReader::Next next = MessageReader::Next::kMore;
  while (!over_ && (next = reader_.next(&message)) == MessageReader::Next::kMessage) take_message(message);
  if (!over_ && next == MessageReader::Next::kError) fail(reader_.error());
}

void Call::take_message(std::string_view message) {
  ++messages_;
  if (on_message) return on_message(message);
  if (messages_ > 1) return fail(rpc_error(RpcCode::kInternal, std::string(kUnexpectedSecond)));
  reply.assign(message);
}

void Call::on_end(http::CallId) {
  stream = 0;
  if (over_) return;
  if (!has_status_) return end(rpc_error(RpcCode::kInternal, "server closed the stream without sending trailers"));
  if (!foreign_ && status_.ok()) {
    const RpcStatus rest = reader_.finish();
    if (!rest.ok()) return end(rest);
    if (on_reply && messages_ == 0) return end(rpc_error(RpcCode::kInternal, std::string(kNoMessage)));
  }
  end(status_);
}

void Call::on_error(http::CallId, const Status& status, bool sent) {
  stream = 0;
  if (over_) return;
  const bool dialed = sent || status.code() != Code::kUnavailable;
  if (!dialed && options.wait_for_ready) return owner_->again(this);
  if (status.code() == Code::kDeadlineExceeded) {
    const bool waiting = status.message().rfind("no connection in time", 0) == 0;
    const std::string what = waiting ? "latest balancer error: " + owner_->dial_error(status) : "";
    return end(rpc_error(RpcCode::kDeadlineExceeded, waiting ? what : "context deadline exceeded"));
  }
  if (status.code() == Code::kResourceExhausted) return end(rpc_error(RpcCode::kResourceExhausted, status.message()));
  if (!dialed) return end(rpc_error(RpcCode::kUnavailable, owner_->dial_error(status)));
  const bool eof = status.message().find("the peer closed the connection") != std::string::npos;
  end(rpc_error(RpcCode::kUnavailable, "error reading from server: " + (eof ? "EOF" : status.message())));
}

void Call::on_reset(http::CallId, uint32_t error_code, const Status&, bool) {
  stream = 0;
  if (over_) return;
  end(rpc_error(rpc_code_of_reset(error_code),
                std::string("stream terminated by RST_STREAM with error code: ") + http::h2_error_name(error_code)));
}

void Call::fail(RpcStatus status) {
  owner_->drop_stream(std::exchange(stream, 0));
  end(std::move(status));
}

void Call::end(RpcStatus status) {
  over_ = true;
  owner_->over(this, status);
}

class HttpRpcClient final : public RpcClient, public Call::Owner {
 public:
  HttpRpcClient(EventLoop& loop, RpcClientOptions options);
  ~HttpRpcClient() override { *alive_ = false; }

  RpcCallId call(std::string_view method, std::string_view request, const RpcCallOptions& options,
                 OnReply done) override {
    Call& call = add(method, request, options);
    call.on_reply = std::move(done);
    begin(call);
    return call.id();
  }
  RpcCallId stream(std::string_view method, std::string_view request, const RpcCallOptions& options, OnMessage message,
                   OnEnd end) override {
    Call& call = add(method, request, options);
    call.on_message = std::move(message);
    call.on_status = std::move(end);
    begin(call);
    return call.id();
  }
  void cancel(RpcCallId id) override;
  size_t open_calls() const override { return calls_.size(); }

  void over(Call* call, const RpcStatus& status) override;
  void again(Call* call) override;
  void drop_stream(http::CallId id) override { http_->cancel(id); }
  std::string dial_error(const Status& status) const override;

 private:
  Call& add(std::string_view method, std::string_view request, const RpcCallOptions& options);
  void begin(Call& call);
  void remove(RpcCallId id);

  EventLoop& loop_;
  const RpcClientOptions options_;
  std::unordered_map<RpcCallId, std::unique_ptr<Call>> calls_;
  std::vector<std::unique_ptr<Call>> graves_;  // perhaps still on the stack
  RpcCallId last_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<http::HttpClient> http_;  // goes first: it points at the calls
};

http::HttpClientOptions http_options(const RpcClientOptions& options) {
  http::HttpClientOptions out;
  out.host = options.host;
  out.port = options.port;
  out.use_tls = options.tls != nullptr;
  out.tls = options.tls;
  out.http2_without_tls = true;
  out.max_connections = 1;
  out.one_pool = true;
  out.connect_timeout = options.connect_timeout;
  out.ping_after_idle = Duration(0);  // a grpc-go server ends a connection that is asked more often than each 5 minutes
  return out;
}

HttpRpcClient::HttpRpcClient(EventLoop& loop, RpcClientOptions options)
    : loop_(loop), options_(std::move(options)), http_(http::HttpClient::create(loop, http_options(options_))) {}

Call& HttpRpcClient::add(std::string_view method, std::string_view request, const RpcCallOptions& options) {
  auto call = std::make_unique<Call>(this, ++last_, options_.max_message_bytes);
  call->method.assign(method);
  append_framed(&call->request, request);
  call->options = options;
  if (options.timeout.count() > 0) call->deadline = loop_.now() + options.timeout;
  return *(calls_[call->id()] = std::move(call));
}

void HttpRpcClient::begin(Call& call) {
  http::HeaderList headers{{"content-type", "application/grpc"}, {"te", "trailers"}};
  headers.add("user-agent", options_.user_agent);
  http::CallOptions http_call;
  http_call.timeout = Duration(0);
  if (call.deadline != TimePoint{}) {
    // One that is over already still takes the way of all calls: its error comes from the loop.
    http_call.timeout = std::max<Duration>(call.deadline - loop_.now(), std::chrono::nanoseconds(1));
    headers.add("grpc-timeout", format_grpc_timeout(http_call.timeout));
  }
  for (const auto& [name, value] : call.options.metadata) headers.add(name, value);
  call.stream = http_->start("POST", call.method, &headers, call.request, http_call, &call);
}

void HttpRpcClient::again(Call* call) {
  loop_.post([this, alive = alive_, id = call->id()] {
    if (!*alive) return;
    const auto at = calls_.find(id);
    if (at != calls_.end()) begin(*at->second);
  });
}

void HttpRpcClient::remove(RpcCallId id) {
  const auto at = calls_.find(id);
  if (at == calls_.end()) return;
  if (graves_.empty()) {
    loop_.post([this, alive = alive_] {
      if (*alive) graves_.clear();
    });
  }
  graves_.push_back(std::move(at->second));
  calls_.erase(at);
}

void HttpRpcClient::over(Call* call, const RpcStatus& status) {
  const OnReply on_reply = std::move(call->on_reply);
  const OnEnd on_status = std::move(call->on_status);
  std::string reply = status.ok() ? std::move(call->reply) : std::string();
  remove(call->id());
  if (on_reply) return on_reply(status, std::move(reply));
  if (on_status) on_status(status);
}

void HttpRpcClient::cancel(RpcCallId id) {
  const auto at = calls_.find(id);
  if (at == calls_.end()) return;
  at->second->abandon();
  if (at->second->stream != 0) http_->cancel(at->second->stream);
  remove(id);
}

// "connect to unix:/run/x.sock: Connection refused", in the words of grpc-go.
std::string HttpRpcClient::dial_error(const Status& status) const {
  const bool unix_socket = http::is_unix_address(options_.host);
  const std::string target =
      unix_socket ? std::string(http::unix_path(options_.host)) : options_.host + ":" + std::to_string(options_.port);
  const std::string& message = status.message();
  const size_t reason = message.rfind(": ");
  return "connection error: desc = \"transport: Error while dialing: dial " +
         std::string(unix_socket ? "unix " : "tcp ") + target +
         ": connect: " + lower_first(reason == std::string::npos ? message : message.substr(reason + 2)) + "\"";
}

}  // namespace

std::unique_ptr<RpcClient> RpcClient::create(EventLoop& loop, RpcClientOptions options) {
  return std::make_unique<HttpRpcClient>(loop, std::move(options));
}

}  // namespace ghostfleet::kube::grpc
