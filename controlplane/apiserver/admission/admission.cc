// The order of admission, as in a real API server with its default plugins and NodeRestriction.
#include <array>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

#define GF_ADMIT(expr)                           \
  do {                                           \
    Admitted admitted = (expr);                  \
    if (!admitted.ok()) return admitted.error(); \
  } while (false)

constexpr std::string_view kDefaultClass = "storageclass.kubernetes.io/is-default-class";

Admitted admit_new_pod(Json& pod, StrategyContext& ctx) {
  apply_limit_ranges(pod, ctx);
  GF_ADMIT(admit_service_account(pod, ctx));
  GF_ADMIT(admit_priority(pod, ctx));
  add_default_tolerations(pod);
  GF_ADMIT(admit_runtime_class(pod, ctx));
  return true;
}

// A new node is not ready until it says so.
void taint_new_node(Json& node) {
  constexpr std::string_view kKey = "node.kubernetes.io/not-ready";
  Json& taints = object_in(node.get_object(), "spec")["taints"];
  if (!taints.is_array()) taints = JsonArray();
  for (const Json& taint : taints.get_array()) {
    if (text_of(taint, "key") == kKey && text_of(taint, "effect") == "NoSchedule") return;
  }
  taints.get_array().push_back(JsonObject{{"key", kKey}, {"effect", "NoSchedule"}});
}

void add_finalizer(Json& object, std::string_view finalizer) {
  Json& list = metadata_of(object).get_object()["finalizers"];
  if (!list.is_array()) list = JsonArray();
  for (const Json& f : list.get_array()) {
    if (as_text(f) == finalizer) return;
  }
  list.get_array().emplace_back(finalizer);
}

// The newest of the classes marked as default; of two of one second the first by name.
void set_default_storage_class(Json& claim, StrategyContext& ctx) {
  JsonObject& spec = object_in(claim.get_object(), "spec");
  if (spec.if_contains("storageClassName") != nullptr) return;
  const Json* annotations = member(metadata_of(claim), "annotations");
  if (annotations != nullptr && member(*annotations, "volume.beta.kubernetes.io/storage-class") != nullptr) return;
  std::string best;
  std::string best_time;
  for (const Json& candidate : stored_list(ctx.api, KnownKind::kStorageClasses, "")) {
    const Json* marks = member(metadata_of(candidate), "annotations");
    if (marks == nullptr || text_of(*marks, kDefaultClass) != "true") continue;
    std::string created(text_of(metadata_of(candidate), "creationTimestamp"));
    if (best.empty() || created > best_time) {
      best = name_of(candidate);
      best_time = created;
    }
  }
  if (!best.empty()) spec["storageClassName"] = best;
}

Admitted admit_create(Json& object, StrategyContext& ctx) {
  if (ctx.resource.terminating) {
    return kube::forbidden(ctx.resource.info, name_of(object),
                           "create not allowed while custom resource definition is terminating");
  }
  if (!ctx.subresource.empty()) return true;
  const std::string& group = ctx.resource.info.group;
  if (!group.empty()) return true;
  const std::string& resource = ctx.resource.info.resource;
  if (resource == "pods") return admit_new_pod(object, ctx);
  if (resource == "nodes") {
    taint_new_node(object);
  } else if (resource == "persistentvolumes") {
    add_finalizer(object, "kubernetes.io/pv-protection");
  } else if (resource == "persistentvolumeclaims") {
    set_default_storage_class(object, ctx);
    add_finalizer(object, "kubernetes.io/pvc-protection");
  }
  return true;
}

bool carries_pods(const StrategyContext& ctx) {
  const std::string& group = ctx.resource.info.group;
  return group.empty() || group == "apps" || group == "batch";
}

}  // namespace

Admitted admit(Operation operation, Json& object, const Json* old, StrategyContext& ctx) {
  GF_ADMIT(admit_namespace(operation, object, ctx));
  if (!ctx.request.internal) GF_ADMIT(admit_node_user(operation, object, old, ctx));
  if (operation == Operation::kCreate) GF_ADMIT(admit_create(object, ctx));
  if (operation == Operation::kDelete) {
    GF_ADMIT(call_validating_webhooks(operation, object, old, ctx));
    return true;
  }
  bool pod_update = operation == Operation::kUpdate && ctx.subresource.empty() && is_kind(ctx, "", "pods");
  if (pod_update && !equal_members(object, *old, "spec")) add_default_tolerations(object);
  return call_mutating_webhooks(operation, object, old, ctx);
}

Admitted admit_validated(Operation operation, const Json& object, const Json* old, StrategyContext& ctx) {
  if (operation != Operation::kCreate && operation != Operation::kUpdate) return true;
  GF_ADMIT(call_validating_webhooks(operation, object, old, ctx));
  if (!ctx.subresource.empty()) return true;
  if (is_kind(ctx, "", "namespaces")) return check_namespace_labels(object, old, ctx);
  if (operation == Operation::kCreate) GF_ADMIT(check_limit_ranges(object, ctx));
  if (carries_pods(ctx)) GF_ADMIT(check_pod_security(operation, object, old, ctx));
  if (operation == Operation::kCreate) GF_ADMIT(charge_quotas(object, ctx));
  return true;
}

}  // namespace ghostfleet::controlplane
