// Dialer: a name and a port become a connected socket. Addresses are tried one after the other. "unix:/path" is a unix
// domain socket.
//
// Thread rule: one loop (names are looked up on a thread of the reactor's). Ownership: the dialer keeps itself alive
// until `done` was called or cancel().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::kube::http {

class Dialer {
 public:
  // `done` is called once, from the loop, with a file descriptor that becomes the callee's, or with an error:
  // "connect to 127.0.0.1:6443: Connection refused", "look up host x: Host not found".
  using Done = std::function<void(Result<int>)>;
  static std::shared_ptr<Dialer> dial(EventLoop& loop, std::string host, uint16_t port, Done done);
  virtual ~Dialer() = default;
  virtual void cancel() = 0;
};

// "host:port", with brackets around an IPv6 address; "unix:/path" as it is.
std::string host_and_port(const std::string& host, uint16_t port);

}  // namespace ghostfleet::kube::http
