// RpcServer: gRPC on a unix socket or TCP, with TLS or without: unary calls, streams of answers, and streams both ways.
// It is kube/http's Server with streamed bodies; each method is a function of a table.
//
// Thread rule: a call, its handler and its callbacks stay on the loop of its connection; ServerCall methods may be
// called only there. Ownership: whoever holds a ServerCall may answer it; when its last reference is gone unanswered,
// the call ends with kUnknown. A ServerCall outlives its connection, and the server, harmlessly. Errors a peer sees are
// those of a grpc-go server: an unknown method, a bad timeout, a compressed or an overlong message. Limits:
// http::Limits of the server (streams of a connection, what a peer that does not read may leave waiting), messages of
// max_message_bytes, and request_timeout for the one message of a unary call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/event_loop.h"
#include "base/status.h"
#include "kube/grpc/message_reader.h"
#include "kube/grpc/rpc_status.h"
#include "kube/http/message.h"
#include "kube/http/tls.h"

namespace ghostfleet::kube::grpc {

class ServerCall {
 public:
  virtual ~ServerCall() = default;

  // Headers (the metadata), the method as `target`, the peer.
  virtual const http::Request& request() const = 0;
  virtual EventLoop& loop() = 0;

  // One message of the answer. False when the peer is gone, the deadline has passed, or the call was cut because its
  // backlog passed Limits::max_backlog_bytes.
  virtual bool send(std::string_view message) = 0;
  // The same for bytes of frame_message(), shared by many calls.
  virtual bool send_framed(SharedBytes framed) = 0;
  // The end. Later calls do nothing.
  virtual void finish(const RpcStatus& status) = 0;
  // One message and OK: a unary answer.
  void reply(std::string_view message) {
    send(message);
    finish(RpcStatus());
  }

  // Bytes sent and not yet taken by the socket or the peer's window.
  virtual size_t backlog() const = 0;
  // Called once, when the backlog is below `low_water`; not when the call ends before (on_close() is).
  virtual void when_drained(size_t low_water, std::function<void()> callback) = 0;
  // Called once, from the loop, when the call ends without finish(): the peer went away or has cancelled, or the
  // deadline has passed (the peer was told).
  virtual void on_close(std::function<void()> callback) = 0;
  virtual bool closed() const = 0;

  // Of stream methods, from inside the handler: each message of the peer as it comes, and `half_close` once when no
  // more come. What they capture is let go of when the call ends.
  virtual void read(std::function<void(std::string_view)> message, std::function<void()> half_close) = 0;
  // No message until resume(): then the peer has to wait, with at most a stream's window on its way (1 MiB).
  virtual void pause() = 0;
  virtual void resume() = 0;
};

// Which functions a server offers. Paths are "/package.Service/Method".
class RpcServices {
 public:
  // The peer sends one message; the handler answers with one (reply()) or with many.
  using UnaryHandler = std::function<void(std::shared_ptr<ServerCall> call, std::string request)>;
  // The peer sends a stream; the handler calls read().
  using StreamHandler = std::function<void(std::shared_ptr<ServerCall> call)>;

  void unary(std::string path, UnaryHandler handler) { methods_[std::move(path)].unary = std::move(handler); }
  void stream(std::string path, StreamHandler handler) { methods_[std::move(path)].stream = std::move(handler); }

  struct Method {
    UnaryHandler unary;
    StreamHandler stream;
  };
  // Null: not offered.
  const Method* find(std::string_view path) const;
  bool has_service(std::string_view service) const;

 private:
  std::map<std::string, Method, std::less<>> methods_;
};

struct RpcServerOptions {
  std::string address;  // "unix:/path" or an IP address
  uint16_t port = 0;    // of an IP address; 0: any
  unsigned unix_mode = 0600;
  std::shared_ptr<const http::TlsContext> tls;  // null: plaintext
  http::Limits limits;
  size_t max_message_bytes = kMaxMessageBytes;
  Duration request_timeout = std::chrono::seconds(30);  // for the message of a unary call to arrive
};

class RpcServer {
 public:
  // Binds and begins to accept. A path that is too long, in use, or no socket is an error that names it.
  static Result<std::unique_ptr<RpcServer>> listen(RpcServerOptions options, std::vector<EventLoop*> loops,
                                                   RpcServices services);
  virtual ~RpcServer() = default;  // closes everything; on the loop's thread, or when it no longer runs

  virtual uint16_t port() const = 0;
  virtual size_t connection_count() const = 0;
  // GOAWAY; calls that are open after `grace` are cut. `done` runs on the first loop.
  virtual void drain(Duration grace, std::function<void()> done) = 0;
};

}  // namespace ghostfleet::kube::grpc
