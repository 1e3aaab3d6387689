// HttpClient: requests to ONE endpoint over few connections. HTTP/2 where the server offers it (many streams to a
// connection), else HTTP/1.1 keep-alive with one request to a connection at a time.
//
// The hot path of the fleet: start() writes one small frame into a buffer that is flushed once per turn of the loop;
// there is one allocation or none per call. Requests wait in lanes when every stream is taken: a lane with a smaller
// number goes first.
//
// Thread rule: one EventLoop; everything on its thread.
// Ownership: the client owns connections and calls. A ResponseHandler must live until on_end or on_error, or until
// cancel() has returned; it is never called from inside start().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "base/status.h"
#include "kube/http/message.h"
#include "kube/http/tls.h"
#include "kube/http/tunnel.h"

namespace ghostfleet::kube::http {

// Heartbeats have their own lane (idea 4 of the design).
enum class Lane : unsigned char { kHeartbeat = 0, kStatus = 1, kNormal = 2, kBulk = 3 };
inline constexpr int kLanes = 4;

using CallId = uint64_t;  // 0: none

class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  virtual void on_head(CallId id, int status, const HeaderList& headers) = 0;
  // A piece of the body; the view is valid during the call only.
  virtual void on_body(CallId id, std::string_view piece) = 0;
  // What followed the body (HTTP/2): on_end() comes next.
  virtual void on_trailers(CallId id, const HeaderList& trailers) { (void)id, (void)trailers; }
  virtual void on_end(CallId id) = 0;
  // The call failed: no connection, TLS, reset, deadline (kDeadlineExceeded). No further call follows. `sent` says
  // whether the request may have reached the server: only when it did not is trying again always safe.
  virtual void on_error(CallId id, const Status& status, bool sent) = 0;
  // The same, for a stream that the server has reset with this error code of HTTP/2.
  virtual void on_reset(CallId id, uint32_t error_code, const Status& status, bool sent) {
    (void)error_code;
    on_error(id, status, sent);
  }
};

// What becomes of an upgrade: one call of one of these.
class UpgradeHandler {
 public:
  virtual ~UpgradeHandler() = default;
  // 101. The tunnel is the callee's.
  virtual void on_upgraded(const HeaderList& headers, std::shared_ptr<Tunnel> tunnel) = 0;
  // Any other answer, its body cut at UpgradeOptions::max_body_bytes.
  virtual void on_refused(int status, const HeaderList& headers, const std::string& body) = 0;
  virtual void on_error(const Status& status) = 0;
};

struct UpgradeOptions {
  Duration timeout = std::chrono::seconds(30);  // to the answer
  size_t max_body_bytes = 64 * 1024;
  size_t max_backlog_bytes = 16 * 1024 * 1024;  // of the tunnel
};

struct CallOptions {
  Lane lane = Lane::kNormal;
  Duration timeout = std::chrono::seconds(60);  // to the end of the body; 0: none (watches)
  // The call takes a stream of its own connection budget: long-lived calls (watches) are spread, not counted as load.
  bool long_lived = false;
};

struct ProxyConfig {
  std::string host;  // empty: none
  uint16_t port = 0;
  std::string basic_auth;  // "user:password", empty: none
  bool tls = false;
};

struct HttpClientOptions {
  // A name, an address, or "unix:/path" (an absolute path of at most 107 bytes): then the port means nothing, no proxy
  // is asked and the authority is "localhost".
  std::string host;
  uint16_t port = 443;
  bool use_tls = true;
  std::shared_ptr<const TlsContext> tls;        // with use_tls
  std::shared_ptr<const TlsIdentity> identity;  // of this client, instead of the context's certificate; may be null
  ProxyConfig proxy;                            // CONNECT
  bool http2_without_tls = false;               // "prior knowledge": plain connections speak HTTP/2 at once
  // Of HTTP/2. With HTTP/1.1 a connection carries one call, and up to 32 times as many are opened. Long-lived calls
  // have as many of their own, unless this is 1.
  int max_connections = 4;
  // Long-lived and short calls share connections, and another one is made only when all streams are taken, as in a
  // kubelet.
  bool one_pool = false;
  // Little memory counts for more than little work: the server may not refer to headers of earlier answers (HTTP/2's
  // table of headers, 8 KB a connection), and slots keep no memory between calls.
  bool frugal = false;
  uint32_t max_streams_per_connection = 1000;  // and never more than the server's SETTINGS allow
  Duration connect_timeout = std::chrono::seconds(30);
  Duration ping_after_idle = std::chrono::seconds(30);  // 0: never (gRPC servers cut who pings often)
  Duration ping_timeout = std::chrono::seconds(15);
  // Headers of every request (authorization is given per call: it changes).
  HeaderList default_headers;
  size_t max_queued_calls = 4u << 20;
};

struct HttpClientStats {
  uint64_t connections_opened = 0, connections_failed = 0, calls = 0, bytes_in = 0, bytes_out = 0;
  size_t open_connections = 0, in_flight = 0, queued = 0;
  Status last_connect_error;
};

class HttpClient {
 public:
  static std::unique_ptr<HttpClient> create(EventLoop& loop, HttpClientOptions options);
  virtual ~HttpClient() = default;

  // `target` is path and query. `headers` may be null. The body is copied or shared before start() returns.
  virtual CallId start(std::string_view method, std::string_view target, const HeaderList* headers,
                       std::string_view body, const CallOptions& options, ResponseHandler* handler) = 0;
  // No further callback for this call; a stream is reset.
  virtual void cancel(CallId id) = 0;
  // Asks for another protocol on an HTTP/1.1 connection of its own. `headers` hold "upgrade" and what that protocol
  // wants; "connection: Upgrade" is added. The handler must live until it was called or cancel_upgrade() has returned;
  // it is never called from inside upgrade(). An upgrade ends with the client; a tunnel outlives it.
  virtual CallId upgrade(std::string_view method, std::string_view target, const HeaderList& headers,
                         const UpgradeOptions& options, UpgradeHandler* handler) = 0;
  virtual void cancel_upgrade(CallId id) = 0;
  // Reads no more on the connection that carries the call, until it is told to: the server has to wait, and so have
  // other calls on it. HTTP/2 may then take the server for dead; who wants this offers HTTP/1.1 alone.
  virtual void set_reading(CallId id, bool on) = 0;
  // Closes connections that carry no call (a kubelet does so after a failed heartbeat).
  virtual void close_idle() = 0;
  // From now on this certificate is shown. Every connection is closed and its calls fail, so that nothing goes on under
  // the old one. Not from inside a handler's callback.
  virtual void set_identity(std::shared_ptr<const TlsIdentity> identity) = 0;
  // Answers that arrive one by one are read together: after a read that found little the next one waits about `wait`
  // (in steps of 20 ms), so that a wake-up of the thread is shared by many answers. Much input, and the end of a
  // connection, are seen at once; handshakes are not slowed down. `wait` must be far below the calls' time-outs. Zero,
  // the default: every arrival is read at once; also what is there already when it is set back.
  virtual void set_read_coalescing(Duration wait) = 0;
  // Reads now what has been collected: for an owner that is awake anyway. Handlers are called from inside.
  virtual void read_collected() = 0;
  virtual HttpClientStats stats() const = 0;
};

}  // namespace ghostfleet::kube::http
