// The WebSocket engine against bytes built by hand: what is right, and everything a peer can do wrong.
#include "kube/stream/websocket.h"

#include <gtest/gtest.h>

namespace ghostfleet::kube::stream {
namespace {

struct Heard : WebSocketEvents {
  std::vector<std::pair<bool, std::string>> messages;
  std::string output, pongs;
  int close_code = 0;
  std::string close_reason;
  void on_message(bool text, std::string_view payload) override { messages.emplace_back(text, payload); }
  void on_close(uint16_t code, std::string_view reason) override {
    close_code = code;
    close_reason = reason;
  }
  void on_pong(std::string_view payload) override { pongs.append(payload); }
  void on_output(SharedBytes bytes) override { output.append(*bytes); }
};

// A frame as a client sends it; without a mask as a server does.
std::string frame(unsigned char first, std::string_view payload, bool masked = true) {
  std::string out(1, static_cast<char>(first));
  const int bit = masked ? 0x80 : 0;
  if (payload.size() < 126) {
    out.push_back(static_cast<char>(bit | static_cast<int>(payload.size())));
  } else {
    out.push_back(static_cast<char>(bit | 126));
    out.push_back(static_cast<char>(payload.size() >> 8));
    out.push_back(static_cast<char>(payload.size()));
  }
  const std::string mask = "\x11\x22\x33\x44";
  if (masked) out += mask;
  for (size_t i = 0; i < payload.size(); ++i) {
    out.push_back(static_cast<char>(payload[i] ^ (masked ? mask[i % 4] : 0)));
  }
  return out;
}

struct ServerTest : ::testing::Test {
  Heard heard;
  WebSocketLimits limits;
  std::unique_ptr<WebSocket> engine;
  Status feed(const std::string& bytes) {
    if (!engine) engine = std::make_unique<WebSocket>(WebSocket::Role::kServer, limits, &heard);
    return engine->feed(bytes);
  }
  // The connection must end with that close code, and say why.
  void expect_refused(const std::string& bytes, int code, const std::string& words) {
    const Status status = feed(bytes);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    ASSERT_GE(heard.output.size(), 4u);
    EXPECT_EQ(heard.output[0], '\x88');
    EXPECT_EQ(static_cast<unsigned char>(heard.output[2]) << 8 | static_cast<unsigned char>(heard.output[3]), code);
    EXPECT_FALSE(feed(frame(0x82, "more")).ok());
    EXPECT_TRUE(heard.messages.empty());
  }
};

TEST_F(ServerTest, MessagesCutAtEveryByte) {
  const std::string bytes = frame(0x82, std::string("\0in", 3)) + frame(0x01, "Hel") + frame(0x89, "p") +
                            frame(0x80, "lo") + frame(0x82, std::string(300, 'x')) + frame(0x82, "");
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    Heard h;
    WebSocket server(WebSocket::Role::kServer, {}, &h);
    ASSERT_TRUE(server.feed(bytes.substr(0, cut)).ok());
    ASSERT_TRUE(server.feed(bytes.substr(cut)).ok());
    ASSERT_EQ(h.messages.size(), 4u) << cut;
    EXPECT_EQ(h.messages[0].second, std::string("\0in", 3));
    EXPECT_TRUE(h.messages[1].first);
    EXPECT_EQ(h.messages[1].second, "Hello");
    EXPECT_EQ(h.messages[2].second, std::string(300, 'x'));
    EXPECT_EQ(h.messages[3].second, "");
    EXPECT_EQ(h.output, frame(0x8a, "p", false));
  }
}

TEST_F(ServerTest, ByteByByte) {
  for (const char c : frame(0x82, std::string(70000, 'y').substr(0, 60000))) ASSERT_TRUE(feed(std::string(1, c)).ok());
  ASSERT_EQ(heard.messages.size(), 1u);
  EXPECT_EQ(heard.messages[0].second.size(), 60000u);
}

TEST_F(ServerTest, RefusesAnUnmaskedFrame) { expect_refused(frame(0x82, "x", false), 1002, "not masked"); }
TEST_F(ServerTest, RefusesReservedBits) { expect_refused(frame(0xc2, "x"), 1002, "reserved bits"); }
TEST_F(ServerTest, RefusesUnknownOpcodes) { expect_refused(frame(0x83, "x"), 1002, "unknown opcode 3"); }
TEST_F(ServerTest, RefusesAFragmentedPing) { expect_refused(frame(0x09, "x"), 1002, "fragmented"); }
TEST_F(ServerTest, RefusesALongPing) { expect_refused(frame(0x89, std::string(126, 'x')), 1002, "longer than 125"); }
TEST_F(ServerTest, RefusesAContinuationOfNothing) { expect_refused(frame(0x80, "x"), 1002, "without a message"); }
TEST_F(ServerTest, RefusesAMessageInsideAMessage) {
  expect_refused(frame(0x02, "x") + frame(0x82, "y"), 1002, "inside another");
}
TEST_F(ServerTest, RefusesTextThatIsNone) { expect_refused(frame(0x81, "\xc3\x28"), 1007, "no UTF-8"); }
TEST_F(ServerTest, RefusesOverlongAndSurrogateText) {
  expect_refused(frame(0x81, "\xe0\x80\xaf"), 1007, "no UTF-8");
  Heard h;
  WebSocket server(WebSocket::Role::kServer, {}, &h);
  EXPECT_FALSE(server.feed(frame(0x81, "\xed\xa0\x80")).ok());
}
TEST_F(ServerTest, RefusesAPaddedLength) {
  expect_refused(std::string("\x82\xfe\x00\x05", 4) + "\x11\x22\x33\x44xxxxx", 1002, "length is malformed");
}
TEST_F(ServerTest, RefusesALengthOver63Bits) {
  expect_refused(std::string("\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00", 10) + "\x11\x22\x33\x44", 1002, "malformed");
}
TEST_F(ServerTest, RefusesACloseOfOneByte) { expect_refused(frame(0x88, "x"), 1002, "one byte"); }
TEST_F(ServerTest, RefusesACloseCodeNobodyMaySend) {
  expect_refused(frame(0x88, std::string("\x03\xee", 2)), 1002, "code 1006");
}

TEST_F(ServerTest, AMessageOfTheLimitIsTakenAndOneByteMoreIsNot) {
  limits.max_message_bytes = 1000;
  ASSERT_TRUE(feed(frame(0x02, std::string(600, 'a')) + frame(0x80, std::string(400, 'b'))).ok());
  ASSERT_EQ(heard.messages.size(), 1u);
  heard.messages.clear();
  expect_refused(frame(0x02, std::string(600, 'a')) + frame(0x80, std::string(401, 'b')), 1009, "longer than 1000");
}

// What a frame only claims to hold must cost nothing.
TEST_F(ServerTest, AHugeLengthIsRefusedFromItsHeader) {
  expect_refused(std::string("\x82\xff\x00\x00\x00\x7f\x00\x00\x00\x00", 10) + "\x11\x22\x33\x44", 1009, "longer");
}

TEST_F(ServerTest, TooManyFragments) {
  limits.max_fragments = 10;
  std::string bytes = frame(0x02, "");
  for (int i = 0; i < 9; ++i) bytes += frame(0x00, "");
  ASSERT_TRUE(feed(bytes).ok());
  expect_refused(frame(0x00, ""), 1009, "too many fragments");
}

TEST_F(ServerTest, AnswersACloseOnceAndHearsNothingAfterIt) {
  ASSERT_TRUE(feed(frame(0x88, std::string("\x03\xe8", 2) + "bye") + frame(0x82, "late")).ok());
  EXPECT_EQ(heard.close_code, 1000);
  EXPECT_EQ(heard.close_reason, "bye");
  EXPECT_TRUE(heard.messages.empty());
  EXPECT_EQ(heard.output, frame(0x88, std::string("\x03\xe8", 2), false));
  engine->send(false, "too late");
  engine->close(1000, "");
  EXPECT_EQ(heard.output, frame(0x88, std::string("\x03\xe8", 2), false));
}

TEST_F(ServerTest, ACloseWithoutACodeIsAnsweredWithoutOne) {
  ASSERT_TRUE(feed(frame(0x88, "")).ok());
  EXPECT_EQ(heard.close_code, 1005);
  EXPECT_EQ(heard.output, frame(0x88, "", false));
}

// Both roles talk to each other.
struct BothTest : ::testing::Test {
  Heard at_server, at_client;
  WebSocketLimits limits;
  WebSocket server{WebSocket::Role::kServer, limits, &at_server};
  WebSocket client{WebSocket::Role::kClient, limits, &at_client, 7};
  void carry() {
    ASSERT_TRUE(server.feed(std::exchange(at_client.output, {})).ok());
    ASSERT_TRUE(client.feed(std::exchange(at_server.output, {})).ok());
  }
};

TEST_F(BothTest, MessagesOfManySizes) {
  for (const size_t size : {0u, 1u, 125u, 126u, 65535u, 65536u, 200000u}) {
    const std::string payload(size, 'z');
    client.send(false, payload);
    server.send_binary("\x01", share(payload));
    carry();
    ASSERT_EQ(at_server.messages.size(), 1u);
    ASSERT_EQ(at_client.messages.size(), 1u);
    EXPECT_EQ(at_server.messages[0].second, payload);
    EXPECT_EQ(at_client.messages[0].second, "\x01" + payload);
    at_server.messages.clear();
    at_client.messages.clear();
  }
}

TEST_F(BothTest, AClientsBytesAreMasked) {
  client.send(false, std::string(64, 'q'));
  EXPECT_EQ(at_client.output.find("qqqqqqqq"), std::string::npos);
}

TEST_F(BothTest, PingAndClose) {
  client.ping("are you there");
  carry();
  EXPECT_EQ(at_client.pongs, "are you there");
  server.close(1000, "done");
  carry();
  EXPECT_EQ(at_client.close_code, 1000);
  EXPECT_EQ(at_client.close_reason, "done");
  carry();
  EXPECT_EQ(at_server.close_code, 1000);
}

TEST_F(BothTest, AClientRefusesAMaskedFrame) { EXPECT_FALSE(client.feed(frame(0x82, "x")).ok()); }

TEST(WebSocketHandshake, TheExampleOfTheRfc) {
  EXPECT_EQ(websocket_accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

http::Request request_with(const http::HeaderList& headers, std::string method = "GET") {
  http::Request r;
  r.method = std::move(method);
  r.headers = headers;
  return r;
}

TEST(WebSocketHandshake, WhatIsWrongIsNamed) {
  http::HeaderList good = websocket_request_headers("dGhlIHNhbXBsZSBub25jZQ==", {"a", "b"});
  good.add("connection", "keep-alive, Upgrade");
  EXPECT_TRUE(check_websocket_request(request_with(good)).ok());
  EXPECT_EQ(offered_subprotocols(good), (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(check_websocket_request(request_with(good, "POST")).message().find("POST"), std::string::npos);
  http::HeaderList old = good;
  old.set("sec-websocket-version", "8");
  EXPECT_EQ(check_websocket_request(request_with(old)).code(), Code::kUnimplemented);
  http::HeaderList no_key = good;
  no_key.set("sec-websocket-key", "c2hvcnQ=");
  EXPECT_NE(check_websocket_request(request_with(no_key)).message().find("sec-websocket-key"), std::string::npos);
  http::HeaderList no_upgrade = good;
  no_upgrade.set("connection", "keep-alive");
  EXPECT_FALSE(check_websocket_request(request_with(no_upgrade)).ok());
}

TEST(WebSocketHandshake, SubprotocolsOfSeveralHeaders) {
  const http::HeaderList headers = {{"sec-websocket-protocol", " x ,, y"}, {"sec-websocket-protocol", "z"}};
  EXPECT_EQ(offered_subprotocols(headers), (std::vector<std::string>{"x", "y", "z"}));
}

}  // namespace
}  // namespace ghostfleet::kube::stream
