// The SPDY engine: both roles against each other, and against bytes built by hand.
#include "kube/stream/spdy.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <map>

#include "kube/stream/spdy_headers.h"

namespace ghostfleet::kube::stream {
namespace {

struct Heard : SpdyEvents {
  struct Stream {
    http::HeaderList headers;
    std::string data;
    bool fin = false, replied = false;
    int reset = 0;
  };
  std::map<SpdyStreamId, Stream> streams;
  std::vector<SpdyStreamId> order;
  std::string output;
  int goaways = 0, pongs = 0, windows = 0;
  Spdy* answer = nullptr;  // replies to every stream

  void on_stream(SpdyStreamId id, const http::HeaderList& headers, bool fin) override {
    streams[id] = {headers, {}, fin};
    order.push_back(id);
    if (answer) answer->reply(id, {}, false);
  }
  void on_reply(SpdyStreamId id, const http::HeaderList& headers) override {
    streams[id].headers = headers;
    streams[id].replied = true;
  }
  void on_data(SpdyStreamId id, std::string_view bytes) override { streams[id].data.append(bytes); }
  void on_fin(SpdyStreamId id) override { streams[id].fin = true; }
  void on_reset(SpdyStreamId id, SpdyReset code) override { streams[id].reset = static_cast<int>(code); }
  void on_pong(uint32_t) override { ++pongs; }
  void on_goaway(uint32_t) override { ++goaways; }
  void on_window(SpdyStreamId) override { ++windows; }
  void on_output(SharedBytes bytes) override { output.append(*bytes); }
};

struct SpdyTest : ::testing::Test {
  Heard at_server, at_client;
  SpdyOptions server_options{.server = true}, client_options{.server = false};
  std::unique_ptr<Spdy> server, client;

  void make() {
    server = Spdy::create(server_options, &at_server);
    client = Spdy::create(client_options, &at_client);
    at_server.answer = server.get();
  }
  void carry() {
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(server->feed(std::exchange(at_client.output, {})).ok());
      ASSERT_TRUE(client->feed(std::exchange(at_server.output, {})).ok());
    }
  }
  SpdyStreamId open(const std::string& type) { return client->open_stream({{"streamtype", type}}, false); }
};

std::string control(uint16_t type, unsigned char flags, std::string_view payload) {
  std::string out;
  append_u32(0x80030000U | type, &out);
  append_u32(static_cast<uint32_t>(flags) << 24 | static_cast<uint32_t>(payload.size()), &out);
  return out.append(payload);
}

std::string words(std::initializer_list<uint32_t> numbers) {
  std::string out;
  for (const uint32_t n : numbers) append_u32(n, &out);
  return out;
}

std::string data(uint32_t id, unsigned char flags, std::string_view bytes) {
  return words({id, static_cast<uint32_t>(flags) << 24 | static_cast<uint32_t>(bytes.size())}).append(bytes);
}

std::string syn_stream(SpdyHeaderPacker* packer, uint32_t id, const http::HeaderList& headers) {
  std::string payload = words({id, 0}) + std::string(2, '\0');
  packer->pack(headers, &payload);
  return control(1, 0, payload);
}

TEST_F(SpdyTest, TheDictionaryIsTheDrafts) {
  const std::string& dictionary = spdy_dictionary();
  EXPECT_EQ(dictionary.size(), 1423u);
  EXPECT_EQ(adler32(adler32(0, nullptr, 0), reinterpret_cast<const Bytef*>(dictionary.data()), 1423), 0xe3c6a7c2u);
}

TEST_F(SpdyTest, StreamsBothWays) {
  make();
  const SpdyStreamId error = open("error"), in = open("stdin");
  EXPECT_EQ(error, 1u);
  EXPECT_EQ(in, 3u);
  carry();
  EXPECT_EQ(at_server.streams[in].headers.get("streamtype"), "stdin");
  EXPECT_TRUE(at_client.streams[in].replied);
  EXPECT_TRUE(client->write(in, "hello", true));
  EXPECT_FALSE(client->write(in, "more", false));
  EXPECT_TRUE(server->write(error, std::string(100000, 'e'), true));
  carry();
  EXPECT_EQ(at_server.streams[in].data, "hello");
  EXPECT_TRUE(at_server.streams[in].fin);
  EXPECT_EQ(at_client.streams[error].data.size(), 100000u);
  EXPECT_TRUE(at_client.streams[error].fin);
  server->finish(in);
  client->finish(error);
  carry();
  EXPECT_EQ(server->open_streams(), 0u);
  EXPECT_EQ(client->open_streams(), 0u);
}

TEST_F(SpdyTest, CutAtEveryByte) {
  make();
  const SpdyStreamId id = open("stdin");
  client->write(id, "abc", false);
  client->ping(1);
  client->write(id, {}, true);
  const std::string bytes = at_client.output;
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    Heard h;
    const auto other = Spdy::create({.server = true}, &h);
    ASSERT_TRUE(other->feed(bytes.substr(0, cut)).ok());
    ASSERT_TRUE(other->feed(bytes.substr(cut)).ok());
    ASSERT_EQ(h.order.size(), 1u) << cut;
    EXPECT_EQ(h.streams[id].data, "abc");
    EXPECT_TRUE(h.streams[id].fin);
    EXPECT_EQ(h.output, control(6, 0, words({1})));
  }
}

