#include <string>
#include <string_view>
#include <vector>

#include "controlplane/auth/authorizer.h"
#include "controlplane/auth/bootstrap_table.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr const char* kGroup = "rbac.authorization.k8s.io";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t at = text.find(separator);
    if (at != 0) parts.push_back(text.substr(0, at));
    text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  }
  return parts;
}

JsonArray list(std::string_view commas) {
  JsonArray out;
  for (std::string_view item : split(commas, ',')) out.emplace_back(item == "core" ? "" : item);
  return out;
}

Json rule_of(const std::vector<std::string_view>& words) {
  JsonObject rule{{"verbs", list(words[0])}};
  if (words[1] == "url") {
    rule["nonResourceURLs"] = list(words[2]);
    return rule;
  }
  rule["apiGroups"] = list(words[1]);
  rule["resources"] = list(words[2]);
  if (words.size() > 3) rule["resourceNames"] = list(words[3]);
  return rule;
}

std::string aggregate_label(std::string_view role) {
  return std::string("rbac.authorization.k8s.io/aggregate-to-") + std::string(role);
}

Json header_of(std::string_view kind, const std::vector<std::string_view>& words) {
  JsonObject metadata{{"name", words[2]}};
  if (words[1] != "-") metadata["namespace"] = words[1];
  metadata["labels"] = JsonObject{{"kubernetes.io/bootstrapping", "rbac-defaults"}};
  metadata["annotations"] = JsonObject{{"rbac.authorization.kubernetes.io/autoupdate", "true"}};
  return JsonObject{{"kind", kind}, {"apiVersion", "rbac.authorization.k8s.io/v1"}, {"metadata", std::move(metadata)}};
}

Json role_of(std::string_view kind, const std::vector<std::string_view>& words) {
  Json role = header_of(kind, words);
  role.get_object()["rules"] = JsonArray();
  JsonArray selectors;
  for (size_t i = 3; i < words.size(); ++i) {
    const size_t colon = words[i].find(':');
    const std::string label = aggregate_label(words[i].substr(colon + 1));
    if (words[i].substr(0, colon) == "label") {
      role.at("metadata").at("labels").get_object()[label] = "true";
    } else {
      selectors.push_back(JsonObject{{"matchLabels", JsonObject{{label, "true"}}}});
    }
  }
  if (!selectors.empty()) {
    role.get_object()["aggregationRule"] = JsonObject{{"clusterRoleSelectors", std::move(selectors)}};
  }
  return role;
}

Json subject_of(std::string_view type, std::string_view name) {
  if (type != "serviceaccount") {
    return JsonObject{{"kind", type == "user" ? "User" : "Group"}, {"apiGroup", kGroup}, {"name", name}};
  }
  const size_t slash = name.find('/');
  return JsonObject{{"kind", "ServiceAccount"}, {"name", name.substr(slash + 1)}, {"namespace", name.substr(0, slash)}};
}

Json binding_of(std::string_view kind, const std::vector<std::string_view>& words) {
  Json binding = header_of(kind, words);
  JsonArray subjects;
  for (size_t i = 3; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string_view type = words[i].substr(0, equals), name = words[i].substr(equals + 1);
    if (type == "clusterrole" || type == "role") {
      binding.get_object()["roleRef"] =
          JsonObject{{"apiGroup", kGroup}, {"kind", type == "role" ? "Role" : "ClusterRole"}, {"name", name}};
    } else {
      subjects.push_back(subject_of(type, name));
    }
  }
  if (!subjects.empty()) binding.get_object()["subjects"] = std::move(subjects);
  return binding;
}

}  // namespace

std::vector<Json> bootstrap_rbac_objects() {
  std::vector<Json> cluster, namespaced;
  Json* role = nullptr;
  for (std::string_view line : split(kBootstrapTable, '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (line[0] == ' ') {
      role->at("rules").get_array().push_back(rule_of(words));
      continue;
    }
    std::vector<Json>& out = words[1] == "-" ? cluster : namespaced;
    if (words[0] == "clusterrole") {
      out.push_back(role_of("ClusterRole", words));
    } else if (words[0] == "role") {
      out.push_back(role_of("Role", words));
    } else {
      out.push_back(binding_of(words[0] == "rolebinding" ? "RoleBinding" : "ClusterRoleBinding", words));
    }
    role = &out.back();
  }
  for (Json& object : namespaced) cluster.push_back(std::move(object));
  return cluster;
}

JsonArray aggregated_rules(const Json& cluster_role, const std::vector<Json>& all) {
  JsonArray rules;
  const JsonArray* selectors = kube::get_array(cluster_role, "aggregationRule.clusterRoleSelectors");
  if (selectors == nullptr) return rules;
  for (const Json& selector_json : *selectors) {
    kube::ApiResult<kube::LabelSelector> selector = kube::LabelSelector::from_json(&selector_json);
    if (!selector.ok()) continue;
    for (const Json& other : all) {
      if (kube::get_string(other, "metadata.name") == kube::get_string(cluster_role, "metadata.name")) continue;
      if (!selector->matches(kube::get_object(other, "metadata.labels"))) continue;
      const JsonArray* more = kube::get_array(other, "rules");
      if (more == nullptr) continue;
      for (const Json& rule : *more) {
        bool known = false;
        for (const Json& have : rules) known = known || kube::json_equal(have, rule);
        if (!known) rules.push_back(rule);
      }
    }
  }
  return rules;
}

}  // namespace ghostfleet::controlplane
