// eviction: a delete that asks the disruption budgets first.
#include <fmt/format.h>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "controlplane/apiserver/subresources/handlers.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr size_t kMaxDisruptedPods = 2000;
constexpr std::string_view kWouldViolate = "Cannot evict pod as it would violate the pod's disruption budget.";

bool may_skip_budgets(const Json& pod) {
  std::string_view phase = text_of(status_of(pod), "phase");
  return one_of(phase, {"Succeeded", "Failed", "Pending"}) || !text_of(metadata_of(pod), "deletionTimestamp").empty();
}

bool is_ready(const Json& pod) {
  const JsonArray* conditions = array_of(status_of(pod), "conditions");
  for (size_t i = 0; conditions != nullptr && i < conditions->size(); ++i) {
    if (text_of((*conditions)[i], "type") == "Ready") return text_of((*conditions)[i], "status") == "True";
  }
  return false;
}

std::vector<Json> budgets_of(Api& api, std::string_view ns, const Json& pod) {
  std::vector<Json> out;
  const JsonObject* labels = object_of(metadata_of(pod), "labels");
  for (Json& budget : stored_list(api, KnownKind::kDisruptionBudgets, ns)) {
    const Json* selector = member(spec_of(budget), "selector");
    if (selector == nullptr) continue;
    auto parsed = kube::LabelSelector::from_json(selector);
    if (parsed.ok() && parsed->matches(labels)) out.push_back(std::move(budget));
  }
  return out;
}

kube::ApiError over_budget(std::string cause, int retry_after) {
  kube::ApiError error = kube::too_many_requests(std::string(kWouldViolate), retry_after);
  error.causes.push_back({"DisruptionBudget", std::move(cause), ""});
  return error;
}

void set_disruption_condition(Json& budget, bool allowed, const std::string& now) {
  JsonObject& status = object_in(budget.get_object(), "status");
  Json& conditions = status["conditions"];
  if (!conditions.is_array()) conditions = JsonArray();
  JsonObject wanted{{"type", "DisruptionAllowed"},
                    {"status", allowed ? "True" : "False"},
                    {"observedGeneration", int_of(status_of(budget), "observedGeneration")},
                    {"lastTransitionTime", now},
                    {"reason", allowed ? "SufficientPods" : "InsufficientPods"},
                    {"message", ""}};
  for (Json& condition : conditions.get_array()) {
    if (text_of(condition, "type") != "DisruptionAllowed") continue;
    if (text_of(condition, "status") == as_text(wanted["status"])) {
      wanted["lastTransitionTime"] = text_of(condition, "lastTransitionTime");
    }
    condition = std::move(wanted);
    return;
  }
  conditions.get_array().push_back(std::move(wanted));
}

