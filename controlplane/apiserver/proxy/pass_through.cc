#include "controlplane/apiserver/proxy/pass_through.h"

#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/subresources/subresources.h"
#include "kube/http/tunnel.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::http::CallId;
using kube::http::HeaderList;
using kube::http::HttpClient;
using kube::http::Tunnel;

// Above the first the backend has to wait, below the second it may go on.
constexpr size_t kHighWater = 256 * 1024, kLowWater = 64 * 1024;
constexpr size_t kMaxRefusal = 50000;

ApiError bare_error(int code, std::string reason, std::string message) {
  ApiError error;
  error.code = code;
  error.reason = std::move(reason);
  error.message = std::move(message);
  return error;
}

// Headers that speak of one connection, not of the message.
bool of_connection(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "connection", "keep-alive",          "proxy-connection",  "te",
      "trailer",    "transfer-encoding",   "upgrade",           "content-length",
      "host",       "proxy-authorization", "proxy-authenticate"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string_view without_port(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return address;
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

// What a real server makes of a kubelet's refusal to show a log.
ApiError refused_log(int status, const std::string& text, const std::string& pod) {
  if (status == 500) return kube::internal_api_error(text);
  if (status == 400) return kube::bad_request(text);
  ApiError error = bare_error(status, "", "");
  error.kind = "pods/log";
  error.name = pod;
  std::string message =
      fmt::format("the server responded with the status code {} but did not return more information", status);
  if (status == 401) {
    error.reason = "Unauthorized";
    message = "the server has asked for the client to provide credentials";
  } else if (status == 403) {
    error.reason = "Forbidden";
    message = text;
  } else if (status == 404) {
    error.reason = "NotFound";
    message = "the server could not find the requested resource";
  } else if (status == 405) {
    error.reason = "MethodNotAllowed";
    message = "the server does not allow this method on the requested resource";
  } else if (status == 429) {
    error.reason = "TooManyRequests";
    message = "the server has received too many requests and has asked us to try again later";
  } else if (status == 503) {
    error.reason = "ServiceUnavailable";
    message = "the server is currently unable to handle the request";
  } else if (status > 500) {
    error.reason = "InternalError";
    message = fmt::format("an error on the server (\"{}\") has prevented the request from succeeding", text);
  }
  error.message = fmt::format("{} ( pods/log {})", message, pod);
  return error;
}

class Transfer final : public kube::http::ResponseHandler,
                       public kube::http::UpgradeHandler,
                       public std::enable_shared_from_this<Transfer> {
 public:
  Transfer(CallRef call, PassPlan plan) : call_(std::move(call)), plan_(std::move(plan)) {}

  void begin();

  void on_head(CallId id, int status, const HeaderList& headers) override;
  void on_body(CallId id, std::string_view piece) override;
  void on_end(CallId id) override;
  void on_error(CallId id, const Status& status, bool sent) override;

  void on_upgraded(const HeaderList& headers, std::shared_ptr<Tunnel> tunnel) override;
  void on_refused(int status, const HeaderList& headers, const std::string& body) override;
  void on_error(const Status& status) override;

 private:
  bool take_place();
  void over();
  void stop();
  void hold_back();
  void start_answer(int status, const HeaderList& headers);
  void fail(const ApiError& error);
  void fail_upgrade(const std::string& text);
  HeaderList passed_back(const HeaderList& headers) const;
  kube::http::Exchange& exchange() { return *call_->exchange; }

  CallRef call_;
  PassPlan plan_;
  std::unique_ptr<HttpClient> client_;
  std::shared_ptr<Transfer> self_;  // until it is over
  CallId id_ = 0;
  uint64_t ender_ = 0;
  int refused_ = 0;  // status of a log the kubelet does not show
  std::string refusal_;
  bool answered_ = false, held_back_ = false;
  std::weak_ptr<Tunnel> tunnel_;  // the client's, once both are joined
};

bool Transfer::take_place() {
  ServerParts& parts = call_->parts;
  if (parts.transfers.fetch_add(1) >= kMaxTransfers) {
    parts.transfers.fetch_sub(1);
    send_error(*call_, kube::too_many_requests("Too many requests, please try again later.", 1));
    return false;
  }
  std::lock_guard lock(parts.watch_mutex);
  ender_ = parts.next_watch++;
  parts.watch_enders[ender_] = [weak = weak_from_this(), loop = &exchange().loop()] {
    loop->post([weak] {
      if (auto self = weak.lock()) self->stop();
    });
  };
  return true;
}

void Transfer::begin() {
  if (!take_place()) return;
  self_ = shared_from_this();
  client_ = client_for(exchange().loop(), plan_.backend);
  if (plan_.upgrade) {
    id_ = client_->upgrade(plan_.method, plan_.target, plan_.headers, {}, this);
  } else {
    kube::http::CallOptions options;
    options.timeout = Duration::zero();
    options.long_lived = true;
    id_ = client_->start(plan_.method, plan_.target, &plan_.headers, call_->request().body, options, this);
  }
  exchange().on_close([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->stop();
  });
}

// The last use of the client may be on the stack: it goes with the next turn of the loop.
void Transfer::over() {
  if (!self_) return;
  ServerParts& parts = call_->parts;
  parts.transfers.fetch_sub(1);
  {
    std::lock_guard lock(parts.watch_mutex);
    parts.watch_enders.erase(ender_);
  }
  exchange().loop().post([self = std::move(self_)] { self->client_.reset(); });
}

// The client went away, or the server stops.
void Transfer::stop() {
  if (!self_) return;
  // The client hangs up when it sees the end, and that ends both.
  if (auto tunnel = tunnel_.lock()) return tunnel->shutdown_write();
  if (client_ && id_ != 0) {
    if (plan_.upgrade) {
      client_->cancel_upgrade(id_);
    } else {
      client_->cancel(id_);
    }
  }
  if (!exchange().closed()) exchange().abort();
  over();
}

HeaderList Transfer::passed_back(const HeaderList& headers) const {
  HeaderList out = answer_headers(*call_, "");
  const bool cached = headers.find("cache-control") != nullptr;
  HeaderList kept;
  for (const auto& [name, value] : out) {
    if (name != "cache-control" || !cached) kept.add(name, value);
  }
  for (const auto& [name, value] : headers) {
    if (of_connection(name) || name == "date" || name == "audit-id" || name.starts_with("access-control-allow-")) {
      continue;
    }
    const bool redirects = name == "location" && value.starts_with('/') && !plan_.location_prefix.empty();
    kept.add(name, redirects ? plan_.location_prefix + value : value);
  }
  return kept;
}

void Transfer::start_answer(int status, const HeaderList& headers) {
  answered_ = true;
  record_answer(*call_, status);
  exchange().start(status,
                   plan_.style == PassStyle::kLog ? answer_headers(*call_, "text/plain") : passed_back(headers));
}

void Transfer::on_head(CallId, int status, const HeaderList& headers) {
  if (plan_.style == PassStyle::kLog && (status < 200 || status > 206)) {
    refused_ = status;
    return;
  }
  start_answer(status, headers);
}

void Transfer::on_body(CallId, std::string_view piece) {
  if (refused_ != 0) {
    refusal_.append(piece.substr(0, kMaxRefusal - std::min(kMaxRefusal, refusal_.size())));
    return;
  }
  if (!exchange().write(share(std::string(piece)))) return stop();
  hold_back();
}

void Transfer::hold_back() {
  if (held_back_ || exchange().backlog() < kHighWater) return;
  held_back_ = true;
  client_->set_reading(id_, false);
  exchange().when_drained(kLowWater, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || !self->self_) return;
    self->held_back_ = false;
    self->client_->set_reading(self->id_, true);
  });
}

