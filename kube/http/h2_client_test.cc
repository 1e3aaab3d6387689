// The client's side of HTTP/2 against frames written by hand, well made and not.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "kube/http/client_session.h"
#include "kube/http/h2_core.h"
#include "kube/http/h2_frames.h"
#include "kube/http/hpack.h"

namespace ghostfleet::kube::http {
namespace {

struct Frame {
  FrameHead head;
  std::string payload;
};

class Frames : public FrameSink {
 public:
  Status on_data(const FrameHead& head, std::string_view piece, uint32_t flow) override {
    (void)head;
    data_.append(piece);
    flow_ += flow;
    return Status();
  }
  Status on_frame(const FrameHead& head, std::string_view payload) override {
    list.push_back({head, head.type == FrameType::kData ? std::exchange(data_, {}) : std::string(payload)});
    return Status();
  }
  std::vector<Frame> list;

 private:
  std::string data_;
  uint32_t flow_ = 0;
};

class Fields : public FieldSink {
 public:
  void on_field(std::string_view name, std::string_view value) override {
    text += std::string(name) + "=" + std::string(value) + " ";
  }
  std::string text;
};

std::string frame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string out;
  append_frame_head({static_cast<uint32_t>(payload.size()), type, flags, stream}, &out);
  return out.append(payload);
}

std::string number(uint32_t value) {
  std::string out;
  append_u32(value, &out);
  return out;
}

std::string settings(std::vector<std::pair<Setting, uint32_t>> list = {}) {
  std::string payload;
  for (const auto& [setting, value] : list) append_setting(setting, value, &payload);
  return frame(FrameType::kSettings, 0, 0, payload);
}

// What the calls of a session saw, as text.
class H2ClientTest : public ::testing::Test, public ClientSessionEvents, public ResponseHandler {
 protected:
  H2ClientTest() { start(); }

  void start(uint32_t header_table = kDefaultHeaderTable) {
    session_.reset();
    config_.authority = "localhost";
    config_.header_table_bytes = header_table;
    session_ = make_h2_client_session(&config_, this);
  }
  uint32_t submit(std::string_view method, std::string_view target, std::string_view body = "") {
    ClientCall& call = calls_.emplace_back();
    call.store(method, target, nullptr, body);
    call.handler = this;
    EXPECT_TRUE(session_->submit(&call));
    return static_cast<uint32_t>(call.stream);
  }
  // What the session writes now; the preface is taken off.
  std::vector<Frame> written(size_t limit = 1 << 20) {
    std::string out;
    session_->pull(&out, limit);
    std::string_view bytes = out;
    if (bytes.substr(0, kH2Preface.size()) == kH2Preface) bytes.remove_prefix(kH2Preface.size());
    Frames frames;
    FrameReader reader;
    EXPECT_TRUE(reader.feed(bytes, frames).ok());
    return frames.list;
  }
  std::string block(const std::vector<HeaderField>& fields) {
    std::string out;
    encoder_.encode(fields, &out);
    return out;
  }
  std::string headers(uint32_t stream, const std::vector<HeaderField>& fields, uint8_t flags = kFlagEndHeaders) {
    return frame(FrameType::kHeaders, flags, stream, block(fields));
  }
  std::string answer(uint32_t stream, std::string_view body) {
    return headers(stream, {{":status", "200"}, {"content-type", "text/plain"}}) +
           frame(FrameType::kData, kFlagEndStream, stream, body);
  }
  // The error that these bytes are; empty: none.
  std::string feed(std::string_view bytes) {
    const Status status = session_->feed(bytes);
    return status.ok() ? "" : status.message();
  }

