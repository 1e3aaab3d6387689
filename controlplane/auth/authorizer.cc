#include "controlplane/auth/authorizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "controlplane/auth/node_authorizer.h"
#include "controlplane/auth/rbac.h"

namespace ghostfleet::controlplane {
namespace {

class AlwaysAllow final : public Authorizer {
 public:
  Decision authorize(const Attributes&) const override { return {Decision::Kind::kAllow, "", ""}; }
  std::vector<PolicyRule> rules_for(const UserInfo&, std::string_view, std::string*) const override {
    return everything();
  }
  static std::vector<PolicyRule> everything() { return {{{"*"}, {"*"}, {"*"}, {}, {}}, {{"*"}, {}, {}, {}, {"*"}}}; }
};

// system:masters, then each mode until one decides; reasons of those that did not are collected.
class Chain final : public Authorizer {
 public:
  Chain(const AuthorizerOptions& options, const ClusterObjects& objects) {
    if (options.node) modes_.push_back(make_node_authorizer(objects));
    if (options.rbac) modes_.push_back(make_rbac_authorizer(objects));
  }

  Decision authorize(const Attributes& a) const override {
    if (a.user->in_group(kMastersGroup)) return {Decision::Kind::kAllow, "", ""};
    Decision none;
    for (const auto& mode : modes_) {
      Decision d = mode->authorize(a);
      if (d.kind != Decision::Kind::kNoOpinion) return d;
      append(&none.reason, d.reason);
      append(&none.error, d.error);
    }
    return none;
  }

  std::vector<PolicyRule> rules_for(const UserInfo& user, std::string_view ns, std::string* error) const override {
    std::vector<PolicyRule> rules;
    if (user.in_group(kMastersGroup)) rules = AlwaysAllow::everything();
    for (const auto& mode : modes_) {
      for (PolicyRule& rule : mode->rules_for(user, ns, error)) rules.push_back(std::move(rule));
    }
    return rules;
  }

