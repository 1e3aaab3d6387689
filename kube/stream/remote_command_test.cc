// Exec and attach sessions over every protocol, against clients in memory.
#include "kube/stream/remote_command.h"

#include <gtest/gtest.h>

#include "base/digest.h"
#include "kube/stream/resize_reader.h"
#include "kube/stream/stream_harness.h"

namespace ghostfleet::kube::stream {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// What the command sees.
struct Command : RemoteCommandHandler {
  bool ready = false;
  std::string in;
  int in_ends = 0, closes = 0;
  std::vector<std::pair<int, int>> sizes;
  Status why;
  std::function<void()> on_input;
  void on_ready(RemoteSession&) override { ready = true; }
  void on_stdin(std::string_view bytes) override {
    in.append(bytes);
    if (on_input) on_input();
  }
  void on_stdin_end() override { ++in_ends; }
  void on_resize(uint16_t w, uint16_t h) override { sizes.emplace_back(w, h); }
  void on_close(const Status& s) override {
    ++closes;
    why = s;
  }
};

struct RemoteTest : ::testing::Test {
  EventLoop loop;
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>();
  RemoteCommandOptions options{.in = true, .out = true, .err = true, .timers = timers};
  Command command;
  std::shared_ptr<FakeExchange> exchange;
  std::shared_ptr<RemoteSession> session;
  std::shared_ptr<FakeTunnel> tunnel;

  void turn() { run_posted(&loop); }
  void accept(http::HeaderList headers, const std::string& method) {
    exchange = std::make_shared<FakeExchange>(loop, std::move(headers), method);
    session = accept_remote_command(exchange, options, &command);
    tunnel = exchange->tunnel;
    turn();
  }
};

struct SpdyRemoteTest : RemoteTest {
  SpdyPeer peer;
  SpdyStreamId error = 0, in = 0, out = 0, err = 0, resize = 0;

  void accept_spdy(const std::vector<std::string>& protocols) { accept(spdy_request(protocols), "POST"); }
  SpdyStreamId open(const std::string& type) { return peer.engine->open_stream({{"streamtype", type}}, false); }
  void carry() {
    for (int i = 0; i < 4; ++i) {
      if (!peer.output.empty()) tunnel->feed(std::exchange(peer.output, {}));
      ASSERT_TRUE(peer.engine->feed(std::exchange(tunnel->sent, {})).ok());
      turn();
    }
  }
  void open_all() {
    error = open("error");
    if (options.in) in = open("stdin");
    if (options.out) out = open("stdout");
    if (options.err) err = open("stderr");
    if (options.tty) resize = open("resize");
    carry();
  }
};

TEST_F(SpdyRemoteTest, AWholeCommand) {
  accept_spdy({"v4.channel.k8s.io", "v3.channel.k8s.io"});
  ASSERT_TRUE(session);
  EXPECT_EQ(exchange->status, 101);
  EXPECT_EQ(exchange->headers.get("upgrade"), "SPDY/3.1");
  EXPECT_EQ(exchange->headers.get("x-stream-protocol-version"), "v4.channel.k8s.io");
  error = open("error");
  carry();
  EXPECT_TRUE(peer.streams[error].replied);
  EXPECT_FALSE(command.ready);
  in = open("stdin");
  out = open("stdout");
  err = open("stderr");
  carry();
  EXPECT_TRUE(command.ready);
  peer.engine->write(in, "to you", true);
  EXPECT_TRUE(session->write_stdout(share("to me")));
  EXPECT_TRUE(session->write_stderr(share("oops")));
  carry();
  EXPECT_EQ(command.in, "to you");
  EXPECT_EQ(command.in_ends, 1);
  session->finish(RemoteExit::exit_code(3, "it said 3"));
  EXPECT_TRUE(tunnel->closed());
  carry();
  EXPECT_EQ(peer.streams[out].data, "to me");
  EXPECT_TRUE(peer.streams[out].fin);
  EXPECT_EQ(peer.streams[err].data, "oops");
  EXPECT_EQ(peer.streams[error].data,
            R"({"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: it said 3",)"
            R"("reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}})");
  EXPECT_TRUE(peer.streams[error].fin);
  EXPECT_TRUE(peer.goaway);
  EXPECT_EQ(command.closes, 0);
  EXPECT_FALSE(session->write_stdout(share("late")));
}

