// For tests: a server and a client in one process on one loop, with TLS or without, and handlers that remember.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "kube/http/client.h"
#include "kube/http/server.h"
#include "tests/support/test_pki.h"

namespace ghostfleet::kube::http {

// What became of one call.
class Reply : public ResponseHandler {
 public:
  void on_head(CallId, int s, const HeaderList& h) override {
    status = s;
    headers = h;
  }
  void on_body(CallId, std::string_view piece) override {
    body.append(piece);
    ++pieces;
    if (on_piece) on_piece();
  }
  void on_end(CallId) override {
    ended = true;
    if (on_done) on_done();
  }
  void on_error(CallId, const Status& s, bool was_sent) override {
    failed = true;
    error = s;
    sent = was_sent;
    if (on_done) on_done();
  }
  bool done() const { return ended || failed; }

  int status = 0, pieces = 0;
  HeaderList headers;
  std::string body;
  bool ended = false, failed = false, sent = false;
  Status error;
  std::function<void()> on_piece, on_done;
};

struct HarnessOptions {
  bool tls = true;
  bool http2 = true;  // else HTTP/1.1
  Limits limits;
  int max_connections = 4;
  bool client_certificate = false;
};

class Harness {
 public:
  explicit Harness(Handler handler, HarnessOptions options = {}) : options_(std::move(options)) {
    ServerOptions server_options;
    server_options.limits = options_.limits;
    if (options_.tls) {
      const auto pair = pki.server();
      TlsServerConfig config{pair.certificate_pem, pair.key_pem, pki.ca_pem(), {"h2", "http/1.1"}};
      server_options.tls = TlsContext::server(config).value();
    }
    server = std::move(Server::listen(server_options, {&loop}, std::move(handler)).value());
    client = make_client();
  }
  ~Harness() {
    client.reset();
    server.reset();
    loop.run_for(std::chrono::milliseconds(1));
  }

  HttpClientOptions client_options() {
    HttpClientOptions o;
    o.host = "127.0.0.1";
    o.port = server->port();
    o.use_tls = options_.tls;
    o.http2_without_tls = options_.http2;
    o.max_connections = options_.max_connections;
    if (!options_.tls) return o;
    TlsClientConfig config;
    config.ca_pem = pki.ca_pem();
    config.alpn = options_.http2 ? std::vector<std::string>{"h2"} : std::vector<std::string>{"http/1.1"};
    if (options_.client_certificate) {
      const auto pair = pki.client("node-1", {"system:nodes"});
      config.client_cert_pem = pair.certificate_pem;
      config.client_key_pem = pair.key_pem;
    }
    o.tls = TlsContext::client(config).value();
    return o;
  }
  std::unique_ptr<HttpClient> make_client() { return HttpClient::create(loop, client_options()); }

  // False when the condition does not hold within the deadline.
  bool run_until(const std::function<bool()>& condition, Duration limit = std::chrono::seconds(10)) {
    const TimePoint end = loop.now() + limit;
    while (!condition()) {
      if (loop.now() > end) return false;
      loop.run_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  Reply& call(const std::string& method, const std::string& target, const std::string& body = {},
              CallOptions call_options = {}, const HeaderList* headers = nullptr) {
    Reply& reply = replies.emplace_back();
    ids.push_back(client->start(method, target, headers, body, call_options, &reply));
    return reply;
  }
  // Runs the loop until the call is over.
  Reply& get(const std::string& target) {
    Reply& reply = call("GET", target);
    run_until([&] { return reply.done(); });
    return reply;
  }

  ghostfleet::testing::TestPki pki;
  EventLoop loop;
  std::unique_ptr<Server> server;
  std::unique_ptr<HttpClient> client;
  std::deque<Reply> replies;
  std::vector<CallId> ids;

 private:
  HarnessOptions options_;
};

}  // namespace ghostfleet::kube::http
