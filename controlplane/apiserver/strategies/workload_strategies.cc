// Deployments, replica sets, stateful sets, daemon sets and replication controllers.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_defaults.h"
#include "controlplane/apiserver/strategies/pod_warnings.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

void warn_about_template(const Json& object, StrategyContext& ctx, const Findings& out) {
  if (!out.empty()) return;
  warn_about_pod_spec(spec_of(template_of(spec_of(object))), "spec.template.spec", ctx.request);
}

// ---- Deployment ---------------------------------------------------------------------------------------------------

class DeploymentStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_to(spec, "replicas", 1);
    JsonObject& strategy = object_in(spec, "strategy");
    default_text(strategy, "type", "RollingUpdate");
    if (as_text(strategy["type"]) == "RollingUpdate") {
      JsonObject& rolling = object_in(strategy, "rollingUpdate");
      default_to(rolling, "maxUnavailable", "25%");
      default_to(rolling, "maxSurge", "25%");
    }
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "progressDeadlineSeconds", 600);
    default_template(spec["template"]);
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_not_negative(spec, "replicas", path, out);
    check_selector(spec, path, {true, "deployment"}, out);
    check_selector_matches(spec, path, out);
    check_workload_template(spec, path, "ReplicaSet", ctx, out);
    check_strategy(spec, path, out);
    check_not_negative(spec, "minReadySeconds", path, out);
    check_not_negative(spec, "revisionHistoryLimit", path, out);
    check_not_negative(spec, "progressDeadlineSeconds", path, out);
    if (int64_t deadline = int_of(spec, "progressDeadlineSeconds"); deadline <= int_of(spec, "minReadySeconds")) {
      out.invalid_number(path.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds");
    }
    warn_about_template(object, ctx, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    check_immutable(spec_of(object), spec_of(old), "selector", Path("spec"), out);
  }

  void check_status(const Json& object, const Json& old, StrategyContext&, Findings& out) const override {
    const Json& status = status_of(object);
    check_status_counters(status,
                          {"observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
                           "unavailableReplicas", "terminatingReplicas", "collisionCount"},
                          {"updatedReplicas", "readyReplicas", "availableReplicas"}, out);
    int64_t collisions = int_of(status, "collisionCount");
    if (collisions < int_of(status_of(old), "collisionCount")) {
      Path path("status");
      out.invalid_number(path.child("collisionCount"), collisions, "cannot be decremented");
    }
  }

 private:
  static void check_strategy(const Json& spec, const Path& spec_path, Findings& out) {
    const Json* strategy = member(spec, "strategy");
    if (strategy == nullptr) return;
    Path path = spec_path.child("strategy");
    const Json* rolling = member(*strategy, "rollingUpdate");
    Path rolling_path = path.child("rollingUpdate");
    std::string_view type = text_of(*strategy, "type");
    if (type == "Recreate") {
      if (rolling != nullptr) {
        out.forbidden(rolling_path, "may not be specified when strategy `type` is 'Recreate'");
      }
      return;
    }
    if (type != "RollingUpdate") {
      out.not_supported(path, type, {"Recreate", "RollingUpdate"});
      return;
    }
    if (rolling == nullptr) return;
    const Json* unavailable = member(*rolling, "maxUnavailable");
    const Json* surge = member(*rolling, "maxSurge");
    check_int_or_percent(unavailable, rolling_path.child("maxUnavailable"), out);
    check_int_or_percent(surge, rolling_path.child("maxSurge"), out);
    if (int_or_percent(unavailable) == 0 && int_or_percent(surge) == 0) {
      out.invalid(rolling_path.child("maxUnavailable"), unavailable == nullptr ? "0" : json_text(*unavailable),
                  "may not be 0 when `maxSurge` is 0");
    }
    check_at_most_all(unavailable, rolling_path.child("maxUnavailable"), out);
  }
};

// ---- ReplicaSet, ReplicationController ----------------------------------------------------------------------------

class ReplicaSetStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_to(spec, "replicas", 1);
    default_template(spec["template"]);
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_not_negative(spec, "replicas", path, out);
    check_not_negative(spec, "minReadySeconds", path, out);
    check_selector(spec, path, {true, "deployment"}, out);
    check_selector_matches(spec, path, out);
    check_workload_template(spec, path, "ReplicaSet", ctx, out);
    warn_about_template(object, ctx, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    check_immutable(spec_of(object), spec_of(old), "selector", Path("spec"), out);
  }

  void check_status(const Json& object, const Json&, StrategyContext&, Findings& out) const override {
    check_status_counters(status_of(object),
                          {"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas",
                           "observedGeneration", "terminatingReplicas"},
                          {"fullyLabeledReplicas", "readyReplicas", "availableReplicas"}, out);
  }
};

class ReplicationControllerStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  std::string_view default_propagation() const override { return "Orphan"; }

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_to(spec, "replicas", 1);
    if (spec.if_contains("template") != nullptr) default_template(spec["template"]);
    const Json* metadata = member(template_of(spec_of(object)), "metadata");
    const JsonObject* labels = metadata == nullptr ? nullptr : object_of(*metadata, "labels");
    if (labels == nullptr || labels->empty()) return;
    JsonObject copy = *labels;
    const JsonObject* selector = object_of(spec_of(object), "selector");
    if (selector == nullptr || selector->empty()) spec["selector"] = copy;
    Json& own = metadata_of(object);
    const JsonObject* own_labels = object_of(own, "labels");
    if (own_labels == nullptr || own_labels->empty()) own.get_object()["labels"] = std::move(copy);
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_not_negative(spec, "minReadySeconds", path, out);
    const JsonObject* selector = object_of(spec, "selector");
    if (selector == nullptr || selector->empty()) {
      out.required(path.child("selector"));
    }
    check_not_negative(spec, "replicas", path, out);
    if (member(spec, "template") == nullptr) {
      out.required(path.child("template"));
      return;
    }
    check_plain_selector(spec, path, out);
    check_workload_template(spec, path, "ReplicationController", ctx, out);
    warn_about_template(object, ctx, out);
  }

  void check_status(const Json& object, const Json&, StrategyContext&, Findings& out) const override {
    check_status_counters(
        status_of(object),
        {"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"},
        {"fullyLabeledReplicas", "readyReplicas", "availableReplicas"}, out);
  }

 private:
  static void check_plain_selector(const Json& spec, const Path& path, Findings& out) {
    const JsonObject* selector = object_of(spec, "selector");
    const Json* metadata = member(template_of(spec), "metadata");
    const Json* labels = metadata == nullptr ? nullptr : member(*metadata, "labels");
    if (selector == nullptr) return;
    for (const auto& entry : *selector) {
      const Json* value = member(labels, entry.key());
      if (value != nullptr && *value == entry.value()) continue;
      out.invalid(path.child("template.metadata.labels"), labels == nullptr ? "null" : json_text(*labels),
                  "`selector` does not match template `labels`");
      return;
    }
  }
};

// ---- StatefulSet --------------------------------------------------------------------------------------------------

class StatefulSetStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_text(spec, "podManagementPolicy", "OrderedReady");
    JsonObject& strategy = object_in(spec, "updateStrategy");
    Json* type = strategy.if_contains("type");
    if (type == nullptr || as_text(*type).empty()) {
      strategy["type"] = "RollingUpdate";
      object_in(strategy, "rollingUpdate");
    }
    if (as_text(strategy["type"]) == "RollingUpdate" && strategy.if_contains("rollingUpdate") != nullptr) {
      default_to(object_in(strategy, "rollingUpdate"), "partition", 0);
    }
    JsonObject& retention = object_in(spec, "persistentVolumeClaimRetentionPolicy");
    default_text(retention, "whenDeleted", "Retain");
    default_text(retention, "whenScaled", "Retain");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_template(spec["template"]);
    Json* claims = spec.if_contains("volumeClaimTemplates");
    if (claims == nullptr || !claims->is_array()) return;
    for (Json& claim : claims->get_array()) {
      claim.get_object()["apiVersion"] = "v1";
      claim.get_object()["kind"] = "PersistentVolumeClaim";
      default_claim_spec(claim.get_object()["spec"]);
      default_text(object_in(claim.get_object(), "status"), "phase", "Pending");
    }
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_policies(spec, path, out);
    check_not_negative(spec, "replicas", path, out);
    check_not_negative(spec, "minReadySeconds", path, out);
    if (const Json* ordinals = member(spec, "ordinals"))
      check_not_negative(*ordinals, "start", path.child("ordinals"), out);
    check_selector(spec, path, {true, "statefulset"}, out);
    check_selector_matches(spec, path, out);
    check_template_with_claims(spec, path, ctx, out);
    warn_about_template(object, ctx, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    Json comparable = spec_of(object);
    for (std::string_view key : {"replicas", "template", "updateStrategy", "minReadySeconds", "ordinals",
                                 "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy"}) {
      copy_member(comparable.get_object(), spec_of(old), key);
    }
    if (!kube::json_equal(comparable, spec_of(old))) {
      out.forbidden(Path("spec"),
                    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                    "'minReadySeconds' are forbidden");
    }
  }

  void check_status(const Json& object, const Json&, StrategyContext&, Findings& out) const override {
    check_status_counters(status_of(object),
                          {"replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
                           "observedGeneration", "collisionCount"},
                          {"readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"}, out);
  }

 private:
  static void check_policies(const Json& spec, const Path& path, Findings& out) {
    std::string_view management = text_of(spec, "podManagementPolicy");
    if (!one_of(management, {"OrderedReady", "Parallel"})) {
      out.invalid_text(path.child("podManagementPolicy"), management, "must be 'OrderedReady' or 'Parallel'");
    }
    const Json* strategy = member(spec, "updateStrategy");
    Path at = path.child("updateStrategy");
    std::string_view type = strategy == nullptr ? "" : text_of(*strategy, "type");
    const Json* rolling = strategy == nullptr ? nullptr : member(*strategy, "rollingUpdate");
    if (type == "OnDelete") {
      if (rolling != nullptr) {
        out.invalid(at.child("rollingUpdate"), json_text(*rolling), "only allowed for updateStrategy 'RollingUpdate'");
      }
    } else if (type == "RollingUpdate") {
      if (rolling != nullptr) check_not_negative(*rolling, "partition", at.child("rollingUpdate"), out);
    } else {
      out.invalid(at, fmt::format("{{\"Type\":{},\"RollingUpdate\":null}}", quoted(type)),
                  "must be 'RollingUpdate' or 'OnDelete'");
    }
    const Json* retention = member(spec, "persistentVolumeClaimRetentionPolicy");
    for (std::string_view key : {"whenDeleted", "whenScaled"}) {
      std::string_view value = retention == nullptr ? "Retain" : text_of(*retention, key);
      if (one_of(value, {"Retain", "Delete"})) continue;
      Path policy = path.child("persistentVolumeClaimRetentionPolicy");
      out.not_supported(policy.child(key), value, {"Retain", "Delete"});
    }
  }

  // Mounts may name a claim template; the controller makes the volumes.
  static void check_template_with_claims(const Json& spec, const Path& path, StrategyContext& ctx, Findings& out) {
    const JsonArray* claims = array_of(spec, "volumeClaimTemplates");
    if (claims == nullptr || claims->empty()) {
      check_workload_template(spec, path, "StatefulSet", ctx, out);
      return;
    }
    Json copy = JsonObject{{"template", template_of(spec)}};
    JsonObject& pod = object_in(object_in(copy.get_object(), "template"), "spec");
    Json& volumes = pod["volumes"];
    if (!volumes.is_array()) volumes = JsonArray();
    for (const Json& claim : *claims) {
      volumes.get_array().push_back(
          JsonObject{{"name", name_of(claim)}, {"persistentVolumeClaim", JsonObject{{"claimName", name_of(claim)}}}});
    }
    check_workload_template(copy, path, "StatefulSet", ctx, out);
  }
};

// ---- DaemonSet ----------------------------------------------------------------------------------------------------

class DaemonSetStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    JsonObject& strategy = object_in(spec, "updateStrategy");
    default_text(strategy, "type", "RollingUpdate");
    if (as_text(strategy["type"]) == "RollingUpdate") {
      JsonObject& rolling = object_in(strategy, "rollingUpdate");
      default_to(rolling, "maxUnavailable", 1);
      default_to(rolling, "maxSurge", 0);
    }
    default_to(spec, "revisionHistoryLimit", 10);
    default_template(spec["template"]);
  }

  // The template's own generation lives on in an annotation.
  void prepare_for_create(Json& object, StrategyContext& ctx) const override {
    KindStrategy::prepare_for_create(object, ctx);
    set_template_generation(object, 1);
  }

  void prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const override {
    KindStrategy::prepare_for_update(object, old, ctx);
    if (!ctx.subresource.empty()) return;
    int64_t generation = template_generation(old);
    bool changed = !equal_members(spec_of(object), spec_of(old), "template");
    set_template_generation(object, generation + (changed ? 1 : 0));
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_label_selector(member(spec, "selector"), path.child("selector"), out);
    check_selector_matches(spec, path, out);
    if (const Json* selector = member(spec, "selector"); selector != nullptr && selector_is_empty(selector)) {
      out.invalid(path.child("selector"), json_text(*selector), "empty selector is invalid for daemonset");
    }
    check_workload_template(spec, path, "DaemonSet", ctx, out);
    check_not_negative(spec, "minReadySeconds", path, out);
    check_strategy(spec, path, out);
    check_not_negative(spec, "revisionHistoryLimit", path, out);
    warn_about_template(object, ctx, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check_immutable(spec_of(object), spec_of(old), "selector", Path("spec"), out);
    check(object, ctx, out);
  }

  void check_status(const Json& object, const Json&, StrategyContext&, Findings& out) const override {
    Path path("status");
    for (std::string_view key :
         {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
          "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"}) {
      check_not_negative(status_of(object), key, path, out);
    }
  }

 private:
  static constexpr std::string_view kTemplateGeneration = "deprecated.daemonset.template.generation";

  static int64_t template_generation(const Json& object) {
    const Json* annotations = member(metadata_of(object), "annotations");
    std::string text(annotations == nullptr ? "" : text_of(*annotations, kTemplateGeneration));
    return text.empty() ? 1 : std::strtoll(text.c_str(), nullptr, 10);
  }

  static void set_template_generation(Json& object, int64_t generation) {
    object_in(metadata_of(object).get_object(), "annotations")[kTemplateGeneration] = std::to_string(generation);
  }

  static void check_strategy(const Json& spec, const Path& spec_path, Findings& out) {
    const Json* strategy = member(spec, "updateStrategy");
    if (strategy == nullptr) return;
    Path path = spec_path.child("updateStrategy");
    std::string_view type = text_of(*strategy, "type");
    if (type == "OnDelete") return;
    if (type != "RollingUpdate") {
      out.not_supported(path, type, {"RollingUpdate", "OnDelete"});
      return;
    }
    const Json* rolling = member(*strategy, "rollingUpdate");
    Path at = path.child("rollingUpdate");
    if (rolling == nullptr) {
      out.required(at);
      return;
    }
    const Json* unavailable = member(*rolling, "maxUnavailable");
    const Json* surge = member(*rolling, "maxSurge");
    check_int_or_percent(unavailable, at.child("maxUnavailable"), out);
    check_int_or_percent(surge, at.child("maxSurge"), out);
    check_at_most_all(unavailable, at.child("maxUnavailable"), out);
    check_at_most_all(surge, at.child("maxSurge"), out);
    bool has_unavailable = int_or_percent(unavailable) != 0;
    bool has_surge = int_or_percent(surge) != 0;
    if (has_unavailable && has_surge) {
      out.invalid(at.child("maxSurge"), json_text(*surge), "may not be set when maxUnavailable is non-zero");
    } else if (!has_unavailable && !has_surge) {
      out.required(at.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
    }
  }
};

}  // namespace

StrategyPointer make_deployment_strategy(const KindTraits& traits) {
  return std::make_unique<DeploymentStrategy>(traits);
}
StrategyPointer make_replica_set_strategy(const KindTraits& traits) {
  return std::make_unique<ReplicaSetStrategy>(traits);
}
StrategyPointer make_stateful_set_strategy(const KindTraits& traits) {
  return std::make_unique<StatefulSetStrategy>(traits);
}
StrategyPointer make_daemon_set_strategy(const KindTraits& traits) {
  return std::make_unique<DaemonSetStrategy>(traits);
}
StrategyPointer make_replication_controller_strategy(const KindTraits& traits) {
  return std::make_unique<ReplicationControllerStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
