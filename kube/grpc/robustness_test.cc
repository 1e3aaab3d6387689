// Peers that cut, reset, flood, stall and never read.
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include "kube/grpc/rpc_harness.h"

namespace ghostfleet::kube::grpc {
namespace {

constexpr uint32_t kWindow = 1u << 20;

class RobustnessTest : public ::testing::Test {
 protected:
  // A stream method that answers each message, and unary ones; what they do is counted.
  RpcServices services() {
    RpcServices out;
    out.stream("/test.Talk/Echo", [this](const std::shared_ptr<ServerCall>& call) {
      call_ = call;
      call->on_close([this] { ++closed_; });
      call->read(
          [this](std::string_view message) {
            ++messages_;
            bytes_ += message.size();
            if (pause_after_ > 0 && messages_ % pause_after_ == 0) call_->pause();
            if (auto call = call_) call->send(message);
          },
          [this] {
            ++half_closed_;
            if (auto call = call_) call->finish(RpcStatus());
            call_.reset();
          });
    });
    out.unary("/test.Talk/Say", [](const std::shared_ptr<ServerCall>& call, const std::string& request) {
      call->reply("said " + request);
    });
    out.unary("/test.Talk/Flood", [this](const std::shared_ptr<ServerCall>& call, const std::string&) {
      call_ = call;
      call->on_close([this] { ++closed_; });
    });
    return out;
  }
  void start(RpcServerOptions options = {}) { h_ = std::make_unique<Harness>(services(), std::move(options)); }
  bool pump_until(RawPeer* peer, const std::function<bool()>& condition) {
    return h_->run_until([&] {
      peer->pump();
      return condition();
    });
  }
  std::string status_of(RawPeer* peer, int32_t id) {
    pump_until(peer, [&] { return peer->stream(id).closed; });
    RawStream& stream = peer->stream(id);
    auto& from = stream.trailers.empty() ? stream.headers : stream.trailers;
    return from["grpc-status"] + " " + from["grpc-message"];
  }
  void TearDown() override { call_.reset(); }

  std::unique_ptr<Harness> h_;
  std::shared_ptr<ServerCall> call_;
  int messages_ = 0, half_closed_ = 0, closed_ = 0, pause_after_ = 0;
  size_t bytes_ = 0;
};

TEST_F(RobustnessTest, StreamsBothWays) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Echo");
  peer.send(id, *frame_message("one"), false);
  ASSERT_TRUE(pump_until(&peer, [&] { return peer.stream(id).body == *frame_message("one"); }))
      << "answered before the peer has ended";
  peer.send(id, *frame_message("two"), true);
  EXPECT_EQ(status_of(&peer, id), "0 ");
  EXPECT_EQ(peer.stream(id).body, *frame_message("one") + *frame_message("two"));
  EXPECT_EQ(peer.stream(id).headers["content-type"], "application/grpc");
  EXPECT_EQ(half_closed_, 1);
  EXPECT_EQ(closed_, 0) << "a call that was finished is not told of its end";
}

TEST_F(RobustnessTest, MessagesCutIntoSingleBytes) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Say");
  const std::string bytes = *frame_message("slowly");
  for (size_t i = 0; i < bytes.size(); ++i) {
    peer.send(id, bytes.substr(i, 1), i + 1 == bytes.size());
    peer.pump();
    h_->loop.run_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(status_of(&peer, id), "0 ");
  EXPECT_EQ(peer.stream(id).body, *frame_message("said slowly"));
}

TEST_F(RobustnessTest, AMessageThatEndsHalfway) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Say");
  peer.send(id, frame_message("half")->substr(0, 7), true);
  EXPECT_EQ(status_of(&peer, id), "13 unexpected EOF");
  const int32_t stream = peer.open("/test.Talk/Echo");
  peer.send(stream, *frame_message("whole") + std::string(2, '\0'), true);
  EXPECT_EQ(status_of(&peer, stream), "13 unexpected EOF");
  EXPECT_EQ(half_closed_, 0);
}

