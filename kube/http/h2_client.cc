// The client's side of HTTP/2 (RFC 9113): our own framing over nghttp2's header compression. A fleet of nodes that have
// a connection each needs it small: nghttp2's session takes 18 KB for five streams, this takes 5.
//
// A request's headers and body stay in the call's own memory until they are written.
#include <algorithm>
#include <charconv>
#include <optional>

#include "kube/http/client_session.h"
#include "kube/http/h2_core.h"
#include "kube/http/h2_frames.h"
#include "kube/http/hpack.h"

namespace ghostfleet::kube::http {
namespace {

constexpr uint32_t kStreamWindow = 4u << 20;
constexpr uint32_t kConnectionWindow = 64u << 20;
constexpr size_t kMaxHeaderBytes = 256 * 1024;  // of an answer; its stream is reset beyond
constexpr size_t kMaxHeaderWork = 1024 * 1024;  // that is decoded of a block nevertheless, since later ones build on it
constexpr int kMaxContinuations = 64;           // frames of one header block
constexpr size_t kMaxControlBytes = 64 * 1024;  // answers to PING and SETTINGS that the server does not read
constexpr uint32_t kAssumedStreams = 100;       // until the server's SETTINGS are there
constexpr uint32_t kLastStream = INT32_MAX;
constexpr size_t kKeptControlBytes = 256;

Status broken(std::string what) { return unavailable("HTTP/2: " + std::move(what)); }

class H2ClientSession final : public ClientSession, private FrameSink, private FieldSink {
 public:
  H2ClientSession(const ClientSessionConfig* config, ClientSessionEvents* events);

  Status feed(std::string_view bytes) override { return reader_.feed(bytes, *this); }
  void pull(std::string* out, size_t limit) override;
  size_t room() const override { return draining_ || calls_.size() >= capacity() ? 0 : capacity() - calls_.size(); }
  size_t capacity() const override { return std::min(config_->max_streams, remote_max_); }
  bool submit(ClientCall* call) override;
  void cancel(ClientCall* call) override { cancelled_.push_back(static_cast<uint32_t>(call->stream)); }
  bool draining() const override { return draining_; }
  bool ping() override;
  void go_away() override;
  void fail_all(const Status& why) override;

 private:
  Status on_data(const FrameHead& head, std::string_view piece, uint32_t flow) override;
  Status on_frame(const FrameHead& head, std::string_view payload) override;
  void on_field(std::string_view name, std::string_view value) override;

  Status on_data_end(const FrameHead& head);
  Status on_headers(const FrameHead& head, std::string_view payload);
  Status take_fragment(std::string_view fragment, bool last);
  Status finish_block();
  const char* fault_of_block(const ClientCall& call) const;
  Status on_settings(const FrameHead& head, std::string_view payload);
  Status apply(Setting setting, uint32_t value);
  Status on_reset_stream(const FrameHead& head, std::string_view payload);
  Status on_window_update(const FrameHead& head, std::string_view payload);
  Status on_ping(const FrameHead& head, std::string_view payload);
  Status on_go_away(const FrameHead& head, std::string_view payload);

  bool was_opened(uint32_t stream) const { return stream % 2 == 1 && stream < next_stream_; }
  size_t place_of(uint32_t stream) const;
  ClientCall* find(uint32_t stream) const;
  void take_head(ClientCall& call);
  void finish(uint32_t stream);
  void forget(uint32_t stream);
  // `sent`: the server may have acted on the request.
  void fail(uint32_t stream, H2Error code, Status why, bool sent);
  void break_off(uint32_t stream, H2Error code, const std::string& why);

  void control(const FrameHead& head, std::string_view payload = {});
  void update_window(uint32_t stream, uint32_t bytes);
  void write_cancelled(std::string* out);
  void write_head(ClientCall& call, std::string* out);
  void write_block(uint32_t stream, std::string_view block, bool last, std::string* out) const;
  bool write_body(ClientCall& call, std::string* out, size_t limit);
  void write_bodies(std::string* out, size_t limit);

