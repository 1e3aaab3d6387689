// What a pod says about where it may run: tolerations, affinity, spread.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/pod_validation.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr std::string_view kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";

std::string joined(const std::vector<std::string>& texts, std::string_view separator) {
  std::string out;
  for (const std::string& t : texts) {
    if (!out.empty()) out += separator;
    out += t;
  }
  return out;
}

void check_effect(std::string_view effect, const Path& path, Findings& out) {
  if (one_of(effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"})) return;
  out.not_supported(path, effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"});
}

void check_toleration(const Json& toleration, const Path& path, Findings& out) {
  std::string_view key = text_of(toleration, "key");
  std::string_view op = text_of(toleration, "operator");
  std::string_view value = text_of(toleration, "value");
  std::string_view effect = text_of(toleration, "effect");
  if (!key.empty()) {
    out.messages(path.child("key"), key, kube::check_qualified_name(key));
  } else if (op != "Exists") {
    out.invalid_text(path.child("operator"), op,
                     "operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
  }
  if (member(toleration, "tolerationSeconds") != nullptr && effect != "NoExecute") {
    out.invalid_text(path.child("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
  }
  if (op.empty() || op == "Equal") {
    std::vector<std::string> messages = kube::check_label_value(value);
    if (!messages.empty()) out.invalid_text(path.child("operator"), value, joined(messages, ";"));
  } else if (op == "Exists") {
    if (!value.empty()) {
      out.invalid_text(path.child("operator"), value, "value must be empty when `operator` is 'Exists'");
    }
  } else if (op == "Lt" || op == "Gt") {
    out.not_supported(path.child("operator"), op, {"Equal", "Exists", "Lt", "Gt"});
  } else {
    out.not_supported(path.child("operator"), op, {"Equal", "Exists"});
  }
  if (!effect.empty()) check_effect(effect, path.child("effect"), out);
}

void check_node_requirement(const Json& requirement, bool values_checked, const Path& path, Findings& out) {
  std::string_view op = text_of(requirement, "operator");
  const JsonArray* values = array_of(requirement, "values");
  size_t count = values == nullptr ? 0 : values->size();
  if (op == "In" || op == "NotIn") {
    if (count == 0) out.required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
  } else if (op == "Exists" || op == "DoesNotExist") {
    if (count > 0) {
      out.forbidden(path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    }
  } else if (op == "Gt" || op == "Lt") {
    if (count != 1) {
      out.required(path.child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'");
    }
  } else {
    out.invalid_text(path.child("operator"), op, "not a valid selector operator");
  }
  std::string_view key = text_of(requirement, "key");
  out.messages(path.child("key"), key, kube::check_qualified_name(key));
  for (size_t i = 0; values_checked && i < count; ++i) {
    out.messages(path.child("values", i), as_text((*values)[i]), kube::check_label_value(as_text((*values)[i])));
  }
}

void check_field_requirement(const Json& requirement, const Path& path, Findings& out) {
  std::string_view op = text_of(requirement, "operator");
  const JsonArray* values = array_of(requirement, "values");
  if (op == "In" || op == "NotIn") {
    if (values == nullptr || values->size() != 1) {
      out.required(path.child("values"),
                   "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
    }
  } else {
    out.invalid_text(path.child("operator"), op, "not a valid selector operator");
  }
  std::string_view key = text_of(requirement, "key");
  if (key != "metadata.name") {
    out.invalid_text(path.child("key"), key, "not a valid field selector key");
    return;
  }
  for (size_t i = 0; values != nullptr && i < values->size(); ++i) {
    out.messages(path.child("values", i), as_text((*values)[i]), kube::check_dns1123_subdomain(as_text((*values)[i])));
  }
}

void check_node_term(const Json& term, bool values_checked, const Path& path, Findings& out) {
  if (const JsonArray* list = array_of(term, "matchExpressions")) {
    for (size_t i = 0; i < list->size(); ++i) {
      check_node_requirement((*list)[i], values_checked, path.child("matchExpressions", i), out);
    }
  }
  if (const JsonArray* list = array_of(term, "matchFields")) {
    for (size_t i = 0; i < list->size(); ++i) check_field_requirement((*list)[i], path.child("matchFields", i), out);
  }
}

void check_weight(const Json& term, const Path& path, Findings& out) {
  int64_t weight = int_of(term, "weight");
  if (weight <= 0 || weight > 100) out.invalid_number(path.child("weight"), weight, "must be in the range 1-100");
}

void check_pod_term(const Json& term, const Path& path, Findings& out) {
  check_label_selector(member(term, "labelSelector"), path.child("labelSelector"), out);
  check_label_selector(member(term, "namespaceSelector"), path.child("namespaceSelector"), out);
  if (const JsonArray* namespaces = array_of(term, "namespaces")) {
    for (const Json& ns : *namespaces) {
      out.messages(path.child("namespace"), as_text(ns), kube::check_dns1123_label(as_text(ns)));
    }
  }
  std::string_view key = text_of(term, "topologyKey");
  if (key.empty()) out.required(path.child("topologyKey"), "can not be empty");
  out.messages(path.child("topologyKey"), key, kube::check_qualified_name(key));
}

void check_pod_affinity(const Json& affinity, const Path& path, Findings& out) {
  if (const JsonArray* list = array_of(affinity, kRequired)) {
    for (size_t i = 0; i < list->size(); ++i) check_pod_term((*list)[i], path.child(kRequired, i), out);
  }
  if (const JsonArray* list = array_of(affinity, kPreferred)) {
    for (size_t i = 0; i < list->size(); ++i) {
      Path at = path.child(kPreferred, i);
      check_weight((*list)[i], at, out);
      if (const Json* term = member((*list)[i], "podAffinityTerm"))
        check_pod_term(*term, at.child("podAffinityTerm"), out);
    }
  }
}

void check_node_affinity(const Json& affinity, const Path& path, Findings& out) {
  if (const Json* required = member(affinity, kRequired)) check_node_selector(*required, path.child(kRequired), out);
  const JsonArray* preferred = array_of(affinity, kPreferred);
  if (preferred == nullptr) return;
  for (size_t i = 0; i < preferred->size(); ++i) {
    Path at = path.child(kPreferred, i);
    check_weight((*preferred)[i], at, out);
    if (const Json* term = member((*preferred)[i], "preference")) {
      check_node_term(*term, false, at.child("preference"), out);
    }
  }
}

void check_spread(const JsonArray& list, size_t i, const Path& path, Findings& out) {
  const Json& c = list[i];
  if (int64_t skew = int_of(c, "maxSkew"); skew <= 0) {
    out.invalid_number(path.child("maxSkew"), skew, "must be greater than zero");
  }
  std::string_view key = text_of(c, "topologyKey");
  if (key.empty()) out.required(path.child("topologyKey"), "can not be empty");
  std::string_view action = text_of(c, "whenUnsatisfiable");
  if (!one_of(action, {"DoNotSchedule", "ScheduleAnyway"})) {
    out.not_supported(path.child("whenUnsatisfiable"), action, {"DoNotSchedule", "ScheduleAnyway"});
  }
  for (size_t k = i + 1; k < list.size(); ++k) {
    if (text_of(list[k], "topologyKey") == key && text_of(list[k], "whenUnsatisfiable") == action) {
      out.duplicate_value(path.child("{topologyKey, whenUnsatisfiable}"), fmt::format("\"{{{}, {}}}\"", key, action));
      break;
    }
  }
  if (const Json* domains = member(c, "minDomains")) {
    if (as_int(*domains) <= 0) {
      out.invalid_number(path.child("minDomains"), as_int(*domains), "must be greater than zero");
    }
    if (action != "DoNotSchedule") {
      out.invalid_number(path.child("minDomains"), as_int(*domains),
                         fmt::format("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", action));
    }
  }
  for (std::string_view policy : {"nodeAffinityPolicy", "nodeTaintsPolicy"}) {
    const Json* value = member(c, policy);
    if (value != nullptr && !one_of(as_text(*value), {"Honor", "Ignore"})) {
      out.not_supported(path.child(policy), as_text(*value), {"Honor", "Ignore"});
    }
  }
  check_label_selector(member(c, "labelSelector"), path.child("labelSelector"), out);
}

}  // namespace

void check_tolerations(const Json& spec, const Path& path, Findings& out) {
  const JsonArray* list = array_of(spec, "tolerations");
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) check_toleration((*list)[i], path.child("tolerations", i), out);
}

void check_taints(const JsonArray* taints, const Path& path, Findings& out) {
  if (taints == nullptr) return;
  std::set<std::string> seen;
  for (size_t i = 0; i < taints->size(); ++i) {
    const Json& taint = (*taints)[i];
    Path at = path.index(i);
    std::string_view key = text_of(taint, "key");
    std::string_view value = text_of(taint, "value");
    std::string_view effect = text_of(taint, "effect");
    out.messages(at.child("key"), key, kube::check_qualified_name(key));
    std::vector<std::string> messages = kube::check_label_value(value);
    if (!messages.empty()) out.invalid_text(at.child("value"), value, joined(messages, ";"));
    if (effect.empty()) {
      out.required(at.child("effect"));
    } else {
      check_effect(effect, at.child("effect"), out);
    }
    if (!seen.insert(fmt::format("{}:{}", key, effect)).second) {
      out.duplicate_value(at, fmt::format("{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":null}}", quoted(key),
                                          quoted(value), quoted(effect)));
      out.forbidden(at, "taints must be unique by key and effect pair");
    }
  }
}

void check_node_selector(const Json& selector, const Path& path, Findings& out) {
  const JsonArray* terms = array_of(selector, "nodeSelectorTerms");
  if (terms == nullptr || terms->empty()) {
    out.required(path.child("nodeSelectorTerms"), "must have at least one node selector term");
    return;
  }
  for (size_t i = 0; i < terms->size(); ++i)
    check_node_term((*terms)[i], true, path.child("nodeSelectorTerms", i), out);
}

void check_affinity(const Json& spec, const Path& path, Findings& out) {
  const Json* affinity = member(spec, "affinity");
  if (affinity == nullptr) return;
  Path at = path.child("affinity");
  if (const Json* node = member(*affinity, "nodeAffinity")) check_node_affinity(*node, at.child("nodeAffinity"), out);
  for (std::string_view key : {"podAffinity", "podAntiAffinity"}) {
    if (const Json* pods = member(*affinity, key)) check_pod_affinity(*pods, at.child(key), out);
  }
}

void check_spread_constraints(const Json& spec, const Path& path, Findings& out) {
  const JsonArray* list = array_of(spec, "topologySpreadConstraints");
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) check_spread(*list, i, path.child("topologySpreadConstraints", i), out);
}

}  // namespace ghostfleet::controlplane