TEST_F(SpdyTest, HeadersOfManyStreamsShareOnePackedStream) {
  make();
  for (int i = 0; i < 50; ++i) {
    client->open_stream({{"port", std::to_string(i)}, {"x", "a"}, {"x", "b"}, {"requestid", std::to_string(i)}}, true);
  }
  carry();
  ASSERT_EQ(at_server.order.size(), 50u);
  const http::HeaderList& last = at_server.streams[99].headers;
  EXPECT_EQ(last.get("port"), "49");
  std::vector<std::string> both;
  for (const auto& [name, value] : last) {
    if (name == "x") both.push_back(value);
  }
  EXPECT_EQ(both, (std::vector<std::string>{"a", "b"}));
}

TEST_F(SpdyTest, PingIsEchoedAndPongIsHeard) {
  make();
  client->ping(1);
  server->ping(2);
  carry();
  EXPECT_EQ(at_client.pongs, 1);
  EXPECT_EQ(at_server.pongs, 1);
}

TEST_F(SpdyTest, ResetEndsAStream) {
  make();
  const SpdyStreamId id = open("stdout");
  carry();
  client->reset(id, SpdyReset::kCancel);
  carry();
  EXPECT_EQ(at_server.streams[id].reset, 5);
  EXPECT_FALSE(server->write(id, "x", false));
  EXPECT_EQ(server->open_streams(), 0u);
}

TEST_F(SpdyTest, DataOfAStreamThatIsGoneIsDropped) {
  make();
  const SpdyStreamId id = open("stdin");
  carry();
  server->reset(id, SpdyReset::kCancel);
  client->write(id, "on its way", false);
  ASSERT_TRUE(server->feed(std::exchange(at_client.output, {})).ok());
  EXPECT_EQ(at_server.streams[id].data, "");
}

TEST_F(SpdyTest, DataAfterTheEndResetsTheStream) {
  make();
  const SpdyStreamId id = open("stdin");
  carry();
  ASSERT_TRUE(server->feed(data(id, 1, "end")).ok());
  ASSERT_TRUE(server->feed(data(id, 0, "more")).ok());
  EXPECT_EQ(at_server.streams[id].data, "end");
  EXPECT_EQ(at_server.output, control(3, 0, words({id, 9})));
}

TEST_F(SpdyTest, TooManyStreamsAreRefusedAndTheRestGoesOn) {
  server_options.limits.max_streams = 3;
  make();
  for (int i = 0; i < 4; ++i) open("stdin");
  carry();
  EXPECT_EQ(at_server.order.size(), 3u);
  EXPECT_EQ(at_client.streams[7].reset, 3);
  client->reset(1, SpdyReset::kCancel);
  const SpdyStreamId next = open("stdin");
  carry();
  EXPECT_EQ(at_server.streams[next].headers.get("streamtype"), "stdin");
}

TEST_F(SpdyTest, AfterGoawayNoNewStreams) {
  make();
  const SpdyStreamId id = open("error");
  carry();
  server->goaway(0);
  carry();
  EXPECT_EQ(at_client.goaways, 1);
  EXPECT_EQ(open("stdin"), 0u);
  EXPECT_TRUE(server->write(id, "last words", true));
  carry();
  EXPECT_EQ(at_client.streams[id].data, "last words");
}

