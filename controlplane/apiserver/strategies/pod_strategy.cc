// Pods and pod templates.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/cluster_state.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_defaults.h"
#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/pod_warnings.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

PodRules rules_of(StrategyContext& ctx, const Json& object) {
  PodRules rules;
  rules.is_pod = true;
  rules.allow_privileged = ctx.api.cluster_state().options.allow_privileged;
  rules.pod_name = name_of(object);
  return rules;
}

// A pod with gates says at once why it is not scheduled.
void note_gates(JsonObject& status, const Json& spec) {
  const JsonArray* gates = array_of(spec, "schedulingGates");
  if (gates == nullptr || gates->empty()) return;
  JsonObject condition{{"type", "PodScheduled"},
                       {"status", "False"},
                       {"reason", "SchedulingGated"},
                       {"message", "Scheduling is blocked due to non-empty scheduling gates"}};
  status["conditions"] = JsonArray{std::move(condition)};
}

class PodStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    Json& spec = object.get_object()["spec"];
    default_pod_spec(spec);
    default_pod_only(spec);
    Json* status = member(object, "status");
    if (status == nullptr || !status->is_object()) return;
    align_ips(status->get_object(), "podIP", "podIPs");
    align_ips(status->get_object(), "hostIP", "hostIPs");
  }

  void prepare_for_create(Json& object, StrategyContext&) const override {
    set_generation(object, 1);
    const Json& spec = spec_of(object);
    JsonObject status{{"phase", "Pending"}, {"qosClass", qos_class(spec)}};
    note_gates(status, spec);
    object.get_object()["status"] = std::move(status);
  }

  void prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const override {
    if (ctx.subresource == "binding") return;
    if (ctx.subresource == "status") {
      prepare_status(object, old);
    } else if (ctx.subresource == "ephemeralcontainers") {
      keep_all_but(object, old, "ephemeralContainers");
    } else if (ctx.subresource == "resize") {
      prepare_resize(object, old);
    } else {
      copy_member(object.get_object(), old, "status");
    }
    bool spec_changed = ctx.subresource != "status" && !same_spec(object, old);
    set_generation(object, generation_of(old) + (spec_changed ? 1 : 0));
  }

  int64_t grace_period(const Json& object, int64_t asked) const override {
    const Json& spec = spec_of(object);
    if (text_of(spec, "nodeName").empty()) return 0;
    const Json* status = member(object, "status");
    if (status != nullptr && one_of(text_of(*status, "phase"), {"Failed", "Succeeded"})) return 0;
    int64_t period = asked == -1 ? int_of(spec, "terminationGracePeriodSeconds") : asked;
    return period < 0 ? 1 : period;
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    check_pod(object, ctx, out);
    const Json& spec = spec_of(object);
    Path path("spec");
    const JsonArray* ephemeral = array_of(spec, "ephemeralContainers");
    if (ephemeral != nullptr && !ephemeral->empty()) {
      out.forbidden(path.child("ephemeralContainers"), "cannot be set on create");
    }
    const JsonArray* gates = array_of(spec, "schedulingGates");
    if (gates != nullptr && !gates->empty() && !text_of(spec, "nodeName").empty()) {
      out.forbidden(path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    if (out.empty()) warn_about_pod(object, ctx.request);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    // Metadata alone is the common case, and the old spec was fine.
    if (equal_members(object, old, "spec")) return;
    check_pod(object, ctx, out);
    check_pod_update(object, old, out);
  }

  void check_status(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    if (ctx.subresource == "binding") return;
    if (ctx.subresource == "status") {
      check_pod_status(object, old, out);
      return;
    }
    check_pod(object, ctx, out);
    if (ctx.subresource == "ephemeralcontainers") check_ephemeral_update(object, old, out);
    if (ctx.subresource == "resize") check_resize(object, old, out);
  }

 private:
  static void check_pod(const Json& object, StrategyContext& ctx, Findings& out) {
    check_pod_spec(spec_of(object), Path("spec"), rules_of(ctx, object), out);
  }

  static void keep_observed_generation(JsonObject& status, const Json& before) {
    if (int_of(before, "observedGeneration") != 0) {
      default_number(status, "observedGeneration", int_of(before, "observedGeneration"));
    }
    const JsonArray* old_conditions = array_of(before, "conditions");
    Json* conditions = status.if_contains("conditions");
    if (old_conditions == nullptr || conditions == nullptr || !conditions->is_array()) return;
    for (Json& condition : conditions->get_array()) {
      for (const Json& was : *old_conditions) {
        if (text_of(was, "type") != text_of(condition, "type")) continue;
        int64_t generation = int_of(was, "observedGeneration");
        if (generation != 0) default_number(condition.get_object(), "observedGeneration", generation);
        break;
      }
    }
  }

  static void prepare_status(Json& object, const Json& old) {
    static const Json kEmpty = JsonObject();
    JsonObject& root = object.get_object();
    copy_member(root, old, "spec");
    copy_member(metadata_of(object).get_object(), metadata_of(old), "ownerReferences");
    const Json* before = member(old, "status");
    JsonObject& status = object_in(root, "status");
    default_text(status, "qosClass", text_of(before == nullptr ? kEmpty : *before, "qosClass"));
    keep_observed_generation(status, before == nullptr ? kEmpty : *before);
  }

  // The single address and the first of the list are one field; the single one wins when they differ.
  static void align_ips(JsonObject& status, std::string_view one, std::string_view many) {
    const Json* single = status.if_contains(one);
    Json* list = status.if_contains(many);
    bool has_list = list != nullptr && list->is_array() && !list->get_array().empty();
    if (single != nullptr && single->is_string() && !single->get_string().empty()) {
      if (!has_list) {
        status[many] = JsonArray{JsonObject{{"ip", *single}}};
      } else if (text_of(list->get_array()[0], "ip") != as_text(*single)) {
        Json copy = *single;
        list->get_array() = JsonArray{JsonObject{{"ip", std::move(copy)}}};
      }
    } else if (has_list) {
      status[one] = text_of(list->get_array()[0], "ip");
    }
  }

  static void keep_metadata_and_status(Json& object, const Json& old) {
    copy_member(object.get_object(), old, "status");
    JsonObject& meta = metadata_of(object).get_object();
    for (std::string_view key : {"labels", "annotations", "finalizers", "ownerReferences"}) {
      copy_member(meta, metadata_of(old), key);
    }
  }

  static void keep_all_but(Json& object, const Json& old, std::string_view spec_key) {
    Json kept;
    if (const Json* value = member(spec_of(object), spec_key)) kept = *value;
    copy_member(object.get_object(), old, "spec");
    keep_metadata_and_status(object, old);
    JsonObject& spec = object_in(object.get_object(), "spec");
    if (kept.is_null()) {
      spec.erase(spec_key);
    } else {
      spec[spec_key] = std::move(kept);
    }
  }

  static void take_resources(JsonObject& spec, const Json& wanted, std::string_view key) {
    Json* list = spec.if_contains(key);
    const JsonArray* from = array_of(wanted, key);
    if (list == nullptr || from == nullptr || !list->is_array()) return;
    for (Json& container : list->get_array()) {
      for (const Json& other : *from) {
        if (text_of(other, "name") != text_of(container, "name")) continue;
        copy_member(container.get_object(), other, "resources");
        copy_member(container.get_object(), other, "resizePolicy");
      }
    }
  }

  static void prepare_resize(Json& object, const Json& old) {
    Json wanted = spec_of(object);
    bool same_count = true;
    for (std::string_view key : {"containers", "initContainers"}) {
      const JsonArray* a = array_of(wanted, key);
      const JsonArray* b = array_of(spec_of(old), key);
      same_count = same_count && (a == nullptr ? 0 : a->size()) == (b == nullptr ? 0 : b->size());
    }
    keep_metadata_and_status(object, old);
    if (!same_count) return;  // left for validation to refuse
    copy_member(object.get_object(), old, "spec");
    JsonObject& spec = object_in(object.get_object(), "spec");
    take_resources(spec, wanted, "containers");
    take_resources(spec, wanted, "initContainers");
  }
};

class PodTemplateStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    default_template(object.get_object()["template"]);
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    static const Json kEmpty = JsonObject();
    PodRules rules;
    rules.allow_privileged = ctx.api.cluster_state().options.allow_privileged;
    const Json* pod_template = member(object, "template");
    check_template(pod_template == nullptr ? kEmpty : *pod_template, Path("template"), rules, out);
  }
};

}  // namespace

StrategyPointer make_pod_strategy(const KindTraits& traits) { return std::make_unique<PodStrategy>(traits); }
StrategyPointer make_pod_template_strategy(const KindTraits& traits) {
  return std::make_unique<PodTemplateStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
