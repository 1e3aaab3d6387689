// The server's side of HTTP/2, on nghttp2.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <vector>

#include "kube/http/h2_core.h"
#include "kube/http/server_session.h"

namespace ghostfleet::kube::http {
namespace {

constexpr uint32_t kStreamWindow = 1u << 20;
constexpr uint32_t kConnectionWindow = 4u << 20;
// Bodies of unfinished requests held for one connection before its window stays shut until some are complete.
constexpr size_t kMaxBuffered = 64u << 20;

struct Stream : ServerStream {
  int32_t id = 0;
  Request request;
  size_t header_bytes = 0;
  int refusal = 0;  // 413 or 431: answered without the handler
  bool dispatched = false, complete = false, head_only = false, deferred = false;
  TimePoint last_progress;
  HeaderList headers;  // of the answer; nghttp2 reads them from here until they are framed
  char status_text[4] = {};
  char length_text[24] = {};
  std::string date;
  std::vector<SharedBytes> pieces;
  size_t next_piece = 0, piece_offset = 0;
  HeaderList trailers;
  size_t unconsumed = 0;                    // of a streamed body: handed out and not yet taken
  size_t kept = 0;                          // and what its taker holds
  Stream *prev = nullptr, *next = nullptr;  // of all open streams
};

nghttp2_nv header(std::string_view name, std::string_view value) {
  // What the stream owns is not copied: it lives until the stream is closed.
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

std::string_view view_of(const uint8_t* data, size_t size) {
  return std::string_view(reinterpret_cast<const char*>(data), size);
}

class H2ServerSession final : public ServerSession {
 public:
  H2ServerSession(const Limits& limits, ServerSessionEvents* events, TimePoint now, bool stream_bodies);
  ~H2ServerSession() override;

  Status feed(std::string_view bytes, TimePoint now) override;
  void pull(std::string* out, size_t limit) override;
  bool finished() const override { return core_.finished() || (going_away_ && open_ == 0); }
  void respond(ServerStream* stream, int status, HeaderList&& headers, SharedBytes body) override;
  void start(ServerStream* stream, int status, HeaderList&& headers) override;
  void write(ServerStream* stream, SharedBytes piece) override;
  void finish(ServerStream* stream) override;
  void finish_with(ServerStream* stream, HeaderList&& trailers) override;
  void consume(ServerStream* stream, size_t bytes, size_t kept) override;
  void abort(ServerStream* stream) override;
  void go_away() override;
  Status sweep(TimePoint now) override;
  void close_all() override;
  size_t open_streams() const override { return open_; }

 private:
  friend struct Callbacks;
  Stream* open_stream(int32_t id);
  void recycle(Stream* stream);
  int on_header(Stream& stream, std::string_view name, std::string_view value);
  void on_body(Stream& stream, std::string_view piece);
  void on_head_complete(Stream& stream);
  void on_request_complete(Stream& stream);
  void on_streamed_head(Stream& stream);
  void on_streamed_body(Stream& stream, std::string_view piece);
  void on_streamed_end(Stream& stream);
  void on_answered(int32_t id);
  void dispatch(Stream& stream);
  void release_body(size_t bytes);
  void refuse(Stream& stream, int status, std::string_view why);
  void submit(Stream& stream, int status, bool with_body, bool with_length, size_t length);
  void submit_trailers(Stream& stream, uint32_t* flags);
  ssize_t read_body(Stream& stream, uint8_t* out, size_t size, uint32_t* flags);
  void on_close(Stream& stream, uint32_t error_code);

  const Limits limits_;
  const bool stream_bodies_;
  ServerSessionEvents* events_;
  H2Core core_;
  std::deque<Stream> memory_;
  std::vector<Stream*> free_;
  Stream* first_ = nullptr;
  size_t open_ = 0, incomplete_ = 0, buffered_ = 0, withheld_ = 0;
  TimePoint now_, last_input_, frame_since_;
  bool in_head_ = false, got_preface_ = false, going_away_ = false, pinged_ = false;
};

struct Callbacks {
  static H2ServerSession& self(void* user) { return *static_cast<H2ServerSession*>(user); }
  static Stream* stream(nghttp2_session* session, int32_t id) {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    H2ServerSession& s = self(user);
    s.in_head_ = true;
    s.frame_since_ = s.now_;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s.open_stream(frame->hd.stream_id));
    return 0;
  }

  static int header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                    const uint8_t* value, size_t value_size, uint8_t, void* user) {
    Stream* s = stream(session, frame->hd.stream_id);
    if (!s || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    return self(user).on_header(*s, view_of(name, name_size), view_of(value, value_size));
  }

  static int data(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t size, void* user) {
    Stream* s = stream(session, id);
    if (s)
      self(user).on_body(*s, view_of(data, size));
    else
      nghttp2_session_consume_connection(session, size);
    return 0;
  }

  static int frame_recv(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    H2ServerSession& h = self(user);
    if (frame->hd.type == NGHTTP2_SETTINGS) h.got_preface_ = true;
    if (frame->hd.type == NGHTTP2_HEADERS) h.in_head_ = false;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Stream* s = stream(session, frame->hd.stream_id);
    if (!s) return 0;
    const bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!end && frame->hd.type == NGHTTP2_HEADERS) h.on_head_complete(*s);
    if (end) h.on_request_complete(*s);
    return 0;
  }

