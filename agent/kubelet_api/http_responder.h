// HttpResponder: what answers on a forwarded port: HTTP/1.1, every request with 200 and a small text that names the pod
// and the port. A protocol engine without a socket: bytes in, bytes out.
//
// Thread rule: plain object. Limits: 16 KiB of headers, 1 MiB of a body; beyond, and for what is no HTTP, the answer is
// 400 and the end.
#pragma once

#include <string>
#include <string_view>

namespace ghostfleet::kubelet_api {

class HttpResponder {
 public:
  // `text` is the body of every answer.
  explicit HttpResponder(std::string text) : text_(std::move(text)) {}
  // Appends answers to `out`; false when the connection is to be closed after them.
  bool feed(std::string_view bytes, std::string* out);

 private:
  static constexpr size_t kMaxHeader = 16 * 1024, kMaxBody = 1024 * 1024;
  bool answer(std::string_view head, std::string* out);
  bool refuse(std::string* out);

  std::string text_, buffer_;
  size_t body_left_ = 0;
};

}  // namespace ghostfleet::kubelet_api
