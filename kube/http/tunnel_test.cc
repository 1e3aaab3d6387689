// Upgrades and tunnels over real sockets, plain and with TLS: both ends, pressure back, early bytes, every way to end.
#include "kube/http/tunnel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>

#include "kube/http/http_harness.h"

namespace ghostfleet::kube::http {
namespace {

// One end of a tunnel, which remembers.
struct End : TunnelHandler {
  std::shared_ptr<Tunnel> tunnel;
  std::string data;
  int ends = 0;
  Status why;
  std::function<void(std::string_view)> on_bytes;
  void on_data(std::string_view bytes) override {
    data.append(bytes);
    if (on_bytes) on_bytes(bytes);
  }
  void on_end(const Status& s) override {
    ++ends;
    why = s;
  }
  void hold(std::shared_ptr<Tunnel> t) {
    tunnel = std::move(t);
    tunnel->set_handler(this);
  }
};

struct Upgraded : UpgradeHandler {
  std::shared_ptr<Tunnel> tunnel;
  HeaderList headers;
  int status = 0, calls = 0;
  std::string body;
  Status error;
  void on_upgraded(const HeaderList& h, std::shared_ptr<Tunnel> t) override {
    ++calls;
    headers = h;
    tunnel = std::move(t);
  }
  void on_refused(int s, const HeaderList& h, const std::string& b) override {
    ++calls;
    status = s;
    headers = h;
    body = b;
  }
  void on_error(const Status& s) override {
    ++calls;
    error = s;
  }
};

// What the server does: /up upgrades and keeps the tunnel at `server`; /no refuses; /silent does nothing.
struct TunnelTest : ::testing::TestWithParam<bool> {
  End server, client;
  Upgraded answer;
  std::shared_ptr<Exchange> kept;
  std::string seen_upgrade, seen_local;
  bool say_hello = false;
  std::unique_ptr<Harness> harness;

  void make(HarnessOptions options = {}) {
    options.tls = GetParam();
    harness = std::make_unique<Harness>([this](std::shared_ptr<Exchange> e) { serve(std::move(e)); }, options);
  }
  void TearDown() override {
    client.tunnel.reset();
    server.tunnel.reset();
    answer.tunnel.reset();
    kept.reset();
  }
  void serve(std::shared_ptr<Exchange> exchange) {
    const Request& request = exchange->request();
    seen_upgrade = requested_upgrade(request);
    seen_local = request.local_address + " " + std::to_string(request.local_port);
    if (request.target == "/silent") {
      kept = std::move(exchange);
      return;
    }
    auto tunnel = request.target == "/up" ? exchange->upgrade(101, {{"upgrade", "tea"}, {"x-kind", "green"}}) : nullptr;
    if (!tunnel) return exchange->respond(403, {{"x-why", "because"}}, share("no tea for you"));
    if (say_hello) {
      tunnel->write(share("hello"));
      tunnel->close();
      return;
    }
    server.hold(std::move(tunnel));
  }
  CallId ask(const std::string& target, UpgradeOptions options = {}) {
    return harness->client->upgrade("POST", target, {{"upgrade", "Tea"}}, options, &answer);
  }
  bool until(const std::function<bool()>& condition) { return harness->run_until(condition); }
  void connect() {
    ask("/up");
    ASSERT_TRUE(until([&] { return answer.calls == 1; }));
    ASSERT_TRUE(answer.tunnel) << answer.status << answer.error.message();
    client.hold(std::move(answer.tunnel));
    ASSERT_TRUE(until([&] { return server.tunnel != nullptr; }));
  }
};
INSTANTIATE_TEST_SUITE_P(Security, TunnelTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? std::string("Tls") : std::string("Plain"); });

TEST_P(TunnelTest, BytesBothWays) {
  make();
  connect();
  EXPECT_EQ(seen_upgrade, "tea");
  EXPECT_EQ(seen_local, "127.0.0.1 " + std::to_string(harness->server->port()));
  EXPECT_EQ(answer.headers.get("x-kind"), "green");
  client.tunnel->write(share("one"));
  server.tunnel->write(share("two"));
  EXPECT_TRUE(until([&] { return server.data == "one" && client.data == "two"; }));
}

TEST_P(TunnelTest, ARefusalIsReadToItsEnd) {
  make();
  ask("/no");
  ASSERT_TRUE(until([&] { return answer.calls == 1; }));
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.body, "no tea for you");
  EXPECT_EQ(answer.headers.get("x-why"), "because");
  EXPECT_TRUE(until([&] { return harness->server->connection_count() == 0; }));
}

