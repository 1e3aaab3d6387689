// ClientSession: the client's side of one HTTP connection as a protocol engine without a socket. H1ClientSession and
// H2ClientSession implement it.
//
// Thread rule: one owner. Ownership: a ClientCall belongs to the pool; between submit() and on_released() the session
// points into it. Events come from inside feed(), on_eof() and fail_all(), and in HTTP/1.1 from pull(); calls may be
// submitted and cancelled from inside events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kube/http/client.h"
#include "kube/http/hpack.h"
#include "kube/http/message.h"

namespace ghostfleet::kube::http {

// A call's slot. It is used again and again; its strings keep their memory.
struct ClientCall {
  // method, target, names and values, body: one after the other
  std::string memory;
  uint32_t method_size = 0, target_size = 0, body_size = 0;
  std::vector<std::pair<uint32_t, uint32_t>> header_sizes;  // name, value

  std::string_view method() const { return std::string_view(memory).substr(0, method_size); }
  std::string_view target() const { return std::string_view(memory).substr(method_size, target_size); }
  std::string_view body() const { return std::string_view(memory).substr(memory.size() - body_size); }
  void store(std::string_view method, std::string_view target, const HeaderList* headers, std::string_view body);

  ResponseHandler* handler = nullptr;  // null: cancelled or over; no further event
  uint32_t index = 0, generation = 0;
  Lane lane = Lane::kNormal;
  bool long_lived = false;
  uint32_t timer = 0;
  enum class Where : unsigned char { kFree, kQueued, kSubmitted } where = Where::kFree;
  class ClientConnection* connection = nullptr;

  // of the session
  int32_t stream = 0;
  uint32_t body_sent = 0;
  bool head_seen = false, ended = false;
  uint32_t unacked = 0;     // HTTP/2: bytes received that are not granted again
  int64_t send_window = 0;  // HTTP/2: bytes that the server takes
  int64_t body_left = -1;   // HTTP/2: of the answer, by its content-length; -1: it names none

  ClientCall *prev = nullptr, *next = nullptr;  // of the lane or the connection

  CallId id() const { return static_cast<CallId>(generation) << 32 | (index + 1); }
};

// A list of calls through their own links.
class CallList {
 public:
  bool empty() const { return first_ == nullptr; }
  size_t size() const { return size_; }
  ClientCall* front() const { return first_; }
  void push_back(ClientCall* call);
  void remove(ClientCall* call);

 private:
  ClientCall *first_ = nullptr, *last_ = nullptr;
  size_t size_ = 0;
};

class ClientSessionEvents {
 public:
  virtual ~ClientSessionEvents() = default;
  virtual void on_head(ClientCall* call, int status, const HeaderList& headers) = 0;
  virtual void on_body(ClientCall* call, std::string_view piece) = 0;
  virtual void on_trailers(ClientCall* call, const HeaderList& trailers) { (void)call, (void)trailers; }
  virtual void on_end(ClientCall* call) = 0;
  virtual void on_failed(ClientCall* call, const Status& status, bool sent) = 0;
  // The server has reset the stream (HTTP/2).
  virtual void on_reset(ClientCall* call, uint32_t error_code, const Status& status, bool sent) {
    (void)error_code;
    on_failed(call, status, sent);
  }
  // The session has forgotten the call; it comes after on_end, on_failed or cancel().
  virtual void on_released(ClientCall* call) = 0;
};

class ClientSession {
 public:
  virtual ~ClientSession() = default;
  virtual Status feed(std::string_view bytes) = 0;
  virtual void on_eof() {}
  virtual void pull(std::string* out, size_t limit) = 0;
  // How many more calls may be submitted now.
  virtual size_t room() const = 0;
  // How many calls it carries at most, as far as is known.
  virtual size_t capacity() const = 0;
  virtual bool submit(ClientCall* call) = 0;
  virtual void cancel(ClientCall* call) = 0;
  // The server takes no new calls here: it said so, or streams are used up.
  virtual bool draining() const = 0;
  virtual bool ping() { return false; }
  virtual void go_away() {}
  // The connection is gone.
  virtual void fail_all(const Status& why) = 0;
};

// What every request of a connection has in common; it outlives the session.
struct ClientSessionConfig {
  std::string scheme = "https";
  std::string authority;
  HeaderList default_headers;
  uint32_t max_streams = 1000;
  uint32_t header_table_bytes = kDefaultHeaderTable;  // HTTP/2: that the server's headers may take here
};

std::unique_ptr<ClientSession> make_h1_client_session(const ClientSessionConfig* config, ClientSessionEvents* events);
std::unique_ptr<ClientSession> make_h2_client_session(const ClientSessionConfig* config, ClientSessionEvents* events);

}  // namespace ghostfleet::kube::http