// Takes one disruption out of the budget, or says why not.
kube::ApiResult<bool> charge_budget(Json& budget, std::string_view pod, const std::string& now) {
  std::string_view name = name_of(budget);
  const Json& status = status_of(budget);
  int64_t allowed = int_of(status, "disruptionsAllowed");
  if (int_of(status, "observedGeneration") < generation_of(budget)) {
    return over_budget(fmt::format("The disruption budget {} is still being processed by the server.", name), 10);
  }
  if (allowed < 0) return kube::forbidden({}, name, "pdb disruptions allowed is negative");
  const JsonObject* disrupted = object_of(status, "disruptedPods");
  if (disrupted != nullptr && disrupted->size() > kMaxDisruptedPods) {
    return kube::forbidden({}, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller");
  }
  if (allowed == 0) {
    return over_budget(fmt::format("The disruption budget {} needs {} healthy pods and has {} currently", name,
                                   int_of(status, "desiredHealthy"), int_of(status, "currentHealthy")),
                       0);
  }
  JsonObject& s = object_in(budget.get_object(), "status");
  s["disruptionsAllowed"] = allowed - 1;
  if (allowed == 1) set_disruption_condition(budget, false, now);
  object_in(s, "disruptedPods")[pod] = now;
  return true;
}

// A pod that is not ready does not count for a budget that is met without it.
bool unready_may_go(const Json& pod, const Json& budget) {
  if (is_ready(pod)) return false;
  if (text_of(spec_of(budget), "unhealthyPodEvictionPolicy") == "AlwaysAllow") return true;
  int64_t healthy = int_of(status_of(budget), "currentHealthy");
  int64_t desired = int_of(status_of(budget), "desiredHealthy");
  return desired > 0 && healthy >= desired;
}

DeleteOptions options_of(const Json& eviction) {
  DeleteOptions options;
  const Json* given = member(eviction, "deleteOptions");
  if (given == nullptr) return options;
  options.grace_period_seconds = int_of(*given, "gracePeriodSeconds", -1);
  options.propagation_policy = text_of(*given, "propagationPolicy");
  if (const Json* preconditions = member(*given, "preconditions")) {
    options.uid_precondition = text_of(*preconditions, "uid");
    options.version_precondition = text_of(*preconditions, "resourceVersion");
  }
  return options;
}

void note_disruption(Json& pod, const std::string& now) {
  Json& conditions = object_in(pod.get_object(), "status")["conditions"];
  if (!conditions.is_array()) conditions = JsonArray();
  for (const Json& condition : conditions.get_array()) {
    if (text_of(condition, "type") == "DisruptionTarget") return;
  }
  conditions.get_array().push_back(JsonObject{{"type", "DisruptionTarget"},
                                              {"status", "True"},
                                              {"lastTransitionTime", now},
                                              {"reason", "EvictionByEvictionAPI"},
                                              {"message", "Eviction API: evicting"}});
}

Answered delete_pod(SubresourceCall& call, const Json& pod, bool noted, Api& api, RequestContext& ctx) {
  DeleteOptions options = options_of(call.body);
  if (noted && !ctx.dry_run) {
    std::string now = format_time(api.clock().wall_now());
    auto change = [&now](Json& live) -> kube::ApiResult<bool> {
      note_disruption(live, now);
      return true;
    };
    auto written = api.modify(call.resource, call.ns, call.name, "status", change, ctx);
    if (!written.ok()) return written.error();
  }
  if (options.uid_precondition.empty()) options.uid_precondition = uid_of(pod);
  auto removed = api.remove(call.resource, call.ns, call.name, options, ctx);
  if (!removed.ok()) return removed.error();
  return created_status();
}

bool is_dry_run(const Json& eviction) {
  const Json* given = member(eviction, "deleteOptions");
  const JsonArray* values = given == nullptr ? nullptr : array_of(*given, "dryRun");
  return values != nullptr && !values->empty();
}

}  // namespace

Answered serve_eviction(SubresourceCall& call, Api& api, RequestContext& ctx) {
  if (call.verb != "create") return kube::method_not_allowed(call.resource.info, call.verb);
  if (name_of(call.body) != call.name) {
    return kube::bad_request("name in URL does not match name in Eviction object");
  }
  if (is_dry_run(call.body)) ctx.dry_run = true;
  auto pod = parent_of(call, api);
  if (!pod.ok()) return pod.error();
  if (may_skip_budgets(*pod)) return delete_pod(call, *pod, false, api, ctx);
  std::vector<Json> budgets = budgets_of(api, call.ns, *pod);
  if (budgets.size() > 1) {
    kube::ApiError error = kube::internal_api_error("");
    error.reason.clear();
    error.message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    return error;
  }
  if (!budgets.empty() && !unready_may_go(*pod, budgets[0])) {
    const Resource* kind = api.cluster_state().known(api, KnownKind::kDisruptionBudgets);
    std::string now = format_time(api.clock().wall_now());
    auto change = [&](Json& budget) { return charge_budget(budget, call.name, now); };
    RequestContext inner = internal_context("eviction");
    inner.dry_run = ctx.dry_run;
    auto charged = api.modify(*kind, call.ns, name_of(budgets[0]), "status", change, inner);
    if (!charged.ok()) return charged.error();
  }
  return delete_pod(call, *pod, true, api, ctx);
}

}  // namespace ghostfleet::controlplane
