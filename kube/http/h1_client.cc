// The client's side of HTTP/1.1: one call at a time, keep-alive.
#include <algorithm>
#include <charconv>

#include "kube/http/client_session.h"
#include "kube/http/h1_message.h"

namespace ghostfleet::kube::http {
namespace {

constexpr size_t kMaxHeaderBytes = 256 * 1024;

class H1ClientSession final : public ClientSession {
 public:
  H1ClientSession(const ClientSessionConfig* config, ClientSessionEvents* events)
      : config_(config), events_(events), reader_(kMaxHeaderBytes) {}

  Status feed(std::string_view bytes) override;
  void on_eof() override;
  void pull(std::string* out, size_t limit) override;
  size_t room() const override { return call_ || draining_ ? 0 : 1; }
  size_t capacity() const override { return 1; }
  bool submit(ClientCall* call) override;
  void cancel(ClientCall* call) override;
  bool draining() const override { return draining_; }
  void fail_all(const Status& why) override;

 private:
  enum class State : unsigned char { kHead, kLength, kChunked, kToEof };

  Status parse_head(std::string_view* bytes);
  Status parse_body(std::string_view* bytes);
  Status begin_body(int status);
  void piece(std::string_view bytes);
  void end();
  void release();

  const ClientSessionConfig* config_;
  ClientSessionEvents* events_;
  H1HeadReader reader_;
  HeaderList headers_;
  ChunkDecoder chunks_;
  ClientCall* call_ = nullptr;
  State state_ = State::kHead;
  uint64_t left_ = 0;
  std::string head_;  // of the request, not yet pulled
  bool body_pulled_ = true, draining_ = false;
};

bool H1ClientSession::submit(ClientCall* call) {
  if (room() == 0) return false;
  call_ = call;
  state_ = State::kHead;
  reader_.reset();
  head_.assign(call->method()).append(" ").append(call->target()).append(" HTTP/1.1\r\nhost: ");
  head_.append(config_->authority).append("\r\n");
  for (const auto& [name, value] : config_->default_headers) {
    head_.append(name).append(": ").append(value).append("\r\n");
  }
  const std::string_view memory = call->memory;
  size_t at = call->method_size + call->target_size;
  for (const auto& [name_size, value_size] : call->header_sizes) {
    head_.append(memory.substr(at, name_size)).append(": ");
    head_.append(memory.substr(at + name_size, value_size)).append("\r\n");
    at += name_size + value_size;
  }
  const bool needs_length = call->method() == "POST" || call->method() == "PUT" || call->method() == "PATCH";
  if (call->body_size > 0 || needs_length) {
    head_.append("content-length: ").append(std::to_string(call->body_size)).append("\r\n");
  }
  head_.append("\r\n");
  body_pulled_ = call->body_size == 0;
  return true;
}

void H1ClientSession::pull(std::string* out, size_t limit) {
  out->append(head_);
  head_.clear();
  if (body_pulled_ || !call_) return;
  const std::string_view rest = call_->body().substr(call_->body_sent);
  const size_t n = std::min(rest.size(), std::max<size_t>(limit, out->size() + 1) - out->size());
  out->append(rest.substr(0, n));
  call_->body_sent += static_cast<uint32_t>(n);
  body_pulled_ = n == rest.size();
}

// Whatever is half done on the wire is useless now.
void H1ClientSession::cancel(ClientCall* call) {
  if (call != call_) return;
  draining_ = true;
  release();
}

Status H1ClientSession::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!call_) {
      draining_ = true;
      return unavailable("HTTP/1.1: bytes that no request asked for");
    }
    GF_RETURN_IF_ERROR(state_ == State::kHead ? parse_head(&bytes) : parse_body(&bytes));
  }
  return Status();
}

