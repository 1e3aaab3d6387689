// The server's side of HTTP/1.1. One request at a time: what a pipelining client sends meanwhile waits, bounded.
#include <algorithm>

#include "kube/http/h1_message.h"
#include "kube/http/server_session.h"

namespace ghostfleet::kube::http {
namespace {

constexpr size_t kMaxPipelined = 256 * 1024;  // bytes of further requests taken while one is being answered
constexpr size_t kMergeBytes = 8 * 1024;      // bodies up to this are copied behind their head: one piece

class H1ServerSession final : public ServerSession {
 public:
  H1ServerSession(const Limits& limits, ServerSessionEvents* events, TimePoint now)
      : limits_(limits), events_(events), reader_(limits.max_header_bytes), since_(now) {}

  Status feed(std::string_view bytes, TimePoint now) override;
  void pull(std::string* out, size_t limit) override;
  bool wants_read() const override { return state_ != State::kBusy || pipelined_.size() < kMaxPipelined; }
  bool has_pending_input() const override { return !pipelined_.empty() && parsing(); }
  bool finished() const override { return closing_ && state_ == State::kClosed && pieces_.size() == next_piece_; }
  bool broken() const override { return broken_; }
  void respond(ServerStream* stream, int status, HeaderList&& headers, SharedBytes body) override;
  void start(ServerStream* stream, int status, HeaderList&& headers) override;
  void write(ServerStream* stream, SharedBytes piece) override;
  void finish(ServerStream* stream) override;
  void abort(ServerStream* stream) override;
  bool upgrade(ServerStream* stream, int status, HeaderList&& headers) override;
  std::string take_rest() override { return std::exchange(pipelined_, {}); }
  void go_away() override;
  Status sweep(TimePoint now) override;
  void close_all() override;
  size_t open_streams() const override { return state_ == State::kBusy ? 1 : 0; }

 private:
  enum class State : unsigned char { kIdle, kHead, kBody, kBusy, kUpgraded, kClosed };

  bool parsing() const { return state_ < State::kBusy; }
  void parse(std::string_view bytes);
  void parse_head(std::string_view* bytes);
  void parse_body(std::string_view* bytes);
  void take_body(std::string_view piece);
  bool parse_request_line(std::string_view line);
  void begin_body();
  void dispatch();
  void refuse(int status, std::string_view why);
  void append_head(int status, const HeaderList& headers, std::string_view framing, std::string* out);
  void push(SharedBytes piece);

  const Limits limits_;
  ServerSessionEvents* events_;
  H1HeadReader reader_;
  State state_ = State::kIdle;
  TimePoint since_;  // when the state began, or the last piece of a body came
  Request request_;
  H1Framing framing_;
  ChunkDecoder chunks_;
  ServerStream stream_;
  std::string pipelined_;
  std::vector<SharedBytes> pieces_;
  size_t next_piece_ = 0, piece_offset_ = 0;
  bool http10_ = false, head_only_ = false, chunked_answer_ = false;
  bool closing_ = false, broken_ = false;
  bool since_known_ = true;  // false after an answer went out: the next sweep() starts the idle time
};

Status H1ServerSession::feed(std::string_view bytes, TimePoint now) {
  if (state_ == State::kIdle && !bytes.empty()) since_ = now;
  if (state_ == State::kBody) since_ = now;
  since_known_ = true;
  if (state_ == State::kBusy || state_ == State::kUpgraded || !pipelined_.empty()) {
    pipelined_.append(bytes);
    if (pipelined_.size() > 4 * kMaxPipelined) broken_ = true;
  } else {
    parse(bytes);
  }
  while (parsing() && !pipelined_.empty()) {
    std::string waiting;
    waiting.swap(pipelined_);
    parse(waiting);
  }
  if (state_ == State::kIdle) since_ = now;
  return broken_ ? unavailable("HTTP/1.1: too much pipelined input") : Status();
}

void H1ServerSession::parse(std::string_view bytes) {
  while (!bytes.empty()) {
    switch (state_) {
      case State::kIdle: state_ = State::kHead; [[fallthrough]];
      case State::kHead:
        parse_head(&bytes);
        if (bytes.empty() && state_ == State::kHead && reader_.empty()) state_ = State::kIdle;
        break;
      case State::kBody: parse_body(&bytes); break;
      case State::kBusy:
      case State::kUpgraded: pipelined_.append(bytes); return;
      case State::kClosed: return;
    }
  }
}

void H1ServerSession::parse_head(std::string_view* bytes) {
  const H1HeadReader::State got = reader_.feed(bytes);
  if (got == H1HeadReader::State::kMore) return;
  if (got == H1HeadReader::State::kTooLarge) return refuse(431, "the request's headers are too large");
  std::string_view head = reader_.head();
  request_ = Request();
  request_.headers.reserve(8);
  framing_ = H1Framing();
  http10_ = head_only_ = false;
  if (!parse_request_line(take_line(&head))) return refuse(400, "malformed request line");
  if (!parse_header_lines(head, &request_.headers)) return refuse(400, "malformed header");
  reader_.reset();
  if (const Status status = h1_framing(request_.headers, &framing_); !status.ok()) return refuse(400, status.message());
  if (!http10_ && !request_.headers.find("host")) return refuse(400, "missing required Host header");
  const bool keep = http10_ ? has_token(request_.headers, "connection", "keep-alive")
                            : !has_token(request_.headers, "connection", "close");
  closing_ = closing_ || !keep;
  begin_body();
}

bool H1ServerSession::parse_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == 0 || last == first) return false;
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return false;
  const auto upper = [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; };
  const auto visible = [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; };
  if (method.size() > 32 || !std::all_of(method.begin(), method.end(), upper)) return false;
  if (target.empty() || !std::all_of(target.begin(), target.end(), visible)) return false;
  request_.method.assign(method);
  // The absolute form, as for a proxy, names us: only path and query matter.
  const size_t scheme = target.front() == '/' ? std::string_view::npos : target.find("://");
  const size_t path = scheme == std::string_view::npos ? 0 : target.find('/', scheme + 3);
  request_.target.assign(path == std::string_view::npos ? std::string_view("/") : target.substr(path));
  http10_ = version == "HTTP/1.0";
  head_only_ = method == "HEAD";
  return true;
}

