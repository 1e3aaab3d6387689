#include "controlplane/apiserver/strategies/workload_common.h"

#include <fmt/format.h>

#include <charconv>

#include "controlplane/apiserver/strategies/cluster_state.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonObject;

namespace {

const Json& object_or_empty(const Json& parent, std::string_view key) {
  static const Json kEmpty = JsonObject();
  const Json* found = member(parent, key);
  return found == nullptr || !found->is_object() ? kEmpty : *found;
}

}  // namespace

const Json& spec_of(const Json& object) { return object_or_empty(object, "spec"); }
const Json& status_of(const Json& object) { return object_or_empty(object, "status"); }
const Json& template_of(const Json& spec) { return object_or_empty(spec, "template"); }
JsonObject& make_spec(Json& object) { return object_in(object.get_object(), "spec"); }

PodRules template_rules(StrategyContext& ctx) {
  PodRules rules;
  rules.allow_privileged = ctx.api.cluster_state().options.allow_privileged;
  return rules;
}

void check_selector(const Json& spec, const Path& path, const SelectorRules& rules, Findings& out) {
  const Json* selector = member(spec, "selector");
  Path at = path.child("selector");
  if (selector == nullptr) {
    if (rules.required) out.required(at);
    return;
  }
  check_label_selector(selector, at, out);
  if (selector_is_empty(selector)) {
    out.invalid(at, json_text(*selector), fmt::format("empty selector is invalid for {}", rules.word));
  }
}

void check_selector_matches(const Json& spec, const Path& path, Findings& out) {
  const Json* selector = member(spec, "selector");
  auto parsed = kube::LabelSelector::from_json(selector);
  if (!parsed.ok() || parsed->empty()) return;
  const Json* metadata = member(template_of(spec), "metadata");
  const JsonObject* labels = metadata == nullptr ? nullptr : object_of(*metadata, "labels");
  if (parsed->matches(labels)) return;
  Path at = path.child("template.metadata.labels");
  out.invalid(at, labels == nullptr ? "null" : json_text(*labels), "`selector` does not match template `labels`");
}

void check_workload_template(const Json& spec, const Path& path, std::string_view word, StrategyContext& ctx,
                             Findings& out) {
  const Json& pod_template = template_of(spec);
  Path at = path.child("template");
  check_template(pod_template, at, template_rules(ctx), out);
  const Json& pod = spec_of(pod_template);
  std::string_view restart = text_of(pod, "restartPolicy");
  if (restart != "Always") out.not_supported(at.child("spec.restartPolicy"), restart, {"Always"});
  if (member(pod, "activeDeadlineSeconds") != nullptr) {
    out.forbidden(at.child("spec.activeDeadlineSeconds"),
                  fmt::format("activeDeadlineSeconds in {} is not Supported", word));
  }
}

int64_t int_or_percent(const Json* value) {
  if (value == nullptr) return 0;
  if (!value->is_string()) return as_int(*value);
  std::string_view text = as_text(*value);
  int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

void check_at_most_all(const Json* value, const Path& path, Findings& out) {
  if (value == nullptr || !value->is_string() || int_or_percent(value) <= 100) return;
  out.invalid_text(path, as_text(*value), "must not be greater than 100%");
}

void check_status_counters(const Json& status, std::initializer_list<std::string_view> counters,
                           std::initializer_list<std::string_view> bounded, Findings& out) {
  Path path("status");
  for (std::string_view key : counters) check_not_negative(status, key, path, out);
  int64_t replicas = int_of(status, "replicas");
  for (std::string_view key : bounded) {
    if (int64_t n = int_of(status, key); n > replicas) {
      out.invalid_number(path.child(key), n, "cannot be greater than status.replicas");
    }
  }
  if (int64_t n = int_of(status, "availableReplicas"); n > int_of(status, "readyReplicas")) {
    out.invalid_number(path.child("availableReplicas"), n, "cannot be greater than readyReplicas");
  }
}

}  // namespace ghostfleet::controlplane
