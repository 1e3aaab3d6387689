#include "kube/http/h1_message.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace ghostfleet::kube::http {
namespace {

constexpr std::string_view kHeaderBlanks = " \t";  // around a header's value (RFC 9110 5.6.3)
constexpr uint32_t kMaxChunkOverhead = 16 * 1024;  // extensions of one body and its trailers

bool token_char(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return c != 0 && std::strchr("!#$%&'*+-.^_`|~", c) != nullptr;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

// Where the empty line after a head ends; npos when it is not there yet. `from` may be anywhere before it.
size_t end_of_head(std::string_view text, size_t from) {
  for (size_t at = text.find('\n', from); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at + 1 < text.size() && text[at + 1] == '\n') return at + 2;
    if (at + 2 < text.size() && text[at + 1] == '\r' && text[at + 2] == '\n') return at + 3;
  }
  return std::string_view::npos;
}

bool control_char(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

}  // namespace

void H1HeadReader::reset() {
  head_ = {};
  if (buffer_.capacity() > 4096) std::string().swap(buffer_);
  buffer_.clear();
}

H1HeadReader::State H1HeadReader::feed(std::string_view* bytes) {
  if (buffer_.empty()) {
    // Empty lines before a start line are ignored (RFC 9112 2.2).
    while (!bytes->empty() && (bytes->front() == '\r' || bytes->front() == '\n')) bytes->remove_prefix(1);
    if (bytes->empty()) return State::kMore;
    const size_t end = end_of_head(*bytes, 0);
    if (end != std::string_view::npos) {
      head_ = bytes->substr(0, end);
      bytes->remove_prefix(end);
      return head_.size() > max_bytes_ ? State::kTooLarge : State::kComplete;
    }
  }
  const size_t before = buffer_.size();
  const size_t room = max_bytes_ + 1 - std::min(before, max_bytes_ + 1);
  buffer_.append(bytes->substr(0, room));
  const size_t end = end_of_head(buffer_, before < 3 ? 0 : before - 3);
  if (end == std::string::npos) {
    bytes->remove_prefix(std::min(room, bytes->size()));
    return buffer_.size() > max_bytes_ ? State::kTooLarge : State::kMore;
  }
  bytes->remove_prefix(end - before);
  head_ = std::string_view(buffer_).substr(0, end);
  return end > max_bytes_ ? State::kTooLarge : State::kComplete;
}

std::string_view take_line(std::string_view* text) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  *text = end == std::string_view::npos ? std::string_view() : text->substr(end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

bool parse_header_lines(std::string_view text, HeaderList* out) {
  while (!text.empty()) {
    const std::string_view line = take_line(&text);
    if (line.empty()) return true;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return false;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1), kHeaderBlanks);
    if (!std::all_of(name.begin(), name.end(), token_char)) return false;
    if (std::any_of(value.begin(), value.end(), control_char)) return false;
    out->append(name, value);
    std::string& kept = out->back().first;
    std::transform(kept.begin(), kept.end(), kept.begin(), lower);
  }
  return true;
}

bool has_token(const HeaderList& headers, std::string_view name, std::string_view token) {
  for (const auto& [key, value] : headers) {
    if (key != name) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      if (equal_ignoring_case(trimmed(rest.substr(0, comma), kHeaderBlanks), token)) return true;
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  return false;
}

Status h1_framing(const HeaderList& headers, H1Framing* out) {
  for (const auto& [name, value] : headers) {
    if (name == "transfer-encoding") {
      if (out->chunked || !equal_ignoring_case(value, "chunked")) {
        return invalid_argument("unsupported transfer encoding");
      }
      out->chunked = true;
    } else if (name == "content-length") {
      if (value.empty() || value.size() > 18 || value.find_first_not_of("0123456789") != std::string::npos) {
        return invalid_argument("bad Content-Length");
      }
      const uint64_t length = std::stoull(value);
      if (out->has_length && length != out->length) return invalid_argument("several Content-Lengths");
      out->has_length = true;
      out->length = length;
    }
  }
  if (out->chunked && out->has_length) return invalid_argument("both Transfer-Encoding and Content-Length");
  return Status();
}

std::string_view ChunkDecoder::next(std::string_view* bytes) {
  while (!bytes->empty() && state_ != State::kDone && state_ != State::kFailed) {
    if (state_ == State::kData) {
      const std::string_view piece = bytes->substr(0, static_cast<size_t>(std::min<uint64_t>(left_, bytes->size())));
      bytes->remove_prefix(piece.size());
      left_ -= piece.size();
      if (left_ == 0) state_ = State::kDataEnd;
      return piece;
    }
    const char c = bytes->front();
    bytes->remove_prefix(1);
    step(c);
  }
  return {};
}

void ChunkDecoder::step_size(char c) {
  const char l = lower(c);
  const int digit = l >= '0' && l <= '9' ? l - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
  if (digit >= 0 && digits_ < 15) {
    left_ = left_ * 16 + static_cast<uint64_t>(digit);
    ++digits_;
  } else if (digits_ > 0 && (c == ';' || c == ' ' || c == '\t')) {
    state_ = State::kExtension;
  } else if (digits_ > 0 && c == '\r') {
    state_ = State::kSizeEnd;
  } else if (digits_ > 0 && c == '\n') {
    state_ = left_ == 0 ? State::kTrailer : State::kData;
  } else {
    state_ = State::kFailed;
  }
}

void ChunkDecoder::step_trailer(char c) {
  if (c == '\n') {
    if (line_empty_) state_ = State::kDone;
    line_empty_ = true;
  } else if (c != '\r') {
    line_empty_ = false;
  }
  if (++overhead_ > kMaxChunkOverhead) state_ = State::kFailed;
}

void ChunkDecoder::step(char c) {
  switch (state_) {
    case State::kSize: step_size(c); return;
    case State::kExtension:
      if (c == '\n') state_ = left_ == 0 ? State::kTrailer : State::kData;
      if (++overhead_ > kMaxChunkOverhead) state_ = State::kFailed;
      return;
    case State::kSizeEnd: state_ = c != '\n' ? State::kFailed : left_ == 0 ? State::kTrailer : State::kData; return;
    case State::kDataEnd:
      if (c == '\r' && !line_empty_) break;
      if (c == '\r') {
        line_empty_ = false;  // one CR is allowed before the LF
        return;
      }
      if (c != '\n') break;
      line_empty_ = true;
      digits_ = 0;
      state_ = State::kSize;
      return;
    case State::kTrailer: step_trailer(c); return;
    default: return;
  }
  state_ = State::kFailed;
}

}  // namespace ghostfleet::kube::http
