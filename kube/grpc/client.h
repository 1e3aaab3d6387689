// RpcClient: gRPC calls to ONE server over one HTTP/2 connection: unary calls, and calls whose answer is a stream of
// messages. Plain sockets speak HTTP/2 at once ("prior knowledge"); a unix socket's authority is "localhost", as a
// kubelet's calls to device plugins have it.
//
// Thread rule: one EventLoop; everything on its thread. Ownership: the client owns its connection and calls; what the
// callbacks capture must live until they were called, or cancel() has returned, or the client is gone. No callback
// comes from inside a method of the client. Errors: an RpcStatus with the text a grpc-go client would show. Limits:
// messages received are at most RpcClientOptions::max_message_bytes; a server that sends faster than messages are taken
// is held by HTTP/2's windows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/event_loop.h"
#include "kube/grpc/message_reader.h"
#include "kube/grpc/rpc_status.h"
#include "kube/http/message.h"
#include "kube/http/tls.h"

namespace ghostfleet::kube::grpc {

struct RpcClientOptions {
  std::string host;  // a name, an address, or "unix:/path"
  uint16_t port = 0;
  std::shared_ptr<const http::TlsContext> tls;  // null: plaintext
  Duration connect_timeout = std::chrono::seconds(20);
  size_t max_message_bytes = kMaxMessageBytes;
  std::string user_agent = "grpc-ghostfleet";
};

struct RpcCallOptions {
  Duration timeout{0};  // to the end of the call; also told to the server. 0: none
  // As long as there is no connection the call waits for one, until its timeout; else it fails with the first attempt.
  bool wait_for_ready = false;
  http::HeaderList metadata;  // names in lower case
};

using RpcCallId = uint64_t;  // 0: none

class RpcClient {
 public:
  using OnReply = std::function<void(const RpcStatus& status, std::string reply)>;
  using OnMessage = std::function<void(std::string_view message)>;
  using OnEnd = std::function<void(const RpcStatus& status)>;

  static std::unique_ptr<RpcClient> create(EventLoop& loop, RpcClientOptions options);
  virtual ~RpcClient() = default;  // no callback any more; not from inside one

  // One message there, one back. `method` is "/package.Service/Method".
  virtual RpcCallId call(std::string_view method, std::string_view request, const RpcCallOptions& options,
                         OnReply done) = 0;
  // One message there, many back: `message` for each, then `end` once.
  virtual RpcCallId stream(std::string_view method, std::string_view request, const RpcCallOptions& options,
                           OnMessage message, OnEnd end) = 0;
  // No further callback of the call; the server's side of it is reset (CANCEL).
  virtual void cancel(RpcCallId id) = 0;
  virtual size_t open_calls() const = 0;
};

}  // namespace ghostfleet::kube::grpc
