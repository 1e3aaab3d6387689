#include "controlplane/apiserver/subresources/subresources.h"

#include <fmt/format.h>

#include "controlplane/apiserver/subresources/handlers.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonObject;

bool is_same_kind_subresource(const Resource& parent, std::string_view subresource) {
  if (parent.info.custom()) return subresource == "status";
  for (const kube::SubresourceInfo& sub : parent.info.subresources) {
    if (sub.name != subresource) continue;
    bool connects = sub.name == "log" || sub.name == "exec" || sub.name == "attach" || sub.name == "portforward" ||
                    sub.name == "proxy";
    return sub.kind == parent.info.kind && !connects;
  }
  return false;
}

SubresourceAnswer created_status() {
  SubresourceAnswer answer;
  answer.code = 201;
  answer.object = JsonObject{
      {"kind", "Status"}, {"apiVersion", "v1"}, {"metadata", JsonObject()}, {"status", "Success"}, {"code", 201}};
  return answer;
}

kube::ApiResult<Json> parent_of(const SubresourceCall& call, Api& api) {
  auto found = api.get(call.resource, call.ns, call.name);
  if (!found.ok()) return found.error();
  return api.decode(call.resource, **found);
}

kube::ApiResult<SubresourceAnswer> call_subresource(SubresourceCall call, Api& api, RequestContext& ctx) {
  bool collection = call.resource.info.resource == "bindings" && call.subresource.empty();
  if (collection || call.subresource == "binding") return serve_binding(call, api, ctx);
  if (call.subresource == "scale") return serve_scale(call, api, ctx);
  if (call.subresource == "eviction") return serve_eviction(call, api, ctx);
  if (call.subresource == "token") return serve_token(call, api, ctx);
  if (call.subresource == "log") return serve_log(call, api, ctx);
  if (call.verb == "connect") return serve_connect(call, api, ctx);
  kube::ApiError error;
  error.code = 404;
  error.reason = "NotFound";
  error.message = "the server could not find the requested resource";
  return error;
}

}  // namespace ghostfleet::controlplane