  void on_head(ClientCall* call, int status, const HeaderList& list) override {
    log_ += std::to_string(call->stream) + ":" + std::to_string(status) + " ";
    last_headers_ = list;
    if (on_head_) on_head_(call);
  }
  void on_body(ClientCall* call, std::string_view piece) override {
    log_ += std::to_string(call->stream) + "+" + std::string(piece.substr(0, 10)) + " ";
  }
  void on_trailers(ClientCall*, const HeaderList& list) override { log_ += "trailers " + list.begin()->first + " "; }
  void on_end(ClientCall* call) override {
    log_ += std::to_string(call->stream) + ". ";
    call->handler = nullptr;
  }
  void on_failed(ClientCall* call, const Status& status, bool sent) override {
    log_ += std::to_string(call->stream) + "! " + status.message() + (sent ? "" : " (not sent)") + " ";
    call->handler = nullptr;
  }
  void on_released(ClientCall* call) override { log_ += std::to_string(call->stream) + "~ "; }
  void on_head(CallId, int, const HeaderList&) override {}
  void on_body(CallId, std::string_view) override {}
  void on_end(CallId) override {}
  void on_error(CallId, const Status&, bool) override {}

  std::string take_log() { return std::exchange(log_, {}); }

  ClientSessionConfig config_;
  std::unique_ptr<ClientSession> session_;
  std::deque<ClientCall> calls_;
  HeaderEncoder encoder_;  // of the server
  HeaderList last_headers_;
  std::string log_;
  std::function<void(ClientCall*)> on_head_;
};

TEST_F(H2ClientTest, ARequestIsPrefaceSettingsHeadersAndBody) {
  submit("PUT", "/a", "hello");
  const auto frames = written();
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0].head.type, FrameType::kSettings);
  EXPECT_EQ(frames[1].head.type, FrameType::kWindowUpdate);
  EXPECT_EQ(frames[2].head.type, FrameType::kHeaders);
  EXPECT_EQ(frames[2].head.flags, kFlagEndHeaders);
  Fields fields;
  HeaderDecoder decoder;
  ASSERT_TRUE(decoder.decode(frames[2].payload, true, fields));
  EXPECT_EQ(fields.text, ":method=PUT :scheme=https :authority=localhost :path=/a content-length=5 ");
  EXPECT_EQ(frames[3].payload, "hello");
  EXPECT_TRUE(frames[3].head.has(kFlagEndStream));
}

TEST_F(H2ClientTest, AnAnswerMayComeInAnyPieces) {
  const uint32_t stream = submit("GET", "/a");
  written();
  const std::string bytes = settings() + answer(stream, "body");
  for (const char c : bytes) ASSERT_EQ(feed(std::string_view(&c, 1)), "");
  EXPECT_EQ(take_log(), "1:200 1+b 1+o 1+d 1+y 1. 1~ ");
  EXPECT_EQ(last_headers_.get("content-type"), "text/plain");
}

TEST_F(H2ClientTest, PaddingPriorityContinuationAndTrailersAreRead) {
  const uint32_t stream = submit("GET", "/a");
  written();
  const std::string head = block({{":status", "200"}, {"x", "y"}});
  std::string padded("\x03", 1);
  padded += std::string("\0\0\0\0\x10", 5) + head.substr(0, 2) + std::string(3, '\0');
  const std::string bytes = settings() + frame(FrameType::kHeaders, kFlagPadded | kFlagPriority, stream, padded) +
                            frame(FrameType::kContinuation, kFlagEndHeaders, stream, head.substr(2)) +
                            frame(FrameType::kData, kFlagPadded, stream, std::string("\x02ok\0\0", 5)) +
                            frame(static_cast<FrameType>(99), 0, 0, "unknown") +
                            headers(stream, {{"grpc-status", "0"}}, kFlagEndHeaders | kFlagEndStream);
  ASSERT_EQ(feed(bytes), "");
  EXPECT_EQ(take_log(), "1:200 1+ok trailers grpc-status 1. 1~ ");
}

TEST_F(H2ClientTest, InformationalAnswersArePassedOver) {
  const uint32_t stream = submit("GET", "/a");
  written();
  ASSERT_EQ(feed(settings() + headers(stream, {{":status", "103"}}) + answer(stream, "b")), "");
  EXPECT_EQ(take_log(), "1:200 1+b 1. 1~ ");
}