  static int stream_close(nghttp2_session* session, int32_t id, uint32_t error_code, void* user) {
    if (Stream* s = stream(session, id)) self(user).on_close(*s, error_code);
    return 0;
  }

  static ssize_t read(nghttp2_session*, int32_t, uint8_t* out, size_t size, uint32_t* flags,
                      nghttp2_data_source* source, void* user) {
    return self(user).read_body(*static_cast<Stream*>(source->ptr), out, size, flags);
  }

  static int frame_send(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const bool answer = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (answer && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) self(user).on_answered(frame->hd.stream_id);
    return 0;
  }

  static nghttp2_session_callbacks* make(bool stream_bodies) {
    nghttp2_session_callbacks* c = nullptr;
    nghttp2_session_callbacks_new(&c);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, frame_recv);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, stream_close);
    if (stream_bodies) nghttp2_session_callbacks_set_on_frame_send_callback(c, frame_send);
    return c;
  }
};

H2ServerSession::H2ServerSession(const Limits& limits, ServerSessionEvents* events, TimePoint now, bool stream_bodies)
    : limits_(limits), stream_bodies_(stream_bodies), events_(events), now_(now), last_input_(now), frame_since_(now) {
  core_.open(Callbacks::make(stream_bodies), this);
  // The list's size as HTTP/2 counts it has 32 bytes more a header than our limit, which nghttp2 only announces.
  core_.announce(limits.max_streams, kStreamWindow, kConnectionWindow, static_cast<uint32_t>(limits.max_header_bytes));
}

H2ServerSession::~H2ServerSession() = default;

Stream* H2ServerSession::open_stream(int32_t id) {
  Stream* stream = nullptr;
  if (free_.empty()) {
    stream = &memory_.emplace_back();
  } else {
    stream = free_.back();
    free_.pop_back();
  }
  stream->id = id;
  stream->last_progress = now_;
  stream->request.http2 = true;
  stream->request.headers.reserve(10);
  stream->next = first_;
  if (first_) first_->prev = stream;
  first_ = stream;
  ++open_;
  ++incomplete_;
  return stream;
}

void H2ServerSession::recycle(Stream* stream) {
  if (stream->prev)
    stream->prev->next = stream->next;
  else
    first_ = stream->next;
  if (stream->next) stream->next->prev = stream->prev;
  --open_;
  if (!stream->complete) --incomplete_;
  std::vector<SharedBytes> pieces = std::move(stream->pieces);
  pieces.clear();
  *stream = Stream();
  stream->pieces = std::move(pieces);
  free_.push_back(stream);
}

