// What the kinds that carry a pod template and a selector share.
//
// Thread rule: pure functions.
#pragma once

#include <initializer_list>
#include <string_view>

#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategy.h"

namespace ghostfleet::controlplane {

// The object's spec; an empty object when missing.
const kube::Json& spec_of(const kube::Json& object);
kube::JsonObject& make_spec(kube::Json& object);
const kube::Json& status_of(const kube::Json& object);
// spec.template; an empty object when missing.
const kube::Json& template_of(const kube::Json& spec);

PodRules template_rules(StrategyContext& ctx);

// The selector as metav1.LabelSelector: required (when `required`), valid, not empty ("empty selector is invalid for
// WORD"). `out` also gets "`selector` does not match template `labels`".
struct SelectorRules {
  bool required = true;
  std::string_view word;
};
void check_selector(const kube::Json& spec, const Path& path, const SelectorRules& rules, Findings& out);
void check_selector_matches(const kube::Json& spec, const Path& path, Findings& out);
// Template, restart policy Always, no activeDeadlineSeconds ("activeDeadlineSeconds in WORD is not Supported").
void check_workload_template(const kube::Json& spec, const Path& path, std::string_view word, StrategyContext& ctx,
                             Findings& out);
// The value as number for "25%" and 25; 0 when missing.
int64_t int_or_percent(const kube::Json* value);
void check_at_most_all(const kube::Json* value, const Path& path, Findings& out);
// Counters of a status: none negative, those in `bounded` not above status.replicas.
void check_status_counters(const kube::Json& status, std::initializer_list<std::string_view> counters,
                           std::initializer_list<std::string_view> bounded, Findings& out);

}  // namespace ghostfleet::controlplane