  const ClientSessionConfig* config_;
  ClientSessionEvents* events_;
  FrameReader reader_;
  HeaderEncoder encoder_;
  HeaderDecoder decoder_;
  std::vector<ClientCall*> calls_;  // by stream; the last unsent_ of them wait to be written
  size_t unsent_ = 0;
  size_t uploading_ = 0;             // calls whose body is not all written
  bool may_upload_ = false;          // something has changed for them
  std::vector<uint32_t> cancelled_;  // streams to be reset
  std::string control_;              // frames that answer the server's, in order
  uint32_t next_stream_ = 1;
  uint32_t remote_max_ = kAssumedStreams, remote_frame_ = kLeastMaxFrame;
  int64_t remote_window_ = kDefaultWindow;  // that a stream begins with
  int64_t send_window_ = kDefaultWindow;    // of the connection
  uint32_t unacked_ = 0;                    // bytes received of the connection that are not granted again
  bool draining_ = false, greeted_ = false;
  // of the header block being read: blocks never interleave
  uint32_t block_stream_ = 0;
  int block_frames_ = 0;
  bool block_last_ = false, malformed_ = false;
  int status_ = 0;
  int64_t length_ = -1;
  size_t header_bytes_ = 0;
  HeaderList headers_;
};

// Between two blocks the memory of the headers serves other connections of the thread.
void lend_headers(HeaderList* headers) {
  thread_local HeaderList spare;
  headers->clear();
  std::swap(*headers, spare);
}

H2ClientSession::H2ClientSession(const ClientSessionConfig* config, ClientSessionEvents* events)
    : config_(config), events_(events) {
  control_ = kH2Preface;
  std::string settings;
  append_setting(Setting::kInitialWindowSize, kStreamWindow, &settings);
  append_setting(Setting::kMaxHeaderListSize, kMaxHeaderBytes, &settings);
  append_setting(Setting::kEnablePush, 0, &settings);
  if (config_->header_table_bytes != kDefaultHeaderTable) {
    append_setting(Setting::kHeaderTableSize, config_->header_table_bytes, &settings);
  }
  control({0, FrameType::kSettings, 0, 0}, settings);
  update_window(0, kConnectionWindow - static_cast<uint32_t>(kDefaultWindow));
}

bool H2ClientSession::submit(ClientCall* call) {
  if (next_stream_ > kLastStream) {
    draining_ = true;  // stream numbers are used up
    return false;
  }
  call->stream = static_cast<int32_t>(next_stream_);
  next_stream_ += 2;
  call->send_window = 0;
  call->unacked = 0;
  call->body_left = -1;
  calls_.push_back(call);
  ++unsent_;
  return true;
}

bool H2ClientSession::ping() {
  control({0, FrameType::kPing, 0, 0}, std::string_view("\0\0\0\0\0\0\0\0", 8));
  return true;
}

void H2ClientSession::go_away() { control({0, FrameType::kGoAway, 0, 0}, std::string_view("\0\0\0\0\0\0\0\0", 8)); }

// Where the call of a stream stands, or would stand.
size_t H2ClientSession::place_of(uint32_t stream) const {
  const auto at = std::lower_bound(calls_.begin(), calls_.end(), stream, [](const ClientCall* call, uint32_t id) {
    return static_cast<uint32_t>(call->stream) < id;
  });
  return static_cast<size_t>(at - calls_.begin());
}

ClientCall* H2ClientSession::find(uint32_t stream) const {
  const size_t at = place_of(stream);
  return at < calls_.size() && static_cast<uint32_t>(calls_[at]->stream) == stream ? calls_[at] : nullptr;
}

// ---- what the server sends

Status H2ClientSession::on_frame(const FrameHead& head, std::string_view payload) {
  if (!greeted_ && head.type != FrameType::kSettings) return broken("the server does not begin with SETTINGS");
  greeted_ = true;
  if (block_stream_ != 0 && (head.type != FrameType::kContinuation || head.stream != block_stream_)) {
    return broken("a frame between the parts of a header block");
  }
  switch (head.type) {
    case FrameType::kData: return on_data_end(head);
    case FrameType::kHeaders: return on_headers(head, payload);
    case FrameType::kContinuation:
      if (block_stream_ == 0) return broken("CONTINUATION without HEADERS");
      if (++block_frames_ > kMaxContinuations) return broken("a header block in too many frames");
      return take_fragment(payload, head.has(kFlagEndHeaders));
    case FrameType::kSettings: return on_settings(head, payload);
    case FrameType::kResetStream: return on_reset_stream(head, payload);
    case FrameType::kWindowUpdate: return on_window_update(head, payload);
    case FrameType::kPing: return on_ping(head, payload);
    case FrameType::kGoAway: return on_go_away(head, payload);
    case FrameType::kPushPromise: return broken("PUSH_PROMISE, which was not allowed");
    case FrameType::kPriority: break;
  }
  return Status();  // kinds that we do not know are to be passed over
}

Status H2ClientSession::on_data(const FrameHead& head, std::string_view piece, uint32_t flow) {
  if (block_stream_ != 0) return broken("DATA between the parts of a header block");
  if (!was_opened(head.stream)) return broken("DATA on a stream that was not opened");
  unacked_ += flow;
  if (unacked_ > kConnectionWindow) return broken("more data than the window allows");
  if (unacked_ >= kConnectionWindow / 2) update_window(0, std::exchange(unacked_, 0));
  ClientCall* call = find(head.stream);
  if (call == nullptr) return Status();  // what was on its way when we ended the stream
  if (!call->head_seen) {
    break_off(head.stream, H2Error::kProtocol, "the answer has a body before its headers");
    return Status();
  }
  call->unacked += flow;
  if (call->unacked > kStreamWindow) return broken("more data than the window allows");
  if (call->body_left >= 0) {
    call->body_left -= static_cast<int64_t>(piece.size());
    if (call->body_left < 0) {
      break_off(head.stream, H2Error::kProtocol, "the answer is longer than its content-length");
      return Status();
    }
  }
  if (call->unacked >= kStreamWindow / 2 && !head.has(kFlagEndStream)) {
    update_window(head.stream, std::exchange(call->unacked, 0));
  }
  if (call->handler != nullptr && !call->ended && !piece.empty()) events_->on_body(call, piece);
  return Status();
}

Status H2ClientSession::on_data_end(const FrameHead& head) {
  if (!was_opened(head.stream)) return broken("DATA on a stream that was not opened");
  if (head.has(kFlagEndStream)) finish(head.stream);
  return Status();
}

Status H2ClientSession::on_headers(const FrameHead& head, std::string_view payload) {
  if (!was_opened(head.stream)) return broken("HEADERS on a stream that was not opened");
  size_t padding = 0;
  if (head.has(kFlagPadded)) {
    if (payload.empty()) return broken("HEADERS without the padding it speaks of");
    padding = static_cast<unsigned char>(payload.front());
    payload.remove_prefix(1);
  }
  if (head.has(kFlagPriority)) {
    if (payload.size() < 5) return broken("HEADERS without the priority it speaks of");
    payload.remove_prefix(5);
  }
  if (padding > payload.size()) return broken("more padding than its frame has bytes");
  payload.remove_suffix(padding);
  lend_headers(&headers_);
  block_stream_ = head.stream;
  block_frames_ = 1;
  block_last_ = head.has(kFlagEndStream);
  malformed_ = false;
  status_ = 0;
  length_ = -1;
  header_bytes_ = 0;
  return take_fragment(payload, head.has(kFlagEndHeaders));
}

Status H2ClientSession::take_fragment(std::string_view fragment, bool last) {
  if (!decoder_.decode(fragment, last, *this)) return broken("a header block that cannot be decoded");
  if (header_bytes_ > kMaxHeaderWork) return broken("a header block of more than 1 MiB");
  return last ? finish_block() : Status();
}

void H2ClientSession::on_field(std::string_view name, std::string_view value) {
  header_bytes_ += name.size() + value.size();
  if (header_bytes_ > kMaxHeaderBytes) return;  // finish_block() breaks the stream off
  if (name == ":status") {
    const char* const end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, status_);
    if (error != std::errc() || at != end || value.size() != 3 || !headers_.empty()) malformed_ = true;
    return;
  }
  if (!name.empty() && name[0] == ':') malformed_ = true;
  if (name == "connection" || name == "transfer-encoding" || name == "upgrade") malformed_ = true;
  if (!valid_header_name(name) || !valid_header_value(value)) return;
  if (name == "content-length") {
    const char* const end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, length_);
    if (error != std::errc() || at != end || length_ < 0) malformed_ = true;
  }
  headers_.append(name, value);
}

