#include "kube/stream/websocket.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>

#include "base/digest.h"

namespace ghostfleet::kube::stream {
namespace {

enum Opcode : unsigned char { kContinuation = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };
constexpr size_t kMaxControl = 125;
constexpr uint16_t kProtocolError = 1002, kNoCode = 1005, kBadText = 1007, kTooBig = 1009;

bool is_control(unsigned char opcode) { return opcode >= 8; }

bool known_opcode(unsigned char opcode) { return opcode <= kBinary || (opcode >= kClose && opcode <= kPong); }

// Codes a peer may send (RFC 6455 7.4).
bool sendable_code(uint16_t code) {
  if (code >= 3000 && code <= 4999) return true;
  return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
}

// RFC 3629, without surrogates and overlong forms.
bool valid_utf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const auto byte = [&](size_t at) { return static_cast<unsigned char>(s[at]); };
    const unsigned char c = byte(i);
    const size_t n = c < 0x80                 ? 1
                     : c >= 0xc2 && c <= 0xdf ? 2
                     : (c & 0xf0) == 0xe0     ? 3
                     : c >= 0xf0 && c <= 0xf4 ? 4
                                              : 0;
    if (n == 0 || i + n > s.size()) return false;
    for (size_t k = 1; k < n; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    if (n >= 3) {
      const unsigned char d = byte(i + 1);
      if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f)) {
        return false;
      }
    }
    i += n;
  }
  return true;
}

}  // namespace

WebSocket::WebSocket(Role role, const WebSocketLimits& limits, WebSocketEvents* events, uint64_t seed)
    : role_(role), limits_(limits), events_(events), rng_(seed) {}

Status WebSocket::feed(std::string_view bytes) {
  if (failed_) return Status(Code::kDataLoss, "WebSocket: the connection has failed already");
  while (!bytes.empty() && !close_received_) {
    GF_RETURN_IF_ERROR(in_payload_ ? take_payload(&bytes) : parse_header(&bytes));
  }
  return Status();
}

Status WebSocket::fail(uint16_t code, const std::string& why) {
  close(code, why);
  failed_ = true;
  return Status(Code::kDataLoss, "WebSocket: " + why);
}

Status WebSocket::parse_header(std::string_view* bytes) {
  header_.push_back(bytes->front());
  bytes->remove_prefix(1);
  const auto at = [&](size_t i) { return static_cast<unsigned char>(header_[i]); };
  if (header_.size() < 2) return Status();
  const unsigned char short_length = at(1) & 0x7f;
  const size_t length_bytes = short_length == 126 ? 2 : short_length == 127 ? 8 : 0;
  const bool masked = (at(1) & 0x80) != 0;
  if (header_.size() == 2) {
    frame_ = Frame{(at(0) & 0x80) != 0, masked, static_cast<unsigned char>(at(0) & 0x0f), short_length, {}};
    GF_RETURN_IF_ERROR(check_header());
  }
  if (header_.size() < 2 + length_bytes + (masked ? 4 : 0)) return Status();
  if (length_bytes > 0) {
    frame_.length = 0;
    for (size_t i = 0; i < length_bytes; ++i) frame_.length = frame_.length << 8 | at(2 + i);
    const uint64_t least = length_bytes == 2 ? 126 : 65536;
    if (frame_.length < least || frame_.length >> 63) return fail(kProtocolError, "a frame's length is malformed");
  }
  for (size_t i = 0; masked && i < 4; ++i) frame_.mask[i] = at(2 + length_bytes + i);
  header_.clear();
  if (!is_control(frame_.opcode) && frame_.length > limits_.max_message_bytes - message_.size()) {
    return fail(kTooBig, "a message is longer than " + std::to_string(limits_.max_message_bytes) + " bytes");
  }
  in_payload_ = true;
  payload_seen_ = 0;
  return frame_.length == 0 ? end_frame() : Status();
}

