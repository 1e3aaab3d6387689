// Leases, endpoint slices, disruption budgets, autoscalers, priority and runtime classes, RBAC kinds.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";

// A pointer-like internal field: its JSON, or null.
std::string json_or_null(const Json& owner, std::string_view key) {
  const Json* value = member(owner, key);
  return value == nullptr ? "null" : json_text(*value);
}

// ---- Lease --------------------------------------------------------------------------------------------------------

class LeaseStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_positive(spec, "leaseDurationSeconds", path, out);
    check_not_negative(spec, "leaseTransitions", path, out);
    if (!text_of(spec, "preferredHolder").empty() && text_of(spec, "strategy").empty()) {
      out.forbidden(path.child("preferredHolder"), "may only be specified if `strategy` is defined");
    }
  }
};

// ---- EndpointSlice ------------------------------------------------------------------------------------------------

class EndpointSliceStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    Json* ports = member(object, "ports");
    if (ports == nullptr || !ports->is_array()) return;
    for (Json& port : ports->get_array()) {
      default_to(port.get_object(), "name", "");
      default_to(port.get_object(), "protocol", "TCP");
    }
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    std::string_view type = text_of(object, "addressType");
    if (type.empty()) {
      out.required(Path("addressType"));
    } else if (!one_of(type, {"FQDN", "IPv4", "IPv6"})) {
      out.not_supported(Path("addressType"), type, {"FQDN", "IPv4", "IPv6"});
    }
    check_endpoints(object, type, out);
    const JsonArray* ports = array_of(object, "ports");
    Path path("ports");
    for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
      Path at = path.index(i);
      const Json* port = member((*ports)[i], "port");
      if (port != nullptr) check_port(*port, at.child("port"), out);
      std::string_view protocol = text_of((*ports)[i], "protocol");
      if (!one_of(protocol, {"TCP", "UDP", "SCTP"})) {
        out.not_supported(at.child("protocol"), protocol, {"SCTP", "TCP", "UDP"});
      }
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    if (text_of(object, "addressType") != text_of(old, "addressType")) {
      out.invalid_text(Path("addressType"), text_of(object, "addressType"), kImmutable);
    }
  }

 private:
  static void check_endpoints(const Json& object, std::string_view type, Findings& out) {
    const JsonArray* endpoints = array_of(object, "endpoints");
    if (endpoints == nullptr) return;
    if (endpoints->size() > 1000) out.too_many(Path("endpoints"), endpoints->size(), 1000);
    Path path("endpoints");
    for (size_t i = 0; i < endpoints->size(); ++i) {
      const JsonArray* addresses = array_of((*endpoints)[i], "addresses");
      Path at = path.index(i);
      if (addresses == nullptr || addresses->empty()) {
        out.required(at.child("addresses"), "must contain at least 1 address");
        continue;
      }
      for (size_t k = 0; k < addresses->size() && type != "FQDN"; ++k) {
        std::string_view ip = as_text((*addresses)[k]);
        if (!kube::is_valid_ip(ip)) {
          out.invalid_text(at.child("addresses", k), ip,
                           "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
      }
    }
  }
};

// ---- PodDisruptionBudget ------------------------------------------------------------------------------------------

class DisruptionBudgetStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    if (member(spec, "minAvailable") != nullptr && member(spec, "maxUnavailable") != nullptr) {
      out.invalid(path,
                  fmt::format("{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},"
                              "\"UnhealthyPodEvictionPolicy\":{}}}",
                              json_or_null(spec, "minAvailable"), json_or_null(spec, "selector"),
                              json_or_null(spec, "maxUnavailable"), json_or_null(spec, "unhealthyPodEvictionPolicy")),
                  "minAvailable and maxUnavailable cannot be both set");
    }
    for (std::string_view key : {"minAvailable", "maxUnavailable"}) {
      check_int_or_percent(member(spec, key), path.child(key), out);
      check_at_most_all(member(spec, key), path.child(key), out);
    }
    check_label_selector(member(spec, "selector"), path.child("selector"), out);
    std::string_view policy = text_of(spec, "unhealthyPodEvictionPolicy");
    if (!one_of(policy, {"", "AlwaysAllow", "IfHealthyBudget"})) {
      out.not_supported(path.child("unhealthyPodEvictionPolicy"), policy, {"AlwaysAllow", "IfHealthyBudget"});
    }
  }

  void check_status(const Json& object, const Json&, StrategyContext&, Findings& out) const override {
    Path path("status");
    for (std::string_view key : {"disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"}) {
      check_not_negative(status_of(object), key, path, out);
    }
  }
};

// ---- HorizontalPodAutoscaler --------------------------------------------------------------------------------------

JsonObject scaling_policy(std::string_view type, int value) {
  return JsonObject{{"type", type}, {"value", value}, {"periodSeconds", 15}};
}

void default_scaling(JsonObject& behavior, std::string_view key, JsonArray policies, bool up) {
  JsonObject& rules = object_in(behavior, key);
  default_to(rules, "selectPolicy", "Max");
  if (up) default_to(rules, "stabilizationWindowSeconds", 0);
  default_to(rules, "policies", std::move(policies));
}

class AutoscalerStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext& ctx) const override {
    JsonObject& spec = make_spec(object);
    default_to(spec, "minReplicas", 1);
    if (ctx.resource.info.version == "v1") return;
    const JsonArray* metrics = array_of(spec_of(object), "metrics");
    if (metrics == nullptr || metrics->empty()) {
      spec["metrics"] = JsonArray{JsonObject{
          {"type", "Resource"},
          {"resource",
           JsonObject{{"name", "cpu"}, {"target", JsonObject{{"type", "Utilization"}, {"averageUtilization", 80}}}}}}};
    }
    Json* behavior = spec.if_contains("behavior");
    if (behavior == nullptr || !behavior->is_object()) return;
    JsonObject& b = behavior->get_object();
    default_scaling(b, "scaleUp", JsonArray{scaling_policy("Pods", 4), scaling_policy("Percent", 100)}, true);
    default_scaling(b, "scaleDown", JsonArray{scaling_policy("Percent", 100)}, false);
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    int64_t min = int_of(spec, "minReplicas", 1);
    int64_t max = int_of(spec, "maxReplicas");
    if (min < 1) out.invalid_number(path.child("minReplicas"), min, "must be greater than or equal to 1");
    if (max < 1) out.invalid_number(path.child("maxReplicas"), max, "must be greater than 0");
    if (max < min) out.invalid_number(path.child("maxReplicas"), max, "must be greater than or equal to `minReplicas`");
    const Json* target = member(spec, "scaleTargetRef");
    Path at = path.child("scaleTargetRef");
    for (std::string_view key : {"kind", "name"}) {
      if (target == nullptr || text_of(*target, key).empty()) out.required(at.child(key));
    }
  }
};

// ---- PriorityClass, RuntimeClass ----------------------------------------------------------------------------------

class PriorityClassStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    default_to(object.get_object(), "preemptionPolicy", "PreemptLowerPriority");
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    std::string_view name = name_of(object);
    int64_t value = int_of(object, "value");
    bool known = (name == "system-node-critical" && value == 2000001000) ||
                 (name == "system-cluster-critical" && value == 2000000000);
    if (name.starts_with("system-") && !known) {
      out.forbidden(Path("metadata.name"),
                    "priority class names with 'system-' prefix are reserved for system use only. error: not a system "
                    "priority class");
    }
    if (!name.starts_with("system-") && value > 1000000000) {
      out.forbidden(Path("value"), "maximum allowed value of a user defined priority is 1000000000");
    }
    std::string_view policy = text_of(object, "preemptionPolicy");
    if (!one_of(policy, {"", "PreemptLowerPriority", "Never"})) {
      out.not_supported(Path("preemptionPolicy"), policy, {"PreemptLowerPriority", "Never"});
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext&, Findings& out) const override {
    if (int_of(object, "value") != int_of(old, "value")) {
      out.forbidden(Path("value"), "may not be changed in an update.");
    }
    if (text_of(object, "preemptionPolicy") != text_of(old, "preemptionPolicy")) {
      out.invalid_text(Path("preemptionPolicy"), text_of(object, "preemptionPolicy"), kImmutable);
    }
  }
};

class RuntimeClassStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    std::string_view handler = text_of(object, "handler");
    if (handler.empty()) {
      out.required(Path("handler"));
    } else {
      out.messages(Path("handler"), handler, kube::check_dns1123_label(handler));
    }
    if (const Json* scheduling = member(object, "scheduling")) {
      Path path("scheduling");
      check_labels(member(*scheduling, "nodeSelector"), path.child("nodeSelector"), out);
      check_tolerations(*scheduling, path, out);
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    if (text_of(object, "handler") != text_of(old, "handler")) {
      out.invalid_text(Path("handler"), text_of(object, "handler"), kImmutable);
    }
  }
};

// ---- RBAC ---------------------------------------------------------------------------------------------------------

class RoleStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    const JsonArray* rules = array_of(object, "rules");
    Path path("rules");
    for (size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
      check_rule((*rules)[i], ctx.resource.info.namespaced, path.index(i), out);
    }
    if (const Json* aggregation = member(object, "aggregationRule")) {
      const JsonArray* selectors = array_of(*aggregation, "clusterRoleSelectors");
      Path at("aggregationRule");
      if (selectors == nullptr || selectors->empty()) {
        out.required(at.child("clusterRoleSelectors"),
                     "at least one clusterRoleSelector required if aggregationRule is non-nil");
      }
      for (size_t i = 0; selectors != nullptr && i < selectors->size(); ++i) {
        check_label_selector(&(*selectors)[i], at.child("clusterRoleSelectors", i), out);
      }
    }
  }

 private:
  static size_t count(const Json& rule, std::string_view key) {
    const JsonArray* list = array_of(rule, key);
    return list == nullptr ? 0 : list->size();
  }

  static void check_rule(const Json& rule, bool namespaced, const Path& path, Findings& out) {
    if (count(rule, "verbs") == 0) out.required(path.child("verbs"), "verbs must contain at least one value");
    if (count(rule, "nonResourceURLs") > 0) {
      std::string urls = json_text(*member(rule, "nonResourceURLs"));
      if (namespaced) {
        out.invalid(path.child("nonResourceURLs"), urls, "namespaced rules cannot apply to non-resource URLs");
      }
      if (count(rule, "apiGroups") + count(rule, "resources") + count(rule, "resourceNames") > 0) {
        out.invalid(path.child("nonResourceURLs"), urls,
                    "rules cannot apply to both regular resources and non-resource URLs");
      }
      return;
    }
    if (count(rule, "apiGroups") == 0) {
      out.required(path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if (count(rule, "resources") == 0) {
      out.required(path.child("resources"), "resource rules must supply at least one resource");
    }
  }
};

class RoleBindingStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    if (Json* ref = member(object, "roleRef")) default_text(ref->get_object(), "apiGroup", kRbacGroup);
    Json* subjects = member(object, "subjects");
    if (subjects == nullptr || !subjects->is_array()) return;
    for (Json& subject : subjects->get_array()) {
      if (one_of(text_of(subject, "kind"), {"User", "Group"})) {
        default_text(subject.get_object(), "apiGroup", kRbacGroup);
      }
    }
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    static const Json kEmpty = JsonObject();
    const Json* found = member(object, "roleRef");
    const Json& ref = found == nullptr ? kEmpty : *found;
    Path path("roleRef");
    if (std::string_view group = text_of(ref, "apiGroup"); group != kRbacGroup) {
      out.not_supported(path.child("apiGroup"), group, {kRbacGroup});
    }
    std::string_view kind = text_of(ref, "kind");
    bool namespaced = ctx.resource.info.namespaced;
    if (namespaced && !one_of(kind, {"Role", "ClusterRole"})) {
      out.not_supported(path.child("kind"), kind, {"Role", "ClusterRole"});
    } else if (!namespaced && kind != "ClusterRole") {
      out.not_supported(path.child("kind"), kind, {"ClusterRole"});
    }
    std::string_view name = text_of(ref, "name");
    if (name.empty()) {
      out.required(path.child("name"));
    } else {
      out.messages(path.child("name"), name, kube::check_path_segment_name(name));
    }
    const JsonArray* subjects = array_of(object, "subjects");
    Path subjects_path("subjects");
    for (size_t i = 0; subjects != nullptr && i < subjects->size(); ++i) {
      check_subject((*subjects)[i], namespaced, subjects_path.index(i), out);
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    if (equal_members(object, old, "roleRef")) return;
    static const Json kEmpty = JsonObject();
    const Json* ref = member(object, "roleRef");
    if (ref == nullptr) ref = &kEmpty;
    out.invalid(Path("roleRef"),
                fmt::format("{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}", quoted(text_of(*ref, "apiGroup")),
                            quoted(text_of(*ref, "kind")), quoted(text_of(*ref, "name"))),
                "cannot change roleRef");
  }

 private:
  static void check_subject(const Json& subject, bool namespaced, const Path& path, Findings& out) {
    std::string_view name = text_of(subject, "name");
    std::string_view kind = text_of(subject, "kind");
    std::string_view group = text_of(subject, "apiGroup");
    if (name.empty()) out.required(path.child("name"));
    if (kind == "ServiceAccount") {
      if (!name.empty()) out.messages(path.child("name"), name, kube::check_dns1123_subdomain(name));
      if (!group.empty()) out.not_supported(path.child("apiGroup"), group, {""});
      if (!namespaced && text_of(subject, "namespace").empty()) out.required(path.child("namespace"));
    } else if (kind == "User" || kind == "Group") {
      if (group != kRbacGroup) out.not_supported(path.child("apiGroup"), group, {kRbacGroup});
    } else {
      out.not_supported(path.child("kind"), kind, {"ServiceAccount", "User", "Group"});
    }
  }
};

}  // namespace

StrategyPointer make_lease_strategy(const KindTraits& traits) { return std::make_unique<LeaseStrategy>(traits); }
StrategyPointer make_endpoint_slice_strategy(const KindTraits& traits) {
  return std::make_unique<EndpointSliceStrategy>(traits);
}
StrategyPointer make_disruption_budget_strategy(const KindTraits& traits) {
  return std::make_unique<DisruptionBudgetStrategy>(traits);
}
StrategyPointer make_autoscaler_strategy(const KindTraits& traits) {
  return std::make_unique<AutoscalerStrategy>(traits);
}
StrategyPointer make_priority_class_strategy(const KindTraits& traits) {
  return std::make_unique<PriorityClassStrategy>(traits);
}
StrategyPointer make_runtime_class_strategy(const KindTraits& traits) {
  return std::make_unique<RuntimeClassStrategy>(traits);
}
StrategyPointer make_role_strategy(const KindTraits& traits) { return std::make_unique<RoleStrategy>(traits); }
StrategyPointer make_role_binding_strategy(const KindTraits& traits) {
  return std::make_unique<RoleBindingStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
