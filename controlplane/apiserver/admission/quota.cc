// ResourceQuota: what a new object would use is held against the quotas of its namespace whose status says what is
// used.
#include <fmt/format.h>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/admission/quota.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
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

bool has_quota_scopes(const Json& quota) {
  const JsonArray* scopes = array_of(spec_of(quota), "scopes");
  return (scopes != nullptr && !scopes->empty()) || member(spec_of(quota), "scopeSelector") != nullptr;
}

Admitted charge_quotas(const Json& object, StrategyContext& ctx) {
  if (ctx.ns.empty() || none_stored(ctx.api, KnownKind::kResourceQuotas, ctx.ns)) return true;
  const Resource* kind = ctx.api.cluster_state().known(ctx.api, KnownKind::kResourceQuotas);
  if (kind == nullptr) return true;
  const QuotaUsage usage = quota_usage(ctx.resource, object);
  for (const Json& quota : stored_list(ctx.api, KnownKind::kResourceQuotas, ctx.ns)) {
    if (has_quota_scopes(quota)) continue;
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
