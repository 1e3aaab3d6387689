// Sessions over real sockets with TLS: an HttpClient that upgrades, and everything between.
#include <gtest/gtest.h>

#include "kube/http/http_harness.h"
#include "kube/stream/port_forward.h"
#include "kube/stream/remote_command.h"
#include "kube/stream/stream_harness.h"

namespace ghostfleet::kube::stream {
namespace {

// A command that says what it hears, and does not read more while its words are not taken.
struct Echo : RemoteCommandHandler {
  std::shared_ptr<RemoteSession> session;
  bool ready = false, ended = false;
  int closes = 0;
  size_t most = 0;
  void on_ready(RemoteSession&) override { ready = true; }
  void on_stdin(std::string_view bytes) override {
    session->write_stdout(share(std::string(bytes)));
    most = std::max(most, session->backlog());
    if (session->backlog() < 500000) return;
    session->pause_stdin();
    session->when_drained(100000, [this] { session->resume_stdin(); });
  }
  void on_stdin_end() override {
    ended = true;
    session->finish(RemoteExit::success());
  }
  void on_close(const Status&) override { ++closes; }
};

// The client's socket with an engine on it.
struct Client : http::UpgradeHandler, http::TunnelHandler {
  std::shared_ptr<http::Tunnel> tunnel;
  Status failure;
  bool ended = false;
  std::function<Status(std::string_view)> on_bytes;
  void on_upgraded(const http::HeaderList&, std::shared_ptr<http::Tunnel> t) override {
    tunnel = std::move(t);
    tunnel->set_handler(this);
  }
  void on_refused(int status, const http::HeaderList&, const std::string& body) override {
    failure = unavailable(std::to_string(status) + " " + body);
  }
  void on_error(const Status& s) override { failure = s; }
  void on_data(std::string_view bytes) override {
    if (const Status bad = on_bytes(bytes); !bad.ok()) failure = bad;
  }
  void on_end(const Status&) override { ended = true; }
};

struct SocketTest : ::testing::Test {
  Echo echo;
  Client client;
  RemoteCommandOptions options{.in = true, .out = true};
  std::unique_ptr<http::Harness> harness;

  SocketTest() {
    harness = std::make_unique<http::Harness>([this](const std::shared_ptr<http::Exchange>& exchange) {
      echo.session = accept_remote_command(exchange, options, &echo);
    });
  }
  ~SocketTest() override {
    client.tunnel.reset();
    echo.session.reset();
    harness.reset();
  }
  bool until(const std::function<bool()>& condition) {
    return harness->run_until([&] { return condition() || !client.failure.ok(); }) && client.failure.ok();
  }
};

TEST_F(SocketTest, AnEchoOfManyMegabytesOverWebSocket) {
  WebSocketPeer peer;
  size_t received = 0, messages = 0;
  client.on_bytes = [&](std::string_view bytes) {
    const Status status = peer.engine.feed(bytes);
    for (; messages < peer.messages.size(); ++messages) {
      received += peer.messages[messages].second.size() - 1;
      peer.messages[messages].second.resize(1);
    }
    return status;
  };
  harness->client->upgrade("GET", "/", websocket_request({"v5.channel.k8s.io"}), {}, &client);
  ASSERT_TRUE(until([&] { return client.tunnel != nullptr; })) << client.failure.message();
  constexpr size_t kPieces = 400, kPiece = 32000;
  for (size_t i = 0; i < kPieces; ++i) peer.engine.send(false, std::string(1, '\0') + std::string(kPiece, 'e'));
  peer.engine.send(false, std::string("\xff\0", 2));
  // The peer's bytes go out as the socket takes them.
  size_t at = 0;
  while (at < peer.output.size()) {
    ASSERT_TRUE(until([&] { return client.tunnel->backlog() < 200000; }));
    client.tunnel->write(share(peer.output.substr(at, 100000)));
    at += 100000;
  }
  ASSERT_TRUE(until([&] { return client.ended; })) << client.failure.message();
  EXPECT_EQ(received, kPieces * kPiece + std::string(R"({"metadata":{},"status":"Success"})").size());
  EXPECT_EQ(peer.close_code, 1000);
  EXPECT_LT(echo.most, 2000000u);
  EXPECT_EQ(echo.closes, 0);
}

TEST_F(SocketTest, ACommandOverSpdy) {
  SpdyPeer peer;
  client.on_bytes = [&](std::string_view bytes) { return peer.engine->feed(bytes); };
  harness->client->upgrade("POST", "/", spdy_request({"v4.channel.k8s.io"}), {}, &client);
  ASSERT_TRUE(until([&] { return client.tunnel != nullptr; })) << client.failure.message();
  SpdyStreamId ids[3];
  int n = 0;
  for (const char* type : {"error", "stdin", "stdout"}) {
    ids[n++] = peer.engine->open_stream({{"streamtype", type}}, false);
  }
  client.tunnel->write(share(std::exchange(peer.output, {})));
  ASSERT_TRUE(until([&] { return peer.streams[ids[2]].replied && echo.ready; }));
  peer.engine->write(ids[1], "some words", true);
  client.tunnel->write(share(std::exchange(peer.output, {})));
  ASSERT_TRUE(until([&] { return client.ended; }));
  EXPECT_EQ(peer.streams[ids[2]].data, "some words");
  EXPECT_EQ(peer.streams[ids[0]].data, R"({"metadata":{},"status":"Success"})");
  EXPECT_TRUE(peer.goaway);
}

TEST_F(SocketTest, AClientThatVanishesIsNoticed) {
  client.on_bytes = [](std::string_view) { return Status(); };
  harness->client->upgrade("GET", "/", websocket_request({"v5.channel.k8s.io"}), {}, &client);
  ASSERT_TRUE(until([&] { return client.tunnel && echo.ready; }));
  client.tunnel->abort();
  EXPECT_TRUE(until([&] { return echo.closes == 1; }));
}

TEST_F(SocketTest, ARefusalReachesTheClient) {
  harness->client->upgrade("POST", "/", spdy_request({"v9.channel.k8s.io"}), {}, &client);
  EXPECT_FALSE(until([&] { return client.tunnel != nullptr; }));
  EXPECT_NE(client.failure.message().find("403 unable to upgrade: unable to negotiate protocol"), std::string::npos);
}

}  // namespace
}  // namespace ghostfleet::kube::stream
