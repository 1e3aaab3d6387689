// For tests: an RpcServer and an RpcClient on one loop over a unix socket of a folder of their own, and a peer of raw
// HTTP/2 that does what no client of ours would.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/event_loop.h"
#include "kube/grpc/client.h"
#include "kube/grpc/server.h"
#include "tests/support/temporary_folder.h"

struct nghttp2_session;

namespace ghostfleet::kube::grpc {

// What became of one call.
struct Outcome {
  bool done = false;
  RpcStatus status;
  std::string reply;
  std::deque<std::string> messages;
};

class Harness {
 public:
  explicit Harness(RpcServices services, RpcServerOptions options = {}) {
    if (options.address.empty()) options.address = address();
    server = std::move(RpcServer::listen(std::move(options), {&loop}, std::move(services)).value());
    client = make_client();
  }
  Harness() : client(make_client()) {}  // nobody serves
  ~Harness() {
    client.reset();
    server.reset();
    loop.run_for(std::chrono::milliseconds(1));
  }

  std::string path() const { return folder.path() + "/s.sock"; }
  std::string address() const { return "unix:" + path(); }
  std::unique_ptr<RpcClient> make_client() {
    RpcClientOptions options;
    options.host = address();
    return RpcClient::create(loop, options);
  }

  // False when the condition does not hold within the deadline.
  bool run_until(const std::function<bool()>& condition, Duration limit = std::chrono::seconds(10)) {
    const TimePoint end = loop.now() + limit;
    while (!condition()) {
      if (loop.now() > end) return false;
      loop.run_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  Outcome& start(std::string_view method, std::string_view request, const RpcCallOptions& options = {}) {
    Outcome& out = outcomes.emplace_back();
    last_id = client->call(method, request, options, [&out](const RpcStatus& status, std::string reply) {
      out.done = true;
      out.status = status;
      out.reply = std::move(reply);
    });
    return out;
  }
  Outcome& call(std::string_view method, std::string_view request, const RpcCallOptions& options = {}) {
    Outcome& out = start(method, request, options);
    run_until([&] { return out.done; });
    return out;
  }
  Outcome& stream(std::string_view method, std::string_view request, const RpcCallOptions& options = {}) {
    Outcome& out = outcomes.emplace_back();
    last_id = client->stream(
        method, request, options, [&out](std::string_view message) { out.messages.emplace_back(message); },
        [&out](const RpcStatus& status) {
          out.done = true;
          out.status = status;
        });
    return out;
  }

  tests::TemporaryFolder folder;
  EventLoop loop;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<RpcClient> client;
  std::deque<Outcome> outcomes;
  RpcCallId last_id = 0;
};

// One stream as the raw peer sees it.
struct RawStream {
  std::map<std::string, std::string> headers, trailers;
  std::string body;
  bool closed = false;
  uint32_t error = 0;
};

// A client on nghttp2 alone, over its own socket. pump() moves what can move without waiting.
class RawPeer {
 public:
  // `window`: what the server may send on a stream before the peer reads.
  RawPeer(const std::string& path, uint32_t window);
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  // A request whose body is what send() gives; `headers` come behind the usual ones and replace them.
  int32_t open(const std::string& method, const std::map<std::string, std::string>& headers = {});
  void send(int32_t stream, std::string_view bytes, bool last);
  void reset(int32_t stream, uint32_t error);
  // Bytes as they are, past HTTP/2.
  void send_raw(std::string_view bytes);
  void pump();
  void close();
  bool connected() const { return fd_ >= 0; }
  RawStream& stream(int32_t id) { return streams_[id]; }
  // Of the body given to send(): what the server's window has let pass.
  size_t unsent(int32_t id) const { return pending_.at(id).size(); }

 private:
  friend struct RawCallbacks;
  int fd_;
  nghttp2_session* session_ = nullptr;
  std::string out_;
  std::map<int32_t, RawStream> streams_;
  std::map<int32_t, std::string> pending_;
  std::map<int32_t, bool> ended_;
};

}  // namespace ghostfleet::kube::grpc