TEST_F(RobustnessTest, UnaryRequestsHaveOneMessage) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t none = peer.open("/test.Talk/Say");
  peer.send(none, "", true);
  EXPECT_EQ(status_of(&peer, none),
            "13 cardinality violation: received no request message from non-client-streaming RPC");
  const int32_t two = peer.open("/test.Talk/Say");
  peer.send(two, *frame_message("a") + *frame_message("b"), true);
  EXPECT_EQ(status_of(&peer, two),
            "13 cardinality violation: received multiple request messages for non-client-streaming RPC");
}

TEST_F(RobustnessTest, ARequestThatNeverComes) {
  RpcServerOptions options;
  options.request_timeout = std::chrono::milliseconds(60);
  start(options);
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Say");
  peer.send(id, frame_message("half")->substr(0, 6), false);
  EXPECT_EQ(status_of(&peer, id), "4 the request message did not arrive in time");
  EXPECT_EQ(peer.stream(id).error, uint32_t{NGHTTP2_NO_ERROR}) << "and no more of it is wanted";
}

TEST_F(RobustnessTest, DeadlineOfAStreamIsToldToThePeer) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Echo", {{"grpc-timeout", "50m"}});
  peer.send(id, *frame_message("in time"), false);
  EXPECT_EQ(status_of(&peer, id), "4 context deadline exceeded");
  EXPECT_EQ(messages_, 1);
  EXPECT_TRUE(h_->run_until([&] { return closed_ == 1; }));
}

TEST_F(RobustnessTest, HeadersThatAreNotGrpc) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const auto refused = [&](const std::map<std::string, std::string>& headers) {
    const int32_t id = peer.open("/test.Talk/Say", headers);
    const std::string status = status_of(&peer, id);
    return peer.stream(id).headers[":status"] + " " + status;
  };
  EXPECT_EQ(refused({{"content-type", "application/json"}}),
            "415 3 invalid gRPC request content-type \"application/json\"");
  EXPECT_EQ(refused({{"content-type", ""}}), "415 3 invalid gRPC request content-type \"\"");
  EXPECT_EQ(refused({{":method", "PUT"}}), "405 13 Received a HEADERS frame with :method \"PUT\" which should be POST");
  EXPECT_EQ(refused({{"grpc-timeout", "10x"}}),
            "200 13 malformed grpc-timeout: transport: timeout unit is not recognized: \"10x\"");
  EXPECT_EQ(refused({{"grpc-encoding", "gzip"}}),
            "200 12 grpc: Decompressor is not installed for grpc-encoding \"gzip\"");
}

TEST_F(RobustnessTest, CompressedMessagesAreRefused) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Say", {{"grpc-encoding", "identity"}});
  peer.send(id, std::string("\1\0\0\0\1x", 6), true);
  EXPECT_EQ(status_of(&peer, id), "13 grpc: compressed flag set with identity or empty encoding");
}

TEST_F(RobustnessTest, AnOverlongMessageIsRefusedByItsLength) {
  RpcServerOptions options;
  options.max_message_bytes = 100;
  start(options);
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Echo");
  peer.send(id, std::string("\0\x7f\xff\xff\xff", 5), false);
  EXPECT_EQ(status_of(&peer, id), "8 grpc: received message larger than max (2147483647 vs. 100)");
  EXPECT_TRUE(h_->run_until([&] { return closed_ == 1; }));
  const int32_t next = peer.open("/test.Talk/Say");
  peer.send(next, *frame_message(std::string(100, 'x')), true);
  EXPECT_EQ(status_of(&peer, next), "0 ");
}

