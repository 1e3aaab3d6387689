// Port-forward, the server's side, over whatever the client speaks: SPDY/3.1 (portforward.k8s.io), SPDY/3.1 inside
// WebSocket messages (SPDY/3.1+portforward.k8s.io), or the older WebSocket form with ports in the query
// (v4.channel.k8s.io, v4.base64.channel.k8s.io). A session carries many forwarded connections, each a pair of a data
// and an error stream.
//
// Thread rule: the loop of the exchange. No event comes from inside a call. Ownership: the session is shared; letting
// go of it closes the connection to the client. A forwarded connection belongs to its session and to whoever holds it;
// it outlives the session harmlessly. Handlers must live until their last event.
// Limits: PortForwardOptions; docs/limits.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "base/status.h"
#include "kube/http/server.h"
#include "kube/stream/timers.h"

namespace ghostfleet::kube::stream {

struct PortForwardOptions {
  std::vector<uint16_t> ports;                           // of the query; for the older WebSocket form
  Duration idle_timeout = std::chrono::hours(4);         // nothing sent or received: closed; 0: none
  Duration creation_timeout = std::chrono::seconds(30);  // until a pair is complete
  size_t max_backlog_bytes = 4 * 1024 * 1024;            // written and not taken by the client: the session is cut
  size_t max_connections = 500;                          // forwarded at a time
  std::shared_ptr<Timers> timers;                        // null: the loop's
};

class ForwardedConnection;

class ForwardedHandler {
 public:
  virtual ~ForwardedHandler() = default;
  virtual void on_data(std::string_view bytes) = 0;
  // The client sends no more; it may still read.
  virtual void on_data_end() {}
  // The end, once, unless close() or fail() was called before.
  virtual void on_close(const Status& why) = 0;
};

// One connection to a port of the pod.
class ForwardedConnection {
 public:
  virtual ~ForwardedConnection() = default;
  virtual uint16_t port() const = 0;
  // Data that came before waits for the handler.
  virtual void set_handler(ForwardedHandler* handler) = 0;
  virtual bool write(SharedBytes bytes) = 0;
  // Nothing more is written; reading goes on.
  virtual void finish() = 0;
  // Both ways, cleanly. No event follows.
  virtual void close() = 0;
  // `message` goes to the error stream ("error forwarding port 80 to pod p, uid : ..."), then close().
  virtual void fail(std::string_view message) = 0;
  // Of the whole session: its connections share one socket.
  virtual size_t backlog() const = 0;
  virtual void when_drained(size_t low_water, std::function<void()> callback) = 0;
  // Reads no more from the client. The connections of a session share one socket: all of them wait.
  virtual void pause() = 0;
  virtual void resume() = 0;
  virtual bool closed() const = 0;
};

class PortForwardHandler {
 public:
  virtual ~PortForwardHandler() = default;
  virtual void on_connection(std::shared_ptr<ForwardedConnection> connection) = 0;
  // The client is gone, or the session was cut; its connections were told before.
  virtual void on_close(const Status& why) = 0;
};

class PortForwardSession {
 public:
  virtual ~PortForwardSession() = default;
  virtual const std::string& protocol() const = 0;
  virtual void close() = 0;
  virtual bool closed() const = 0;
  virtual EventLoop& loop() = 0;
};

// As accept_remote_command().
std::shared_ptr<PortForwardSession> accept_port_forward(const std::shared_ptr<http::Exchange>& exchange,
                                                        const PortForwardOptions& options, PortForwardHandler* handler);

// The ports of a query: port=80&port=443, port=80,443; none for the forms that need none. InvalidArgument names the
// value that is none.
Result<std::vector<uint16_t>> parse_forward_ports(std::string_view query);

}  // namespace ghostfleet::kube::stream