TEST_P(TunnelTest, ARefusalOfMoreThanTheLimitIsCut) {
  make();
  ask("/no", {.max_body_bytes = 5});
  ASSERT_TRUE(until([&] { return answer.calls == 1; }));
  EXPECT_EQ(answer.body, "no te");
}

TEST_P(TunnelTest, WhatTheServerSaysAtOnceIsNotLost) {
  make();
  say_hello = true;
  ask("/up");
  ASSERT_TRUE(until([&] { return answer.calls == 1; }));
  ASSERT_TRUE(answer.tunnel);
  harness->loop.run_for(std::chrono::milliseconds(5));  // the end arrives while nobody listens
  client.hold(std::move(answer.tunnel));
  ASSERT_TRUE(until([&] { return client.ends == 1; }));
  EXPECT_EQ(client.data, "hello");
  EXPECT_TRUE(client.why.ok());
}

TEST_P(TunnelTest, AHalfCloseLeavesTheOtherHalf) {
  make();
  connect();
  client.tunnel->write(share("question"));
  client.tunnel->shutdown_write();
  ASSERT_TRUE(until([&] { return server.ends == 1; }));
  EXPECT_EQ(server.data, "question");
  EXPECT_TRUE(server.why.ok());
  EXPECT_TRUE(server.tunnel->write(share("answer")));
  EXPECT_TRUE(until([&] { return client.data == "answer"; }));
  server.tunnel->close();
  EXPECT_TRUE(until([&] { return client.ends == 1; }));
  EXPECT_TRUE(until([&] { return harness->server->connection_count() == 0; }));
}

TEST_P(TunnelTest, CloseSendsWhatWasWritten) {
  make();
  connect();
  const std::string much(3000000, 'm');
  server.tunnel->write(share(much));
  server.tunnel->close();
  EXPECT_FALSE(server.tunnel->write(share("late")));
  server.tunnel.reset();
  ASSERT_TRUE(until([&] { return client.ends == 1; }));
  EXPECT_EQ(client.data.size(), much.size());
}

TEST_P(TunnelTest, LettingGoCloses) {
  make();
  connect();
  server.tunnel.reset();
  EXPECT_TRUE(until([&] { return client.ends == 1; }));
  EXPECT_TRUE(client.why.ok());
  client.tunnel.reset();
  EXPECT_TRUE(until([&] { return harness->server->connection_count() == 0; }));
}

TEST_P(TunnelTest, AbortIsSeenByTheOther) {
  make();
  connect();
  client.tunnel->abort();
  EXPECT_TRUE(until([&] { return server.ends == 1; }));
  EXPECT_EQ(client.ends, 0);
}

// A reader that pauses makes the writer wait, with bounded memory.
TEST_P(TunnelTest, PressureBack) {
  make();
  connect();
  client.tunnel->pause();
  size_t written = 0;
  while (written < 30000000) {
    if (server.tunnel->backlog() < 200000) {
      server.tunnel->write(share(std::string(100000, 'p')));
      written += 100000;
    }
    const size_t before = server.tunnel->backlog();
    harness->loop.run_for(std::chrono::milliseconds(1));
    if (before >= 200000 && server.tunnel->backlog() == before) break;
  }
  ASSERT_LT(written, 30000000u) << "the kernel cannot have taken all this";
  EXPECT_EQ(client.data.size(), 0u);
  bool drained = false;
  server.tunnel->when_drained(1, [&] { drained = true; });
  client.tunnel->resume();
  EXPECT_TRUE(until([&] { return client.data.size() == written && drained; }));
}

TEST_P(TunnelTest, ABacklogOverTheLimitIsCut) {
  HarnessOptions options;
  options.limits.max_backlog_bytes = 1000000;
  make(options);
  connect();
  client.tunnel->pause();
  int pieces = 0;
  while (server.tunnel->write(share(std::string(300000, 'x')))) ASSERT_LT(++pieces, 200);
  ASSERT_TRUE(until([&] { return server.ends == 1; }));
  EXPECT_EQ(server.why.code(), Code::kResourceExhausted);
  EXPECT_TRUE(server.tunnel->closed());
}

