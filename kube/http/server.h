// Server: HTTP/1.1 and HTTP/2 over TLS (or plain) on one listening socket, its connections spread over event loops.
//
// Thread rule: a connection, its exchanges and the handler's calls stay on the loop that accepted it. Exchange methods
// may be called only on that loop (use loop().post() from elsewhere). Ownership: the server owns connections; an
// Exchange is shared with the handler and outlives its connection harmlessly.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/event_loop.h"
#include "base/metrics.h"
#include "base/status.h"
#include "kube/http/message.h"
#include "kube/http/tls.h"
#include "kube/http/tunnel.h"

namespace ghostfleet::kube::http {

// A body that is read as it comes. Both are called from the loop, never from inside a call of the exchange.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // Valid during the call only. The peer may send more once consume() has said that it was taken.
  virtual void on_data(std::string_view piece) = 0;
  // The request is complete.
  virtual void on_end() = 0;
};

// One request and its answer. The request's body is complete when the handler is called, unless the server streams
// bodies (ServerOptions::stream_bodies).
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  virtual EventLoop& loop() = 0;

  // The whole answer at once. content-length and date are added.
  virtual void respond(int status, HeaderList headers, SharedBytes body) = 0;

  // An answer in pieces: start, write..., finish. On HTTP/1.1 it is chunked.
  virtual void start(int status, HeaderList headers) = 0;
  // False when the peer is gone or was cut because its backlog passed Limits::max_backlog_bytes.
  virtual bool write(SharedBytes piece) = 0;
  virtual void finish() = 0;
  // The same, with trailers. HTTP/1.1 leaves them out.
  virtual void finish_with(HeaderList trailers);
  // Ends without a clean end, as when a body cannot be completed: RST_STREAM, or the connection is closed.
  virtual void abort() = 0;

  // Bytes written and not yet taken by the socket or the peer's flow-control window.
  virtual size_t backlog() const = 0;
  // Called once, when the backlog falls below `low_water` (at once, from the loop, when it is already).
  virtual void when_drained(size_t low_water, std::function<void()> callback) = 0;
  // Called once if the peer goes away before the answer is finished.
  virtual void on_close(std::function<void()> callback) = 0;
  virtual bool closed() const = 0;

  // With ServerOptions::stream_bodies, from inside the handler: who takes the body; without it what comes is thrown
  // away. The reader must live until on_end(), the end of the exchange, or read_body(nullptr).
  virtual void read_body(BodyReader* reader) { (void)reader; }
  // So many bytes were taken: HTTP/2's window of the stream opens by as many. `kept`: what the taker has of the body by
  // now and cannot use yet; it counts as the connection's, which has to wait when that is too much.
  virtual void consume(size_t bytes, size_t kept) { (void)bytes, (void)kept; }

  // Answers with `status` (101) and ends HTTP on this connection: from then on bytes flow raw. "connection: Upgrade" is
  // added. Null, and nothing sent, when that cannot be: HTTP/2, HTTP/1.0, answered already, or the peer is gone.
  virtual std::shared_ptr<Tunnel> upgrade(int status, HeaderList headers);
};

// What "connection: upgrade" and "upgrade: x" ask for, in lower case; empty: nothing.
std::string requested_upgrade(const Request& request);

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct ServerOptions {
  // An IP address, or "unix:/path" (an absolute path of at most 107 bytes): a socket file that nobody listens on is
  // replaced, and ours is removed with the server.
  std::string address = "127.0.0.1";
  unsigned unix_mode = 0600;              // of the socket file
  uint16_t port = 0;                      // 0: any
  std::string bind_to_device;             // SO_BINDTODEVICE: "lo" keeps 0.0.0.0 off the network; empty: not bound
  std::shared_ptr<const TlsContext> tls;  // null: plain HTTP, unless choose_tls says otherwise
  // The certificate by the address the client came to; null from it: `tls`. Called on the connection's loop, so from
  // several threads.
  std::function<std::shared_ptr<const TlsContext>(const std::string& local_address, uint16_t local_port)> choose_tls;
  Limits limits;
  // A request of HTTP/2 is handed over when its headers are complete; its body comes by Exchange::read_body(), has no
  // limit but the stream's window, and no time-out. One of HTTP/1.1 comes whole, then its body in one piece.
  bool stream_bodies = false;
};

class Server {
 public:
  // Binds and begins to accept. "address already in use" names address and port. `loops` must outlive the server.
  static Result<std::unique_ptr<Server>> listen(ServerOptions options, std::vector<EventLoop*> loops, Handler handler);
  virtual ~Server() = default;  // closes everything; call only when the loops no longer run

  virtual uint16_t port() const = 0;
  // Stops accepting, sends GOAWAY, and closes connections as their exchanges end; those left after `grace` are cut.
  // May be called from any thread; `done` runs on the first loop.
  virtual void drain(Duration grace, std::function<void()> done) = 0;
  virtual size_t connection_count() const = 0;
  virtual const MetricsRegistry& metrics() const = 0;
};

}  // namespace ghostfleet::kube::http
