// MessageReader: bytes of a stream in, messages out: each one behind a flag byte and its length in four bytes, big
// endian ("Length-Prefixed-Message" of "gRPC over HTTP2"). frame_message() is the way back.
//
// Thread rule: one owner. Ownership: it keeps the bytes it was given until they are read as messages.
// Limits: a message longer than `max_bytes` is refused by its length alone, before its bytes are kept. Compressed
// messages are refused: no compression is offered.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "kube/grpc/rpc_status.h"

namespace ghostfleet::kube::grpc {

inline constexpr size_t kMaxMessageBytes = 4u << 20;  // received; grpc-go's default
inline constexpr size_t kMessagePrefix = 5;

enum class Side { kClient, kServer };

class MessageReader {
 public:
  enum class Next { kMessage, kMore, kError };

  // The side that reads: a server blames the client for an unknown compression, a client itself.
  MessageReader(Side side, size_t max_bytes) : side_(side), max_bytes_(max_bytes) {}

  // The peer's grpc-encoding, for the texts of errors.
  void set_encoding(std::string_view encoding) { encoding_.assign(encoding); }
  void append(std::string_view bytes);
  // kMessage: `message` is valid until the next call of the reader. kError: error() says why, now and for ever.
  Next next(std::string_view* message);
  const RpcStatus& error() const { return error_; }
  // The stream has ended. An error when it did so within a message.
  RpcStatus finish() const;
  size_t buffered() const { return buffer_.size() - at_; }

 private:
  Next fail(RpcCode code, std::string message);
  Next check_prefix(size_t* length);

  const Side side_;
  const size_t max_bytes_;
  std::string encoding_, buffer_;
  size_t at_ = 0;  // read so far
  RpcStatus error_;
};

SharedBytes frame_message(std::string_view message);
void append_framed(std::string* out, std::string_view message);

}  // namespace ghostfleet::kube::grpc