TEST_P(TunnelTest, BytesBehindTheRequestComeFirst) {
  if (GetParam()) GTEST_SKIP() << "the raw client of this test speaks no TLS";
  make();
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(harness->server->port());
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string bytes =
      "GET /no HTTP/1.1\r\nhost: x\r\n\r\nGET /up HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, upgrade\r\nupgrade: "
      "tea\r\n\r\nraw bytes";
  ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_TRUE(until([&] { return server.data == "raw bytes"; }));
  server.tunnel->write(share("answer"));
  std::string got;
  ASSERT_TRUE(until([&] {
    char buffer[4096];
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) got.append(buffer, static_cast<size_t>(n));
    return got.size() > 6 && got.substr(got.size() - 6) == "answer";
  }));
  EXPECT_NE(got.find("HTTP/1.1 403"), std::string::npos);
  EXPECT_NE(
      got.find(
          "HTTP/1.1 101 Switching Protocols\r\nupgrade: tea\r\nx-kind: green\r\nconnection: Upgrade\r\n\r\nanswer"),
      std::string::npos)
      << got;
  ::close(fd);
  EXPECT_TRUE(until([&] { return server.ends == 1; }));
}

TEST_P(TunnelTest, Http2CannotBeUpgraded) {
  make();
  Reply& reply = harness->get("/up");
  EXPECT_EQ(reply.status, 403);
  EXPECT_FALSE(server.tunnel);
}

TEST_P(TunnelTest, TimeOutCancelAndNobodyThere) {
  make();
  ask("/silent", {.timeout = std::chrono::milliseconds(50)});
  ASSERT_TRUE(until([&] { return answer.calls == 1; }));
  EXPECT_EQ(answer.error.code(), Code::kDeadlineExceeded);
  answer = {};
  const CallId id = ask("/silent");
  ASSERT_TRUE(until([&] { return kept && !kept->closed(); }));
  harness->client->cancel_upgrade(id);
  ASSERT_TRUE(until([&] { return kept->closed(); }));
  EXPECT_EQ(answer.calls, 0);
  harness->server.reset();
  ask("/up");
  ASSERT_TRUE(until([&] { return answer.calls == 1; }));
  EXPECT_EQ(answer.error.code(), Code::kUnavailable);
}

TEST_P(TunnelTest, ATunnelOutlivesItsClientAndAnUpgradeDoesNot) {
  make();
  connect();
  Upgraded never;
  harness->client->upgrade("GET", "/silent", {{"upgrade", "tea"}}, {}, &never);
  ASSERT_TRUE(until([&] { return kept != nullptr; }));
  harness->client.reset();
  client.tunnel->write(share("still here"));
  EXPECT_TRUE(until([&] { return server.data == "still here"; }));
  EXPECT_EQ(never.calls, 0);
}

TEST_P(TunnelTest, AServerThatDrainsCutsTunnelsAfterTheGrace) {
  make();
  connect();
  bool drained = false;
  harness->server->drain(std::chrono::milliseconds(100), [&] { drained = true; });
  harness->loop.run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(server.ends, 0);
  ASSERT_TRUE(until([&] { return drained; }));
  EXPECT_EQ(server.ends, 1);
  EXPECT_TRUE(until([&] { return client.ends == 1; }));
}

