// ResourceQuota: what a new object would use is held against the quotas of its namespace whose status says what is
// used.
#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/admission/quota.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_defaults.h"
#include "controlplane/apiserver/strategies/resources.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::Quantity;

namespace {

using Usage = QuotaUsage;

void add(Usage& usage, std::string name, const Quantity& value) {
  auto [it, fresh] = usage.emplace(std::move(name), value);
  if (!fresh) it->second += value;
}

void add_containers(Usage& usage, const Json& spec) {
  const JsonArray* containers = array_of(spec, "containers");
  for (size_t i = 0; containers != nullptr && i < containers->size(); ++i) {
    const Json* resources = member((*containers)[i], "resources");
    if (resources == nullptr) continue;
    for (std::string_view part : {"requests", "limits"}) {
      const JsonObject* list = object_of(*resources, part);
      if (list == nullptr) continue;
      for (const auto& entry : *list) {
        Quantity value = quantity_of(as_text(entry.value()));
        add(usage, fmt::format("{}.{}", part, std::string_view(entry.key())), value);
        bool plain = one_of(entry.key(), {"cpu", "memory", "ephemeral-storage"});
        if (part == "requests" && plain) add(usage, std::string(entry.key()), value);
      }
    }
  }
}

// A term of pod affinity that looks at pods of other namespaces than its own.
bool crosses_namespaces(const Json& spec) {
  const Json* affinity = member(spec, "affinity");
  if (affinity == nullptr) return false;
  const auto crosses = [](const Json& term) {
    const JsonArray* namespaces = array_of(term, "namespaces");
    return (namespaces != nullptr && !namespaces->empty()) || member(term, "namespaceSelector") != nullptr;
  };
  for (std::string_view part : {"podAffinity", "podAntiAffinity"}) {
    const Json* rules = member(*affinity, part);
    if (rules == nullptr) continue;
    const JsonArray* required = array_of(*rules, "requiredDuringSchedulingIgnoredDuringExecution");
    if (required != nullptr && std::any_of(required->begin(), required->end(), crosses)) return true;
    const JsonArray* preferred = array_of(*rules, "preferredDuringSchedulingIgnoredDuringExecution");
    for (size_t i = 0; preferred != nullptr && i < preferred->size(); ++i) {
      const Json* term = member((*preferred)[i], "podAffinityTerm");
      if (term != nullptr && crosses(*term)) return true;
    }
  }
  return false;
}

bool pod_in_scope(const Json& spec, std::string_view scope) {
  const Json* deadline = member(spec, "activeDeadlineSeconds");
  const bool ends = deadline != nullptr && deadline->is_number() && deadline->to_number<int64_t>() >= 0;
  if (scope == "Terminating") return ends;
  if (scope == "NotTerminating") return !ends;
  if (scope == "BestEffort") return qos_class(spec) == "BestEffort";
  if (scope == "NotBestEffort") return qos_class(spec) != "BestEffort";
  if (scope == "PriorityClass") return !text_of(spec, "priorityClassName").empty();
  return scope == "CrossNamespacePodAffinity" && crosses_namespaces(spec);
}

// One of scopeSelector.matchExpressions. Only PriorityClass knows other operators than Exists.
bool pod_meets(const Json& spec, const Json& term) {
  const std::string_view scope = text_of(term, "scopeName");
  const std::string_view op = text_of(term, "operator");
  if (op == "Exists" || scope != "PriorityClass") return pod_in_scope(spec, scope);
  const std::string_view priority_class = text_of(spec, "priorityClassName");
  if (op == "DoesNotExist") return priority_class.empty();
  const JsonArray* values = array_of(term, "values");
  const bool named =
      values != nullptr && !priority_class.empty() &&
      std::any_of(values->begin(), values->end(), [&](const Json& value) { return as_text(value) == priority_class; });
  return op == "NotIn" ? !named : named;
}

struct Excess {
  std::string requested, used, limited;
  bool any() const { return !requested.empty(); }
};

void append(std::string& text, std::string_view name, const std::string& value) {
  if (!text.empty()) text.push_back(',');
  text += fmt::format("{}={}", name, value);
}

// Adds the usage to status.used; answers what does not fit.
Excess charge(Json& quota, const Usage& usage, bool* counted) {
  Excess excess;
  Json* status = member(quota, "status");
  const JsonObject* hard = status == nullptr ? nullptr : object_of(*status, "hard");
  if (hard == nullptr) return excess;
  JsonObject limits = *hard;
  JsonObject& used = object_in(status->get_object(), "used");
  for (const auto& [name, value] : usage) {
    const Json* limit = limits.if_contains(name);
    if (limit == nullptr) continue;
    const Json* before = used.if_contains(name);
    Quantity was = before == nullptr ? Quantity() : quantity_of(as_text(*before));
    Quantity now = was;
    now += value;
    *counted = true;
    if (now > quantity_of(as_text(*limit)) && value.sign() > 0) {
      append(excess.requested, name, value.to_string());
      append(excess.used, name, was.to_string());
      append(excess.limited, name, std::string(as_text(*limit)));
    }
    used[name] = now.to_string();
  }
  return excess;
}

}  // namespace

