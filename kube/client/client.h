// KubeClient: calls to one API server with its credentials, repeated with back-off where repeating is safe.
//
// What is repeated, as by client-go: a call that never reached the server; a GET that was cut; 429 and 5xx
// that carry Retry-After, after the time told, for every verb; a 401 once, with fresh credentials. At most `max_tries`
// times.
//
// Thread rule: one EventLoop; everything on its thread. SyncClient below may be used from any one thread.
// Ownership: the client owns its connections and calls; a callback is called once, unless its call is cancelled or the
// client destroyed. Callbacks may start and cancel calls, but must not destroy the client.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/event_loop.h"
#include "kube/client/client_config.h"
#include "kube/http/client.h"

namespace ghostfleet::kube {

struct ApiCall {
  std::string method = "GET";
  std::string target;  // "/api/v1/nodes/n1?fieldManager=x"; the server's path prefix is put in front
  std::string body;
  std::string content_type;  // of the body; empty: application/json when there is a body
  std::string accept = "application/json";
  http::HeaderList headers;  // further ones
  http::Lane lane = http::Lane::kNormal;
  Duration timeout = std::chrono::seconds(60);  // of one try, to the end of the body
  int max_tries = 10;                           // 1: never repeated
};

// What came of a call. `transport_error` is set when no complete answer arrived; else `status` is the HTTP code.
struct ApiCallResult {
  int status = 0;
  http::HeaderList headers;
  std::string body;
  Status transport_error;
  int tries = 1;

  bool ok() const { return transport_error.ok() && status >= 200 && status < 300; }
  // OK, or the failure in words for people: the message of the server's Status object when it sent one. `what` names
  // the call ("creating node n1").
  Status to_status(std::string_view what) const;
};

using ApiCallback = std::function<void(ApiCallResult)>;
using ApiCallId = uint64_t;  // 0: none

struct KubeClientOptions {
  int max_connections = 4;
  uint32_t max_streams_per_connection = 1000;
  Duration backoff_base = std::chrono::milliseconds(200);
  Duration backoff_cap = std::chrono::seconds(30);
  size_t max_response_bytes = 256u << 20;  // a larger answer fails the call
  uint64_t seed = 1;                       // of the jitter
};

class KubeClient {
 public:
  static Result<std::unique_ptr<KubeClient>> create(EventLoop& loop, const ClientConfig& config,
                                                    KubeClientOptions options = {});
  // With options made once by make_http_options() and shared by many clients.
  static std::unique_ptr<KubeClient> create(EventLoop& loop, http::HttpClientOptions http, std::string path_prefix,
                                            ClientAuth auth, KubeClientOptions options = {});
  virtual ~KubeClient() = default;

  virtual ApiCallId call(ApiCall call, ApiCallback callback) = 0;
  virtual void cancel(ApiCallId id) = 0;

  // For those who speak to the transport directly (the fleet's pre-rendered requests, the reflector): the transport,
  // the prefix of every target, and the value of the authorization header as it is now (empty: none to send).
  virtual http::HttpClient& http() = 0;
  virtual const std::string& path_prefix() const = 0;
  virtual Result<std::string> authorization() = 0;
  // Tells that the server answered 401 to that value: the next authorization() asks the provider again.
  virtual void authorization_refused() = 0;

  virtual EventLoop& loop() = 0;
};

// Blocking calls for tools, on a loop thread of its own.
class SyncClient {
 public:
  static Result<std::unique_ptr<SyncClient>> create(const ClientConfig& config, KubeClientOptions options = {});
  virtual ~SyncClient() = default;
  virtual ApiCallResult call_sync(ApiCall call) = 0;
};

// Seconds or an HTTP date in a Retry-After header, as a delay from `now`; negative when there is none or it is
// nonsense.
Duration parse_retry_after(std::string_view value, WallTime now);

}  // namespace ghostfleet::kube