int H2ServerSession::on_header(Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size() + 2;
  if (stream.header_bytes > limits_.max_header_bytes) {
    stream.refusal = 431;  // answered when the block ends: HPACK's state needs all of it
    return 0;
  }
  Request& r = stream.request;
  if (name.empty() || name[0] != ':')
    r.headers.append(name, value);
  else if (name == ":method")
    r.method.assign(value);
  else if (name == ":path")
    r.target.assign(value);
  else if (name == ":authority")
    r.headers.append("host", value);
  return 0;
}

void H2ServerSession::on_head_complete(Stream& stream) {
  if (stream.refusal == 431) return refuse(stream, 431, "the request's headers are too large\n");
  if (stream_bodies_) return on_streamed_head(stream);
  const std::string_view length = stream.request.headers.get("content-length");
  uint64_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (bytes > limits_.max_body_bytes) return refuse(stream, 413, "request body too large\n");
  if (bytes > 0) stream.request.body.reserve(bytes);
  if (stream.request.headers.get("expect") == "100-continue") {
    const nghttp2_nv continue_head = header(":status", "100");
    nghttp2_submit_headers(core_.session(), NGHTTP2_FLAG_NONE, stream.id, nullptr, &continue_head, 1, nullptr);
  }
}

void H2ServerSession::on_body(Stream& stream, std::string_view piece) {
  if (stream_bodies_) return on_streamed_body(stream, piece);
  stream.last_progress = now_;
  nghttp2_session* session = core_.session();
  nghttp2_session_consume_stream(session, stream.id, piece.size());
  if (stream.refusal == 0 && stream.request.body.size() + piece.size() > limits_.max_body_bytes) {
    buffered_ -= stream.request.body.size();
    std::string().swap(stream.request.body);
    refuse(stream, 413, "request body too large\n");
  }
  if (stream.refusal == 0) {
    stream.request.body.append(piece);
    buffered_ += piece.size();
  }
  if (buffered_ > kMaxBuffered) {
    withheld_ += piece.size();  // granted again when a request is complete
  } else {
    nghttp2_session_consume_connection(session, piece.size());
  }
}

void H2ServerSession::on_request_complete(Stream& stream) {
  if (stream.complete) return;
  stream.complete = true;
  --incomplete_;
  if (stream_bodies_ && stream.dispatched) return on_streamed_end(stream);
  release_body(stream.request.body.size());
  if (stream.refusal == 431 && !stream.started) refuse(stream, 431, "the request's headers are too large\n");
  if (stream.refusal != 0) return;
  dispatch(stream);
  if (stream_bodies_) on_streamed_end(stream);
}

void H2ServerSession::dispatch(Stream& stream) {
  stream.head_only = stream.request.method == "HEAD";
  stream.dispatched = true;
  events_->on_request(&stream, std::move(stream.request));
}

// So much less is held: what was withheld from the connection's window is granted when that is little enough.
void H2ServerSession::release_body(size_t bytes) {
  buffered_ -= bytes;
  if (withheld_ == 0 || buffered_ > kMaxBuffered) return;
  nghttp2_session_consume_connection(core_.session(), withheld_);
  withheld_ = 0;
}

// A streamed body is bounded by the stream's window: what its taker has not consumed is not granted again.
void H2ServerSession::on_streamed_head(Stream& stream) {
  if (!stream.dispatched) dispatch(stream);
}

void H2ServerSession::on_streamed_body(Stream& stream, std::string_view piece) {
  stream.unconsumed += piece.size();
  buffered_ += piece.size();
  if (buffered_ > kMaxBuffered) {
    withheld_ += piece.size();
  } else {
    nghttp2_session_consume_connection(core_.session(), piece.size());
  }
  if (stream.dispatched && !stream.finished) return events_->on_body(&stream, piece);
  consume(&stream, piece.size(), 0);
}

void H2ServerSession::on_streamed_end(Stream& stream) {
  if (!stream.finished) events_->on_body_end(&stream);
}

