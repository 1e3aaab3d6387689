#include "controlplane/controllers/node_match.h"

#include <algorithm>
#include <charconv>

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_string;
using kube::Json;

namespace {

bool holds_value(const Json& requirement, std::string_view value) {
  const kube::JsonArray* values = get_array(requirement, "values");
  if (values == nullptr) return false;
  return std::any_of(values->begin(), values->end(),
                     [&](const Json& v) { return v.is_string() && std::string_view(v.get_string()) == value; });
}

bool compare(const Json& requirement, std::string_view value, bool greater) {
  const kube::JsonArray* values = get_array(requirement, "values");
  if (values == nullptr || values->size() != 1 || !(*values)[0].is_string()) return false;
  const std::string_view bound = (*values)[0].get_string();
  int64_t a = 0, b = 0;
  if (std::from_chars(value.data(), value.data() + value.size(), a).ec != std::errc()) return false;
  if (std::from_chars(bound.data(), bound.data() + bound.size(), b).ec != std::errc()) return false;
  return greater ? a > b : a < b;
}

bool meets(const Json& requirement, const std::string* value) {
  const std::string_view op = get_string(requirement, "operator");
  if (op == "In") return value != nullptr && holds_value(requirement, *value);
  if (op == "NotIn") return value == nullptr || !holds_value(requirement, *value);
  if (op == "Exists") return value != nullptr;
  if (op == "DoesNotExist") return value == nullptr;
  if (op == "Gt" || op == "Lt") return value != nullptr && compare(requirement, *value, op == "Gt");
  return false;
}

bool meets_term(const Json& term, const NodeInfo& node) {
  const kube::JsonArray* labels = get_array(term, "matchExpressions");
  const kube::JsonArray* fields = get_array(term, "matchFields");
  if ((labels == nullptr || labels->empty()) && (fields == nullptr || fields->empty())) return false;
  if (labels != nullptr) {
    for (const Json& r : *labels) {
      if (!meets(r, label_of(*node.object, get_string(r, "key")))) return false;
    }
  }
  if (fields != nullptr) {
    const std::string name(node.name());
    for (const Json& r : *fields) {
      if (!meets(r, get_string(r, "key") == "metadata.name" ? &name : nullptr)) return false;
    }
  }
  return true;
}

}  // namespace

bool matches_node_selector(const Json& pod, const NodeInfo& node) {
  const kube::JsonObject* selector = kube::get_object(pod, "spec.nodeSelector");
  if (selector == nullptr) return true;
  for (const auto& [key, value] : *selector) {
    const std::string* have = label_of(*node.object, key);
    if (have == nullptr || !value.is_string() || *have != std::string_view(value.get_string())) return false;
  }
  return true;
}

bool matches_required_affinity(const Json& pod, const NodeInfo& node) {
  const Json* required =
      kube::find_path(pod, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
  if (required == nullptr || required->is_null()) return true;
  const kube::JsonArray* terms = get_array(*required, "nodeSelectorTerms");
  if (terms == nullptr) return false;
  return std::any_of(terms->begin(), terms->end(), [&](const Json& t) { return meets_term(t, node); });
}

}  // namespace ghostfleet::controlplane::controllers