TEST_F(SpdyRemoteTest, StreamsInAnyOrderAndStdinBeforeTheRest) {
  accept_spdy({"v4.channel.k8s.io"});
  err = open("stderr");
  in = open("stdin");
  peer.engine->write(in, "early", true);
  carry();
  EXPECT_EQ(command.in, "");
  out = open("stdout");
  error = open("error");
  carry();
  EXPECT_TRUE(command.ready);
  EXPECT_EQ(command.in, "early");
  EXPECT_EQ(command.in_ends, 1);
}

TEST_F(SpdyRemoteTest, MissingStreamsEndItAfterThirtySeconds) {
  accept_spdy({"v4.channel.k8s.io"});
  open("error");
  open("stdin");
  carry();
  timers->advance(seconds(29));
  turn();
  EXPECT_FALSE(tunnel->closed());
  timers->advance(seconds(1));
  turn();
  EXPECT_TRUE(tunnel->closed());
  EXPECT_EQ(command.closes, 1);
  EXPECT_EQ(command.why.code(), Code::kDeadlineExceeded);
  EXPECT_FALSE(command.ready);
}

TEST_F(SpdyRemoteTest, NoTimerIsLeftWhenAllIsThere) {
  options.idle_timeout = Duration(0);
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  EXPECT_EQ(timers->armed(), 0u);
}

TEST_F(SpdyRemoteTest, UnknownStreamTypesCountForNothing) {
  accept_spdy({"v4.channel.k8s.io"});
  const SpdyStreamId odd = open("kettle");
  open("error");
  open("stdin");
  open("stdout");
  carry();
  EXPECT_TRUE(peer.streams[odd].replied);
  EXPECT_FALSE(command.ready);
  open("stderr");
  peer.engine->write(odd, "tea", false);
  carry();
  EXPECT_TRUE(command.ready);
  EXPECT_EQ(command.in, "");
}

TEST_F(SpdyRemoteTest, ASecondStreamOfATypeIsRefused) {
  accept_spdy({"v4.channel.k8s.io"});
  open("stdout");
  const SpdyStreamId second = open("stdout");
  carry();
  EXPECT_NE(peer.streams[second].reset, 0);
  EXPECT_FALSE(command.ready);
}

TEST_F(SpdyRemoteTest, TooManyStreams) {
  accept_spdy({"v4.channel.k8s.io"});
  SpdyStreamId last = 0;
  for (int i = 0; i < 17; ++i) last = open("kettle");
  carry();
  EXPECT_EQ(peer.streams[last].reset, 3);
  EXPECT_FALSE(tunnel->closed());
}

TEST_F(SpdyRemoteTest, ATerminalIsResized) {
  options.tty = true;
  options.err = false;
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  ASSERT_TRUE(command.ready);
  peer.engine->write(resize, "{\"Width\":80,\"Hei", false);
  peer.engine->write(resize, "ght\":24}\n{\"width\":132,\"height\":43}", false);
  carry();
  EXPECT_EQ(command.sizes, (std::vector<std::pair<int, int>>{{80, 24}, {132, 43}}));
  EXPECT_FALSE(session->write_stderr(share("none")));
}

TEST_F(SpdyRemoteTest, OlderProtocolsGetPlainText) {
  for (const std::string protocol : {"v3.channel.k8s.io", "v2.channel.k8s.io"}) {
    peer = SpdyPeer();
    peer.engine = Spdy::create({.server = false}, &peer);
    accept_spdy({"v9.channel.k8s.io", protocol});
    EXPECT_EQ(session->protocol(), protocol);
    open_all();
    session->finish(RemoteExit::internal_error("error executing command in container: no"));
    carry();
    EXPECT_EQ(peer.streams[error].data, "Internal error occurred: error executing command in container: no");
  }
}

