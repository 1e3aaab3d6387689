// Tunnel: what is left of an HTTP/1.1 connection after an upgrade (101): raw bytes both ways, with back-pressure. Both
// ends get one: Exchange::upgrade() and HttpClient::upgrade().
//
// Thread rule: one loop. No event comes from inside a call of a Tunnel method. Ownership: whoever holds the tunnel owns
// the connection; letting go of the last reference closes it like close(). A handler must live until on_end() or until
// set_handler(nullptr).
// Limits: write() cuts a tunnel whose backlog passes Limits::max_backlog_bytes; who writes much asks backlog() and
// waits with when_drained().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::kube::http {

class TunnelHandler {
 public:
  virtual ~TunnelHandler() = default;
  // Valid during the call only.
  virtual void on_data(std::string_view bytes) = 0;
  // Nothing more comes; called once. OK: the peer has ended its side, and what is written may still reach it until
  // close(). An error: the connection is lost.
  virtual void on_end(const Status& why) = 0;
};

class Tunnel {
 public:
  virtual ~Tunnel() = default;

  // Reading begins with the first handler. Null: no further event, and no reading.
  virtual void set_handler(TunnelHandler* handler) = 0;
  // False when it is closed, or was cut for its backlog.
  virtual bool write(SharedBytes bytes) = 0;
  // Bytes written and not yet taken by the kernel.
  virtual size_t backlog() const = 0;
  // Called once, from the loop, when the backlog is below `low_water` or the tunnel is closed. One at a time: a second
  // call replaces the first.
  virtual void when_drained(size_t low_water, std::function<void()> callback) = 0;
  // Reads no more until resume(): what makes the peer wait. After pause() no on_data() comes.
  virtual void pause() = 0;
  virtual void resume() = 0;
  // Ends our side once everything written has left; reading goes on.
  virtual void shutdown_write() = 0;
  // Sends what was written, then closes. No further event.
  virtual void close() = 0;
  // Closes at once. No further event.
  virtual void abort() = 0;
  virtual bool closed() const = 0;
  virtual EventLoop& loop() = 0;
};

// Passes bytes both ways until one end is gone; then what is on its way is delivered and both are closed. A side that
// is not read makes the other wait. Keeps itself and the tunnels alive. `done` may be null.
void splice(std::shared_ptr<Tunnel> a, std::shared_ptr<Tunnel> b, std::function<void()> done);

}  // namespace ghostfleet::kube::http