Status H1ClientSession::parse_head(std::string_view* bytes) {
  const H1HeadReader::State got = reader_.feed(bytes);
  if (got == H1HeadReader::State::kMore) return Status();
  if (got == H1HeadReader::State::kTooLarge) return unavailable("HTTP/1.1: the answer's headers are too large");
  std::string_view head = reader_.head();
  const std::string_view line = take_line(&head);
  int status = 0;
  if (line.size() < 12 || line.substr(0, 7) != "HTTP/1." || line[8] != ' ' ||
      std::from_chars(line.data() + 9, line.data() + 12, status).ptr != line.data() + 12 || status < 100) {
    return unavailable("the peer does not speak HTTP");
  }
  headers_.clear();
  if (!parse_header_lines(head, &headers_)) return unavailable("HTTP/1.1: malformed header in the answer");
  const bool old = line[7] == '0';
  reader_.reset();
  if (status < 200 && status != 101) return Status();  // 100 Continue, 103 Early Hints
  if (has_token(headers_, "connection", "close") || (old && !has_token(headers_, "connection", "keep-alive"))) {
    draining_ = true;
  }
  return begin_body(status);
}

Status H1ClientSession::begin_body(int status) {
  H1Framing framing;
  if (const Status bad = h1_framing(headers_, &framing); !bad.ok()) {
    return unavailable("HTTP/1.1: the answer has " + bad.message());
  }
  const bool none = call_->method() == "HEAD" || status == 204 || status == 304;
  if (none || (framing.has_length && framing.length == 0)) {
    state_ = State::kLength;
    left_ = 0;
  } else if (framing.chunked) {
    state_ = State::kChunked;
    chunks_.reset();
  } else if (framing.has_length) {
    state_ = State::kLength;
    left_ = framing.length;
  } else {
    state_ = State::kToEof;
    draining_ = true;
  }
  call_->head_seen = true;
  ClientCall* call = call_;
  if (call->handler) events_->on_head(call, status, headers_);
  if (call_ == call && state_ == State::kLength && left_ == 0) end();
  return Status();
}

void H1ClientSession::piece(std::string_view bytes) {
  if (!bytes.empty() && call_ && call_->handler) events_->on_body(call_, bytes);
}

Status H1ClientSession::parse_body(std::string_view* bytes) {
  const ClientCall* call = call_;  // a handler may cancel it
  if (state_ == State::kChunked) {
    while (call_ == call && !bytes->empty() && !chunks_.done() && !chunks_.failed()) piece(chunks_.next(bytes));
    if (chunks_.failed()) return unavailable("HTTP/1.1: malformed chunk in the answer");
    if (call_ == call && chunks_.done()) end();
    return Status();
  }
  const bool bounded = state_ == State::kLength;
  const std::string_view part =
      bounded ? bytes->substr(0, static_cast<size_t>(std::min<uint64_t>(left_, bytes->size()))) : *bytes;
  bytes->remove_prefix(part.size());
  if (bounded) left_ -= part.size();
  piece(part);
  if (call_ == call && bounded && left_ == 0) end();
  return Status();
}

void H1ClientSession::on_eof() {
  if (call_ && state_ == State::kToEof) end();
}

void H1ClientSession::end() {
  ClientCall* call = call_;
  call->ended = true;
  if (!body_pulled_) draining_ = true;  // answered before the request was sent as a whole
  if (call->handler) events_->on_end(call);
  if (call_ == call) release();
}

void H1ClientSession::release() {
  ClientCall* call = std::exchange(call_, nullptr);
  head_.clear();
  body_pulled_ = true;
  state_ = State::kHead;
  events_->on_released(call);
}

void H1ClientSession::fail_all(const Status& why) {
  draining_ = true;
  if (!call_) return;
  ClientCall* call = call_;
  const bool live = call->handler && !call->ended;
  call->ended = true;
  // Nothing was sent if the head is still here.
  if (live) events_->on_failed(call, why, head_.empty());
  if (call_ == call) release();
}

}  // namespace

std::unique_ptr<ClientSession> make_h1_client_session(const ClientSessionConfig* config, ClientSessionEvents* events) {
  return std::make_unique<H1ClientSession>(config, events);
}

}  // namespace ghostfleet::kube::http