TEST_F(H2ClientTest, BodiesKeepToTheWindows) {
  const std::string body(100000, 'b');
  const uint32_t stream = submit("PUT", "/a", body);
  size_t sent = 0;
  const auto count = [&](const std::vector<Frame>& frames) {
    for (const Frame& f : frames) sent += f.head.type == FrameType::kData ? f.payload.size() : 0;
  };
  count(written());
  EXPECT_EQ(sent, 65535u);
  ASSERT_EQ(feed(settings() + frame(FrameType::kWindowUpdate, 0, 0, number(50000))), "");
  count(written());
  EXPECT_EQ(sent, 65535u);  // the stream's own window is used up
  ASSERT_EQ(feed(frame(FrameType::kWindowUpdate, 0, stream, number(10))), "");
  count(written());
  EXPECT_EQ(sent, 65545u);
  ASSERT_EQ(feed(settings({{Setting::kInitialWindowSize, 200000}})), "");
  const auto rest = written();
  count(rest);
  EXPECT_EQ(sent, body.size());
  EXPECT_TRUE(rest.back().head.has(kFlagEndStream));
}

TEST_F(H2ClientTest, ALimitOnlyPausesABody) {
  submit("PUT", "/a", std::string(60000, 'b'));
  size_t sent = 0, turns = 0;
  for (; turns < 20 && sent < 60000; ++turns) {
    for (const Frame& f : written(16384)) sent += f.head.type == FrameType::kData ? f.payload.size() : 0;
  }
  EXPECT_EQ(sent, 60000u);
  EXPECT_GT(turns, 2u);
}

TEST_F(H2ClientTest, WhatIsReadIsGrantedAgain) {
  const uint32_t stream = submit("GET", "/a");
  written();
  ASSERT_EQ(feed(settings() + headers(stream, {{":status", "200"}})), "");
  uint64_t granted = 0;
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(feed(frame(FrameType::kData, 0, stream, std::string(16384, 'd'))), "");
    for (const Frame& f : written()) {
      if (f.head.type == FrameType::kWindowUpdate && f.head.stream == stream) granted += read_u32(f.payload);
    }
  }
  EXPECT_GE(granted, 2u << 20);
  EXPECT_LE(granted, 300u * 16384);
}

TEST_F(H2ClientTest, CancelledCallsAreReset) {
  const uint32_t first = submit("GET", "/a");
  written();
  submit("GET", "/b");
  calls_[0].handler = calls_[1].handler = nullptr;
  session_->cancel(&calls_[0]);
  session_->cancel(&calls_[1]);
  const auto frames = written();
  ASSERT_EQ(frames.size(), 1u);  // the second was never written
  EXPECT_EQ(frames[0].head.type, FrameType::kResetStream);
  EXPECT_EQ(frames[0].head.stream, first);
  EXPECT_EQ(take_log(), "1~ 3~ ");
  ASSERT_EQ(feed(settings() + answer(first, "late")), "");
  EXPECT_EQ(take_log(), "");
}

TEST_F(H2ClientTest, AHandlerMayCancelFromInside) {
  const uint32_t stream = submit("GET", "/a");
  written();
  on_head_ = [&](ClientCall* call) {
    call->handler = nullptr;
    session_->cancel(call);
  };
  ASSERT_EQ(feed(settings() + answer(stream, "body")), "");
  written();
  EXPECT_EQ(take_log(), "1:200 1~ ");
}

TEST_F(H2ClientTest, GoAwayRefusesWhatComesAfterTheLastStream) {
  submit("GET", "/a");
  submit("GET", "/b");
  written();
  ASSERT_EQ(feed(settings() + frame(FrameType::kGoAway, 0, 0, number(1) + number(0))), "");
  EXPECT_EQ(take_log(), "3! the server did not take the request (REFUSED_STREAM) (not sent) 3~ ");
  EXPECT_TRUE(session_->draining());
  EXPECT_EQ(session_->room(), 0u);
  ASSERT_EQ(feed(answer(1, "b")), "");
  EXPECT_EQ(take_log(), "1:200 1+b 1. 1~ ");
}

