// Admission registration: webhooks and policies.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

void default_rules(Json& owner, std::string_view key) {
  Json* rules = member(owner, key);
  if (rules == nullptr || !rules->is_array()) return;
  for (Json& rule : rules->get_array()) {
    if (rule.is_object()) default_to(rule.get_object(), "scope", "*");
  }
}

void default_match_resources(Json& match) {
  JsonObject& m = match.get_object();
  default_to(m, "matchPolicy", "Equivalent");
  default_to(m, "namespaceSelector", JsonObject());
  default_to(m, "objectSelector", JsonObject());
  default_rules(match, "resourceRules");
  default_rules(match, "excludeResourceRules");
}

void check_rule(const Json& rule, const Path& path, Findings& out) {
  for (std::string_view key : {"apiGroups", "apiVersions", "resources", "operations"}) {
    const JsonArray* list = array_of(rule, key);
    if (list == nullptr || list->empty()) out.required(path.child(key));
  }
  const JsonArray* operations = array_of(rule, "operations");
  for (size_t i = 0; operations != nullptr && i < operations->size(); ++i) {
    std::string_view operation = as_text((*operations)[i]);
    if (!one_of(operation, {"*", "CONNECT", "CREATE", "DELETE", "UPDATE"})) {
      out.not_supported(path.child("operations", i), operation, {"*", "CONNECT", "CREATE", "DELETE", "UPDATE"});
    }
  }
  std::string_view scope = text_of(rule, "scope");
  if (!one_of(scope, {"*", "Cluster", "Namespaced", ""})) {
    out.not_supported(path.child("scope"), scope, {"*", "Cluster", "Namespaced"});
  }
}

// A domain name of at least three parts.
void check_full_name(std::string_view name, const Path& path, Findings& out) {
  if (name.empty()) {
    out.required(path);
    return;
  }
  std::vector<std::string> messages = kube::check_dns1123_subdomain(name);
  if (!messages.empty()) {
    out.messages(path, name, messages);
  } else if (std::count(name.begin(), name.end(), '.') < 2) {
    out.invalid_text(path, name, "should be a domain with at least three segments separated by dots");
  }
}

void check_client(const Json& hook, const Path& path, Findings& out) {
  static const Json kEmpty = JsonObject();
  const Json* found = member(hook, "clientConfig");
  const Json& client = found == nullptr ? kEmpty : *found;
  Path at = path.child("clientConfig");
  const Json* service = member(client, "service");
  std::string_view url = text_of(client, "url");
  if ((member(client, "url") != nullptr) == (service != nullptr)) {
    out.required(at, "exactly one of url or service is required");
  } else if (service == nullptr) {
    if (!url.starts_with("https://")) {
      out.invalid_text(at.child("url"), url,
                       "'https' is the only allowed URL scheme; desired format: https://host[/path]");
    }
  } else {
    Path ref = at.child("service");
    for (std::string_view key : {"name", "namespace"}) {
      if (text_of(*service, key).empty()) out.required(ref.child(key), fmt::format("service {} is required", key));
    }
  }
}

void check_review_versions(const Json& hook, const Path& path, Findings& out) {
  const JsonArray* versions = array_of(hook, "admissionReviewVersions");
  Path at = path.child("admissionReviewVersions");
  if (versions == nullptr || versions->empty()) {
    out.required(at, "must specify one of v1, v1beta1");
    return;
  }
  bool accepted = false;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < versions->size(); ++i) {
    std::string_view version = as_text((*versions)[i]);
    if (!seen.insert(version).second) out.invalid_text(at.index(i), version, "duplicate version");
    accepted = accepted || version == "v1" || version == "v1beta1";
  }
  if (!accepted) out.invalid(at, json_text(*versions), "must include at least one of v1, v1beta1");
}