void H2ServerSession::consume(ServerStream* base, size_t bytes, size_t kept) {
  auto& stream = *static_cast<Stream*>(base);
  bytes = std::min(bytes, stream.unconsumed);
  stream.unconsumed -= bytes;
  buffered_ += kept;
  release_body(bytes + std::exchange(stream.kept, kept));
  if (!stream.complete) nghttp2_session_consume_stream(core_.session(), stream.id, bytes);
}

// RFC 9113, 8.1: the answer is complete before the request is; nothing more of it is wanted.
void H2ServerSession::on_answered(int32_t id) {
  const Stream* stream = Callbacks::stream(core_.session(), id);
  if (stream && !stream->complete) core_.reset_stream(id, NGHTTP2_NO_ERROR);
}

void H2ServerSession::refuse(Stream& stream, int status, std::string_view why) {
  stream.refusal = status;
  HeaderList headers{{"content-type", "text/plain; charset=utf-8"}};
  respond(&stream, status, std::move(headers), share(std::string(why)));
}

void H2ServerSession::submit(Stream& stream, int status, bool with_body, bool with_length, size_t length) {
  std::to_chars(stream.status_text, stream.status_text + 3, std::clamp(status, 100, 999));
  static thread_local std::vector<nghttp2_nv> block;
  block.clear();
  block.push_back(header(":status", std::string_view(stream.status_text, 3)));
  for (const auto& [name, value] : stream.headers) {
    if (name == "connection" || name == "transfer-encoding" || name == "keep-alive") continue;
    if (name == "content-length" && with_length) continue;
    block.push_back(header(name, value));
  }
  if (with_length) {
    const auto end = std::to_chars(stream.length_text, stream.length_text + sizeof stream.length_text, length).ptr;
    const auto size = static_cast<size_t>(end - stream.length_text);
    block.push_back(header("content-length", std::string_view(stream.length_text, size)));
  }
  if (!stream.headers.find("date")) {
    stream.date.assign(http_date());
    block.push_back(header("date", stream.date));
  }
  nghttp2_data_provider provider{};
  provider.source.ptr = &stream;
  provider.read_callback = Callbacks::read;
  stream.started = true;
  nghttp2_submit_response(core_.session(), stream.id, block.data(), block.size(), with_body ? &provider : nullptr);
}

void H2ServerSession::respond(ServerStream* base, int status, HeaderList&& headers, SharedBytes body) {
  auto& stream = *static_cast<Stream*>(base);
  stream.headers = std::move(headers);
  stream.finished = true;
  const size_t size = view(body).size();
  const bool with_body = !stream.head_only && !bodiless(status) && size > 0;
  const bool keep_named = stream.head_only && size == 0 && stream.headers.find("content-length");
  if (with_body) {
    stream.backlog += size;
    stream.pieces.push_back(std::move(body));
  }
  submit(stream, status, with_body, !bodiless(status) && !keep_named, size);
}

void H2ServerSession::start(ServerStream* base, int status, HeaderList&& headers) {
  auto& stream = *static_cast<Stream*>(base);
  stream.headers = std::move(headers);
  submit(stream, status, !stream.head_only && !bodiless(status), false, 0);
}

void H2ServerSession::write(ServerStream* base, SharedBytes piece) {
  auto& stream = *static_cast<Stream*>(base);
  if (view(piece).empty() || stream.head_only) return;
  stream.backlog += piece->size();
  stream.pieces.push_back(std::move(piece));
  if (stream.deferred) nghttp2_session_resume_data(core_.session(), stream.id);
  stream.deferred = false;
}

void H2ServerSession::finish(ServerStream* base) {
  auto& stream = *static_cast<Stream*>(base);
  stream.finished = true;
  if (stream.deferred) nghttp2_session_resume_data(core_.session(), stream.id);
  stream.deferred = false;
}

void H2ServerSession::finish_with(ServerStream* base, HeaderList&& trailers) {
  static_cast<Stream*>(base)->trailers = std::move(trailers);
  finish(base);
}

void H2ServerSession::abort(ServerStream* base) {
  auto& stream = *static_cast<Stream*>(base);
  stream.finished = true;
  core_.reset_stream(stream.id, NGHTTP2_INTERNAL_ERROR);
}

