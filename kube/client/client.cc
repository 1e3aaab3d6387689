// KubeClient: calls with credentials and retries on top of an HttpClient.
#include "kube/client/client.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <unordered_map>

#include "base/digest.h"
#include "base/http_date.h"
#include "base/random.h"
#include "kube/client/json_skim.h"

namespace ghostfleet::kube {
namespace {

constexpr int kMaxTransportTries = 5;  // about 3 s of trying to reach a server; a refusal by it may take longer
constexpr Duration kMaxRetryAfter = std::chrono::minutes(5);

class RetryingClient final : public KubeClient {
 public:
  RetryingClient(EventLoop& loop, http::HttpClientOptions http, std::string prefix, ClientAuth auth,
                 KubeClientOptions options)
      : loop_(loop),
        http_(http::HttpClient::create(loop, std::move(http))),
        prefix_(std::move(prefix)),
        auth_(std::move(auth)),
        options_(options),
        rng_(options.seed) {}
  ~RetryingClient() override {
    *alive_ = false;
    http_.reset();
  }

  ApiCallId call(ApiCall call, ApiCallback callback) override;
  void cancel(ApiCallId id) override;
  http::HttpClient& http() override { return *http_; }
  const std::string& path_prefix() const override { return prefix_; }
  Result<std::string> authorization() override;
  void authorization_refused() override;
  EventLoop& loop() override { return loop_; }

 private:
  // One call, through all its tries.
  struct Pending final : http::ResponseHandler {
    RetryingClient* client = nullptr;
    ApiCallId id = 0;
    ApiCall call;
    ApiCallback callback;
    ApiCallResult result;
    http::CallId http_id = 0;
    EventLoop::TimerId timer = 0;
    int transport_tries = 0;
    bool refreshed = false;
    std::string authorization;  // of this try

    void on_head(http::CallId, int status, const http::HeaderList& headers) override {
      result.status = status;
      result.headers = headers;
    }
    void on_body(http::CallId, std::string_view piece) override;
    void on_end(http::CallId) override { client->answered(*this); }
    void on_error(http::CallId, const Status& status, bool sent) override { client->failed(*this, status, sent); }
  };

  void attempt(Pending& pending);
  void answered(Pending& pending);
  void failed(Pending& pending, const Status& status, bool sent);
  void again_after(Pending& pending, Duration delay);
  void finish(ApiCallId id);
  Duration backoff(int tries);