 private:
  static void append(std::string* text, const std::string& more) {
    if (more.empty()) return;
    if (!text->empty()) *text += '\n';
    *text += more;
  }
  std::vector<std::unique_ptr<Authorizer>> modes_;
};

std::vector<std::string> strings(const kube::Json& rule, std::string_view key) {
  std::vector<std::string> out;
  if (const kube::JsonArray* list = kube::get_array(rule, key)) {
    for (const kube::Json& item : *list) {
      if (item.is_string()) out.emplace_back(item.get_string());
    }
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out;
  kube::append_json_string(text, &out);
  return out;
}

// One verb on one resource (or path): what a rule is made of.
std::vector<PolicyRule> split_rule(const PolicyRule& rule) {
  std::vector<PolicyRule> parts;
  for (const std::string& verb : rule.verbs) {
    for (const std::string& url : rule.non_resource_urls) parts.push_back({{verb}, {}, {}, {}, {url}});
    for (const std::string& group : rule.api_groups) {
      for (const std::string& resource : rule.resources) {
        if (rule.resource_names.empty()) parts.push_back({{verb}, {group}, {resource}, {}, {}});
        for (const std::string& name : rule.resource_names) {
          parts.push_back({{verb}, {group}, {resource}, {name}, {}});
        }
      }
    }
  }
  return parts;
}

bool covers_all(const std::vector<std::string>& have, const std::vector<std::string>& want) {
  return std::find(have.begin(), have.end(), "*") != have.end() ||
         std::all_of(want.begin(), want.end(),
                     [&](const std::string& w) { return std::find(have.begin(), have.end(), w) != have.end(); });
}

bool covers_resource(const std::vector<std::string>& have, const std::string& want) {
  if (covers_all(have, {want})) return true;
  const size_t slash = want.find('/');
  return slash != std::string::npos && std::find(have.begin(), have.end(), "*" + want.substr(slash)) != have.end();
}

bool covers_url(const std::vector<std::string>& have, const std::string& want) {
  return std::any_of(have.begin(), have.end(), [&](const std::string& h) {
    return h == "*" || h == want || (h.back() == '*' && want.compare(0, h.size() - 1, h, 0, h.size() - 1) == 0);
  });
}

bool covers(const PolicyRule& have, const PolicyRule& want) {
  if (!covers_all(have.verbs, want.verbs)) return false;
  if (!want.non_resource_urls.empty()) return covers_url(have.non_resource_urls, want.non_resource_urls[0]);
  const bool names = have.resource_names.empty() ||
                     (!want.resource_names.empty() && covers_all(have.resource_names, want.resource_names));
  return names && covers_all(have.api_groups, want.api_groups) && covers_resource(have.resources, want.resources[0]);
}

// {APIGroups:[""], Resources:["pods"], Verbs:["get"]}
std::string describe(const PolicyRule& part) {
  if (!part.non_resource_urls.empty()) {
    return fmt::format("{{NonResourceURLs:[{}], Verbs:[{}]}}", quoted(part.non_resource_urls[0]),
                       quoted(part.verbs[0]));
  }
  std::string out =
      fmt::format("{{APIGroups:[{}], Resources:[{}]", quoted(part.api_groups[0]), quoted(part.resources[0]));
  if (!part.resource_names.empty()) out += fmt::format(", ResourceNames:[{}]", quoted(part.resource_names[0]));
  return out + fmt::format(", Verbs:[{}]}}", quoted(part.verbs[0]));
}

}  // namespace

PolicyRule policy_rule_from_json(const kube::Json& rule) {
  return {strings(rule, "verbs"), strings(rule, "apiGroups"), strings(rule, "resources"),
          strings(rule, "resourceNames"), strings(rule, "nonResourceURLs")};
}

std::unique_ptr<Authorizer> make_authorizer(const AuthorizerOptions& options, ClusterObjects objects) {
  if (options.always_allow) return std::make_unique<AlwaysAllow>();
  return std::make_unique<Chain>(options, objects);
}

std::string forbidden_text(const Attributes& a) {
  const std::string user = quoted(a.user->name);
  if (!a.is_resource) return fmt::format("User {} cannot {} path {}", user, a.verb, quoted(a.path));
  const std::string resource = a.subresource.empty() ? a.resource : a.resource + "/" + a.subresource;
  const std::string what =
      fmt::format("User {} cannot {} resource {} in API group {}", user, a.verb, quoted(resource), quoted(a.group));
  return what + (a.ns.empty() ? " at the cluster scope" : " in the namespace " + quoted(a.ns));
}

kube::ApiError forbidden_error(const Attributes& a, std::string_view reason) {
  std::string text = forbidden_text(a);
  if (!reason.empty()) text += ": " + std::string(reason);
  kube::ApiError e;
  e.code = 403;
  e.reason = "Forbidden";
  if (!a.is_resource) {
    e.message = "forbidden: " + text;
    return e;
  }
  e.name = a.name;
  e.group = a.group;
  e.kind = a.resource;
  const std::string resource = a.group.empty() ? a.resource : a.resource + "." + a.group;
  e.message = a.name.empty() ? fmt::format("{} is forbidden: {}", resource, text)
                             : fmt::format("{} {} is forbidden: {}", resource, quoted(a.name), text);
  return e;
}

std::string check_escalation(const Authorizer& authorizer, const UserInfo& user, std::string_view ns,
                             const std::vector<PolicyRule>& wanted) {
  std::string error;
  const std::vector<PolicyRule> held = authorizer.rules_for(user, ns, &error);
  std::set<std::string> missing;
  for (const PolicyRule& rule : wanted) {
    for (const PolicyRule& part : split_rule(rule)) {
      const bool covered = std::any_of(held.begin(), held.end(), [&](const PolicyRule& h) { return covers(h, part); });
      if (!covered) missing.insert(describe(part));
    }
  }
  if (missing.empty()) return "";
  std::string groups;
  for (const std::string& group : user.groups) groups += (groups.empty() ? "" : " ") + quoted(group);
  std::string out = fmt::format("user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
                                quoted(user.name), groups, fmt::join(missing, "\n"));
  if (!error.empty()) out += "; resolution errors: " + error;
  return out;
}

}  // namespace ghostfleet::controlplane