QuotaUsage quota_usage(const Resource& kind, const Json& object) {
  Usage usage;
  const Quantity one = Quantity::from_value(1);
  add(usage, "count/" + kind.info.group_resource(), one);
  if (!kind.info.group.empty()) return usage;
  const std::string& resource = kind.info.resource;
  if (one_of(resource, {"pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers",
                        "resourcequotas"})) {
    add(usage, resource, one);
  }
  if (resource == "pods") add_containers(usage, spec_of(object));
  if (resource == "persistentvolumeclaims") {
    const Json* resources = member(spec_of(object), "resources");
    std::string_view size = resources == nullptr ? "" : quantity_text(member(*resources, "requests"), "storage");
    if (!size.empty()) add(usage, "requests.storage", quantity_of(size));
  }
  if (resource == "services") {
    std::string_view type = text_of(spec_of(object), "type");
    if (type == "LoadBalancer") add(usage, "services.loadbalancers", one);
    if (type == "NodePort" || type == "LoadBalancer") add(usage, "services.nodeports", one);
  }
  return usage;
}

void add_usage(QuotaUsage* sum, const QuotaUsage& more) {
  for (const auto& [name, value] : more) add(*sum, name, value);
}

bool quota_covers(const Json& quota, const Resource& kind, const Json& object) {
  const JsonArray* scopes = array_of(spec_of(quota), "scopes");
  const Json* selector = member(spec_of(quota), "scopeSelector");
  const JsonArray* terms = selector == nullptr ? nullptr : array_of(*selector, "matchExpressions");
  const bool any = (scopes != nullptr && !scopes->empty()) || (terms != nullptr && !terms->empty());
  if (!any) return true;
  if (kind.info.group_resource() != "pods") return false;
  const Json& spec = spec_of(object);
  const auto in_scope = [&spec](const Json& scope) { return pod_in_scope(spec, as_text(scope)); };
  const auto meets = [&spec](const Json& term) { return pod_meets(spec, term); };
  if (scopes != nullptr && !std::all_of(scopes->begin(), scopes->end(), in_scope)) return false;
  return terms == nullptr || std::all_of(terms->begin(), terms->end(), meets);
}

Admitted charge_quotas(const Json& object, StrategyContext& ctx) {
  if (ctx.ns.empty() || none_stored(ctx.api, KnownKind::kResourceQuotas, ctx.ns)) return true;
  const Resource* kind = ctx.api.cluster_state().known(ctx.api, KnownKind::kResourceQuotas);
  if (kind == nullptr) return true;
  const QuotaUsage usage = quota_usage(ctx.resource, object);
  for (const Json& quota : stored_list(ctx.api, KnownKind::kResourceQuotas, ctx.ns)) {
    if (!quota_covers(quota, ctx.resource, object)) continue;
    std::string name(name_of(quota));
    Excess excess;
    bool counted = false;
    auto change = [&](Json& live) -> kube::ApiResult<bool> {
      excess = charge(live, usage, &counted);
      return counted && !excess.any() && !ctx.request.dry_run;
    };
    RequestContext inner = internal_context("resourcequota");
    auto outcome = ctx.api.modify(*kind, ctx.ns, name, "status", change, inner);
    if (excess.any()) {
      return refuse(ctx, object,
                    fmt::format("exceeded quota: {}, requested: {}, used: {}, limited: {}", name, excess.requested,
                                excess.used, excess.limited));
    }
    if (!outcome.ok() && outcome.error().code != 404) return outcome.error();
  }
  return true;
}

}  // namespace ghostfleet::controlplane