void check_hook(const Json& hook, const Path& path, Findings& out) {
  check_full_name(text_of(hook, "name"), path.child("name"), out);
  const JsonArray* rules = array_of(hook, "rules");
  for (size_t i = 0; rules != nullptr && i < rules->size(); ++i) check_rule((*rules)[i], path.child("rules", i), out);
  if (std::string_view policy = text_of(hook, "failurePolicy"); !one_of(policy, {"Fail", "Ignore"})) {
    out.not_supported(path.child("failurePolicy"), policy, {"Fail", "Ignore"});
  }
  if (std::string_view policy = text_of(hook, "matchPolicy"); !one_of(policy, {"Equivalent", "Exact"})) {
    out.not_supported(path.child("matchPolicy"), policy, {"Equivalent", "Exact"});
  }
  std::string_view effects = text_of(hook, "sideEffects");
  if (effects.empty()) {
    out.required(path.child("sideEffects"), "must specify one of None, NoneOnDryRun");
  } else if (!one_of(effects, {"None", "NoneOnDryRun"})) {
    out.not_supported(path.child("sideEffects"), effects, {"None", "NoneOnDryRun"});
  }
  int64_t timeout = int_of(hook, "timeoutSeconds", 10);
  if (timeout < 1 || timeout > 30) {
    out.invalid_number(path.child("timeoutSeconds"), timeout, "the timeout value must be between 1 and 30 seconds");
  }
  check_label_selector(member(hook, "namespaceSelector"), path.child("namespaceSelector"), out);
  check_label_selector(member(hook, "objectSelector"), path.child("objectSelector"), out);
  check_client(hook, path, out);
  check_review_versions(hook, path, out);
}

class WebhookStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext& ctx) const override {
    Json* hooks = member(object, "webhooks");
    if (hooks == nullptr || !hooks->is_array()) return;
    bool mutating = ctx.resource.info.kind == "MutatingWebhookConfiguration";
    for (Json& hook : hooks->get_array()) {
      JsonObject& h = hook.get_object();
      default_to(h, "failurePolicy", "Fail");
      default_to(h, "matchPolicy", "Equivalent");
      default_to(h, "namespaceSelector", JsonObject());
      default_to(h, "objectSelector", JsonObject());
      default_to(h, "timeoutSeconds", 10);
      if (mutating) default_to(h, "reinvocationPolicy", "Never");
      default_rules(hook, "rules");
      Json* client = member(hook, "clientConfig");
      Json* service = client == nullptr ? nullptr : member(*client, "service");
      if (service != nullptr) default_to(service->get_object(), "port", 443);
    }
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const JsonArray* hooks = array_of(object, "webhooks");
    std::set<std::string_view> names;
    Path path("webhooks");
    for (size_t i = 0; hooks != nullptr && i < hooks->size(); ++i) {
      Path at = path.index(i);
      check_hook((*hooks)[i], at, out);
      std::string_view name = text_of((*hooks)[i], "name");
      if (!name.empty() && !names.insert(name).second) out.duplicate(at.child("name"), name);
    }
  }
};

class AdmissionPolicyStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_to(spec, "failurePolicy", "Fail");
    if (Json* match = spec.if_contains("matchConstraints")) default_match_resources(*match);
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    const Json* match = member(spec, "matchConstraints");
    Path match_path = path.child("matchConstraints");
    if (match == nullptr) {
      out.required(match_path);
    } else {
      const JsonArray* rules = array_of(*match, "resourceRules");
      if (rules == nullptr || rules->empty()) out.required(match_path.child("resourceRules"));
      for (size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
        check_rule((*rules)[i], match_path.child("resourceRules", i), out);
      }
    }
    const JsonArray* validations = array_of(spec, "validations");
    for (size_t i = 0; validations != nullptr && i < validations->size(); ++i) {
      Path at = path.child("validations", i);
      if (text_of((*validations)[i], "expression").empty()) {
        out.required(at.child("expression"), "expression is not specified");
      }
    }
  }
};

class PolicyBindingStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    if (Json* match = spec.if_contains("matchResources")) default_match_resources(*match);
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    if (text_of(spec, "policyName").empty()) out.required(path.child("policyName"));
    if (ctx.resource.info.kind != "ValidatingAdmissionPolicyBinding") return;
    const JsonArray* actions = array_of(spec, "validationActions");
    if (actions == nullptr || actions->empty()) {
      out.required(path.child("validationActions"), "at least one validation action is required");
    }
  }
};

}  // namespace

StrategyPointer make_webhook_strategy(const KindTraits& traits) { return std::make_unique<WebhookStrategy>(traits); }
StrategyPointer make_admission_policy_strategy(const KindTraits& traits) {
  return std::make_unique<AdmissionPolicyStrategy>(traits);
}
StrategyPointer make_policy_binding_strategy(const KindTraits& traits) {
  return std::make_unique<PolicyBindingStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