TEST_F(RobustnessTest, ResetInMidStream) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Echo");
  peer.send(id, *frame_message("one") + std::string(3, '\0'), false);
  ASSERT_TRUE(pump_until(&peer, [&] { return messages_ == 1; }));
  peer.reset(id, NGHTTP2_CANCEL);
  ASSERT_TRUE(pump_until(&peer, [&] { return closed_ == 1; }));
  EXPECT_TRUE(call_->closed());
  EXPECT_FALSE(call_->send("late"));
  EXPECT_EQ(half_closed_, 0);
}

TEST_F(RobustnessTest, AFrameCutByTheEndOfTheConnection) {
  start();
  {
    RawPeer peer(h_->path(), kWindow);
    const int32_t id = peer.open("/test.Talk/Echo");
    peer.send(id, *frame_message("one"), false);
    ASSERT_TRUE(pump_until(&peer, [&] { return messages_ == 1; }));
    peer.send_raw(std::string("\0\x40\0\0\0\0\0\0\1half a frame", 21));
  }
  ASSERT_TRUE(h_->run_until([&] { return closed_ == 1; }));
  ASSERT_TRUE(h_->run_until([&] { return h_->server->connection_count() == 0; }));
  EXPECT_EQ(h_->call("/test.Talk/Say", "next").reply, "said next");
}

TEST_F(RobustnessTest, BytesThatAreNoHttp2) {
  start();
  RawPeer peer(h_->path(), kWindow);
  peer.send_raw(std::string(1000, '\xff'));
  EXPECT_TRUE(pump_until(&peer, [&] { return !peer.connected(); }));
  EXPECT_EQ(h_->call("/test.Talk/Say", "next").reply, "said next");
}

