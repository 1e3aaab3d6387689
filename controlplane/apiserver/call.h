// Call: one HTTP request on its way through the API server, and how it is answered.
//
// Thread rule: a Call lives on the loop of its Exchange. ServerParts is shared by all loops; what it points at is
// thread-safe and outlives every Call.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "controlplane/apiserver/api_impl.h"
#include "controlplane/apiserver/negotiation.h"
#include "controlplane/apiserver/proxy/backend.h"
#include "controlplane/apiserver/render.h"
#include "controlplane/apiserver/request_info.h"
#include "controlplane/auth/authenticator.h"
#include "controlplane/auth/authorizer.h"
#include "controlplane/auth/tokens.h"
#include "kube/http/server.h"

namespace ghostfleet::controlplane {

class Aggregator;
class Documents;
class RequestMetrics;

struct ServerParts {
  ApiImpl& api;
  const Authenticator* authenticator = nullptr;
  const Authorizer* authorizer = nullptr;
  const TokenIssuer* issuer = nullptr;
  ClusterObjects objects;
  Documents* documents = nullptr;
  RequestMetrics* metrics = nullptr;
  Aggregator* aggregator = nullptr;
  const Clock& clock;
  NodeTls node_tls;
  int max_in_flight = 400, max_mutating_in_flight = 200;
  Duration bookmark_interval = std::chrono::seconds(60);
  size_t max_watch_backlog = 100000;
  std::atomic<int> in_flight{0}, mutating_in_flight{0}, watches{0}, transfers{0};
  std::atomic<bool> ready{false};
  // Open watches and transfers, so that they can be ended when the server stops.
  std::mutex watch_mutex;
  std::map<uint64_t, std::function<void()>> watch_enders;  // each may be called from any thread, once
  uint64_t next_watch = 1;
};

// A place among the requests being served; given back when the last reference goes.
using Slot = std::shared_ptr<void>;

struct Call {
  ServerParts& parts;
  std::shared_ptr<kube::http::Exchange> exchange;
  RequestInfo info;
  AnswerType answer;
  RequestContext ctx;
  const Resource* resource = nullptr;
  std::string audit_id;
  TimePoint begun;
  Slot slot;

  const kube::http::Request& request() const { return exchange->request(); }
  std::string_view ns() const { return resource && resource->info.namespaced ? std::string_view(info.ns) : ""; }
};
using CallRef = std::shared_ptr<Call>;

// Headers of every answer: audit id, cache control, content type, warnings.
kube::http::HeaderList answer_headers(const Call& call, std::string content_type);
void send_bytes(Call& call, int code, std::string content_type, std::string body);
void send_error(Call& call, const kube::ApiError& error);
// An object of any kind (Scale, Status, a review): encoded as negotiated.
void send_value(Call& call, int code, const kube::Json& value);
// A stored object of the call's resource.
void send_object(Call& call, int code, const Object& object);
void send_text(Call& call, int code, std::string text);

// includeObject of Tables.
kube::IncludeObject include_object(const Query& query);
// Records the answer in the metrics; every send_* does it itself.
void record_answer(Call& call, int code);

// What serves the paths of resources.
void serve_get(const CallRef& call);
void serve_list(const CallRef& call);
void serve_watch(const CallRef& call);
void serve_create(const CallRef& call);
void serve_update(const CallRef& call);
void serve_patch(const CallRef& call);
void serve_delete(const CallRef& call);
void serve_delete_collection(const CallRef& call);
void serve_subresource(const CallRef& call);
// Paths that are no resources: discovery, OpenAPI, health, version, metrics.
void serve_other(const CallRef& call);

// Ends every watch cleanly, as at its time-out, and every transfer (the server stops).
void end_all_watches(ServerParts& parts);

// What the user asks to do, as the authorizer is asked.
Attributes attributes_of(const Call& call);

// The options every write has (fieldManager, fieldValidation, dryRun), into the context; 422 for bad values.
// `kind` is CreateOptions, UpdateOptions, PatchOptions.
kube::ApiResult<bool> read_write_options(Call& call, std::string_view kind);
// Negotiates into call.answer; an error has been sent when false.
bool negotiate_or_fail(Call& call, Endpoint endpoint);
// The body decoded as `kind`.
kube::ApiResult<kube::Json> decode_body(Call& call, const kube::KindInfo& kind);
// Applies the request's patch to `live` and answers the decoded result.
kube::ApiResult<kube::Json> apply_patch(Call& call, PatchType type, const kube::Json& live, const kube::KindInfo& kind);
// Body and query of a delete.
kube::ApiResult<DeleteOptions> read_delete_options(Call& call);
kube::ApiError unknown_path_error();

}  // namespace ghostfleet::controlplane