TEST_F(SpdyRemoteTest, TheFirstProtocolHasNoUseForItsErrorStream) {
  accept_spdy({"channel.k8s.io"});
  open_all();
  EXPECT_TRUE(command.ready);
  EXPECT_EQ(peer.streams[error].reset, 5);
  EXPECT_TRUE(peer.streams[in].fin);
  session->write_stdout(share("x"));
  session->finish(RemoteExit::exit_code(1, "1"));
  carry();
  EXPECT_EQ(peer.streams[out].data, "x");
}

TEST_F(SpdyRemoteTest, NoCommonProtocolIs403WithTheList) {
  accept_spdy({"v9.channel.k8s.io"});
  EXPECT_FALSE(session);
  EXPECT_EQ(exchange->status, 403);
  std::vector<std::string> accepted;
  for (const auto& [name, value] : exchange->headers) {
    if (name == "x-accepted-stream-protocol-versions") accepted.push_back(value);
  }
  EXPECT_EQ(accepted, (std::vector<std::string>{"v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io",
                                                "channel.k8s.io"}));
  EXPECT_EQ(exchange->body,
            "unable to upgrade: unable to negotiate protocol: client supports [v9.channel.k8s.io], server accepts "
            "[v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]\n");
}

TEST_F(SpdyRemoteTest, OtherRefusals) {
  accept_spdy({});
  EXPECT_EQ(exchange->status, 400);
  EXPECT_NE(exchange->body.find("X-Stream-Protocol-Version does not exist"), std::string::npos);
  accept({}, "POST");
  EXPECT_EQ(exchange->status, 500);
  EXPECT_EQ(exchange->body, "Upgrade request required\n");
  accept({{"connection", "upgrade"}, {"upgrade", "tea"}, {"x-stream-protocol-version", "v4.channel.k8s.io"}}, "POST");
  EXPECT_EQ(exchange->status, 400);
  exchange = std::make_shared<FakeExchange>(loop, spdy_request({"v4.channel.k8s.io"}));
  exchange->can_upgrade = false;
  EXPECT_FALSE(accept_remote_command(exchange, options, &command));
  EXPECT_EQ(exchange->status, 500);
}

TEST_F(SpdyRemoteTest, AClientThatVanishes) {
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  tunnel->end(unavailable("connection lost"));
  turn();
  EXPECT_EQ(command.closes, 1);
  EXPECT_EQ(command.why.code(), Code::kUnavailable);
  EXPECT_TRUE(session->closed());
  EXPECT_FALSE(session->write_stdout(share("x")));
}

TEST_F(SpdyRemoteTest, GoawayFromTheClientEndsIt) {
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  peer.engine->goaway(0);
  carry();
  EXPECT_EQ(command.closes, 1);
  EXPECT_EQ(command.why.code(), Code::kCancelled);
}

TEST_F(SpdyRemoteTest, GarbageEndsIt) {
  accept_spdy({"v4.channel.k8s.io"});
  tunnel->feed(std::string("\x80\x02\x00\x01\x00\x00\x00\x00", 8));
  turn();
  EXPECT_TRUE(tunnel->closed());
  EXPECT_EQ(command.closes, 1);
}

// What a client does not read must not fill the memory.
TEST_F(SpdyRemoteTest, AClientThatNeverReadsIsCut) {
  options.max_backlog_bytes = 100000;
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  tunnel->client_reads = false;
  int written = 0;
  while (session->write_stdout(share(std::string(10000, 'x')))) ASSERT_LT(++written, 20);
  turn();
  EXPECT_TRUE(tunnel->aborted);
  EXPECT_LE(tunnel->waiting.size(), 120000u);
  EXPECT_EQ(command.closes, 1);
  EXPECT_EQ(command.why.code(), Code::kResourceExhausted);
}

TEST_F(SpdyRemoteTest, WhoWaitsForTheClientIsToldWhenItReads) {
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  tunnel->client_reads = false;
  session->write_stdout(share(std::string(10000, 'x')));
  EXPECT_GE(session->backlog(), 10000u);
  bool drained = false;
  session->when_drained(1000, [&] { drained = true; });
  turn();
  EXPECT_FALSE(drained);
  tunnel->client_takes_all();
  turn();
  EXPECT_TRUE(drained);
  session->pause_stdin();
  EXPECT_TRUE(tunnel->paused);
  session->resume_stdin();
  EXPECT_FALSE(tunnel->paused);
}

