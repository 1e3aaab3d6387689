// Plain types of HTTP: headers, a request as a server sees it, and limits. No socket and no library type in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ghostfleet::kube::http {

// Header names are lower case. Order is kept; a name may come several times. clear() keeps the memory of the items, so
// a list that is filled again and again (one per connection) soon allocates nothing.
class HeaderList {
 public:
  using Item = std::pair<std::string, std::string>;

  HeaderList() = default;
  HeaderList(std::initializer_list<Item> list) : items_(list), size_(list.size()) {}
  HeaderList(const HeaderList& other) : items_(other.begin(), other.end()), size_(other.size_) {}
  HeaderList(HeaderList&& other) noexcept : items_(std::move(other.items_)), size_(std::exchange(other.size_, 0)) {}
  HeaderList& operator=(const HeaderList& other);
  HeaderList& operator=(HeaderList&& other) noexcept;

  void add(std::string name, std::string value);
  // As add(), but into the memory of an item that was cleared.
  void append(std::string_view name, std::string_view value);
  void set(std::string_view name, std::string value);
  void clear() { size_ = 0; }
  void reserve(size_t n) { items_.reserve(n); }
  // The first value; null pointer when there is none.
  const std::string* find(std::string_view name) const;
  std::string_view get(std::string_view name) const;
  bool empty() const { return size_ == 0; }
  std::vector<Item>::const_iterator begin() const { return items_.begin(); }
  std::vector<Item>::const_iterator end() const { return items_.begin() + static_cast<std::ptrdiff_t>(size_); }
  size_t size() const { return size_; }
  Item& back() { return items_[size_ - 1]; }

 private:
  std::vector<Item> items_;  // those from size_ on are cleared ones
  size_t size_ = 0;
};

// The subject of a client certificate that the TLS layer has verified against the client CA.
struct PeerCertificate {
  std::string common_name;
  std::vector<std::string> organizations;
  std::string uid;  // attribute 1.3.6.1.4.1.57683.2, else empty
};

struct Request {
  std::string method;
  std::string target;  // path and query as sent
  HeaderList headers;
  std::string body;
  std::shared_ptr<const PeerCertificate> peer_certificate;  // null: none shown
  std::string remote_address;                               // "10.0.0.1:4711"; "unix:" for a unix socket
  std::string local_address;                                // the IP address the client came to; empty for unix
  uint16_t local_port = 0;
  bool tls = false;
  bool http2 = false;

  std::string_view path() const;   // before '?', not decoded
  std::string_view query() const;  // after '?', empty when none
};

// application/x-www-form-urlencoded and path segments. A bad escape is kept as it is.
std::string percent_decode(std::string_view text, bool plus_is_space);
std::string percent_encode(std::string_view text);  // everything but unreserved characters
std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query);

// Doors and their limits (documented in docs/limits.md; tested at the limit and one past it).
struct Limits {
  size_t max_header_bytes = 64 * 1024;      // request line and headers; 431 beyond
  size_t max_body_bytes = 3 * 1024 * 1024;  // 413 beyond
  uint32_t max_streams = 1000;              // HTTP/2 streams of a connection
  uint32_t max_connections = 20000;         // of a server; more are closed at once
  int header_timeout_ms = 10000;            // from the first byte (or the handshake's start) to the end of the headers
  int body_timeout_ms = 30000;              // between two pieces of a body
  int idle_timeout_ms = 90000;              // keep-alive without a request
  size_t max_backlog_bytes = 16 * 1024 * 1024;  // written but not yet taken by the peer, for one stream; then it is cut
};

}  // namespace ghostfleet::kube::http