TEST_F(H2ClientTest, BrokenAnswersEndTheirCallOnly) {
  const struct {
    const char* name;
    std::vector<HeaderField> fields;
    std::string body;
    const char* error;
  } kCases[] = {
      {"shorter",
       {{":status", "200"}, {"content-length", "9"}},
       "abc",
       "the answer is shorter than its content-length"},
      {"longer", {{":status", "200"}, {"content-length", "2"}}, "abc", "the answer is longer than its content-length"},
      {"no status", {{"x", "y"}}, "abc", "the answer has no status"},
      {"two digits", {{":status", "20"}}, "abc", "the answer's headers are malformed"},
      {"status last", {{"x", "y"}, {":status", "200"}}, "abc", "the answer's headers are malformed"},
      {"of HTTP/1.1", {{":status", "200"}, {"connection", "close"}}, "abc", "the answer's headers are malformed"},
      {"of requests", {{":status", "200"}, {":path", "/"}}, "abc", "the answer's headers are malformed"},
      {"length", {{":status", "200"}, {"content-length", "-1"}}, "abc", "the answer's headers are malformed"},
  };
  ASSERT_EQ(feed(settings()), "");
  for (const auto& c : kCases) {
    const uint32_t stream = submit("GET", "/a");
    written();
    EXPECT_EQ(feed(headers(stream, c.fields) + frame(FrameType::kData, kFlagEndStream, stream, c.body)), "") << c.name;
    EXPECT_NE(take_log().find(c.error), std::string::npos) << c.name;
  }
  const uint32_t stream = submit("GET", "/a");
  written();
  ASSERT_EQ(feed(answer(stream, "fine")), "");
  EXPECT_EQ(take_log(), std::to_string(stream) + ":200 " + std::to_string(stream) + "+fine " + std::to_string(stream) +
                            ". " + std::to_string(stream) + "~ ");
}

TEST_F(H2ClientTest, AnAnswerToHeadHasALengthAndNoBody) {
  const uint32_t stream = submit("HEAD", "/a");
  written();
  ASSERT_EQ(feed(settings() +
                 headers(stream, {{":status", "200"}, {"content-length", "9"}}, kFlagEndHeaders | kFlagEndStream)),
            "");
  EXPECT_EQ(take_log(), "1:200 1. 1~ ");
}

TEST_F(H2ClientTest, HeadersBeyondTheLimitEndTheCall) {
  const std::string large(60000, 'v');
  const uint32_t stream = submit("GET", "/a");
  written();
  // Four fit under 256 KiB, five do not; names differ, values are one table entry too large to be kept.
  const auto send = [&](uint32_t id, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back("n" + std::to_string(i));
    std::vector<HeaderField> fields = {{":status", "200"}};
    for (const std::string& name : names) fields.push_back({name, large});
    std::string_view rest;
    const std::string whole = block(fields);
    rest = whole;
    std::string out;
    for (FrameType type = FrameType::kHeaders; !rest.empty(); type = FrameType::kContinuation) {
      const std::string_view part = rest.substr(0, 16384);
      rest.remove_prefix(part.size());
      uint8_t flags = type == FrameType::kHeaders ? kFlagEndStream : 0;
      if (rest.empty()) flags |= kFlagEndHeaders;
      out += frame(type, flags, id, part);
    }
    return feed(out);
  };
  ASSERT_EQ(feed(settings()), "");
  ASSERT_EQ(send(stream, 4), "");
  EXPECT_EQ(take_log(), "1:200 1. 1~ ");
  const uint32_t second = submit("GET", "/b");
  written();
  ASSERT_EQ(send(second, 5), "");
  EXPECT_EQ(take_log(), "3! the answer's headers are longer than 256 KiB 3~ ");
}

