// Port-forward sessions over every protocol, against clients in memory.
#include "kube/stream/port_forward.h"

#include <gtest/gtest.h>

#include "base/digest.h"
#include "kube/stream/stream_harness.h"

namespace ghostfleet::kube::stream {
namespace {

using std::chrono::seconds;

// The pod's end of a forwarded connection.
struct PodSide : ForwardedHandler {
  std::shared_ptr<ForwardedConnection> connection;
  std::string data;
  int ends = 0, closes = 0;
  void on_data(std::string_view bytes) override { data.append(bytes); }
  void on_data_end() override { ++ends; }
  void on_close(const Status&) override { ++closes; }
};

struct Pod : PortForwardHandler {
  std::vector<std::unique_ptr<PodSide>> sides;
  bool listens = true;  // else connections get no handler
  int closes = 0;
  Status why;
  void on_connection(std::shared_ptr<ForwardedConnection> connection) override {
    sides.push_back(std::make_unique<PodSide>());
    sides.back()->connection = connection;
    if (listens) connection->set_handler(sides.back().get());
  }
  void on_close(const Status& s) override {
    ++closes;
    why = s;
  }
};

struct ForwardTest : ::testing::Test {
  EventLoop loop;
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>();
  PortForwardOptions options{.timers = timers};
  Pod pod;
  std::shared_ptr<FakeExchange> exchange;
  std::shared_ptr<PortForwardSession> session;
  std::shared_ptr<FakeTunnel> tunnel;

  void turn() { run_posted(&loop); }
  void accept(http::HeaderList headers, const std::string& method) {
    exchange = std::make_shared<FakeExchange>(loop, std::move(headers), method);
    session = accept_port_forward(exchange, options, &pod);
    tunnel = exchange->tunnel;
    turn();
  }
};

// SPDY on the connection itself, or inside WebSocket messages.
struct SpdyForwardTest : ForwardTest, ::testing::WithParamInterface<bool> {
  SpdyPeer peer;
  WebSocketPeer outer;

