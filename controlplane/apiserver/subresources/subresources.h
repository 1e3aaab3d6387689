// Subresources that are not simply another door to the same object: scale, binding, eviction, token, log, exec, attach,
// portforward, proxy.
//
// Those of the parent's own kind (status, approval, ephemeralcontainers, resize, finalize) go through Api::update and
// Api::modify with their name as `subresource`; the strategy isolates what they may change.
//
// Thread rule: any thread, as Api.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/apiserver/api.h"
#include "controlplane/apiserver/request.h"
#include "kube/api/api_error.h"

namespace ghostfleet::controlplane {

// True when the subresource serves the parent's own kind (see above).
bool is_same_kind_subresource(const Resource& parent, std::string_view subresource);

struct SubresourceCall {
  std::string_view verb;  // get, create, update, patch, delete, connect (GET/POST of exec, attach, portforward, proxy)
  const Resource& resource;  // the parent ("pods")
  std::string_view ns, name;
  std::string_view subresource;
  // create, update: the body, decoded as the kind of SubresourceInfo. For create on the collection "bindings" the
  // resource is bindings and the subresource empty.
  kube::Json body;
  // patch: applies the request's patch to the current form (a Scale) and answers the decoded result.
  std::function<kube::ApiResult<kube::Json>(kube::Json current)> patch;
  // Query parameters, decoded, in order.
  std::vector<std::pair<std::string, std::string>> query;
};

// Where a request is passed on to, because a node or a service answers it. The HTTP layer does that (proxy/).
struct Forward {
  enum class Mode : unsigned char {
    kLog,     // GET; the answer is text, errors become a Status
    kStream,  // only as an upgrade of the connection; what flows then is passed on raw
    kProxy,   // whatever it is, upgraded or not
  };
  enum class Tls : unsigned char {
    kNone,
    kNode,       // the API server's certificate for kubelets is shown; the node's is verified if a CA was given
    kNodeBlind,  // ... and the node's certificate is not verified
    kBlind,      // no certificate is shown, and none verified
  };
  Mode mode = Mode::kProxy;
  Tls tls = Tls::kNode;
  std::string host;  // name or address
  uint16_t port = 0;
  std::string path;   // encoded; kProxy: of the backend, without what follows "proxy" in the request's path
  std::string query;  // encoded; kProxy: the request's own is used
};

struct SubresourceAnswer {
  int code = 200;
  std::optional<Forward> forward;  // then nothing else counts
  // An object with apiVersion and kind (Scale, Status, TokenRequest, ...); null when `text` is the answer.
  kube::Json object;
  std::string text;  // with content_type; log
  std::string content_type;
};

kube::ApiResult<SubresourceAnswer> call_subresource(SubresourceCall call, Api& api, RequestContext& ctx);

// What Api::bind does: the subresource pods/binding. `binding` is a decoded Binding.
kube::ApiResult<ObjectRef> bind_pod(Api& api, std::string_view ns, std::string_view pod, const kube::Json& binding,
                                    RequestContext& ctx);

}  // namespace ghostfleet::controlplane