TEST_F(H2ClientTest, BrokenFramesEndTheConnection) {
  const std::string ping(8, 'p');
  const struct {
    std::string bytes;
    const char* error;
  } kCases[] = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of"},
      {frame(FrameType::kPing, 0, 0, ping), "does not begin with SETTINGS"},
      {settings() + frame(FrameType::kPing, 0, 0, "short"), "malformed PING"},
      {settings() + frame(FrameType::kPing, 0, 1, ping), "malformed PING"},
      {settings() + frame(FrameType::kSettings, 0, 0, "12345"), "malformed SETTINGS"},
      {settings({{Setting::kMaxFrameSize, 1}}), "SETTINGS_MAX_FRAME_SIZE"},
      {settings({{Setting::kInitialWindowSize, 1u << 31}}), "SETTINGS_INITIAL_WINDOW_SIZE"},
      {settings({{Setting::kEnablePush, 1}}), "SETTINGS_ENABLE_PUSH"},
      {settings() + frame(FrameType::kPushPromise, 4, 1, number(2)), "PUSH_PROMISE"},
      {settings() + frame(FrameType::kContinuation, 4, 1, ""), "CONTINUATION without HEADERS"},
      {settings() + frame(FrameType::kHeaders, 0, 1, "") + frame(FrameType::kPing, 0, 0, ping), "between the parts"},
      {settings() + frame(FrameType::kHeaders, 0, 1, "") + frame(FrameType::kData, 0, 1, "d"), "between the parts"},
      {settings() + frame(FrameType::kHeaders, 4, 1, "\xff\xff\xff\xff\xff"), "cannot be decoded"},
      {settings() + frame(FrameType::kHeaders, 4, 3, ""), "not opened"},
      {settings() + frame(FrameType::kHeaders, 4, 2, ""), "not opened"},
      {settings() + frame(FrameType::kData, 0, 5, "d"), "not opened"},
      {settings() + frame(FrameType::kData, kFlagPadded, 1, "\x05"), "more padding"},
      {settings() + frame(FrameType::kHeaders, kFlagPadded | 4, 1, "\x05"), "more padding"},
      {settings() + frame(FrameType::kWindowUpdate, 0, 0, number(0)), "WINDOW_UPDATE"},
      {settings() + frame(FrameType::kWindowUpdate, 0, 0, number(0x7fffffff)), "WINDOW_UPDATE"},
      {settings() + frame(FrameType::kWindowUpdate, 0, 7, number(1)), "not opened"},
      {settings() + frame(FrameType::kGoAway, 0, 0, "short"), "malformed GOAWAY"},
      {settings() + frame(FrameType::kResetStream, 0, 1, "no"), "malformed RST_STREAM"},
  };
  for (const auto& c : kCases) {
    start();
    submit("GET", "/a");
    written();
    EXPECT_NE(feed(c.bytes).find(c.error), std::string::npos) << c.error;
    session_->fail_all(unavailable("gone"));
  }
}

TEST_F(H2ClientTest, FloodsOfControlFramesEndTheConnection) {
  std::string pings = settings();
  for (int i = 0; i < 10000; ++i) pings += frame(FrameType::kPing, 0, 0, std::string(8, 'p'));
  EXPECT_NE(feed(pings).find("does not read our answers"), std::string::npos);
  start();
  const uint32_t stream = submit("GET", "/a");
  written();
  std::string parts = settings() + frame(FrameType::kHeaders, 0, stream, "");
  for (int i = 0; i < 100; ++i) parts += frame(FrameType::kContinuation, 0, stream, "");
  EXPECT_NE(feed(parts).find("too many frames"), std::string::npos);
}

TEST_F(H2ClientTest, StreamsOfTheServersSettings) {
  EXPECT_EQ(session_->room(), 100u);  // until they are there
  ASSERT_EQ(feed(settings({{Setting::kMaxConcurrentStreams, 2}})), "");
  submit("GET", "/a");
  EXPECT_EQ(session_->room(), 1u);
  submit("GET", "/b");
  EXPECT_EQ(session_->room(), 0u);
}

TEST_F(H2ClientTest, WithoutATableTheServerRefersToNothing) {
  start(0);
  const auto greeting = written();
  EXPECT_EQ(greeting[0].payload.size(), 4u * 6);
  ASSERT_EQ(feed(settings() + frame(FrameType::kSettings, kFlagAck, 0, "")), "");
  encoder_.set_table_size(0);
  for (int i = 0; i < 2; ++i) {
    const uint32_t stream = submit("GET", "/a");
    written();
    ASSERT_EQ(feed(answer(stream, "b")), "");
  }
  EXPECT_EQ(take_log(), "1:200 1+b 1. 1~ 3:200 3+b 3. 3~ ");
  // A server that goes on with its table breaks the agreement.
  const uint32_t stream = submit("GET", "/a");
  written();
  EXPECT_NE(feed(frame(FrameType::kHeaders, kFlagEndHeaders, stream, "\xbe")).find("cannot be decoded"),
            std::string::npos);
}

}  // namespace
}  // namespace ghostfleet::kube::http
