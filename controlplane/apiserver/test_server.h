// For tests: an ApiServer on a port of its own, a client that waits for answers, and servers this one is a client of.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/event_loop.h"
#include "controlplane/apiserver/api_server.h"
#include "kube/api/json.h"
#include "kube/http/client.h"
#include "kube/http/server.h"

namespace ghostfleet::controlplane {

inline constexpr Duration kTestDeadline = std::chrono::seconds(20);

inline const Pki& test_pki() {
  static const Pki pki = [] {
    Result<Pki> made = Pki::create({}, SystemClock::instance().wall_now());
    EXPECT_TRUE(made.ok());
    return *made;
  }();
  return pki;
}

// Runs the loop until `done`; false when that takes too long.
inline bool run_until(EventLoop& loop, const std::function<bool()>& done) {
  const TimePoint end = loop.now() + kTestDeadline;
  while (!done()) {
    if (loop.now() > end) return false;
    loop.run_for(std::chrono::milliseconds(2));
  }
  return true;
}

struct TestAnswer final : kube::http::ResponseHandler {
  int status = 0;
  kube::http::HeaderList headers;
  std::string body;
  Status error;
  bool done = false;

  void on_head(kube::http::CallId, int code, const kube::http::HeaderList& list) override {
    status = code;
    headers = list;
  }
  void on_body(kube::http::CallId, std::string_view piece) override { body.append(piece); }
  void on_end(kube::http::CallId) override { done = true; }
  void on_error(kube::http::CallId, const Status& why, bool) override {
    error = why;
    done = true;
  }

  kube::Json json() const {
    Result<kube::Json> value = kube::parse_json(body);
    EXPECT_TRUE(value.ok()) << body;
    return value.ok() ? *value : kube::Json();
  }
  std::string message() const { return std::string(kube::get_string(json(), "message")); }
};

// A server on a thread of its own; `handler` runs there.
class TestBackend {
 public:
  explicit TestBackend(kube::http::Handler handler, bool tls = true) {
    kube::http::ServerOptions options;
    if (tls) {
      kube::http::TlsServerConfig config;
      config.cert_pem = test_pki().server().cert_pem;
      config.key_pem = test_pki().server().key_pem;
      config.client_ca_pem = test_pki().ca().cert_pem + test_pki().front_proxy_ca().cert_pem;
      options.tls = *kube::http::TlsContext::server(config);
    }
    auto server = kube::http::Server::listen(std::move(options), {&loop_}, std::move(handler));
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~TestBackend() {
    loop_.stop();
    thread_.join();
  }

  uint16_t port() const { return server_->port(); }

 private:
  EventLoop loop_;
  std::unique_ptr<kube::http::Server> server_;
  std::thread thread_;
};

class TestServer {
 public:
  explicit TestServer(ApiServer::Options options = {}) {
    options.pki = &test_pki();
    options.io_threads = 1;
    auto started = ApiServer::start(std::move(options));
    EXPECT_TRUE(started.ok()) << started.error().message();
    server_ = std::move(*started);
    kube::http::TlsClientConfig tls;
    tls.ca_pem = test_pki().ca().cert_pem;
    tls.alpn = {"http/1.1"};
    kube::http::HttpClientOptions client;
    client.host = "127.0.0.1";
    client.port = server_->port();
    client.tls = *kube::http::TlsContext::client(tls);
    client_ = kube::http::HttpClient::create(loop_, std::move(client));
  }

  Api& api() { return server_->api(); }
  EventLoop& loop() { return loop_; }
  kube::http::HttpClient& client() { return *client_; }

  kube::http::HeaderList headers(std::string_view type = "application/json") const {
    return {{"authorization", "Bearer " + token}, {"content-type", std::string(type)}};
  }

  TestAnswer call(std::string_view method, std::string_view target, std::string_view body = {},
                  std::string_view type = "application/json") {
    TestAnswer answer;
    const kube::http::HeaderList list = headers(type);
    client_->start(method, target, &list, body, {}, &answer);
    EXPECT_TRUE(run_until(loop_, [&] { return answer.done; })) << method << " " << target;
    return answer;
  }

  // Asks again until it fits.
  TestAnswer until(std::string_view target, const std::function<bool(const TestAnswer&)>& fits) {
    const TimePoint end = loop_.now() + kTestDeadline;
    for (;;) {
      TestAnswer answer = call("GET", target);
      if (fits(answer)) return answer;
      EXPECT_LT(loop_.now(), end) << target << ": " << answer.body;
      if (loop_.now() > end) return answer;
      loop_.run_for(std::chrono::milliseconds(5));
    }
  }

  void create(std::string_view path, std::string_view body) {
    const TestAnswer answer = call("POST", path, body);
    EXPECT_EQ(answer.status, 201) << path << ": " << answer.body;
  }

  std::string token = test_pki().admin_token();

 private:
  EventLoop loop_;
  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<kube::http::HttpClient> client_;
};

}  // namespace ghostfleet::controlplane
