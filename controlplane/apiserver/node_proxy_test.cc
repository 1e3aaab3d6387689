// This server as a client of nodes: logs, streams, proxied requests, and what it says when a node does not answer.
#include <gmock/gmock.h>

#include <mutex>

#include "controlplane/apiserver/test_server.h"
#include "kube/http/tunnel.h"

namespace ghostfleet::controlplane {
namespace {

using kube::http::Exchange;
using testing::HasSubstr;

constexpr const char* kLog = "/api/v1/namespaces/default/pods/p/log";

// A kubelet that remembers what it was asked and answers as it is told.
class Kubelet {
 public:
  explicit Kubelet(std::function<void(std::shared_ptr<Exchange>)> answer)
      : backend_([this, answer = std::move(answer)](std::shared_ptr<Exchange> exchange) {
          {
            std::lock_guard lock(mutex_);
            asked_ = exchange->request().method + " " + exchange->request().target;
            headers_ = exchange->request().headers;
            const auto& certificate = exchange->request().peer_certificate;
            user_ = certificate ? certificate->common_name : "nobody";
          }
          answer(std::move(exchange));
        }) {}

  uint16_t port() const { return backend_.port(); }
  std::string asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }
  std::string user() {
    std::lock_guard lock(mutex_);
    return user_;
  }
  std::string header(std::string_view name) {
    std::lock_guard lock(mutex_);
    return std::string(headers_.get(name));
  }

 private:
  std::mutex mutex_;
  std::string asked_, user_;
  kube::http::HeaderList headers_;
  TestBackend backend_;
};

void add_node_and_pod(TestServer& server, uint16_t port) {
  server.create("/api/v1/nodes", R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"addresses":[)"
                                 R"({"type":"Hostname","address":"no.such.host"},)"
                                 R"({"type":"InternalIP","address":"127.0.0.1"}],)"
                                 R"("daemonEndpoints":{"kubeletEndpoint":{"Port":)" +
                                     std::to_string(port) + "}}}}");
  server.create("/api/v1/namespaces/default/serviceaccounts",
                R"({"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}})");
  server.create("/api/v1/namespaces/default/pods",
                R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n",)"
                R"("containers":[{"name":"c","image":"i"}]}})");
}

void text(const std::shared_ptr<Exchange>& exchange, int status, std::string body) {
  exchange->respond(status, {{"content-type", "text/plain; charset=utf-8"}}, share(std::move(body)));
}

TEST(NodeProxyTest, ALogIsAskedForAndPassedBack) {
  TestServer server;
  Kubelet kubelet([](std::shared_ptr<Exchange> e) { text(e, 200, "one\ntwo\n"); });
  add_node_and_pod(server, kubelet.port());
  const TestAnswer log =
      server.call("GET", std::string(kLog) +
                             "?timestamps=true&tailLines=3&previous=false&sinceTime=2026-01-02T03%3A04%3A05%2B01:00");
  EXPECT_EQ(log.status, 200) << log.body;
  EXPECT_EQ(log.body, "one\ntwo\n");
  EXPECT_EQ(log.headers.get("content-type"), "text/plain");
  EXPECT_EQ(kubelet.asked(),
            "GET /containerLogs/default/p/c?sinceTime=2026-01-02T02%3A04%3A05Z&tailLines=3&timestamps=true");
  EXPECT_EQ(kubelet.user(), "kube-apiserver-kubelet-client");
  EXPECT_EQ(kubelet.header("authorization"), "");
}

TEST(NodeProxyTest, WhatAKubeletRefusesIsToldInTheServersWords) {
  struct Case {
    int status;
    const char *body, *reason, *message;
  };
  const Case cases[] = {
      {400, "no", "BadRequest", "no"},
      {404, "gone", "NotFound", "the server could not find the requested resource ( pods/log p)"},
      {500, "broken", "InternalError", "Internal error occurred: broken"},
      {503, "", "ServiceUnavailable", "the server is currently unable to handle the request ( pods/log p)"},
  };
  std::atomic<int> at{0};
  TestServer server;
  Kubelet kubelet([&](std::shared_ptr<Exchange> e) { text(e, cases[at].status, cases[at].body); });
  add_node_and_pod(server, kubelet.port());
  for (const Case& c : cases) {
    const TestAnswer log = server.call("GET", kLog);
    EXPECT_EQ(log.status, c.status);
    EXPECT_EQ(kube::get_string(log.json(), "reason"), c.reason);
    EXPECT_EQ(log.message(), c.message);
    at++;
  }
}