void Transfer::on_end(CallId) {
  id_ = 0;
  if (refused_ != 0) return fail(refused_log(refused_, refusal_, call_->info.name));
  exchange().finish();
  over();
}

void Transfer::on_error(CallId, const Status& status, bool) {
  id_ = 0;
  if (answered_) {
    exchange().abort();
    return over();
  }
  const std::string text = dial_text(plan_.backend, status);
  if (plan_.style == PassStyle::kLog) {
    return fail(bare_error(500, "",
                           fmt::format("Get \"{}://{}{}\": {}", plan_.backend.tls ? "https" : "http",
                                       plan_.backend.authority(), plan_.target, text)));
  }
  if (plan_.style == PassStyle::kProxy) {
    return fail(bare_error(503, "ServiceUnavailable", "error trying to reach service: " + text));
  }
  send_text(*call_, 503, "error trying to reach service: " + text + "\n");
  over();
}

void Transfer::fail(const ApiError& error) {
  send_error(*call_, error);
  over();
}

void Transfer::on_upgraded(const HeaderList& headers, std::shared_ptr<Tunnel> tunnel) {
  id_ = 0;
  HeaderList answer;
  for (const auto& [name, value] : headers) {
    if (name == "upgrade" || !of_connection(name)) answer.add(name, value);
  }
  std::shared_ptr<Tunnel> ours = exchange().upgrade(101, std::move(answer));
  if (!ours) {
    tunnel->close();
    return fail_upgrade("this connection cannot be upgraded");
  }
  record_answer(*call_, 101);
  tunnel_ = ours;
  splice(std::move(ours), std::move(tunnel), [self = shared_from_this()] { self->over(); });
}

