#include "kube/stream/spdy.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "kube/stream/spdy_headers.h"

namespace ghostfleet::kube::stream {
namespace {

enum FrameType : uint16_t {
  kSynStream = 1,
  kSynReply = 2,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kHeaders = 8,
  kWindowUpdate = 9,
};

constexpr uint16_t kVersion = 3;
constexpr unsigned char kFin = 1;
constexpr uint32_t kIdMask = 0x7fffffff, kLengthMask = 0xffffff;
constexpr size_t kFrameHeader = 8;
constexpr int64_t kInitialWindow = 64 * 1024;
constexpr uint32_t kInitialWindowSetting = 7;
constexpr uint32_t kGoAwayProtocolError = 1;

class SpdyEngine final : public Spdy {
 public:
  SpdyEngine(const SpdyOptions& options, SpdyEvents* events)
      : options_(options),
        events_(events),
        unpacker_(options.limits.max_header_bytes, options.limits.max_header_count),
        next_id_(options.server ? 2 : 1) {}

  Status feed(std::string_view bytes) override;
  SpdyStreamId open_stream(const http::HeaderList& headers, bool fin) override;
  void reply(SpdyStreamId id, const http::HeaderList& headers, bool fin) override;
  bool write(SpdyStreamId id, std::string_view bytes, bool fin) override;
  void finish(SpdyStreamId id) override { write(id, {}, true); }
  void reset(SpdyStreamId id, SpdyReset code) override;
  void ping(uint32_t id) override;
  void goaway(uint32_t status) override;
  void consumed(SpdyStreamId id, size_t bytes) override;
  size_t backlog(SpdyStreamId id) const override;
  size_t open_streams() const override { return streams_.size(); }

 private:
  struct Stream {
    bool local = false;  // made by us
    bool input_ended = false, output_ended = false, fin_waits = false;
    int64_t send_window = kInitialWindow, receive_window = kInitialWindow;
    size_t used_up = 0;
    std::string waiting;  // for a window
  };

  Status begin_frame();
  Status take_data(std::string_view* bytes);
  Status end_data();
  Status take_control(std::string_view* bytes);
  Status control(uint16_t type, unsigned char flags, std::string_view payload);
  Status syn_stream(unsigned char flags, std::string_view payload);
  Status syn_reply(unsigned char flags, std::string_view payload);
  Status more_headers(unsigned char flags, std::string_view payload);
  Status settings(std::string_view payload);
  Status window_update(std::string_view payload);
  Status rst_stream(std::string_view payload);
  Status on_ping(std::string_view payload);
  Status fail(const Status& why);
  Status short_frame(const char* name);

  Stream* find(SpdyStreamId id);
  void input_ended(SpdyStreamId id);
  void forget_if_done(SpdyStreamId id);
  void put_control(uint16_t type, unsigned char flags, std::string_view payload);
  void put_data(SpdyStreamId id, std::string_view bytes, bool fin);
  void send_waiting(SpdyStreamId id, Stream* stream);
  void grant(SpdyStreamId id, size_t* used_up, int64_t* window);

  const SpdyOptions options_;
  SpdyEvents* events_;
  SpdyHeaderUnpacker unpacker_;
  SpdyHeaderPacker packer_;
  std::unordered_map<SpdyStreamId, Stream> streams_;
  SpdyStreamId next_id_, last_peer_id_ = 0;
  size_t peer_streams_ = 0;
  bool failed_ = false, goaway_sent_ = false, goaway_received_ = false;
  int64_t send_window_ = kInitialWindow, receive_window_ = kInitialWindow, first_window_ = kInitialWindow;
  size_t used_up_ = 0;