TEST_F(SpdyRemoteTest, IdleTooLong) {
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  timers->advance(hours(3));
  peer.engine->write(in, "still here", false);
  carry();
  timers->advance(hours(3));
  turn();
  EXPECT_EQ(command.closes, 0);
  timers->advance(hours(1));
  turn();
  EXPECT_EQ(command.closes, 1);
  EXPECT_EQ(command.why.code(), Code::kDeadlineExceeded);
}

TEST_F(SpdyRemoteTest, LettingGoInsideAnEventClosesQuietly) {
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  command.on_input = [&] { session.reset(); };
  peer.engine->write(in, "one", false);
  peer.engine->write(in, "two", true);
  tunnel->feed(std::exchange(peer.output, {}));
  turn();
  EXPECT_EQ(command.in, "one");
  EXPECT_EQ(command.in_ends, 0);
  EXPECT_EQ(command.closes, 0);
  EXPECT_TRUE(tunnel->closed());
}

TEST_F(SpdyRemoteTest, FinishInsideAnEvent) {
  accept_spdy({"v4.channel.k8s.io"});
  open_all();
  command.on_input = [&] {
    session->finish(RemoteExit::success());
    session.reset();
  };
  peer.engine->write(in, "quit", true);
  carry();
  EXPECT_EQ(peer.streams[error].data, R"({"metadata":{},"status":"Success"})");
}

struct WebSocketRemoteTest : RemoteTest {
  WebSocketPeer peer;
  void accept_websocket(const std::vector<std::string>& protocols) { accept(websocket_request(protocols), "GET"); }
  void carry() {
    for (int i = 0; i < 3; ++i) {
      if (!peer.output.empty()) tunnel->feed(std::exchange(peer.output, {}));
      ASSERT_TRUE(peer.engine.feed(std::exchange(tunnel->sent, {})).ok());
      turn();
    }
  }
  void send(int channel, std::string_view bytes) {
    peer.engine.send(false, std::string(1, static_cast<char>(channel)).append(bytes));
  }
  std::string received(int channel) const {
    std::string out;
    for (const auto& [text, message] : peer.messages) {
      if (!message.empty() && message[0] == static_cast<char>(channel)) out += message.substr(1);
    }
    return out;
  }
};

TEST_F(WebSocketRemoteTest, AWholeCommandInVersion5) {
  accept_websocket({"v4.channel.k8s.io", "v5.channel.k8s.io"});
  ASSERT_TRUE(session);
  EXPECT_EQ(exchange->status, 101);
  EXPECT_EQ(exchange->headers.get("sec-websocket-protocol"), "v5.channel.k8s.io");
  EXPECT_EQ(exchange->headers.get("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  carry();
  EXPECT_TRUE(command.ready);
  ASSERT_EQ(peer.messages.size(), 1u);
  EXPECT_EQ(peer.messages[0].second, "\x01");
  send(0, "to you");
  send(255, std::string(1, '\0'));
  send(0, "after the end");
  carry();
  EXPECT_EQ(command.in, "to you");
  EXPECT_EQ(command.in_ends, 1);
  session->write_stdout(share("to me"));
  session->write_stderr(share(std::string(20000, 'e')));
  session->finish(RemoteExit::exit_code(7, "not seen in version 5"));
  carry();
  EXPECT_EQ(received(1), "to me");
  EXPECT_EQ(received(2).size(), 20000u);
  EXPECT_EQ(received(3),
            R"({"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command )"
            R"(terminated with exit code 7","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode",)"
            R"("message":"7"}]}})");
  EXPECT_EQ(peer.close_code, 1000);
  EXPECT_TRUE(tunnel->closed());
}

TEST_F(WebSocketRemoteTest, TheFirstMessageGoesToTheLowestChannelThatIsWrittenTo) {
  options = {.err = true, .timers = timers};
  accept_websocket({"v5.channel.k8s.io"});
  carry();
  EXPECT_EQ(peer.messages.at(0).second, "\x02");
  WebSocketPeer other;
  options = {.in = true, .timers = timers};
  accept_websocket({"v5.channel.k8s.io"});
  ASSERT_TRUE(other.engine.feed(tunnel->sent).ok());
  EXPECT_EQ(other.messages.at(0).second, "\x03");
}