void Transfer::on_refused(int status, const HeaderList& headers, const std::string& body) {
  id_ = 0;
  if (status < 400) return fail_upgrade(fmt::format("invalid upgrade response: status code {}", status));
  record_answer(*call_, status);
  exchange().respond(status, passed_back(headers), share(std::string(body)));
  over();
}

void Transfer::on_error(const Status& status) {
  id_ = 0;
  fail_upgrade("error dialing backend: " + dial_text(plan_.backend, status));
}

void Transfer::fail_upgrade(const std::string& text) {
  if (plan_.style != PassStyle::kAggregated) return fail(bare_error(500, "", text));
  send_text(*call_, 503, text + "\n");
  over();
}

Backend backend_of(const ServerParts& parts, const Forward& forward) {
  const NodeTls& tls = parts.node_tls;
  Backend backend{forward.host, forward.port, nullptr};
  if (forward.tls == Forward::Tls::kNode) backend.tls = tls.verified;
  if (forward.tls == Forward::Tls::kNodeBlind) backend.tls = tls.blind;
  if (forward.tls == Forward::Tls::kBlind) backend.tls = tls.stranger;
  return backend;
}

// What follows ".../nodes/NAME/proxy" in the request's path, as the client encoded it.
std::string_view after_proxy(const Call& call) {
  std::string_view path = call.request().path();
  // api, v1, [namespaces, NS,] RESOURCE, NAME, proxy
  for (int parts = call.info.ns.empty() ? 5 : 7; parts > 0 && !path.empty(); parts--) {
    while (path.starts_with('/')) path.remove_prefix(1);
    const size_t slash = path.find('/');
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash);
  }
  return path;
}

void redirect_to_root(Call& call) {
  HeaderList headers = answer_headers(call, "");
  const std::string_view query = call.request().query();
  headers.add("location", std::string(call.request().path()) + "/" + (query.empty() ? "" : "?" + std::string(query)));
  record_answer(call, 301);
  call.exchange->respond(301, std::move(headers), share(""));
}

}  // namespace

kube::http::HeaderList forwarded_headers(const kube::http::Request& request, bool upgrade) {
  HeaderList out;
  std::string via;
  for (const auto& [name, value] : request.headers) {
    if (name == "x-forwarded-for") via = value + ", ";
    const bool drop = of_connection(name) || name == "authorization" || name == "x-forwarded-for" ||
                      name.starts_with("impersonate-") || name.starts_with("x-remote-");
    if (!drop || (upgrade && name == "upgrade")) out.add(name, value);
  }
  out.add("x-forwarded-for", via + std::string(without_port(request.remote_address)));
  return out;
}

void pass_through(const CallRef& call, PassPlan plan) { std::make_shared<Transfer>(call, std::move(plan))->begin(); }

void serve_forward(const CallRef& call, const Forward& forward) {
  const bool upgrade = !kube::http::requested_upgrade(call->request()).empty() && !call->request().http2;
  PassPlan plan;
  plan.backend = backend_of(call->parts, forward);
  plan.method = call->info.method;
  if (forward.mode == Forward::Mode::kLog) {
    plan.style = PassStyle::kLog;
    plan.method = "GET";
    plan.target = forward.path + (forward.query.empty() ? "" : "?" + forward.query);
    return pass_through(call, std::move(plan));
  }
  plan.upgrade = upgrade;
  plan.headers = forwarded_headers(call->request(), upgrade);
  if (forward.mode == Forward::Mode::kStream) {
    if (!upgrade) return send_error(*call, kube::bad_request("Upgrade request required"));
    plan.target = forward.path + (forward.query.empty() ? "" : "?" + forward.query);
    return pass_through(call, std::move(plan));
  }
  const std::string_view rest = after_proxy(*call), query = call->request().query();
  const bool reads = plan.method == "GET" || plan.method == "HEAD";
  if (rest.empty() && reads && !upgrade) return redirect_to_root(*call);
  const std::string_view path = call->request().path();
  plan.location_prefix = path.substr(0, path.size() - rest.size());
  plan.target = forward.path + std::string(rest.empty() ? "/" : rest) + (query.empty() ? "" : "?" + std::string(query));
  pass_through(call, std::move(plan));
}

}  // namespace ghostfleet::controlplane