  EventLoop& loop_;
  std::unique_ptr<http::HttpClient> http_;
  std::string prefix_;
  ClientAuth auth_;
  KubeClientOptions options_;
  Rng rng_;
  ApiCallId last_id_ = 0;
  std::unordered_map<ApiCallId, std::unique_ptr<Pending>> pending_;
  std::string authorization_;
  bool authorization_known_ = false;
  TimePoint authorization_until_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

ApiCallId RetryingClient::call(ApiCall call, ApiCallback callback) {
  auto pending = std::make_unique<Pending>();
  Pending& p = *pending;
  p.client = this;
  p.id = ++last_id_;
  p.call = std::move(call);
  p.callback = std::move(callback);
  pending_.emplace(p.id, std::move(pending));
  p.result.tries = 0;
  attempt(p);
  return p.id;
}

void RetryingClient::cancel(ApiCallId id) {
  const auto it = pending_.find(id);
  if (it == pending_.end()) return;
  http_->cancel(it->second->http_id);
  loop_.cancel(it->second->timer);
  pending_.erase(it);
}

Result<std::string> RetryingClient::authorization() {
  const TimePoint now = loop_.now();
  if (authorization_known_ && now < authorization_until_) return authorization_;
  if (!auth_.bearer_token) {
    authorization_ = auth_.basic_auth.empty() ? std::string() : "Basic " + base64_encode(auth_.basic_auth);
  } else {
    Result<std::string> token = auth_.bearer_token();
    if (!token.ok()) return token.error().with_context("credentials");
    authorization_ = token->empty() ? std::string() : "Bearer " + *token;
  }
  authorization_known_ = true;
  authorization_until_ = now + auth_.token_lifetime;
  return authorization_;
}

void RetryingClient::authorization_refused() {
  authorization_known_ = false;
  if (auth_.invalidate) auth_.invalidate();
}

void RetryingClient::attempt(Pending& p) {
  ++p.result.tries;
  p.result.status = 0;
  p.result.headers.clear();
  p.result.body.clear();
  const Result<std::string> authorization = this->authorization();
  if (!authorization.ok()) {
    p.result.transport_error = authorization.error();
    loop_.post([this, alive = alive_, id = p.id] {
      if (*alive) finish(id);
    });
    return;
  }
  p.authorization = *authorization;
  http::HeaderList headers = p.call.headers;
  headers.add("accept", p.call.accept);
  if (!p.call.body.empty()) {
    headers.add("content-type", p.call.content_type.empty() ? "application/json" : p.call.content_type);
  }
  if (!p.authorization.empty()) headers.add("authorization", p.authorization);
  http::CallOptions options;
  options.lane = p.call.lane;
  options.timeout = p.call.timeout;
  p.http_id = http_->start(p.call.method, prefix_ + p.call.target, &headers, p.call.body, options, &p);
}

void RetryingClient::Pending::on_body(http::CallId, std::string_view piece) {
  if (result.body.size() + piece.size() > client->options_.max_response_bytes) {
    client->http_->cancel(http_id);
    result.transport_error =
        Status(Code::kResourceExhausted,
               "the answer is larger than " + std::to_string(client->options_.max_response_bytes) + " bytes");
    client->loop_.post([c = client, alive = client->alive_, call_id = id] {
      if (*alive) c->finish(call_id);
    });
    return;
  }
  result.body.append(piece);
}

Duration RetryingClient::backoff(int tries) {
  Duration delay = options_.backoff_base;
  for (int i = 1; i < tries && delay < options_.backoff_cap; ++i) delay *= 2;
  delay = std::min(delay, options_.backoff_cap);
  return rng_.between(delay / 2, delay + delay / 2);
}

void RetryingClient::answered(Pending& p) {
  const int status = p.result.status;
  const bool may_try = p.result.tries < p.call.max_tries;
  if (status == 401 && !p.refreshed && may_try && auth_.bearer_token) {
    p.refreshed = true;
    // Others may have refreshed it since this try began.
    if (p.authorization == authorization_) authorization_refused();
    return again_after(p, Duration(0));
  }
  if (may_try && (status == 429 || status >= 500)) {
    const Duration told = parse_retry_after(p.result.headers.get("retry-after"), SystemClock::instance().wall_now());
    // Not all at once: those told to come back in a second come back spread over a part of the next one.
    if (told.count() >= 0) return again_after(p, told + rng_.between(Duration(0), told / 4 + Duration(1000000)));
  }
  finish(p.id);
}

void RetryingClient::failed(Pending& p, const Status& status, bool sent) {
  ++p.transport_tries;
  const bool safe = !sent || p.call.method == "GET" || p.call.method == "HEAD";
  const int limit = std::min(p.call.max_tries, kMaxTransportTries);
  if (safe && status.code() == Code::kUnavailable && p.transport_tries < limit && p.result.tries < p.call.max_tries) {
    return again_after(p, backoff(p.transport_tries));
  }
  p.result.transport_error = status;
  finish(p.id);
}

void RetryingClient::again_after(Pending& p, Duration delay) {
  p.http_id = 0;
  p.timer = loop_.run_after(delay, [this, alive = alive_, id = p.id] {
    if (!*alive) return;
    const auto it = pending_.find(id);
    if (it != pending_.end()) attempt(*it->second);
  });
}

void RetryingClient::finish(ApiCallId id) {
  const auto it = pending_.find(id);
  if (it == pending_.end()) return;
  const std::unique_ptr<Pending> pending = std::move(it->second);
  pending_.erase(it);
  pending->callback(std::move(pending->result));
}

}  // namespace

Status ApiCallResult::to_status(std::string_view what) const {
  if (!transport_error.ok()) return transport_error.with_context(what);
  if (ok()) return Status();
  std::string message(json_string_member(body, "message"));
  if (message.empty()) message = "the server answered " + std::to_string(status);
  const Code code = [&] {
    switch (status) {
      case 400:
      case 405:
      case 406:
      case 413:
      case 415:
      case 422: return Code::kInvalidArgument;
      case 401: return Code::kUnauthenticated;
      case 403: return Code::kPermissionDenied;
      case 404: return Code::kNotFound;
      case 409: return json_string_member(body, "reason") == "AlreadyExists" ? Code::kAlreadyExists : Code::kConflict;
      case 410: return Code::kExpired;
      case 429: return Code::kResourceExhausted;
      default: return status >= 500 ? Code::kUnavailable : Code::kInternal;
    }
  }();
  return Status(code, std::move(message)).with_context(what);
}

Duration parse_retry_after(std::string_view value, WallTime now) {
  const std::optional<Duration> told = retry_after_of(value, now);
  return told ? std::min(*told, kMaxRetryAfter) : Duration(-1);
}

std::unique_ptr<KubeClient> KubeClient::create(EventLoop& loop, http::HttpClientOptions http, std::string path_prefix,
                                               ClientAuth auth, KubeClientOptions options) {
  http.max_connections = options.max_connections;
  http.max_streams_per_connection = options.max_streams_per_connection;
  return std::make_unique<RetryingClient>(loop, std::move(http), std::move(path_prefix), std::move(auth), options);
}

Result<std::unique_ptr<KubeClient>> KubeClient::create(EventLoop& loop, const ClientConfig& config,
                                                       KubeClientOptions options) {
  std::string prefix;
  Result<http::HttpClientOptions> http = make_http_options(config, &prefix);
  if (!http.ok()) return http.error();
  return create(loop, std::move(*http), std::move(prefix), config.auth, options);
}

}  // namespace ghostfleet::kube