TEST_F(WebSocketRemoteTest, ACloseSignalThatNamesNoChannelEndsIt) {
  for (const std::string rest : {"", "\x05", "ab"}) {
    command = Command();
    WebSocketPeer client;
    accept_websocket({"v5.channel.k8s.io"});
    client.engine.send(false, "\xff" + rest);
    tunnel->feed(client.output);
    turn();
    EXPECT_EQ(command.closes, 1) << rest;
    EXPECT_TRUE(tunnel->closed());
  }
}

TEST_F(WebSocketRemoteTest, OlderVersionsKnowNoCloseSignal) {
  accept_websocket({"v4.channel.k8s.io"});
  carry();
  send(255, std::string(1, '\0'));
  send(0, "x");
  carry();
  EXPECT_EQ(command.in_ends, 0);
  EXPECT_EQ(command.in, "x");
  session->finish(RemoteExit::success());
  carry();
  EXPECT_EQ(received(3), R"({"metadata":{},"status":"Success"})");
}

TEST_F(WebSocketRemoteTest, Version5CanBeOff) {
  options.websocket_v5 = false;
  accept_websocket({"v5.channel.k8s.io"});
  EXPECT_FALSE(session);
  EXPECT_EQ(exchange->status, 403);
  accept_websocket({"v5.channel.k8s.io", "v4.channel.k8s.io"});
  EXPECT_EQ(session->protocol(), "v4.channel.k8s.io");
}

TEST_F(WebSocketRemoteTest, NoProtocolIsTheOldestOne) {
  accept_websocket({});
  EXPECT_EQ(session->protocol(), "");
  EXPECT_FALSE(exchange->headers.find("sec-websocket-protocol"));
  carry();
  session->finish(RemoteExit::internal_error("no luck"));
  carry();
  EXPECT_EQ(received(3), "Internal error occurred: no luck");
}

TEST_F(WebSocketRemoteTest, Base64) {
  options.tty = true;
  options.err = false;
  accept_websocket({"v4.base64.channel.k8s.io"});
  carry();
  peer.engine.send(true, "0" + base64_encode("ls\n"));
  peer.engine.send(true, "4" + base64_encode("{\"Width\":100,\"Height\":50}"));
  peer.engine.send(true, "0!!");
  peer.engine.send(true, "0" + base64_encode("pwd"));
  carry();
  EXPECT_EQ(command.in, "ls\npwd");
  EXPECT_EQ(command.sizes, (std::vector<std::pair<int, int>>{{100, 50}}));
  session->write_stdout(share("/root"));
  carry();
  EXPECT_TRUE(peer.messages.back().first);
  EXPECT_EQ(peer.messages.back().second, "1" + base64_encode("/root"));
}

TEST_F(WebSocketRemoteTest, StdinThatNobodyAskedForAndUnknownChannels) {
  options.in = false;
  accept_websocket({"v5.channel.k8s.io"});
  send(0, "x");
  send(1, "x");
  send(77, "x");
  peer.engine.send(false, "");
  carry();
  EXPECT_EQ(command.in, "");
  EXPECT_EQ(command.closes, 0);
}

TEST_F(WebSocketRemoteTest, TheClientCloses) {
  accept_websocket({"v5.channel.k8s.io"});
  carry();
  peer.engine.close(1000, "");
  carry();
  EXPECT_EQ(command.closes, 1);
  EXPECT_EQ(peer.close_code, 1000);
  EXPECT_TRUE(tunnel->closed());
}

TEST_F(WebSocketRemoteTest, AnUnmaskedFrameEndsIt) {
  accept_websocket({"v5.channel.k8s.io"});
  carry();
  tunnel->feed(std::string("\x82\x02\x00x", 4));
  turn();
  EXPECT_EQ(command.closes, 1);
  EXPECT_NE(command.why.message().find("not masked"), std::string::npos);
  ASSERT_TRUE(peer.engine.feed(tunnel->sent).ok());
  EXPECT_EQ(peer.close_code, 1002);
}