TEST(NodeProxyTest, ANodeThatCannotBeReached) {
  TestServer server;
  uint16_t port = 0;
  {
    TestBackend gone([](std::shared_ptr<Exchange>) {});
    port = gone.port();
  }
  add_node_and_pod(server, port);
  const std::string where = "127.0.0.1:" + std::to_string(port);
  const TestAnswer log = server.call("GET", kLog);
  EXPECT_EQ(log.status, 500);
  EXPECT_EQ(log.message(), "Get \"https://" + where + "/containerLogs/default/p/c\": dial tcp " + where +
                               ": connect: connection refused");
  const TestAnswer proxied = server.call("GET", "/api/v1/nodes/n/proxy/pods");
  EXPECT_EQ(proxied.status, 503);
  EXPECT_EQ(proxied.message(), "error trying to reach service: dial tcp " + where + ": connect: connection refused");
  EXPECT_EQ(server.call("GET", "/api/v1/nodes/other/proxy/pods").status, 404);
  EXPECT_EQ(server.call("POST", "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=1").message(),
            "Upgrade request required");
}

TEST(NodeProxyTest, ACertificateThatDoesNotVerifyIsNotTrusted) {
  ApiServer::Options options;
  options.kubelet_ca_pem = test_pki().front_proxy_ca().cert_pem;  // not the one that signed the kubelet's
  TestServer server(std::move(options));
  Kubelet kubelet([](std::shared_ptr<Exchange> e) { text(e, 200, "secret"); });
  add_node_and_pod(server, kubelet.port());
  const TestAnswer log = server.call("GET", kLog);
  EXPECT_EQ(log.status, 500);
  EXPECT_THAT(log.message(), HasSubstr("tls: failed to verify certificate: x509: certificate signed by unknown"));
  EXPECT_EQ(server.call("GET", std::string(kLog) + "?insecureSkipTLSVerifyBackend=true").body, "secret");
}

TEST(NodeProxyTest, RequestsOfANodeArePassedOn) {
  TestServer server;
  Kubelet kubelet([](std::shared_ptr<Exchange> e) {
    if (e->request().path() == "/moved") {
      return e->respond(302, {{"location", "/there"}}, share(""));
    }
    text(e, 201, e->request().body);
  });
  add_node_and_pod(server, kubelet.port());
  const TestAnswer put = server.call("PUT", "/api/v1/nodes/n/proxy/a%20b/?x=%2F&y", "hello", "text/plain");
  EXPECT_EQ(put.status, 201);
  EXPECT_EQ(put.body, "hello");
  EXPECT_EQ(kubelet.asked(), "PUT /a%20b/?x=%2F&y");
  EXPECT_EQ(kubelet.header("x-forwarded-for"), "127.0.0.1");
  EXPECT_EQ(kubelet.user(), "kube-apiserver-kubelet-client");
  const std::string port = std::to_string(kubelet.port());
  EXPECT_EQ(server.call("GET", "/api/v1/nodes/n:" + port + "/proxy/healthz").status, 201);
  EXPECT_EQ(kubelet.asked(), "GET /healthz");
  EXPECT_EQ(server.call("GET", "/api/v1/nodes/n/proxy/moved").headers.get("location"), "/api/v1/nodes/n/proxy/there");
  const TestAnswer root = server.call("GET", "/api/v1/nodes/n/proxy?a=b");
  EXPECT_EQ(root.status, 301);
  EXPECT_EQ(root.headers.get("location"), "/api/v1/nodes/n/proxy/?a=b");
  // Another port of the node is no kubelet: it does not see who we are.
  Kubelet other([](std::shared_ptr<Exchange> e) { text(e, 200, "other"); });
  EXPECT_EQ(server.call("GET", "/api/v1/nodes/https:n:" + std::to_string(other.port()) + "/proxy/x").body, "other");
  EXPECT_EQ(other.user(), "nobody");
  EXPECT_EQ(server.call("GET", "/api/v1/nodes/ftp:n:1/proxy/").status, 400);
}

// Sends back what it gets, until "bye".
class Echo final : public kube::http::TunnelHandler {
 public:
  explicit Echo(std::shared_ptr<kube::http::Tunnel> tunnel) : tunnel_(std::move(tunnel)) { tunnel_->set_handler(this); }
  void on_data(std::string_view bytes) override {
    if (bytes.find("bye") != std::string_view::npos) return tunnel_->close();
    tunnel_->write(share("<" + std::string(bytes) + ">"));
  }
  void on_end(const Status&) override { ended = true; }
  std::atomic<bool> ended{false};

 private:
  std::shared_ptr<kube::http::Tunnel> tunnel_;
};