TEST_F(RobustnessTest, AClientThatNeverReadsIsCut) {
  RpcServerOptions options;
  options.limits.max_backlog_bytes = 256 * 1024;
  start(options);
  RawPeer peer(h_->path(), 1000);
  const int32_t id = peer.open("/test.Talk/Flood");
  peer.send(id, *frame_message(""), true);
  ASSERT_TRUE(pump_until(&peer, [&] { return call_ != nullptr; }));
  const std::string piece(10'000, 'x');
  int sent = 0;
  while (call_->send(piece) && sent < 1000) {
    ++sent;
    peer.pump();
    h_->loop.run_for(std::chrono::milliseconds(0));
  }
  EXPECT_LT(sent, 40) << "its window holds 1,000 bytes, the backlog 256 KiB";
  EXPECT_GT(sent, 20);
  ASSERT_TRUE(pump_until(&peer, [&] { return peer.stream(id).closed; }));
  EXPECT_EQ(peer.stream(id).error, uint32_t{NGHTTP2_INTERNAL_ERROR});
  EXPECT_TRUE(h_->run_until([&] { return closed_ == 1; }));
}

TEST_F(RobustnessTest, AHandlerThatWaitsForTheBacklog) {
  start();
  RawPeer peer(h_->path(), 1000);
  const int32_t id = peer.open("/test.Talk/Flood");
  peer.send(id, *frame_message(""), true);
  ASSERT_TRUE(pump_until(&peer, [&] { return call_ != nullptr; }));
  ASSERT_TRUE(call_->send(std::string(5000, 'x')));
  bool drained = false;
  call_->when_drained(1, [&] { drained = true; });
  ASSERT_TRUE(pump_until(&peer, [&] { return peer.stream(id).body.size() == 1000; }));
  EXPECT_FALSE(drained);
  EXPECT_EQ(call_->backlog(), 4005u);
  peer.reset(id, NGHTTP2_CANCEL);
  EXPECT_TRUE(pump_until(&peer, [&] { return closed_ == 1; })) << "what it is told instead when the peer has gone";
  EXPECT_FALSE(drained);
}

TEST_F(RobustnessTest, AHandlerThatDoesNotReadMakesThePeerWait) {
  pause_after_ = 1;
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Echo");
  constexpr size_t kMessage = 100'000, kMessages = 40;
  std::string bytes;
  for (size_t i = 0; i < kMessages; ++i) append_framed(&bytes, std::string(kMessage, 'm'));
  peer.send(id, bytes, true);
  // The first message is taken; then the window of 1 MiB is all that passes.
  size_t left = 0;
  ASSERT_TRUE(
      pump_until(&peer, [&] { return messages_ == 1 && std::exchange(left, peer.unsent(id)) == peer.unsent(id); }));
  for (int i = 0; i < 50; ++i) {
    peer.pump();
    h_->loop.run_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(messages_, 1);
  EXPECT_GT(peer.unsent(id), bytes.size() - (5u << 19)) << "2.5 MiB at most are on their way";
  pause_after_ = 0;
  call_->resume();
  EXPECT_TRUE(pump_until(&peer, [&] { return half_closed_ == 1; }));
  EXPECT_EQ(bytes_, kMessage * kMessages);
}

TEST_F(RobustnessTest, HalvesOfMessagesHeldForAConnectionAreLimited) {
  start();
  RawPeer peer(h_->path(), kWindow);
  // Each stream announces 4 MiB and sends a part: 80 MiB of which nothing can be used.
  constexpr size_t kPart = 1u << 20;
  std::string part("\0\0\x40\0\0", 5);
  part.append(kPart, 'p');
  std::vector<int32_t> ids;
  for (int i = 0; i < 80; ++i) {
    ids.push_back(peer.open("/test.Talk/Say"));
    peer.send(ids.back(), part, false);
  }
  const auto unsent = [&] {
    size_t sum = 0;
    for (const int32_t id : ids) sum += peer.unsent(id);
    return sum;
  };
  size_t left = 0;
  ASSERT_TRUE(pump_until(&peer, [&] { return unsent() < 20 * kPart && std::exchange(left, unsent()) == unsent(); }))
      << unsent();
  for (int i = 0; i < 50; ++i) {
    peer.pump();
    h_->loop.run_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(unsent(), 10 * kPart) << "64 MiB are held, the connection's window of 4 MiB is on its way";
  for (size_t i = 0; i < 40; ++i) peer.reset(ids[i], NGHTTP2_CANCEL);
  ids.erase(ids.begin(), ids.begin() + 40);
  EXPECT_TRUE(pump_until(&peer, [&] { return unsent() == 0; })) << "what was held is gone: the rest may come";
}

TEST_F(RobustnessTest, StreamsOfAConnectionAreLimited) {
  RpcServerOptions options;
  options.limits.max_streams = 3;
  start(options);
  RawPeer peer(h_->path(), kWindow);
  const int32_t first = peer.open("/test.Talk/Say");
  peer.send(first, *frame_message("to know the server's SETTINGS"), true);
  ASSERT_EQ(status_of(&peer, first), "0 ");
  std::vector<int32_t> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(peer.open("/test.Talk/Say"));
    peer.send(ids.back(), *frame_message(std::to_string(i)), false);
  }
  ASSERT_TRUE(pump_until(&peer, [&] { return peer.unsent(ids[2]) == 0; }));
  EXPECT_GT(peer.unsent(ids[3]), 0u) << "three are open; the others come when there is room";
  for (const int32_t id : ids) peer.send(id, "", true);
  for (const int32_t id : ids) EXPECT_EQ(status_of(&peer, id), "0 ");
}

TEST_F(RobustnessTest, TheServerEndsUnderItsCalls) {
  start();
  RawPeer peer(h_->path(), kWindow);
  const int32_t id = peer.open("/test.Talk/Echo");
  peer.send(id, *frame_message("one"), false);
  ASSERT_TRUE(pump_until(&peer, [&] { return messages_ == 1; }));
  h_->server.reset();
  EXPECT_TRUE(call_->closed());
  EXPECT_FALSE(call_->send("late"));
  EXPECT_TRUE(pump_until(&peer, [&] { return !peer.connected(); }));
}

}  // namespace
}  // namespace ghostfleet::kube::grpc