// What the first two bytes tell.
Status WebSocket::check_header() {
  const unsigned char first = static_cast<unsigned char>(header_[0]);
  if (first & 0x70) return fail(kProtocolError, "a frame has reserved bits set");
  if (!known_opcode(frame_.opcode)) {
    return fail(kProtocolError, "a frame has the unknown opcode " + std::to_string(frame_.opcode));
  }
  if (role_ == Role::kServer && !frame_.masked) return fail(kProtocolError, "a client's frame is not masked");
  if (role_ == Role::kClient && frame_.masked) return fail(kProtocolError, "a server's frame is masked");
  if (is_control(frame_.opcode)) {
    if (!frame_.fin) return fail(kProtocolError, "a control frame is fragmented");
    if (frame_.length > kMaxControl) return fail(kProtocolError, "a control frame is longer than 125 bytes");
    return Status();
  }
  const bool begun = message_opcode_ != 0;
  if (frame_.opcode == kContinuation && !begun) return fail(kProtocolError, "a continuation without a message");
  if (frame_.opcode != kContinuation && begun) return fail(kProtocolError, "a message inside another one");
  if (frame_.opcode != kContinuation) message_opcode_ = frame_.opcode;
  if (++fragments_ > limits_.max_fragments) return fail(kTooBig, "a message has too many fragments");
  return Status();
}

Status WebSocket::take_payload(std::string_view* bytes) {
  std::string& to = is_control(frame_.opcode) ? control_ : message_;
  const size_t n = static_cast<size_t>(std::min<uint64_t>(frame_.length - payload_seen_, bytes->size()));
  const size_t begin = to.size();
  to.append(bytes->substr(0, n));
  bytes->remove_prefix(n);
  if (frame_.masked) {
    for (size_t i = 0; i < n; ++i) {
      to[begin + i] = static_cast<char>(to[begin + i] ^ frame_.mask[(payload_seen_ + i) & 3]);
    }
  }
  payload_seen_ += n;
  return payload_seen_ == frame_.length ? end_frame() : Status();
}

Status WebSocket::end_frame() {
  in_payload_ = false;
  if (is_control(frame_.opcode)) return end_control();
  return frame_.fin ? end_message() : Status();
}

Status WebSocket::end_message() {
  const bool text = message_opcode_ == kText;
  if (text && !valid_utf8(message_)) return fail(kBadText, "a text message is no UTF-8");
  const std::string message = std::exchange(message_, {});
  message_opcode_ = 0;
  fragments_ = 0;
  events_->on_message(text, message);
  return Status();
}

Status WebSocket::end_control() {
  const std::string payload = std::exchange(control_, {});
  if (frame_.opcode == kPong) {
    events_->on_pong(payload);
    return Status();
  }
  if (frame_.opcode == kPing) {
    if (!close_sent_) put_frame(0x80 | kPong, {}, payload);
    return Status();
  }
  uint16_t code = kNoCode;
  if (payload.size() == 1) return fail(kProtocolError, "a close frame of one byte");
  if (payload.size() >= 2) {
    code = static_cast<uint16_t>(static_cast<unsigned char>(payload[0]) << 8 | static_cast<unsigned char>(payload[1]));
    if (!sendable_code(code)) return fail(kProtocolError, "a close frame with the code " + std::to_string(code));
    if (!valid_utf8(std::string_view(payload).substr(2))) return fail(kBadText, "a close reason that is no UTF-8");
  }
  close_received_ = true;
  close(code, {});
  events_->on_close(code, payload.size() > 2 ? std::string_view(payload).substr(2) : std::string_view());
  return Status();
}

// Appends the header of a frame; a client's has `mask`.
static void append_header(unsigned char first, size_t length, const unsigned char* mask, std::string* out) {
  const unsigned char bit = mask ? 0x80 : 0;
  out->push_back(static_cast<char>(first));
  if (length < 126) {
    out->push_back(static_cast<char>(bit | length));
  } else {
    const int size = length < 65536 ? 2 : 8;
    out->push_back(static_cast<char>(bit | (size == 2 ? 126 : 127)));
    for (int i = size; i-- > 0;) out->push_back(static_cast<char>(static_cast<uint64_t>(length) >> (8 * i)));
  }
  if (mask) out->append(reinterpret_cast<const char*>(mask), 4);
}