// What is wrong with the block that was read; null: nothing.
const char* H2ClientSession::fault_of_block(const ClientCall& call) const {
  if (header_bytes_ > kMaxHeaderBytes) return "the answer's headers are longer than 256 KiB";
  if (malformed_) return "the answer's headers are malformed";
  if (call.head_seen) return status_ != 0 || !block_last_ ? "the answer's trailers are malformed" : nullptr;
  if (status_ < 100 || (status_ < 200 && block_last_)) return "the answer has no status";
  return nullptr;
}

Status H2ClientSession::finish_block() {
  const uint32_t stream = std::exchange(block_stream_, 0);
  if (ClientCall* call = find(stream); call != nullptr && !call->ended) {
    if (const char* fault = fault_of_block(*call)) {
      break_off(stream, header_bytes_ > kMaxHeaderBytes ? H2Error::kInternal : H2Error::kProtocol, fault);
    } else if (call->head_seen) {
      if (call->handler != nullptr) events_->on_trailers(call, headers_);
    } else if (status_ >= 200) {
      take_head(*call);
    }
  }
  if (block_last_) finish(stream);
  lend_headers(&headers_);
  return Status();
}

void H2ClientSession::take_head(ClientCall& call) {
  call.head_seen = true;
  const bool no_body = call.method() == "HEAD" || status_ == 204 || status_ == 304;
  call.body_left = no_body ? -1 : length_;
  if (call.handler != nullptr) events_->on_head(&call, status_, headers_);
}

