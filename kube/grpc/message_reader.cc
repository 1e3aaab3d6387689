#include "kube/grpc/message_reader.h"

#include <fmt/format.h>

#include "base/text.h"
#include "kube/grpc/rpc_headers.h"

namespace ghostfleet::kube::grpc {
namespace {

constexpr size_t kKeptBuffer = 64 * 1024;  // memory that stays with an idle reader

uint32_t big_endian(std::string_view four) {
  uint32_t out = 0;
  for (const char c : four) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

}  // namespace

void MessageReader::append(std::string_view bytes) {
  if (!error_.ok()) return;
  if (at_ == buffer_.size()) {
    buffer_.clear();
    if (buffer_.capacity() > kKeptBuffer) std::string().swap(buffer_);
  } else if (at_ > 0) {
    buffer_.erase(0, at_);
  }
  at_ = 0;
  buffer_.append(bytes);
}

MessageReader::Next MessageReader::fail(RpcCode code, std::string message) {
  error_ = rpc_error(code, std::move(message));
  std::string().swap(buffer_);
  at_ = 0;
  return Next::kError;
}

MessageReader::Next MessageReader::check_prefix(size_t* length) {
  const std::string_view prefix = std::string_view(buffer_).substr(at_, kMessagePrefix);
  if (prefix.size() < kMessagePrefix) return Next::kMore;
  *length = big_endian(prefix.substr(1));
  if (*length > max_bytes_) {
    return fail(RpcCode::kResourceExhausted,
                fmt::format("grpc: received message larger than max ({} vs. {})", *length, max_bytes_));
  }
  const auto flag = static_cast<unsigned char>(prefix[0]);
  if (flag == 0) return Next::kMessage;
  if (flag != 1) return fail(RpcCode::kInternal, fmt::format("grpc: received unexpected payload format {}", flag));
  if (is_identity_encoding(encoding_)) {
    return fail(RpcCode::kInternal, "grpc: compressed flag set with identity or empty encoding");
  }
  return fail(side_ == Side::kServer ? RpcCode::kUnimplemented : RpcCode::kInternal,
              "grpc: Decompressor is not installed for grpc-encoding " + go_quote(encoding_));
}

MessageReader::Next MessageReader::next(std::string_view* message) {
  if (!error_.ok()) return Next::kError;
  size_t length = 0;
  const Next prefix = check_prefix(&length);
  if (prefix != Next::kMessage) return prefix;
  if (buffered() < kMessagePrefix + length) {
    // What is missing is known: the buffer grows once, not by halves.
    if (length > kKeptBuffer) buffer_.reserve(at_ + kMessagePrefix + length);
    return Next::kMore;
  }
  *message = std::string_view(buffer_).substr(at_ + kMessagePrefix, length);
  at_ += kMessagePrefix + length;
  return Next::kMessage;
}

RpcStatus MessageReader::finish() const {
  if (!error_.ok()) return error_;
  return buffered() == 0 ? RpcStatus() : rpc_error(RpcCode::kInternal, "unexpected EOF");
}

void append_framed(std::string* out, std::string_view message) {
  const auto size = static_cast<uint32_t>(message.size());
  out->reserve(out->size() + kMessagePrefix + message.size());
  *out += '\0';
  for (const int shift : {24, 16, 8, 0}) *out += static_cast<char>(size >> shift & 0xFF);
  out->append(message);
}

SharedBytes frame_message(std::string_view message) {
  std::string out;
  append_framed(&out, message);
  return share(std::move(out));
}

}  // namespace ghostfleet::kube::grpc