  void begin() {
    if (GetParam())
      accept(websocket_request({"SPDY/3.1+portforward.k8s.io"}), "GET");
    else
      accept(spdy_request({"portforward.k8s.io"}), "POST");
  }
  void carry() {
    for (int i = 0; i < 4; ++i) {
      std::string bytes = std::exchange(peer.output, {});
      if (GetParam()) {
        // Cut anywhere: messages are no borders of frames.
        for (size_t at = 0; at < bytes.size(); at += 13) outer.engine.send(false, bytes.substr(at, 13));
        bytes = std::exchange(outer.output, {});
      }
      if (!bytes.empty()) tunnel->feed(bytes);
      std::string answer = std::exchange(tunnel->sent, {});
      if (GetParam()) {
        ASSERT_TRUE(outer.engine.feed(answer).ok());
        answer.clear();
        for (const auto& [text, message] : std::exchange(outer.messages, {})) answer += message;
      }
      ASSERT_TRUE(peer.engine->feed(answer).ok());
      turn();
    }
  }
  SpdyStreamId open(const std::string& type, const std::string& request, const std::string& port = "8080") {
    http::HeaderList headers = {{"streamtype", type}, {"port", port}};
    if (!request.empty()) headers.add("requestid", request);
    return peer.engine->open_stream(headers, false);
  }
};
INSTANTIATE_TEST_SUITE_P(Carrier, SpdyForwardTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("InsideWebSocket") : std::string("Plain");
});

TEST_P(SpdyForwardTest, TwoConnections) {
  begin();
  ASSERT_TRUE(session);
  EXPECT_EQ(exchange->status, 101);
  const SpdyStreamId error = open("error", "0"), error1 = open("error", "1", "9090");
  const SpdyStreamId data1 = open("data", "1", "9090"), data = open("data", "0");
  carry();
  EXPECT_TRUE(peer.streams[error].replied && peer.streams[data].replied);
  ASSERT_EQ(pod.sides.size(), 2u);
  EXPECT_EQ(pod.sides[0]->connection->port(), 9090);
  EXPECT_EQ(pod.sides[1]->connection->port(), 8080);
  peer.engine->finish(error);
  peer.engine->finish(error1);
  peer.engine->write(data, "GET /", true);
  peer.engine->write(data1, "ping", false);
  carry();
  EXPECT_EQ(pod.sides[1]->data, "GET /");
  EXPECT_EQ(pod.sides[1]->ends, 1);
  EXPECT_EQ(pod.sides[0]->data, "ping");
  EXPECT_EQ(pod.sides[0]->ends, 0);
  pod.sides[1]->connection->write(share("200 OK"));
  pod.sides[1]->connection->close();
  pod.sides[0]->connection->write(share("pong"));
  carry();
  EXPECT_EQ(peer.streams[data].data, "200 OK");
  EXPECT_TRUE(peer.streams[data].fin);
  EXPECT_TRUE(peer.streams[error].fin);
  EXPECT_EQ(peer.streams[error].data, "");
  EXPECT_EQ(peer.streams[data1].data, "pong");
  EXPECT_FALSE(peer.streams[data1].fin);
  EXPECT_EQ(pod.sides[1]->closes, 0);
}

TEST_P(SpdyForwardTest, AFailureIsToldOnTheErrorStream) {
  begin();
  const SpdyStreamId error = open("error", "0"), data = open("data", "0");
  carry();
  pod.sides[0]->connection->fail("error forwarding port 8080 to pod p, uid : nobody listens");
  carry();
  EXPECT_EQ(peer.streams[error].data, "error forwarding port 8080 to pod p, uid : nobody listens");
  EXPECT_TRUE(peer.streams[error].fin);
  EXPECT_EQ(peer.streams[data].reset, 5);
  EXPECT_FALSE(tunnel->closed());
}

TEST_P(SpdyForwardTest, StreamsWithoutARequestArePairedByTheirNumbers) {
  begin();
  open("error", "");
  const SpdyStreamId data = open("data", "");
  carry();
  ASSERT_EQ(pod.sides.size(), 1u);
  peer.engine->write(data, "x", false);
  carry();
  EXPECT_EQ(pod.sides[0]->data, "x");
}

TEST_P(SpdyForwardTest, DataBeforeTheErrorStreamWaits) {
  begin();
  const SpdyStreamId data = open("data", "a");
  peer.engine->write(data, "early", true);
  carry();
  EXPECT_TRUE(pod.sides.empty());
  open("error", "a");
  carry();
  ASSERT_EQ(pod.sides.size(), 1u);
  EXPECT_EQ(pod.sides[0]->data, "early");
  EXPECT_EQ(pod.sides[0]->ends, 1);
}

TEST_P(SpdyForwardTest, APairThatIsNotCompleteInThirtySeconds) {
  begin();
  const SpdyStreamId error = open("error", "a"), data = open("data", "b");
  carry();
  timers->advance(seconds(30));
  carry();
  EXPECT_EQ(peer.streams[error].data, "(request=a) timed out waiting for streams");
  EXPECT_TRUE(peer.streams[error].fin);
  EXPECT_EQ(peer.streams[data].reset, 5);
  EXPECT_TRUE(pod.sides.empty());
  EXPECT_FALSE(tunnel->closed());
}

TEST_P(SpdyForwardTest, BadStreamsAreReset) {
  begin();
  const SpdyStreamId bad[] = {open("error", "0", "0"), open("error", "0", "65536"), open("error", "0", "http"),
                              open("kettle", "0"), peer.engine->open_stream({{"streamtype", "data"}}, false)};
  carry();
  for (const SpdyStreamId id : bad) EXPECT_EQ(peer.streams[id].reset, 5) << id;
  EXPECT_FALSE(tunnel->closed());
}

TEST_P(SpdyForwardTest, TheSameStreamTwice) {
  begin();
  const SpdyStreamId error = open("error", "0"), again = open("error", "0");
  carry();
  EXPECT_EQ(peer.streams[again].reset, 5);
  EXPECT_EQ(peer.streams[error].data, "error processing stream for request 0: error stream already assigned");
}

TEST_P(SpdyForwardTest, TooManyConnections) {
  options.max_connections = 2;
  begin();
  for (const char* request : {"0", "1"}) {
    open("error", request);
    open("data", request);
  }
  const SpdyStreamId third = open("error", "2");
  carry();
  EXPECT_EQ(pod.sides.size(), 2u);
  EXPECT_EQ(peer.streams[third].reset, 3);
}

TEST_P(SpdyForwardTest, TheClientResetsAConnection) {
  begin();
  open("error", "0");
  const SpdyStreamId data = open("data", "0");
  carry();
  peer.engine->reset(data, SpdyReset::kCancel);
  carry();
  EXPECT_EQ(pod.sides[0]->closes, 1);
  EXPECT_FALSE(pod.sides[0]->connection->write(share("x")));
  EXPECT_EQ(pod.closes, 0);
}

TEST_P(SpdyForwardTest, TheClientVanishes) {
  begin();
  open("error", "0");
  open("data", "0");
  carry();
  tunnel->end(Status());
  turn();
  EXPECT_EQ(pod.sides[0]->closes, 1);
  EXPECT_EQ(pod.closes, 1);
  EXPECT_TRUE(session->closed());
  session.reset();
  EXPECT_FALSE(pod.sides[0]->connection->write(share("x")));
  bool told = false;
  pod.sides[0]->connection->when_drained(1, [&] { told = true; });
  turn();
  EXPECT_TRUE(told);
}

TEST_P(SpdyForwardTest, DataThatNobodyTakesEndsTheSession) {
  pod.listens = false;
  begin();
  open("error", "0");
  const SpdyStreamId data = open("data", "0");
  carry();
  peer.engine->write(data, "kept", false);
  carry();
  pod.sides[0]->connection->set_handler(pod.sides[0].get());
  EXPECT_EQ(pod.sides[0]->data, "");
  turn();
  EXPECT_EQ(pod.sides[0]->data, "kept");
  pod.sides[0]->connection->set_handler(nullptr);
  peer.engine->write(data, std::string(300000, 'x'), false);
  std::string bytes = std::exchange(peer.output, {});
  if (GetParam()) {
    outer.engine.send(false, bytes);
    bytes = std::exchange(outer.output, {});
  }
  tunnel->feed(bytes);
  turn();
  EXPECT_EQ(pod.closes, 1);
  EXPECT_EQ(pod.why.code(), Code::kResourceExhausted);
}

TEST_P(SpdyForwardTest, ConnectionsWaitForTheClientTogether) {
  begin();
  for (const char* request : {"0", "1"}) {
    open("error", request);
    open("data", request);
  }
  carry();
  tunnel->client_reads = false;
  pod.sides[0]->connection->write(share(std::string(50000, 'x')));
  int told = 0;
  pod.sides[0]->connection->when_drained(1000, [&] { ++told; });
  pod.sides[1]->connection->when_drained(1000, [&] { ++told; });
  turn();
  EXPECT_EQ(told, 0);
  tunnel->client_takes_all();
  turn();
  turn();
  EXPECT_EQ(told, 2);
}

TEST_P(SpdyForwardTest, OurGoodbye) {
  begin();
  open("error", "0");
  open("data", "0");
  carry();
  session->close();
  carry();
  EXPECT_TRUE(peer.goaway);
  EXPECT_TRUE(tunnel->closed());
  EXPECT_EQ(pod.sides[0]->closes, 1);
  EXPECT_EQ(pod.closes, 0);
  EXPECT_EQ(outer.close_code, GetParam() ? 1000 : 0);
}

TEST_F(ForwardTest, ATextMessageWhereSpdyWasDue) {
  accept(websocket_request({"SPDY/3.1+portforward.k8s.io"}), "GET");
  EXPECT_EQ(exchange->headers.get("sec-websocket-protocol"), "SPDY/3.1+portforward.k8s.io");
  WebSocketPeer peer;
  peer.engine.send(true, "hello");
  tunnel->feed(peer.output);
  turn();
  EXPECT_EQ(pod.closes, 1);
  ASSERT_TRUE(peer.engine.feed(tunnel->sent).ok());
  EXPECT_EQ(peer.close_code, 1003);
}

TEST_F(ForwardTest, Refusals) {
  accept(spdy_request({"other.k8s.io"}), "POST");
  EXPECT_EQ(exchange->status, 403);
  EXPECT_EQ(exchange->headers.get("x-accepted-stream-protocol-versions"), "portforward.k8s.io");
  accept(websocket_request({"SPDY/3.1+other.k8s.io"}), "GET");
  EXPECT_EQ(exchange->status, 403);
  accept(websocket_request({"v4.channel.k8s.io"}), "GET");
  EXPECT_EQ(exchange->status, 400);
  EXPECT_EQ(exchange->body, "query parameter \"port\" is required\n");
  options.ports.assign(40, 80);
  accept(websocket_request({"v4.base64.channel.k8s.io"}), "GET");
  EXPECT_EQ(exchange->status, 400);
  accept(websocket_request({"v4.channel.k8s.io"}), "GET");
  EXPECT_EQ(exchange->status, 101);
  accept({}, "GET");
  EXPECT_EQ(exchange->status, 500);
}

struct ChannelForwardTest : ForwardTest {
  WebSocketPeer peer;
  void begin(const std::string& protocol) {
    options.ports = {80, 443};
    accept(websocket_request({protocol}), "GET");
  }
  void carry() {
    if (!peer.output.empty()) tunnel->feed(std::exchange(peer.output, {}));
    turn();
    ASSERT_TRUE(peer.engine.feed(std::exchange(tunnel->sent, {})).ok());
  }
};

TEST_F(ChannelForwardTest, PortsAndData) {
  begin("v4.channel.k8s.io");
  carry();
  ASSERT_EQ(peer.messages.size(), 4u);
  EXPECT_EQ(peer.messages[0].second, std::string("\x00\x50\x00", 3));
  EXPECT_EQ(peer.messages[3].second, std::string("\x03\xbb\x01", 3));
  ASSERT_EQ(pod.sides.size(), 2u);
  peer.engine.send(false, "\x02hello");
  peer.engine.send(false, "\x03not read");
  peer.engine.send(false, "\x09nowhere");
  carry();
  EXPECT_EQ(pod.sides[1]->data, "hello");
  EXPECT_EQ(pod.sides[0]->data, "");
  peer.messages.clear();
  pod.sides[1]->connection->write(share("there"));
  pod.sides[0]->connection->fail("no");
  carry();
  ASSERT_EQ(peer.messages.size(), 2u);
  EXPECT_EQ(peer.messages[0].second, "\x02there");
  EXPECT_EQ(peer.messages[1].second, "\x01no");
  EXPECT_FALSE(tunnel->closed());
  pod.sides[1]->connection->close();
  carry();
  EXPECT_TRUE(tunnel->closed());
  EXPECT_EQ(peer.close_code, 1000);
  EXPECT_EQ(pod.closes, 1);
}

TEST_F(ChannelForwardTest, Base64) {
  begin("v4.base64.channel.k8s.io");
  peer.engine.send(true, "0" + base64_encode("in"));
  carry();
  EXPECT_EQ(pod.sides[0]->data, "in");
  EXPECT_EQ(peer.messages.at(0).second, "0" + base64_encode(std::string("\x50\x00", 2)));
}

TEST(ForwardPorts, OfAQuery) {
  EXPECT_EQ(parse_forward_ports("port=80&x=1&port=443,8080").value(), (std::vector<uint16_t>{80, 443, 8080}));
  EXPECT_TRUE(parse_forward_ports("x=1").value().empty());
  EXPECT_EQ(parse_forward_ports("port=").error().message(), "query parameter \"port\" cannot be empty");
  EXPECT_EQ(parse_forward_ports("port=0").error().message(), "port \"0\" must be > 0");
  for (const std::string bad : {"65536", "http", "80,", "-1", "8 0"}) {
    EXPECT_NE(parse_forward_ports("port=" + bad).error().message().find("unable to parse"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace ghostfleet::kube::stream
