// NamespaceLifecycle.
#include <fmt/format.h>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;

namespace {

// Looks into the bytes first: nearly every namespace is Active.
bool is_terminating(const Object& ns) {
  if (ns.json.find("\"Terminating\"") == std::string::npos) return false;
  auto json = kube::parse_json(ns.json);
  return json.ok() && text_of(status_of(*json), "phase") == "Terminating";
}

}  // namespace

Admitted admit_namespace(Operation operation, const Json& object, StrategyContext& ctx) {
  if (operation == Operation::kDelete) {
    bool immortal =
        is_kind(ctx, "", "namespaces") && one_of(name_of(object), {"default", "kube-system", "kube-public"});
    if (immortal) return refuse(ctx, object, "this namespace may not be deleted");
    return true;
  }
  if (operation != Operation::kCreate || ctx.ns.empty()) return true;
  // Reviews are about a namespace, they do not live in it.
  if (ctx.resource.info.group == "authorization.k8s.io") return true;
  ObjectRef ns = stored(ctx.api, KnownKind::kNamespaces, "", ctx.ns);
  if (ns == nullptr) {
    const Resource* kind = ctx.api.cluster_state().known(ctx.api, KnownKind::kNamespaces);
    return kube::not_found_error(kind == nullptr ? ctx.resource.info : kind->info, ctx.ns);
  }
  if (!is_terminating(*ns)) return true;
  kube::ApiError error = refuse(
      ctx, object, fmt::format("unable to create new content in namespace {} because it is being terminated", ctx.ns));
  error.causes.push_back(
      {"NamespaceTerminating", fmt::format("namespace {} is being terminated", ctx.ns), "metadata.namespace"});
  return error;
}

}  // namespace ghostfleet::controlplane