// The client's end of an upgraded connection.
class Stream final : public kube::http::UpgradeHandler, public kube::http::TunnelHandler {
 public:
  void on_upgraded(const kube::http::HeaderList& list, std::shared_ptr<kube::http::Tunnel> opened) override {
    headers = list;
    tunnel = std::move(opened);
    tunnel->set_handler(this);
  }
  void on_refused(int code, const kube::http::HeaderList&, const std::string& text) override {
    status = code;
    body = text;
  }
  void on_error(const Status& why) override { error = why; }
  void on_data(std::string_view bytes) override { got.append(bytes); }
  void on_end(const Status&) override { ended = true; }
  bool over() const { return tunnel || status != 0 || !error.ok(); }

  kube::http::HeaderList headers;
  std::shared_ptr<kube::http::Tunnel> tunnel;
  int status = 0;
  std::string body, got;
  Status error;
  bool ended = false;
};

class StreamTest : public testing::Test {
 protected:
  void open(const char* method, const std::string& target, Stream* stream, const char* token = nullptr) {
    kube::http::HeaderList headers = server_.headers();
    if (token) headers.set("authorization", std::string("Bearer ") + token);
    headers.add("upgrade", "SPDY/3.1");
    headers.add("x-stream-protocol-version", "v4.channel.k8s.io");
    server_.client().upgrade(method, target, headers, {}, stream);
    ASSERT_TRUE(run_until(server_.loop(), [&] { return stream->over(); })) << target;
  }

  static ApiServer::Options options() {
    ApiServer::Options o;
    o.tokens = {{"reader", {"reader", "", {}, {}}}};
    return o;
  }

  TestServer server_{options()};
  std::unique_ptr<Echo> echo_;  // of the kubelet's thread
};

TEST_F(StreamTest, BytesFlowRawBothWays) {
  Kubelet kubelet([&](std::shared_ptr<Exchange> e) {
    auto tunnel = e->upgrade(101, {{"upgrade", "SPDY/3.1"}, {"x-stream-protocol-version", "v4.channel.k8s.io"}});
    ASSERT_TRUE(tunnel);
    echo_ = std::make_unique<Echo>(std::move(tunnel));
  });
  add_node_and_pod(server_, kubelet.port());
  struct Case {
    const char *method, *target, *asked;
  };
  const Case cases[] = {
      {"POST", "exec?command=echo&command=a+b&stdin=true&stdout=1&stderr=false&tty=true",
       "POST /exec/default/p/c?command=echo&command=a%20b&input=1&output=1&tty=1"},
      {"GET", "attach?container=c&stdout=true", "GET /attach/default/p/c?output=1"},
      {"POST", "portforward?ports=80&ports=81", "POST /portForward/default/p?port=80%2C81"},
  };
  for (const Case& c : cases) {
    Stream stream;
    open(c.method, std::string("/api/v1/namespaces/default/pods/p/") + c.target, &stream);
    ASSERT_TRUE(stream.tunnel) << c.target << " " << stream.status << stream.body << stream.error.message();
    EXPECT_EQ(kubelet.asked(), c.asked);
    EXPECT_EQ(kubelet.header("x-stream-protocol-version"), "v4.channel.k8s.io");
    EXPECT_EQ(kubelet.header("authorization"), "");
    EXPECT_EQ(stream.headers.get("x-stream-protocol-version"), "v4.channel.k8s.io");
    EXPECT_EQ(stream.headers.get("upgrade"), "SPDY/3.1");
    stream.tunnel->write(share(std::string("hello\0world", 11)));
    EXPECT_TRUE(run_until(server_.loop(), [&] { return stream.got == std::string("<hello\0world>", 13); }));
    // The node's end is ours.
    stream.tunnel->write(share("bye"));
    EXPECT_TRUE(run_until(server_.loop(), [&] { return stream.ended; }));
  }
  // Our end is the node's.
  Stream stream;
  open("POST", "/api/v1/namespaces/default/pods/p/exec?command=x", &stream);
  ASSERT_TRUE(stream.tunnel);
  stream.tunnel->abort();
  EXPECT_TRUE(run_until(server_.loop(), [&] { return echo_->ended.load(); }));
}

TEST_F(StreamTest, RefusalsArePassedBack) {
  Kubelet kubelet([&](std::shared_ptr<Exchange> e) {
    if (e->request().path() == "/attach/default/p/c") return text(e, 200, "no upgrade");
    text(e, 403, "not you");
  });
  add_node_and_pod(server_, kubelet.port());
  Stream refused, odd;
  open("POST", "/api/v1/namespaces/default/pods/p/exec?command=x", &refused);
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.body, "not you");
  open("POST", "/api/v1/namespaces/default/pods/p/attach", &odd);
  EXPECT_EQ(odd.status, 500);
  EXPECT_THAT(odd.body, HasSubstr("invalid upgrade response: status code 200"));
}