Status H2ClientSession::on_settings(const FrameHead& head, std::string_view payload) {
  if (head.stream != 0 || payload.size() % 6 != 0) return broken("malformed SETTINGS");
  if (head.has(kFlagAck)) {
    if (config_->header_table_bytes != kDefaultHeaderTable) decoder_.set_table_size(config_->header_table_bytes);
    return Status();
  }
  for (; !payload.empty(); payload.remove_prefix(6)) {
    const auto id = static_cast<uint16_t>(read_u32(payload) >> 16);
    if (const Status status = apply(static_cast<Setting>(id), read_u32(payload.substr(2))); !status.ok()) return status;
  }
  control({0, FrameType::kSettings, kFlagAck, 0});
  return control_.size() > kMaxControlBytes ? broken("the server does not read our answers") : Status();
}

Status H2ClientSession::apply(Setting setting, uint32_t value) {
  switch (setting) {
    case Setting::kHeaderTableSize: encoder_.set_table_size(value); break;
    case Setting::kEnablePush:
      if (value != 0) return broken("SETTINGS_ENABLE_PUSH of a server");
      break;
    case Setting::kMaxConcurrentStreams: remote_max_ = value; break;
    case Setting::kInitialWindowSize: {
      if (value > kMostWindow) return broken("SETTINGS_INITIAL_WINDOW_SIZE beyond 2^31-1");
      const int64_t change = int64_t{value} - std::exchange(remote_window_, int64_t{value});
      // Calls that are not written yet begin with the new one.
      for (size_t i = 0; i + unsent_ < calls_.size(); ++i) {
        calls_[i]->send_window += change;
        if (calls_[i]->send_window > kMostWindow) return broken("a window beyond 2^31-1");
      }
      may_upload_ = true;
      break;
    }
    case Setting::kMaxFrameSize:
      if (value < kLeastMaxFrame || value > kMostMaxFrame) return broken("SETTINGS_MAX_FRAME_SIZE out of its bounds");
      remote_frame_ = value;
      break;
    case Setting::kMaxHeaderListSize: break;
  }
  return Status();
}

Status H2ClientSession::on_reset_stream(const FrameHead& head, std::string_view payload) {
  if (payload.size() != 4 || !was_opened(head.stream)) return broken("malformed RST_STREAM");
  const auto code = static_cast<H2Error>(read_u32(payload));
  const bool refused = code == H2Error::kRefusedStream;
  std::string text = refused ? "the server did not take the request (" : "the server reset the stream (";
  text.append(h2_error_name(static_cast<uint32_t>(code))).append(")");
  fail(head.stream, code, unavailable(std::move(text)), !refused);
  return Status();
}

Status H2ClientSession::on_window_update(const FrameHead& head, std::string_view payload) {
  if (payload.size() != 4) return broken("malformed WINDOW_UPDATE");
  const int64_t more = read_u32(payload) & 0x7fffffff;
  may_upload_ = true;
  if (head.stream == 0) {
    send_window_ += more;
    if (more == 0 || send_window_ > kMostWindow) return broken("a WINDOW_UPDATE out of its bounds");
    return Status();
  }
  if (!was_opened(head.stream)) return broken("WINDOW_UPDATE on a stream that was not opened");
  ClientCall* call = find(head.stream);
  if (call == nullptr) return Status();
  call->send_window += more;
  if (more == 0 || call->send_window > kMostWindow) {
    break_off(head.stream, H2Error::kFlowControl, "the server sent a WINDOW_UPDATE out of its bounds");
  }
  return Status();
}