// A proxy: tunnel in, tunnel out.
TEST_P(TunnelTest, Splice) {
  make();
  End back;
  Upgraded onward;
  std::unique_ptr<Harness> behind = std::make_unique<Harness>(
      [&](const std::shared_ptr<Exchange>& e) {
        back.hold(e->upgrade(101, {{"upgrade", "tea"}}));
      },
      HarnessOptions{.tls = GetParam()});
  const auto both = [&](const std::function<bool()>& condition) {
    return until([&] {
      behind->loop.run_for(std::chrono::milliseconds(1));
      return condition();
    });
  };
  // The client of the harness in front dials the one behind.
  HttpClientOptions options = behind->client_options();
  const auto dialer = HttpClient::create(harness->loop, options);
  dialer->upgrade("GET", "/", {{"upgrade", "tea"}}, {}, &onward);
  ASSERT_TRUE(both([&] { return onward.tunnel && back.tunnel; }));
  ask("/up");
  ASSERT_TRUE(both([&] { return answer.tunnel && server.tunnel; }));
  client.hold(std::move(answer.tunnel));
  bool done = false;
  server.tunnel->set_handler(nullptr);
  splice(std::move(server.tunnel), std::move(onward.tunnel), [&] { done = true; });
  client.tunnel->write(share("through"));
  ASSERT_TRUE(both([&] { return back.data == "through"; }));
  // Ten megabytes to a reader that pauses at first.
  client.tunnel->pause();
  const std::string much(10000000, 's');
  back.tunnel->write(share(much));
  for (int i = 0; i < 50; ++i) {
    harness->loop.run_for(std::chrono::milliseconds(1));
    behind->loop.run_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(client.data.size(), 100u);
  client.tunnel->resume();
  ASSERT_TRUE(both([&] { return client.data.size() == much.size(); }));
  back.tunnel->write(share("bye"));
  back.tunnel->close();
  ASSERT_TRUE(both([&] { return client.ends == 1 && done; }));
  EXPECT_EQ(client.data.substr(much.size()), "bye");
  back.tunnel.reset();
}

TEST(ServerOptionsTest, BoundToTheLoopbackDeviceAndEveryAddressOfIt) {
  EventLoop loop;
  std::string local;
  ServerOptions options;
  options.address = "0.0.0.0";
  options.bind_to_device = "lo";
  auto server = Server::listen(options, {&loop}, [&](const std::shared_ptr<Exchange>& e) {
    local = e->request().local_address;
    e->respond(200, {}, share("ok"));
  });
  ASSERT_TRUE(server.ok()) << server.error().message();
  HttpClientOptions client_options;
  client_options.host = "127.64.3.7";
  client_options.port = (*server)->port();
  client_options.use_tls = false;
  auto client = HttpClient::create(loop, client_options);
  Reply reply;
  client->start("GET", "/", nullptr, {}, {}, &reply);
  const TimePoint end = loop.now() + std::chrono::seconds(10);
  while (!reply.done() && loop.now() < end) loop.run_for(std::chrono::milliseconds(1));
  EXPECT_EQ(reply.status, 200) << reply.error.message();
  EXPECT_EQ(local, "127.64.3.7");
  client.reset();
  server->reset();
  loop.run_for(std::chrono::milliseconds(1));
}

TEST(ServerOptionsTest, AnUnknownDeviceIsNamed) {
  EventLoop loop;
  ServerOptions options;
  options.bind_to_device = "nosuchdev0";
  const auto server = Server::listen(options, {&loop}, [](const std::shared_ptr<Exchange>&) {});
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message().find("network device \"nosuchdev0\""), std::string::npos);
}

// A certificate for each address; the client verifies the one it came to.
TEST(ServerOptionsTest, CertificatesChosenByAddress) {
  EventLoop loop;
  ghostfleet::testing::TestPki pki;
  const auto context_for = [&](const std::string& address) {
    ghostfleet::testing::CertificateSpec spec;
    spec.common_name = address;
    spec.ip_names = {address};
    const auto pair = pki.issue(spec);
    return TlsContext::server({pair.certificate_pem, pair.key_pem, {}, {"h2", "http/1.1"}}).value();
  };
  const std::map<std::string, std::shared_ptr<const TlsContext>> contexts = {{"127.0.0.2", context_for("127.0.0.2")},
                                                                             {"127.0.0.3", context_for("127.0.0.3")}};
  ServerOptions options;
  options.address = "0.0.0.0";
  options.bind_to_device = "lo";
  options.tls = context_for("127.0.0.1");
  options.choose_tls = [&](const std::string& address, uint16_t) -> std::shared_ptr<const TlsContext> {
    const auto at = contexts.find(address);
    return at == contexts.end() ? nullptr : at->second;
  };
  auto server = std::move(Server::listen(options, {&loop}, [](const std::shared_ptr<Exchange>& e) {
                            e->respond(200, {}, share("ok"));
                          }).value());
  for (const std::string host : {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}) {
    HttpClientOptions client_options;
    client_options.host = host;
    client_options.port = server->port();
    client_options.tls = TlsContext::client({.ca_pem = pki.ca_pem()}).value();
    auto client = HttpClient::create(loop, client_options);
    Reply reply;
    client->start("GET", "/", nullptr, {}, {}, &reply);
    const TimePoint end = loop.now() + std::chrono::seconds(10);
    while (!reply.done() && loop.now() < end) loop.run_for(std::chrono::milliseconds(1));
    EXPECT_EQ(reply.status, host == "127.0.0.4" ? 0 : 200) << host << reply.error.message();
    client.reset();
  }
  server.reset();
  loop.run_for(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace ghostfleet::kube::http