TEST_F(StreamTest, ANodeThatIsAway) {
  uint16_t port = 0;
  {
    TestBackend gone([](std::shared_ptr<Exchange>) {});
    port = gone.port();
  }
  add_node_and_pod(server_, port);
  Stream stream;
  open("POST", "/api/v1/namespaces/default/pods/p/exec?command=x", &stream);
  EXPECT_EQ(stream.status, 500);
  EXPECT_THAT(stream.body, HasSubstr("error dialing backend: dial tcp 127.0.0.1:" + std::to_string(port) +
                                     ": connect: connection refused"));
}

TEST_F(StreamTest, WhoMayOnlyReadMayNotStream) {
  Kubelet kubelet([&](std::shared_ptr<Exchange> e) { text(e, 200, "reached"); });
  add_node_and_pod(server_, kubelet.port());
  server_.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
                 R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"reader"},"rules":[)"
                 R"({"apiGroups":[""],"resources":["pods/exec","pods/log"],"verbs":["get"]}]})");
  server_.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
                 R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"reader"},)"
                 R"("roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},)"
                 R"("subjects":[{"kind":"User","name":"reader"}]})");
  Stream stream;
  open("GET", "/api/v1/namespaces/default/pods/p/exec?command=x", &stream, "reader");
  EXPECT_EQ(stream.status, 403);
  EXPECT_THAT(stream.body, HasSubstr("pods \\\"p\\\" is forbidden"));
  EXPECT_EQ(kubelet.asked(), "");
  server_.token = "reader";
  EXPECT_EQ(server_.call("GET", kLog).body, "reached");
}

// A kubelet that has much to say, as fast as it is taken.
class Talker {
 public:
  explicit Talker(size_t total) : total_(total) {}
  void answer(std::shared_ptr<Exchange> exchange) {
    exchange->start(200, {{"content-type", "text/plain"}});
    go_on(exchange);
  }
  size_t said() const { return said_; }

 private:
  void go_on(const std::shared_ptr<Exchange>& exchange) {
    static const SharedBytes piece = share(std::string(64 * 1024, 'x'));
    while (said_ < total_ && exchange->backlog() < 256 * 1024) {
      if (!exchange->write(piece)) return;
      said_ += piece->size();
    }
    if (said_ >= total_) return exchange->finish();
    exchange->when_drained(64 * 1024, [this, exchange] { go_on(exchange); });
  }

  const size_t total_;
  std::atomic<size_t> said_{0};
};

TEST(NodeProxyTest, AReaderWhoWaitsMakesTheNodeWait) {
  constexpr size_t kTotal = 96 * 1024 * 1024;
  Talker talker(kTotal);
  TestServer server;
  Kubelet kubelet([&](std::shared_ptr<Exchange> e) { talker.answer(std::move(e)); });
  add_node_and_pod(server, kubelet.port());
  TestAnswer answer;
  const kube::http::HeaderList headers = server.headers();
  const kube::http::CallId id =
      server.client().start("GET", std::string(kLog) + "?follow=true", &headers, "", {}, &answer);
  ASSERT_TRUE(run_until(server.loop(), [&] { return !answer.body.empty(); }));
  server.client().set_reading(id, false);
  // Nobody reads: the talker stops when every buffer between is full, far from its end.
  size_t before = 0;
  for (int still = 0; still < 10; still = talker.said() == before ? still + 1 : 0) {
    before = talker.said();
    server.loop().run_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(talker.said(), kTotal / 2);
  server.client().set_reading(id, true);
  ASSERT_TRUE(run_until(server.loop(), [&] { return answer.done; }));
  EXPECT_TRUE(answer.error.ok()) << answer.error.message();
  EXPECT_EQ(answer.body.size(), kTotal);
}

TEST(NodeProxyTest, AClientThatGoesAwayEndsTheTransfer) {
  std::atomic<bool> closed{false};
  TestServer server;
  Kubelet kubelet([&](std::shared_ptr<Exchange> e) {
    e->start(200, {});
    e->write(share("first\n"));
    e->on_close([&closed, e] { closed = true; });
  });
  add_node_and_pod(server, kubelet.port());
  TestAnswer answer;
  const kube::http::HeaderList headers = server.headers();
  const kube::http::CallId id =
      server.client().start("GET", std::string(kLog) + "?follow=1", &headers, "", {}, &answer);
  ASSERT_TRUE(run_until(server.loop(), [&] { return answer.body == "first\n"; }));
  server.client().cancel(id);
  EXPECT_TRUE(run_until(server.loop(), [&] { return closed.load(); }));
}

}  // namespace
}  // namespace ghostfleet::controlplane