TEST_F(SpdyTest, UnknownFramesAndSettingsAreIgnored) {
  make();
  EXPECT_TRUE(server->feed(control(0x4321, 7, "whatever") + control(4, 0, words({1, 4, 100}))).ok());
  EXPECT_TRUE(server->feed(control(9, 0, words({0, 1000}))).ok());
  EXPECT_EQ(at_server.output, "");
}

struct Bad {
  const char* name;
  std::string bytes;
  const char* words;
};

TEST_F(SpdyTest, WhatBreaksTheConnection) {
  SpdyHeaderPacker even, backwards;
  const std::string first = syn_stream(&backwards, 5, {});
  const Bad cases[] = {
      {"version", words({0x80020001, 0}), "version 2"},
      {"short SYN_STREAM", control(1, 0, "abc"), "SYN_STREAM"},
      {"short RST", control(3, 0, "abc"), "RST_STREAM"},
      {"long GOAWAY", control(7, 0, std::string(9, 'x')), "GOAWAY"},
      {"short PING", control(6, 0, "ab"), "PING"},
      {"SETTINGS that lie", control(4, 0, words({7, 1, 1})), "SETTINGS"},
      {"data for 0", data(0, 0, "x"), "stream 0"},
      {"garbage headers", control(1, 0, words({1, 0}) + std::string(20, 'g')), "inflate"},
      {"even id", syn_stream(&even, 2, {}), "id 2"},
      {"ids backwards", first + syn_stream(&backwards, 3, {}), "id 3 after 5"},
      {"control frame too large", words({0x80030001, 70000}), "70000 bytes"},
  };
  for (const Bad& bad : cases) {
    Heard h;
    const auto engine = Spdy::create({.server = true}, &h);
    const Status status = engine->feed(bad.bytes);
    EXPECT_FALSE(status.ok()) << bad.name;
    EXPECT_NE(status.message().find(bad.words), std::string::npos) << bad.name << ": " << status.message();
    ASSERT_GE(h.output.size(), 16u) << bad.name;
    EXPECT_EQ(h.output.substr(h.output.size() - 16, 4), words({0x80030007})) << bad.name;
    EXPECT_FALSE(engine->feed("more").ok());
  }
}

// A small block that inflates to far more than it is.
TEST_F(SpdyTest, ABombIsRefused) {
  SpdyHeaderPacker packer;
  Heard h;
  const auto engine = Spdy::create({.server = true}, &h);
  const Status status = engine->feed(syn_stream(&packer, 1, {{"x", std::string(1000000, 'b')}}));
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
}

TEST_F(SpdyTest, ManyValuesInOneHeaderAreRefused) {
  SpdyHeaderPacker packer;
  Heard h;
  const auto engine = Spdy::create({.server = true}, &h);
  const Status status = engine->feed(syn_stream(&packer, 1, {{std::string(1000, 'n'), std::string(5000, '\0')}}));
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
}

TEST_F(SpdyTest, FlowControlHoldsDataBack) {
  server_options.flow_control = client_options.flow_control = true;
  make();
  const SpdyStreamId id = open("stdout");
  carry();
  ASSERT_TRUE(server->write(id, std::string(200000, 'f'), true));
  ASSERT_TRUE(client->feed(std::exchange(at_server.output, {})).ok());
  EXPECT_EQ(at_client.streams[id].data.size(), 65536u);
  EXPECT_EQ(server->backlog(id), 200000u - 65536u);
  while (!at_client.streams[id].fin) {
    const size_t before = at_client.streams[id].data.size();
    client->consumed(id, 65536);
    carry();
    ASSERT_GT(at_client.streams[id].data.size(), before);
  }
  EXPECT_EQ(at_client.streams[id].data.size(), 200000u);
  EXPECT_GT(at_server.windows, 0);
}

TEST_F(SpdyTest, APeerThatOverrunsItsWindowIsReset) {
  server_options.flow_control = true;
  make();
  const SpdyStreamId id = open("stdin"), other = open("resize");
  carry();
  ASSERT_TRUE(server->feed(data(id, 0, std::string(65536, 'a'))).ok());
  // The connection's own window is open again, the stream's is not.
  server->consumed(other, 65536);
  at_server.output.clear();
  ASSERT_TRUE(server->feed(data(id, 0, "b")).ok());
  EXPECT_EQ(at_server.streams[id].reset, 7);
  EXPECT_FALSE(server->feed(data(other, 0, std::string(70000, 'c'))).ok());
}

}  // namespace
}  // namespace ghostfleet::kube::stream