Status H2ClientSession::on_ping(const FrameHead& head, std::string_view payload) {
  if (payload.size() != 8 || head.stream != 0) return broken("malformed PING");
  if (!head.has(kFlagAck)) control({0, FrameType::kPing, kFlagAck, 0}, payload);
  return control_.size() > kMaxControlBytes ? broken("the server does not read our answers") : Status();
}

// Streams beyond the last one that the server names were not processed.
Status H2ClientSession::on_go_away(const FrameHead& head, std::string_view payload) {
  if (payload.size() < 8 || head.stream != 0) return broken("malformed GOAWAY");
  draining_ = true;
  const uint32_t last = read_u32(payload) & 0x7fffffff;
  std::string text = "the server did not take the request (";
  text.append(h2_error_name(static_cast<uint32_t>(H2Error::kRefusedStream))).append(")");
  while (!calls_.empty() && static_cast<uint32_t>(calls_.back()->stream) > last) {
    fail(static_cast<uint32_t>(calls_.back()->stream), H2Error::kRefusedStream, unavailable(text), false);
  }
  return Status();
}

// ---- the ends of a call

// The server has said all. Handlers may call the session, so the call is looked up again after each.
void H2ClientSession::finish(uint32_t stream) {
  ClientCall* call = find(stream);
  if (call == nullptr) return;
  if (!call->ended && call->body_left > 0) {
    return fail(stream, H2Error::kProtocol, unavailable("the answer is shorter than its content-length"), true);
  }
  if (!call->ended && !call->head_seen) {
    return fail(stream, H2Error::kProtocol, unavailable("the stream ended without an answer"), true);
  }
  const bool all_sent = call->body_sent == call->body_size;
  if (!std::exchange(call->ended, true) && call->handler != nullptr) events_->on_end(call);
  if (!all_sent) {
    std::string code;
    append_u32(static_cast<uint32_t>(H2Error::kCancel), &code);
    control({0, FrameType::kResetStream, 0, stream}, code);
  }
  forget(stream);
}

void H2ClientSession::forget(uint32_t stream) {
  const size_t at = place_of(stream);
  if (at >= calls_.size() || static_cast<uint32_t>(calls_[at]->stream) != stream) return;
  ClientCall* call = calls_[at];
  if (at + unsent_ >= calls_.size()) {
    --unsent_;
  } else if (call->body_sent < call->body_size) {
    --uploading_;
  }
  calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(at));
  events_->on_released(call);
}

void H2ClientSession::fail(uint32_t stream, H2Error code, Status why, bool sent) {
  ClientCall* call = find(stream);
  if (call == nullptr) return;
  const bool live = !std::exchange(call->ended, true) && call->handler != nullptr;
  if (live) events_->on_reset(call, static_cast<uint32_t>(code), why, sent);
  forget(stream);
}

// A stream with which we cannot go on.
void H2ClientSession::break_off(uint32_t stream, H2Error code, const std::string& why) {
  std::string payload;
  append_u32(static_cast<uint32_t>(code), &payload);
  control({0, FrameType::kResetStream, 0, stream}, payload);
  fail(stream, code, unavailable(why), true);
}

void H2ClientSession::fail_all(const Status& why) {
  draining_ = true;
  while (!calls_.empty()) {
    ClientCall* call = calls_.back();
    const auto stream = static_cast<uint32_t>(call->stream);
    const bool live = !std::exchange(call->ended, true) && call->handler != nullptr;
    if (live) events_->on_failed(call, why, true);
    forget(stream);
  }
}

// ---- what we send

void H2ClientSession::control(const FrameHead& head, std::string_view payload) {
  FrameHead sized = head;
  sized.size = static_cast<uint32_t>(payload.size());
  append_frame_head(sized, &control_);
  control_.append(payload);
}

void H2ClientSession::update_window(uint32_t stream, uint32_t bytes) {
  std::string payload;
  append_u32(bytes, &payload);
  control({0, FrameType::kWindowUpdate, 0, stream}, payload);
}

