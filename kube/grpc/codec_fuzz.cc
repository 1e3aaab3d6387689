// Bytes to the message reader, whole and in two pieces: both must give the same messages; and to the readers of
// headers.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/grpc/message_reader.h"
#include "kube/grpc/rpc_headers.h"

namespace {

using namespace ghostfleet::kube::grpc;

constexpr size_t kLimit = 4096;

struct Outcome {
  std::vector<std::string> messages;
  RpcStatus status;
  bool operator==(const Outcome& other) const {
    return messages == other.messages && status.text() == other.status.text();
  }
};

Outcome read(const std::vector<std::string_view>& pieces) {
  MessageReader reader(Side::kServer, kLimit);
  Outcome out;
  for (const std::string_view piece : pieces) {
    reader.append(piece);
    std::string_view message;
    while (reader.next(&message) == MessageReader::Next::kMessage) out.messages.emplace_back(message);
    if (reader.buffered() > piece.size() + kLimit + kMessagePrefix) std::abort();
  }
  out.status = reader.finish();
  return out;
}

void check_headers(std::string_view text) {
  const auto timeout = parse_grpc_timeout(text);
  if (timeout.ok() && timeout->count() < 0) std::abort();
  const std::string decoded = decode_grpc_message(text);
  const std::string encoded = encode_grpc_message(decoded);
  for (const char c : encoded) {
    if (c < ' ' || c > '~') std::abort();
  }
  // What was valid UTF-8 after one turn stays as it is in the next.
  const std::string clean = decode_grpc_message(encoded);
  if (decode_grpc_message(encode_grpc_message(clean)) != clean) std::abort();
  (void)read_status({{"grpc-status", std::string(text)}, {"grpc-message", std::string(text)}});
  std::string_view service, method;
  (void)split_method(text, &service, &method);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read({bytes});
  if (!(read({bytes.substr(0, size / 2), bytes.substr(size / 2)}) == whole)) std::abort();
  check_headers(bytes.substr(0, 300));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::string two;
  append_framed(&two, "v1beta1");
  append_framed(&two, std::string(300, 'x'));
  return {two, std::string("\0\0\0\x10\0", 5), std::string("\1\0\0\0\2ab", 7), "10000000u", "no%20device%C3%BC%"};
}