void H1ServerSession::begin_body() {
  if (framing_.has_length && framing_.length > limits_.max_body_bytes) return refuse(413, "request body too large");
  if (!framing_.chunked && framing_.length == 0) return dispatch();
  state_ = State::kBody;
  chunks_.reset();
  if (framing_.has_length) request_.body.reserve(static_cast<size_t>(framing_.length));
  if (has_token(request_.headers, "expect", "100-continue")) push(share("HTTP/1.1 100 Continue\r\n\r\n"));
}

void H1ServerSession::parse_body(std::string_view* bytes) {
  if (framing_.has_length) {
    const size_t want = static_cast<size_t>(framing_.length) - request_.body.size();
    request_.body.append(bytes->substr(0, want));
    bytes->remove_prefix(std::min(want, bytes->size()));
    if (request_.body.size() == framing_.length) dispatch();
    return;
  }
  while (!bytes->empty() && !chunks_.done() && !chunks_.failed()) {
    const std::string_view piece = chunks_.next(bytes);
    if (request_.body.size() + piece.size() > limits_.max_body_bytes) return refuse(413, "request body too large");
    request_.body.append(piece);
  }
  if (chunks_.failed()) return refuse(400, "malformed chunked body");
  if (chunks_.done()) dispatch();
}

void H1ServerSession::dispatch() {
  state_ = State::kBusy;
  stream_ = ServerStream();
  events_->on_request(&stream_, std::move(request_));
}

// An answer without asking the handler; then the connection ends.
void H1ServerSession::refuse(int status, std::string_view why) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason_phrase(status)) +
                    "\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: " +
                    std::to_string(why.size() + 1) + "\r\n\r\n" + std::string(why) + "\n";
  push(share(std::move(out)));
  closing_ = true;
  state_ = State::kClosed;
}

void H1ServerSession::append_head(int status, const HeaderList& headers, std::string_view framing, std::string* out) {
  out->append("HTTP/1.1 ").append(std::to_string(status)).append(" ").append(reason_phrase(status)).append("\r\n");
  for (const auto& [name, value] : headers) {
    if (name == "content-length" || name == "connection" || name == "transfer-encoding") continue;
    out->append(name).append(": ").append(value).append("\r\n");
  }
  if (!headers.find("date")) out->append("date: ").append(http_date()).append("\r\n");
  if (closing_)
    out->append("connection: close\r\n");
  else if (http10_)
    out->append("connection: keep-alive\r\n");
  out->append(framing).append("\r\n");
}

void H1ServerSession::push(SharedBytes piece) {
  if (!piece || piece->empty()) return;
  stream_.backlog += piece->size();
  pieces_.push_back(std::move(piece));
}