  // of the frame that is coming in
  std::string header_, payload_;
  bool in_frame_ = false, is_control_ = false;
  uint16_t type_ = 0;
  unsigned char flags_ = 0;
  SpdyStreamId data_id_ = 0;
  size_t length_ = 0, seen_ = 0;
};

Status SpdyEngine::feed(std::string_view bytes) {
  if (failed_) return Status(Code::kDataLoss, "SPDY: the connection has failed already");
  while (!bytes.empty()) {
    if (in_frame_) {
      GF_RETURN_IF_ERROR(is_control_ ? take_control(&bytes) : take_data(&bytes));
      continue;
    }
    const size_t n = std::min(kFrameHeader - header_.size(), bytes.size());
    header_.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    if (header_.size() == kFrameHeader) GF_RETURN_IF_ERROR(begin_frame());
  }
  return Status();
}

Status SpdyEngine::fail(const Status& why) {
  goaway(kGoAwayProtocolError);
  failed_ = true;
  return why;
}

Status SpdyEngine::short_frame(const char* name) {
  return fail(Status(Code::kDataLoss, std::string("SPDY: a ") + name + " frame has the wrong length"));
}

Status SpdyEngine::begin_frame() {
  const uint32_t first = read_u32(header_, 0), second = read_u32(header_, 4);
  header_.clear();
  is_control_ = first >> 31;
  flags_ = static_cast<unsigned char>(second >> 24);
  length_ = second & kLengthMask;
  seen_ = 0;
  in_frame_ = true;
  if (!is_control_) {
    data_id_ = first & kIdMask;
    if (data_id_ == 0) return fail(Status(Code::kDataLoss, "SPDY: data for the stream 0"));
    return length_ == 0 ? end_data() : Status();
  }
  type_ = static_cast<uint16_t>(first & 0xffff);
  const uint32_t version = first >> 16 & 0x7fff;
  if (version != kVersion) {
    return fail(Status(Code::kUnimplemented, "SPDY: version " + std::to_string(version) + ", only 3 is spoken"));
  }
  if (length_ > options_.limits.max_control_bytes) {
    return fail(Status(Code::kResourceExhausted, "SPDY: a control frame of " + std::to_string(length_) + " bytes, " +
                                                     std::to_string(options_.limits.max_control_bytes) +
                                                     " are allowed"));
  }
  if (length_ > 0) return Status();
  in_frame_ = false;
  return control(type_, flags_, {});
}

Status SpdyEngine::take_control(std::string_view* bytes) {
  const size_t n = std::min(length_ - payload_.size(), bytes->size());
  payload_.append(bytes->substr(0, n));
  bytes->remove_prefix(n);
  if (payload_.size() < length_) return Status();
  in_frame_ = false;
  const std::string payload = std::exchange(payload_, {});
  return control(type_, flags_, payload);
}

Status SpdyEngine::take_data(std::string_view* bytes) {
  const size_t n = std::min(length_ - seen_, bytes->size());
  const std::string_view piece = bytes->substr(0, n);
  bytes->remove_prefix(n);
  seen_ += n;
  if (options_.flow_control) {
    receive_window_ -= static_cast<int64_t>(n);
    if (receive_window_ < 0) {
      return fail(Status(Code::kResourceExhausted, "SPDY: more data than the connection's window allows"));
    }
  }
  Stream* stream = find(data_id_);
  if (!stream) {
    // A stream that ended meanwhile: what was on its way is nobody's.
    consumed(0, n);
  } else if (stream->input_ended) {
    reset(data_id_, SpdyReset::kStreamAlreadyClosed);
    events_->on_reset(data_id_, SpdyReset::kStreamAlreadyClosed);
  } else if (options_.flow_control && (stream->receive_window -= static_cast<int64_t>(n)) < 0) {
    reset(data_id_, SpdyReset::kFlowControlError);
    events_->on_reset(data_id_, SpdyReset::kFlowControlError);
  } else {
    events_->on_data(data_id_, piece);
  }
  return seen_ == length_ ? end_data() : Status();
}

Status SpdyEngine::end_data() {
  in_frame_ = false;
  const Stream* stream = find(data_id_);
  if ((flags_ & kFin) && stream && !stream->input_ended) input_ended(data_id_);
  return Status();
}

Status SpdyEngine::control(uint16_t type, unsigned char flags, std::string_view payload) {
  switch (type) {
    case kSynStream: return syn_stream(flags, payload);
    case kSynReply: return syn_reply(flags, payload);
    case kRstStream: return rst_stream(payload);
    case kSettings: return settings(payload);
    case kPing: return on_ping(payload);
    case kGoAway:
      if (payload.size() != 8) return short_frame("GOAWAY");
      goaway_received_ = true;
      events_->on_goaway(read_u32(payload, 4));
      return Status();
    case kHeaders: return more_headers(flags, payload);
    case kWindowUpdate: return window_update(payload);
    default: return Status();  // the draft: ignore what you do not know
  }
}

Status SpdyEngine::syn_stream(unsigned char flags, std::string_view payload) {
  if (payload.size() < 10) return short_frame("SYN_STREAM");
  const SpdyStreamId id = read_u32(payload, 0) & kIdMask;
  http::HeaderList headers;
  if (const Status bad = unpacker_.unpack(payload.substr(10), &headers); !bad.ok()) return fail(bad);
  const bool right_parity = (id & 1) == (options_.server ? 1U : 0U);
  if (id == 0 || !right_parity || id <= last_peer_id_) {
    return fail(Status(Code::kDataLoss, "SPDY: a new stream with the id " + std::to_string(id) + " after " +
                                            std::to_string(last_peer_id_)));
  }
  last_peer_id_ = id;
  if (goaway_sent_) return Status();
  if (peer_streams_ >= options_.limits.max_streams) {
    reset(id, SpdyReset::kRefusedStream);
    return Status();
  }
  Stream& stream = streams_[id];
  stream.send_window = first_window_;
  stream.input_ended = flags & kFin;
  stream.output_ended = flags & 2;  // unidirectional
  ++peer_streams_;
  events_->on_stream(id, headers, stream.input_ended);
  return Status();
}

Status SpdyEngine::syn_reply(unsigned char flags, std::string_view payload) {
  if (payload.size() < 4) return short_frame("SYN_REPLY");
  const SpdyStreamId id = read_u32(payload, 0) & kIdMask;
  http::HeaderList headers;
  if (const Status bad = unpacker_.unpack(payload.substr(4), &headers); !bad.ok()) return fail(bad);
  const Stream* stream = find(id);
  if (!stream || !stream->local) return Status();
  const bool fin = (flags & kFin) && !stream->input_ended;
  events_->on_reply(id, headers);
  if (fin && find(id)) input_ended(id);
  return Status();
}

// Headers after the first ones mean nothing to anybody here, but they belong to the packed stream.
Status SpdyEngine::more_headers(unsigned char flags, std::string_view payload) {
  if (payload.size() < 4) return short_frame("HEADERS");
  const SpdyStreamId id = read_u32(payload, 0) & kIdMask;
  http::HeaderList headers;
  if (const Status bad = unpacker_.unpack(payload.substr(4), &headers); !bad.ok()) return fail(bad);
  const Stream* stream = find(id);
  if ((flags & kFin) && stream && !stream->input_ended) input_ended(id);
  return Status();
}

Status SpdyEngine::rst_stream(std::string_view payload) {
  if (payload.size() != 8) return short_frame("RST_STREAM");
  const SpdyStreamId id = read_u32(payload, 0) & kIdMask;
  const Stream* stream = find(id);
  if (!stream) return Status();
  peer_streams_ -= !stream->local;
  streams_.erase(id);
  events_->on_reset(id, static_cast<SpdyReset>(read_u32(payload, 4)));
  return Status();
}

Status SpdyEngine::settings(std::string_view payload) {
  if (payload.size() < 4 || (payload.size() - 4) % 8 != 0 || read_u32(payload, 0) != (payload.size() - 4) / 8) {
    return short_frame("SETTINGS");
  }
  for (size_t at = 4; at < payload.size(); at += 8) {
    if ((read_u32(payload, at) & kLengthMask) != kInitialWindowSetting) continue;
    const int64_t window = read_u32(payload, at + 4) & kIdMask;
    const int64_t change = window - std::exchange(first_window_, window);
    for (auto& [id, stream] : streams_) stream.send_window += change;
  }
  return Status();
}

Status SpdyEngine::on_ping(std::string_view payload) {
  if (payload.size() != 4) return short_frame("PING");
  const uint32_t id = read_u32(payload, 0);
  const bool ours = (id & 1) == (options_.server ? 0U : 1U);
  if (ours)
    events_->on_pong(id);
  else
    put_control(kPing, 0, payload);
  return Status();
}

Status SpdyEngine::window_update(std::string_view payload) {
  if (payload.size() != 8) return short_frame("WINDOW_UPDATE");
  const SpdyStreamId id = read_u32(payload, 0) & kIdMask;
  const int64_t delta = read_u32(payload, 4) & kIdMask;
  if (!options_.flow_control) return Status();
  Stream* stream = find(id);
  int64_t* window = id == 0 ? &send_window_ : stream ? &stream->send_window : nullptr;
  if (!window) return Status();
  *window += delta;
  if (*window > static_cast<int64_t>(kIdMask)) {
    if (id == 0) return fail(Status(Code::kDataLoss, "SPDY: the connection's window is over 2^31-1"));
    reset(id, SpdyReset::kFlowControlError);
    events_->on_reset(id, SpdyReset::kFlowControlError);
    return Status();
  }
  if (id != 0) {
    send_waiting(id, stream);
    return Status();
  }
  std::vector<SpdyStreamId> waiting;
  for (const auto& [each, s] : streams_) {
    if (!s.waiting.empty()) waiting.push_back(each);
  }
  for (const SpdyStreamId each : waiting) {
    if (Stream* s = find(each)) send_waiting(each, s);
  }
  return Status();
}

SpdyEngine::Stream* SpdyEngine::find(SpdyStreamId id) {
  const auto at = streams_.find(id);
  return at == streams_.end() ? nullptr : &at->second;
}

void SpdyEngine::input_ended(SpdyStreamId id) {
  find(id)->input_ended = true;
  events_->on_fin(id);
  forget_if_done(id);
}

void SpdyEngine::forget_if_done(SpdyStreamId id) {
  const Stream* stream = find(id);
  if (!stream || !stream->input_ended || !stream->output_ended) return;
  peer_streams_ -= !stream->local;
  streams_.erase(id);
}

void SpdyEngine::put_control(uint16_t type, unsigned char flags, std::string_view payload) {
  std::string out;
  out.reserve(kFrameHeader + payload.size());
  append_u32(0x80000000U | static_cast<uint32_t>(kVersion) << 16 | type, &out);
  append_u32(static_cast<uint32_t>(flags) << 24 | static_cast<uint32_t>(payload.size()), &out);
  out.append(payload);
  events_->on_output(share(std::move(out)));
}

SpdyStreamId SpdyEngine::open_stream(const http::HeaderList& headers, bool fin) {
  if (failed_ || goaway_sent_ || goaway_received_ || next_id_ > kIdMask) return 0;
  const SpdyStreamId id = next_id_;
  next_id_ += 2;
  Stream& stream = streams_[id];
  stream.local = true;
  stream.send_window = first_window_;
  stream.output_ended = fin;
  std::string payload;
  append_u32(id, &payload);
  append_u32(0, &payload);
  payload.append(2, '\0');
  packer_.pack(headers, &payload);
  put_control(kSynStream, fin ? kFin : 0, payload);
  return id;
}

void SpdyEngine::reply(SpdyStreamId id, const http::HeaderList& headers, bool fin) {
  Stream* stream = find(id);
  if (!stream || stream->local) return;
  std::string payload;
  append_u32(id, &payload);
  packer_.pack(headers, &payload);
  put_control(kSynReply, fin ? kFin : 0, payload);
  if (!fin) return;
  stream->output_ended = true;
  forget_if_done(id);
}

void SpdyEngine::put_data(SpdyStreamId id, std::string_view bytes, bool fin) {
  const size_t most = std::clamp<size_t>(options_.limits.data_frame_bytes, 1, kLengthMask);
  do {
    const std::string_view piece = bytes.substr(0, most);
    bytes.remove_prefix(piece.size());
    std::string out;
    out.reserve(kFrameHeader + piece.size());
    append_u32(id, &out);
    append_u32((fin && bytes.empty() ? static_cast<uint32_t>(kFin) << 24 : 0) | static_cast<uint32_t>(piece.size()),
               &out);
    out.append(piece);
    events_->on_output(share(std::move(out)));
  } while (!bytes.empty());
}

bool SpdyEngine::write(SpdyStreamId id, std::string_view bytes, bool fin) {
  Stream* stream = find(id);
  if (failed_ || !stream || stream->output_ended || stream->fin_waits) return false;
  if (bytes.empty() && !fin) return true;
  if (!options_.flow_control) {
    put_data(id, bytes, fin);
    stream->output_ended = fin;
    forget_if_done(id);
    return true;
  }
  stream->waiting.append(bytes);
  stream->fin_waits = fin;
  send_waiting(id, stream);
  return true;
}

// As much as the windows allow.
void SpdyEngine::send_waiting(SpdyStreamId id, Stream* stream) {
  const int64_t window = std::max<int64_t>(0, std::min(stream->send_window, send_window_));
  const size_t n = static_cast<size_t>(std::min<int64_t>(window, static_cast<int64_t>(stream->waiting.size())));
  const bool fin = stream->fin_waits && n == stream->waiting.size();
  if (n == 0 && !fin) return;
  put_data(id, std::string_view(stream->waiting).substr(0, n), fin);
  stream->waiting.erase(0, n);
  stream->send_window -= static_cast<int64_t>(n);
  send_window_ -= static_cast<int64_t>(n);
  if (fin) {
    stream->fin_waits = false;
    stream->output_ended = true;
  }
  events_->on_window(id);
  forget_if_done(id);
}

void SpdyEngine::reset(SpdyStreamId id, SpdyReset code) {
  if (failed_) return;
  if (const Stream* stream = find(id)) {
    peer_streams_ -= !stream->local;
    streams_.erase(id);
  }
  std::string payload;
  append_u32(id, &payload);
  append_u32(static_cast<uint32_t>(code), &payload);
  put_control(kRstStream, 0, payload);
}

void SpdyEngine::ping(uint32_t id) {
  std::string payload;
  append_u32(id, &payload);
  put_control(kPing, 0, payload);
}

void SpdyEngine::goaway(uint32_t status) {
  if (failed_ || std::exchange(goaway_sent_, true)) return;
  std::string payload;
  append_u32(last_peer_id_, &payload);
  append_u32(status, &payload);
  put_control(kGoAway, 0, payload);
}

void SpdyEngine::consumed(SpdyStreamId id, size_t bytes) {
  if (!options_.flow_control || failed_) return;
  used_up_ += bytes;
  grant(0, &used_up_, &receive_window_);
  Stream* stream = find(id);
  if (!stream || stream->input_ended) return;
  stream->used_up += bytes;
  grant(id, &stream->used_up, &stream->receive_window);
}

// In steps of half a window: not a frame for every piece.
void SpdyEngine::grant(SpdyStreamId id, size_t* used_up, int64_t* window) {
  if (*used_up < kInitialWindow / 2) return;
  std::string payload;
  append_u32(id, &payload);
  append_u32(static_cast<uint32_t>(*used_up), &payload);
  *window += static_cast<int64_t>(std::exchange(*used_up, 0));
  put_control(kWindowUpdate, 0, payload);
}

size_t SpdyEngine::backlog(SpdyStreamId id) const {
  const auto at = streams_.find(id);
  return at == streams_.end() ? 0 : at->second.waiting.size();
}

}  // namespace

std::unique_ptr<Spdy> Spdy::create(const SpdyOptions& options, SpdyEvents* events) {
  return std::make_unique<SpdyEngine>(options, events);
}

}  // namespace ghostfleet::kube::stream
