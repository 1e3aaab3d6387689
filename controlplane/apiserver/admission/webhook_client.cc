#include "controlplane/apiserver/admission/webhook_client.h"

#include <fmt/format.h>

#include <charconv>

#include "base/event_loop.h"
#include "kube/http/client.h"

namespace ghostfleet::controlplane {

namespace {

constexpr size_t kMaxAnswerBytes = 4U << 20;

class Collector final : public kube::http::ResponseHandler {
 public:
  explicit Collector(EventLoop& loop) : loop_(loop) {}

  void on_head(kube::http::CallId, int status, const kube::http::HeaderList&) override { code = status; }
  void on_body(kube::http::CallId, std::string_view piece) override {
    if (body.size() + piece.size() <= kMaxAnswerBytes) body.append(piece);
  }
  void on_end(kube::http::CallId) override { loop_.stop(); }
  void on_error(kube::http::CallId, const Status& status, bool) override {
    failure = status;
    loop_.stop();
  }

  int code = 0;
  std::string body;
  Status failure;

 private:
  EventLoop& loop_;
};

struct Address {
  std::string host, path;
  uint16_t port = 443;
};

Result<Address> parse_url(std::string_view url) {
  constexpr std::string_view kScheme = "https://";
  if (!url.starts_with(kScheme)) return invalid_argument(fmt::format("webhook URL \"{}\" is not https", url));
  url.remove_prefix(kScheme.size());
  size_t slash = url.find('/');
  std::string_view authority = url.substr(0, slash);
  Address out;
  out.path = slash == std::string_view::npos ? "/" : url.substr(slash);
  size_t colon = authority.rfind(':');
  bool has_port = colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos;
  if (has_port) {
    std::string_view port = authority.substr(colon + 1);
    std::from_chars(port.data(), port.data() + port.size(), out.port);
    authority = authority.substr(0, colon);
  }
  out.host = authority;
  return out;
}

}  // namespace

Result<kube::Json> post_review(const WebhookTarget& target, const kube::Json& review) {
  auto address = parse_url(target.url);
  if (!address.ok()) return address.error();
  kube::http::TlsClientConfig tls;
  tls.ca_pem = target.ca_pem;
  tls.server_name = target.server_name;
  auto context = kube::http::TlsContext::client(tls);
  if (!context.ok()) return context.error();
  EventLoop loop;
  Collector collector(loop);
  kube::http::HttpClientOptions options;
  options.host = address->host;
  options.port = address->port;
  options.tls = *context;
  options.max_connections = 1;
  options.connect_timeout = std::chrono::seconds(target.timeout_seconds);
  auto client = kube::http::HttpClient::create(loop, std::move(options));
  kube::http::HeaderList headers;
  headers.add("content-type", "application/json");
  headers.add("accept", "application/json, */*");
  std::string body = kube::to_json(review);
  kube::http::CallOptions call;
  call.timeout = std::chrono::seconds(target.timeout_seconds);
  std::string path = fmt::format("{}?timeout={}s", address->path, target.timeout_seconds);
  client->start("POST", path, &headers, body, call, &collector);
  loop.run();
  client.reset();
  if (!collector.failure.ok()) {
    return collector.failure.with_context(fmt::format("Post \"{}?timeout={}s\"", target.url, target.timeout_seconds));
  }
  if (collector.code != 200) {
    return unavailable(fmt::format("the server answered {} to the admission review", collector.code));
  }
  return kube::parse_json(collector.body);
}

}  // namespace ghostfleet::controlplane
