#include "agent/kubelet_api/http_responder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ghostfleet::kubelet_api {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// The value of a header, without blanks around it.
std::string_view header(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const bool same = line.size() > name.size() && line[name.size()] == ':' &&
                      std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) { return a == lower(b); });
    if (!same) continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return line;
  }
  return {};
}

}  // namespace

bool HttpResponder::refuse(std::string* out) {
  *out +=
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nConnection: close\r\n\r\nBad "
      "Request\n";
  return false;
}

bool HttpResponder::answer(std::string_view head, std::string* out) {
  const std::string_view line = head.substr(0, std::min(head.find("\r\n"), head.size()));
  const size_t version = line.rfind(" HTTP/1.");
  if (version == std::string_view::npos || line.find(' ') >= version) return refuse(out);
  const std::string_view length = header(head, "content-length");
  size_t body = 0;
  std::from_chars(length.data(), length.data() + length.size(), body);
  if (body > kMaxBody || !header(head, "transfer-encoding").empty()) return refuse(out);
  body_left_ = body;
  const std::string_view connection = header(head, "connection");
  const bool close = line.ends_with("1.0") || connection == "close";
  const bool with_body = !line.starts_with("HEAD ");
  *out += fmt::format(
      "HTTP/1.1 200 OK\r\nServer: ghostfleet\r\nContent-Type: text/plain; charset=utf-8\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      text_.size(), close ? "Connection: close\r\n" : "", with_body ? text_ : "");
  return !close;
}

bool HttpResponder::feed(std::string_view bytes, std::string* out) {
  buffer_ += bytes;
  while (true) {
    const size_t skip = std::min(body_left_, buffer_.size());
    buffer_.erase(0, skip);
    body_left_ -= skip;
    if (body_left_ > 0 || buffer_.empty()) return true;
    const size_t end = buffer_.find("\r\n\r\n");
    if (end == std::string::npos) return buffer_.size() <= kMaxHeader || refuse(out);
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    if (head.size() > kMaxHeader) return refuse(out);
    if (!answer(head, out)) return false;
  }
}

}  // namespace ghostfleet::kubelet_api