void H2ClientSession::pull(std::string* out, size_t limit) {
  out->append(control_);
  control_.clear();
  if (control_.capacity() > kKeptControlBytes) control_.shrink_to_fit();
  if (!cancelled_.empty()) write_cancelled(out);
  if (uploading_ > 0 && may_upload_) write_bodies(out, limit);
  while (unsent_ > 0 && out->size() < limit) {
    ClientCall& call = *calls_[calls_.size() - unsent_];
    --unsent_;
    write_head(call, out);
    if (call.body_size == 0) continue;
    ++uploading_;
    if (write_body(call, out, limit)) may_upload_ = true;
  }
}

// What was cancelled before it was written is not written.
void H2ClientSession::write_cancelled(std::string* out) {
  const std::vector<uint32_t> streams = std::exchange(cancelled_, {});
  for (const uint32_t stream : streams) {
    const size_t at = place_of(stream);
    if (at >= calls_.size() || static_cast<uint32_t>(calls_[at]->stream) != stream) continue;  // it has ended itself
    if (at + unsent_ < calls_.size()) {
      append_frame_head({4, FrameType::kResetStream, 0, stream}, out);
      append_u32(static_cast<uint32_t>(H2Error::kCancel), out);
    }
    calls_[at]->ended = true;
    forget(stream);
  }
}

void H2ClientSession::write_head(ClientCall& call, std::string* out) {
  thread_local std::vector<HeaderField> fields;
  thread_local std::string block;
  fields.clear();
  block.clear();
  fields.push_back({":method", call.method()});
  fields.push_back({":scheme", config_->scheme});
  fields.push_back({":authority", config_->authority});
  fields.push_back({":path", call.target()});
  for (const auto& [name, value] : config_->default_headers) fields.push_back({name, value});
  const std::string_view memory = call.memory;
  size_t at = call.method_size + call.target_size;
  for (const auto& [name_size, value_size] : call.header_sizes) {
    fields.push_back({memory.substr(at, name_size), memory.substr(at + name_size, value_size)});
    at += name_size + value_size;
  }
  char digits[12];
  if (call.body_size > 0) {
    const auto end = std::to_chars(digits, digits + sizeof digits, call.body_size).ptr;
    fields.push_back({"content-length", std::string_view(digits, static_cast<size_t>(end - digits))});
  }
  encoder_.encode(fields, &block);
  call.send_window = remote_window_;
  write_block(static_cast<uint32_t>(call.stream), block, call.body_size == 0, out);
}

void H2ClientSession::write_block(uint32_t stream, std::string_view block, bool last, std::string* out) const {
  FrameType type = FrameType::kHeaders;
  uint8_t flags = last ? kFlagEndStream : 0;
  do {
    const std::string_view part = block.substr(0, remote_frame_);
    block.remove_prefix(part.size());
    if (block.empty()) flags |= kFlagEndHeaders;
    append_frame_head({static_cast<uint32_t>(part.size()), type, flags, stream}, out);
    out->append(part);
    type = FrameType::kContinuation;
    flags = 0;
  } while (!block.empty());
}

// Writes as much as windows and limit allow. True: it stopped for the limit, and goes on with the next pull.
bool H2ClientSession::write_body(ClientCall& call, std::string* out, size_t limit) {
  while (call.body_sent < call.body_size) {
    if (out->size() >= limit) return true;
    const std::string_view rest = call.body().substr(call.body_sent);
    const int64_t allowed = std::min(
        {static_cast<int64_t>(rest.size()), static_cast<int64_t>(kLeastMaxFrame), call.send_window, send_window_});
    if (allowed <= 0) return false;
    const auto n = static_cast<uint32_t>(allowed);
    const uint8_t flags = n == rest.size() ? kFlagEndStream : 0;
    append_frame_head({n, FrameType::kData, flags, static_cast<uint32_t>(call.stream)}, out);
    out->append(rest.substr(0, n));
    call.body_sent += n;
    call.send_window -= n;
    send_window_ -= n;
  }
  --uploading_;
  return false;
}

void H2ClientSession::write_bodies(std::string* out, size_t limit) {
  may_upload_ = false;
  for (size_t i = 0; i + unsent_ < calls_.size() && uploading_ > 0; ++i) {
    ClientCall& call = *calls_[i];
    if (call.body_sent == call.body_size) continue;
    if (write_body(call, out, limit)) may_upload_ = true;
    if (may_upload_ || send_window_ <= 0) return;
  }
}

}  // namespace

std::unique_ptr<ClientSession> make_h2_client_session(const ClientSessionConfig* config, ClientSessionEvents* events) {
  return std::make_unique<H2ClientSession>(config, events);
}

}  // namespace ghostfleet::kube::http