void H1ServerSession::respond(ServerStream*, int status, HeaderList&& headers, SharedBytes body) {
  stream_.started = stream_.finished = true;
  std::string head;
  head.reserve(256 + (view(body).size() <= kMergeBytes ? view(body).size() : 0));
  std::string framing;
  if (!bodiless(status)) {
    // An answer to HEAD keeps the length the handler names.
    const std::string_view named =
        head_only_ && view(body).empty() ? headers.get("content-length") : std::string_view();
    framing = "content-length: " + (named.empty() ? std::to_string(view(body).size()) : std::string(named)) + "\r\n";
  }
  append_head(status, headers, framing, &head);
  const bool with_body = !head_only_ && !bodiless(status);
  const bool merged = with_body && view(body).size() <= kMergeBytes;
  if (merged) head.append(view(body));
  push(share(std::move(head)));
  if (with_body && !merged) push(std::move(body));
}

void H1ServerSession::start(ServerStream*, int status, HeaderList&& headers) {
  stream_.started = true;
  chunked_answer_ = !http10_ && !head_only_ && !bodiless(status);
  if (http10_) closing_ = true;  // the end of the connection is the end of the body
  std::string head;
  append_head(status, headers, chunked_answer_ ? "transfer-encoding: chunked\r\n" : "", &head);
  push(share(std::move(head)));
}

void H1ServerSession::write(ServerStream*, SharedBytes piece) {
  if (view(piece).empty() || head_only_) return;
  if (!chunked_answer_) return push(std::move(piece));
  static constexpr char kHex[] = "0123456789abcdef";
  char digits[16];
  size_t at = sizeof digits;
  for (size_t n = piece->size(); n > 0; n >>= 4) digits[--at] = kHex[n & 15];
  std::string framed(digits + at, sizeof digits - at);
  framed.append("\r\n");
  if (piece->size() <= kMergeBytes) {
    framed.append(*piece).append("\r\n");
    return push(share(std::move(framed)));
  }
  static const SharedBytes kEnd = share("\r\n");
  push(share(std::move(framed)));
  push(std::move(piece));
  push(kEnd);
}

void H1ServerSession::finish(ServerStream*) {
  static const SharedBytes kLast = share("0\r\n\r\n");
  if (chunked_answer_) push(kLast);
  chunked_answer_ = false;
  stream_.finished = true;
}

void H1ServerSession::abort(ServerStream*) {
  stream_.finished = true;
  broken_ = closing_ = true;
}

bool H1ServerSession::upgrade(ServerStream*, int status, HeaderList&& headers) {
  if (state_ != State::kBusy || http10_ || stream_.started) return false;
  std::string head = "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason_phrase(status)) + "\r\n";
  for (const auto& [name, value] : headers) {
    if (name != "connection") head.append(name).append(": ").append(value).append("\r\n");
  }
  head.append("connection: Upgrade\r\n\r\n");
  push(share(std::move(head)));
  state_ = State::kUpgraded;
  stream_.started = stream_.finished = true;
  return true;
}

// A stream stays open until its answer is pulled to the end.
void H1ServerSession::pull(std::string* out, size_t limit) {
  while (next_piece_ < pieces_.size() && out->size() < limit) {
    const std::string& piece = *pieces_[next_piece_];
    const size_t n = std::min(piece.size() - piece_offset_, limit - out->size());
    out->append(piece, piece_offset_, n);
    piece_offset_ += n;
    stream_.backlog -= n;
    if (piece_offset_ < piece.size()) return;
    pieces_[next_piece_++].reset();
    piece_offset_ = 0;
  }
  if (next_piece_ < pieces_.size()) return;
  pieces_.clear();
  next_piece_ = 0;
  if (state_ != State::kBusy || !stream_.finished) return;
  state_ = closing_ ? State::kClosed : State::kIdle;
  since_known_ = false;
  events_->on_closed(&stream_, !broken_);
}

void H1ServerSession::go_away() {
  closing_ = true;
  if (state_ == State::kIdle) state_ = State::kClosed;
}

Status H1ServerSession::sweep(TimePoint now) {
  if (!since_known_) since_ = now;
  since_known_ = true;
  const auto over = [&](int ms) { return now - since_ > std::chrono::milliseconds(ms); };
  if (state_ == State::kIdle && over(limits_.idle_timeout_ms)) return unavailable("idle");
  if (state_ == State::kHead && over(limits_.header_timeout_ms)) return unavailable("headers did not come in time");
  if (state_ == State::kBody && over(limits_.body_timeout_ms)) return unavailable("the body did not come in time");
  return Status();
}

void H1ServerSession::close_all() {
  if (state_ != State::kBusy) return;
  state_ = State::kClosed;
  stream_.finished = true;
  events_->on_closed(&stream_, false);
}

}  // namespace

std::unique_ptr<ServerSession> make_h1_server_session(const Limits& limits, ServerSessionEvents* events,
                                                      TimePoint now) {
  return std::make_unique<H1ServerSession>(limits, events, now);
}

}  // namespace ghostfleet::kube::http