void H2ServerSession::submit_trailers(Stream& stream, uint32_t* flags) {
  *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  static thread_local std::vector<nghttp2_nv> block;
  block.clear();
  for (const auto& [name, value] : stream.trailers) block.push_back(header(name, value));
  nghttp2_submit_trailer(core_.session(), stream.id, block.data(), block.size());
}

ssize_t H2ServerSession::read_body(Stream& stream, uint8_t* out, size_t size, uint32_t* flags) {
  size_t filled = 0;
  while (filled < size && stream.next_piece < stream.pieces.size()) {
    const std::string& piece = *stream.pieces[stream.next_piece];
    const size_t n = std::min(size - filled, piece.size() - stream.piece_offset);
    std::memcpy(out + filled, piece.data() + stream.piece_offset, n);
    filled += n;
    stream.piece_offset += n;
    if (stream.piece_offset < piece.size()) break;
    stream.pieces[stream.next_piece++].reset();
    stream.piece_offset = 0;
  }
  stream.backlog -= filled;
  if (stream.next_piece < stream.pieces.size()) return static_cast<ssize_t>(filled);
  stream.pieces.clear();
  stream.next_piece = 0;
  if (stream.finished) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!stream.trailers.empty()) submit_trailers(stream, flags);
  } else if (filled == 0) {
    stream.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(filled);
}

void H2ServerSession::on_close(Stream& stream, uint32_t error_code) {
  if (stream_bodies_)
    release_body(stream.unconsumed + stream.kept);
  else if (!stream.complete)
    buffered_ -= stream.request.body.size();
  const bool clean = stream.finished && stream.backlog == 0 && error_code == NGHTTP2_NO_ERROR;
  if (stream.dispatched) events_->on_closed(&stream, clean);
  recycle(&stream);
}

Status H2ServerSession::feed(std::string_view bytes, TimePoint now) {
  now_ = now;
  last_input_ = now;
  pinged_ = false;
  return core_.feed(bytes);
}

void H2ServerSession::pull(std::string* out, size_t limit) { core_.pull(out, limit); }

void H2ServerSession::go_away() {
  if (going_away_) return;
  going_away_ = true;
  core_.go_away(NGHTTP2_NO_ERROR);
}

// A connection with open answers is asked by PING whether its peer still lives; one without is closed when it idles.
Status H2ServerSession::sweep(TimePoint now) {
  const auto over = [&](TimePoint since, int ms) { return now - since > std::chrono::milliseconds(ms); };
  if ((in_head_ || !got_preface_) && over(frame_since_, limits_.header_timeout_ms)) {
    return unavailable("headers did not come in time");
  }
  if (over(last_input_, limits_.idle_timeout_ms)) {
    if (open_ == 0) {
      go_away();  // a request that crosses it is known not to be processed
      return Status();
    }
    if (pinged_ && over(last_input_, 2 * limits_.idle_timeout_ms)) return unavailable("no answer to PING");
    if (!pinged_) core_.ping();
    pinged_ = true;
  }
  if (incomplete_ == 0 || stream_bodies_) return Status();
  for (Stream* stream = first_; stream != nullptr; stream = stream->next) {
    if (!stream->complete && over(stream->last_progress, limits_.body_timeout_ms)) {
      stream->last_progress = now;
      core_.reset_stream(stream->id, NGHTTP2_CANCEL);
    }
  }
  return Status();
}

void H2ServerSession::close_all() {
  for (Stream* stream = first_; stream != nullptr; stream = stream->next) {
    stream->finished = true;
    if (stream->dispatched) events_->on_closed(stream, false);
    stream->dispatched = false;
  }
}

}  // namespace

std::unique_ptr<ServerSession> make_h2_server_session(const Limits& limits, ServerSessionEvents* events, TimePoint now,
                                                      bool stream_bodies) {
  return std::make_unique<H2ServerSession>(limits, events, now, stream_bodies);
}

}  // namespace ghostfleet::kube::http