void WebSocket::put_frame(unsigned char first, std::string_view prefix, std::string_view payload) {
  unsigned char mask[4] = {};
  const bool masked = role_ == Role::kClient;
  if (masked) {
    const uint64_t random = rng_.next();
    for (int i = 0; i < 4; ++i) mask[i] = static_cast<unsigned char>(random >> (8 * i));
  }
  std::string out;
  out.reserve(14 + prefix.size() + payload.size());
  append_header(first, prefix.size() + payload.size(), masked ? mask : nullptr, &out);
  const size_t begin = out.size();
  out.append(prefix).append(payload);
  for (size_t i = begin; masked && i < out.size(); ++i) {
    out[i] = static_cast<char>(out[i] ^ mask[(i - begin) & 3]);
  }
  events_->on_output(share(std::move(out)));
}

void WebSocket::send(bool text, std::string_view payload) {
  if (close_sent_) return;
  unsigned char opcode = text ? kText : kBinary;
  const size_t most = std::max<size_t>(1, limits_.max_frame_bytes);
  do {
    const std::string_view piece = payload.substr(0, most);
    payload.remove_prefix(piece.size());
    put_frame(static_cast<unsigned char>((payload.empty() ? 0x80 : 0) | opcode), {}, piece);
    opcode = kContinuation;
  } while (!payload.empty());
}

void WebSocket::send_binary(std::string_view prefix, const SharedBytes& payload) {
  if (close_sent_) return;
  const std::string_view bytes = view(payload);
  constexpr size_t kCopyBytes = 4096;  // up to here one piece costs less than two
  if (role_ == Role::kClient || bytes.size() <= kCopyBytes) return put_frame(0x80 | kBinary, prefix, bytes);
  std::string head;
  append_header(0x80 | kBinary, prefix.size() + bytes.size(), nullptr, &head);
  head.append(prefix);
  events_->on_output(share(std::move(head)));
  events_->on_output(payload);
}

void WebSocket::ping(std::string_view payload) {
  if (!close_sent_) put_frame(0x80 | kPing, {}, payload.substr(0, kMaxControl));
}

void WebSocket::close(uint16_t code, std::string_view reason) {
  if (std::exchange(close_sent_, true)) return;
  std::string payload;
  if (code != kNoCode) {
    payload = {static_cast<char>(code >> 8), static_cast<char>(code)};
    payload.append(reason.substr(0, kMaxControl - 2));
  }
  put_frame(0x80 | kClose, {}, payload);
}

Status check_websocket_request(const http::Request& request) {
  if (request.method != "GET") return invalid_argument("a WebSocket begins with GET, not with " + request.method);
  if (http::requested_upgrade(request) != "websocket") return invalid_argument("no \"upgrade: websocket\"");
  const std::string_view version = request.headers.get("sec-websocket-version");
  if (version != "13") {
    return Status(Code::kUnimplemented, "sec-websocket-version \"" + std::string(version) + "\": only 13 is spoken");
  }
  const std::string_view key = request.headers.get("sec-websocket-key");
  std::string decoded;
  if (!base64_decode_strict(key, &decoded) || decoded.size() != 16) {
    return invalid_argument("sec-websocket-key is not 16 bytes in base64");
  }
  return Status();
}

std::string websocket_accept(std::string_view key) {
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455, 1.3
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return base64_encode(std::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

std::vector<std::string> offered_subprotocols(const http::HeaderList& headers) {
  std::vector<std::string> out;
  for (const auto& [name, value] : headers) {
    if (name == "sec-websocket-protocol") split_list(value, &out);
  }
  return out;
}

void split_list(std::string_view text, std::vector<std::string>* out) {
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (!item.empty()) out->emplace_back(item);
  }
}

http::HeaderList websocket_request_headers(std::string_view key, const std::vector<std::string>& subprotocols) {
  http::HeaderList headers = {
      {"upgrade", "websocket"}, {"sec-websocket-version", "13"}, {"sec-websocket-key", std::string(key)}};
  std::string offers;
  for (const std::string& name : subprotocols) offers += (offers.empty() ? "" : ", ") + name;
  if (!offers.empty()) headers.add("sec-websocket-protocol", offers);
  return headers;
}

}  // namespace ghostfleet::kube::stream