TEST_F(WebSocketRemoteTest, AClientThatNeverReadsIsCut) {
  options.max_backlog_bytes = 100000;
  accept_websocket({"v5.channel.k8s.io"});
  carry();
  tunnel->client_reads = false;
  int written = 0;
  while (session->write_stdout(share(std::string(10000, 'x')))) ASSERT_LT(++written, 20);
  turn();
  EXPECT_EQ(command.why.code(), Code::kResourceExhausted);
}

TEST_F(WebSocketRemoteTest, BadHandshakes) {
  accept(websocket_request({"v4.channel.k8s.io"}), "POST");
  EXPECT_EQ(exchange->status, 405);
  http::HeaderList old = websocket_request({"v4.channel.k8s.io"});
  old.set("sec-websocket-version", "8");
  accept(old, "GET");
  EXPECT_EQ(exchange->status, 400);
  EXPECT_EQ(exchange->headers.get("sec-websocket-version"), "13");
  accept(websocket_request({"tea"}), "GET");
  EXPECT_EQ(exchange->status, 403);
}

TEST_F(WebSocketRemoteTest, ASessionLetGoOfAtOnceNeverBegins) {
  exchange = std::make_shared<FakeExchange>(loop, websocket_request({"v5.channel.k8s.io"}), "GET");
  accept_remote_command(exchange, options, &command);
  turn();
  EXPECT_FALSE(command.ready);
  EXPECT_TRUE(exchange->tunnel->closed());
}

TEST(RemoteCommandQuery, Streams) {
  RemoteCommandOptions o;
  EXPECT_TRUE(parse_kubelet_streams("input=1&output=1&error=1&command=x", &o).ok());
  EXPECT_TRUE(o.in && o.out && o.err && !o.tty);
  EXPECT_TRUE(parse_kubelet_streams("output=1&error=1&tty=1", &o).ok());
  EXPECT_TRUE(!o.in && o.out && !o.err && o.tty);
  EXPECT_EQ(parse_kubelet_streams("input=true", &o).message(), "you must specify at least 1 of stdin, stdout, stderr");
  EXPECT_FALSE(parse_kubelet_streams("error=1&tty=1", &o).ok());
}

TEST(RemoteExitStatus, InternalError) {
  EXPECT_EQ(remote_exit_status(RemoteExit::internal_error("a \"quoted\" word")),
            R"({"metadata":{},"status":"Failure","message":"Internal error occurred: a \"quoted\" word",)"
            R"("reason":"InternalError","details":{"causes":[{"message":"a \"quoted\" word"}]},"code":500})");
}

TEST(ResizeReaderTest, StopsAtWhatIsNoSize) {
  for (const std::string bad : {"[1]", "{\"Width\":-1}", "{\"Width\":70000}", "{\"Width\":\"8\"}", "{]}", "x"}) {
    ResizeReader reader;
    int sizes = 0;
    const auto count = [&](uint16_t, uint16_t) { ++sizes; };
    reader.feed("{\"Width\":1,\"Height\":2}", count);
    reader.feed(bad, count);
    reader.feed("{\"Width\":1,\"Height\":2}", count);
    EXPECT_EQ(sizes, 1) << bad;
  }
  ResizeReader endless;
  endless.feed("{\"" + std::string(10000, 'w'), [](uint16_t, uint16_t) { FAIL(); });
  endless.feed("\":1}", [](uint16_t, uint16_t) { FAIL(); });
}

TEST(Base64Test, BothWays) {
  for (const std::string text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    std::string back;
    EXPECT_TRUE(base64_decode_strict(base64_encode(text), &back));
    EXPECT_EQ(back, text);
  }
  EXPECT_EQ(base64_encode("foob"), "Zm9vYg==");
  std::string out;
  for (const std::string bad : {"Zg=", "Zg", "Z===", "Zh==", "Z!==", "Zg==Zg==", "=Zg="}) {
    EXPECT_FALSE(base64_decode_strict(bad, &out)) << bad;
  }
}

}  // namespace
}  // namespace ghostfleet::kube::stream
