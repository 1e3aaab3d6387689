#include "tests/support/rough_registry.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/digest.h"

namespace ghostfleet::tests {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// The head of the next request; false when the client is gone.
bool read_head(int fd, std::string* buffer, RoughRequest* out) {
  size_t end = 0;
  while ((end = buffer->find("\r\n\r\n")) == std::string::npos) {
    char piece[4096];
    const ssize_t n = recv(fd, piece, sizeof piece, 0);
    if (n <= 0) return false;
    buffer->append(piece, static_cast<size_t>(n));
  }
  const std::string head = buffer->substr(0, end + 2);
  buffer->erase(0, end + 4);
  const size_t line_end = head.find("\r\n");
  const std::string line = head.substr(0, line_end);
  const size_t first = line.find(' '), second = line.rfind(' ');
  out->method = line.substr(0, first);
  out->target = line.substr(first + 1, second - first - 1);
  for (size_t at = line_end + 2; at < head.size();) {
    const size_t next = head.find("\r\n", at);
    const std::string one = head.substr(at, next - at);
    const size_t colon = one.find(": ");
    if (colon != std::string::npos) out->headers[lower(one.substr(0, colon))] = one.substr(colon + 2);
    at = next + 2;
  }
  return true;
}

}  // namespace

std::string RoughRequest::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

RoughRegistry::RoughRegistry(Handler handler) : handler_(std::move(handler)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, raw, size) != 0 || listen(listener_, 128) != 0 || getsockname(listener_, raw, &size) != 0) {
    std::perror("a test's registry cannot listen");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

RoughRegistry::~RoughRegistry() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& t : threads_) t.join();
  close(listener_);
}

std::string RoughRegistry::host() const { return fmt::format("127.0.0.1:{}", port_); }

std::vector<RoughRequest> RoughRegistry::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

size_t RoughRegistry::count(const std::string& part) const {
  const auto all = requests();
  return static_cast<size_t>(std::count_if(
      all.begin(), all.end(), [&](const RoughRequest& r) { return r.target.find(part) != std::string::npos; }));
}

void RoughRegistry::accept_all() {
  while (!stopping_) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      close(fd);
      return;
    }
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void RoughRegistry::serve(int fd) {
  std::string buffer;
  while (!stopping_) {
    RoughRequest request;
    if (!read_head(fd, &buffer, &request)) break;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (!answer(fd, request)) break;
  }
  const std::lock_guard lock(mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  close(fd);
}

bool RoughRegistry::answer(int fd, const RoughRequest& request) {
  const RoughAnswer a = handler_(request);
  std::string head = fmt::format("HTTP/1.1 {} Because\r\n", a.status);
  for (const auto& [name, value] : a.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (!a.endless) head += fmt::format("Content-Length: {}\r\n", a.body.size());
  head += a.endless ? "Connection: close\r\n\r\n" : "\r\n";
  if (!send_all(fd, head)) return false;
  if (a.endless) {
    while (!stopping_ && send_all(fd, a.body)) {
    }
    return false;
  }
  if (!send_all(fd, std::string_view(a.body).substr(0, a.cut_after.value_or(a.body.size())))) return false;
  if (!a.cut_after) return true;
  if (a.stall) {  // until the client gives up or the test ends
    char byte = 0;
    (void)!recv(fd, &byte, 1, 0);
  }
  return false;
}

RoughAnswer Shelf::bytes(const RoughRequest& request, const std::string& all, bool ranges) {
  RoughAnswer a;
  a.headers.emplace_back("Content-Type", "application/octet-stream");
  const std::string range = request.header("range");
  unsigned long long first = 0, last = 0;
  if (!ranges || std::sscanf(range.c_str(), "bytes=%llu-%llu", &first, &last) != 2) {
    a.body = all;
    return a;
  }
  if (first >= all.size()) {
    a.status = 416;
    return a;
  }
  last = std::min<unsigned long long>(last, all.size() - 1);
  a.status = 206;
  a.body = all.substr(first, last - first + 1);
  a.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", first, last, all.size()));
  return a;
}

RoughAnswer Shelf::answer(const RoughRequest& request) const {
  const std::string& target = request.target;
  const std::string last = target.substr(target.rfind('/') + 1);
  if (referrers && target.find("/referrers/") != std::string::npos) {
    RoughAnswer a;
    a.headers = {{"Content-Type", "application/vnd.oci.image.index.v1+json"}};
    const auto it = referrers->find(last);
    a.body = it != referrers->end() ? it->second : R"({"schemaVersion":2,"manifests":[]})";
    return a;
  }
  if (target.find("/manifests/") != std::string::npos) {
    if (const auto it = manifests.find(last); it != manifests.end()) {
      RoughAnswer a;
      a.headers = {{"Content-Type", it->second.first},
                   {"Docker-Content-Digest", "sha256:" + sha256_hex(it->second.second)}};
      a.body = it->second.second;
      return a;
    }
    return {.status = 404,
            .headers = {{"Content-Type", "application/json"}},
            .body = R"({"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]})"};
  }
  if (const auto it = blobs.find(last); it != blobs.end()) return bytes(request, it->second, ranges);
  return {.status = 404,
          .headers = {{"Content-Type", "application/json"}},
          .body = R"({"errors":[{"code":"BLOB_UNKNOWN","message":"blob unknown to registry"}]})"};
}

}  // namespace ghostfleet::tests
