#include "controlplane/auth/rbac.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <shared_mutex>

namespace ghostfleet::controlplane {
namespace {

using kube::Json;

bool holds(const std::vector<std::string>& list, std::string_view value) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& item) { return item == "*" || item == value; });
}

bool resource_fits(const std::vector<std::string>& resources, const Attributes& a) {
  const std::string combined = a.subresource.empty() ? a.resource : a.resource + "/" + a.subresource;
  return std::any_of(resources.begin(), resources.end(), [&](const std::string& r) {
    if (r == "*" || r == combined) return true;
    return !a.subresource.empty() && r.size() == a.subresource.size() + 2 && r.compare(0, 2, "*/") == 0 &&
           r.compare(2, std::string::npos, a.subresource) == 0;
  });
}

bool url_fits(const std::vector<std::string>& urls, std::string_view path) {
  return std::any_of(urls.begin(), urls.end(), [&](const std::string& url) {
    if (url == "*" || url == path) return true;
    return !url.empty() && url.back() == '*' && path.substr(0, url.size() - 1) == url.substr(0, url.size() - 1);
  });
}

struct Subject {
  std::string kind, ns, name;

  bool is(const UserInfo& user, std::string_view binding_ns) const {
    if (kind == "User") return user.name == name;
    if (kind == "Group") return user.in_group(name);
    if (kind != "ServiceAccount") return false;
    const std::string_view account_ns = ns.empty() ? binding_ns : std::string_view(ns);
    return !account_ns.empty() && user.name == fmt::format("system:serviceaccount:{}:{}", account_ns, name);
  }
  std::string text(std::string_view binding_ns) const {
    if (kind != "ServiceAccount") return fmt::format("{} \"{}\"", kind, name);
    return fmt::format("{} \"{}/{}\"", kind, name, ns.empty() ? binding_ns : std::string_view(ns));
  }
};

struct Binding {
  std::string ns, name, role_kind, role_name;
  std::vector<Subject> subjects;
};

struct Role {
  std::vector<PolicyRule> rules;
  Json object;  // kept for roles that aggregate or may be aggregated
};

Binding read_binding(const Json& object) {
  Binding b;
  b.ns = std::string(kube::get_string(object, "metadata.namespace"));
  b.name = std::string(kube::get_string(object, "metadata.name"));
  b.role_kind = std::string(kube::get_string(object, "roleRef.kind"));
  b.role_name = std::string(kube::get_string(object, "roleRef.name"));
  if (const kube::JsonArray* subjects = kube::get_array(object, "subjects")) {
    for (const Json& s : *subjects) {
      b.subjects.push_back({std::string(kube::get_string(s, "kind")), std::string(kube::get_string(s, "namespace")),
                            std::string(kube::get_string(s, "name"))});
    }
  }
  return b;
}

std::vector<PolicyRule> read_rules(const kube::JsonArray* rules) {
  std::vector<PolicyRule> out;
  if (rules == nullptr) return out;
  for (const Json& rule : *rules) out.push_back(policy_rule_from_json(rule));
  return out;
}

// Roles and bindings by key ("ns/name" or "name"), and bindings by subject.
struct Index {
  std::map<std::string, Role> cluster_roles, roles;
  std::map<std::string, Binding> cluster_bindings, bindings;
  // "u:NAME" or "g:NAME" behind "NS/" (empty namespace: cluster-wide); pointers into the maps above.
  std::map<std::string, std::vector<const Binding*>, std::less<>> by_subject;

  void add_subjects(const Binding& binding) {
    for (const Subject& s : binding.subjects) {
      std::string who = s.kind == "Group" ? "g:" + s.name : "u:" + s.name;
      if (s.kind == "ServiceAccount") {
        who = fmt::format("u:system:serviceaccount:{}:{}", s.ns.empty() ? binding.ns : s.ns, s.name);
      }
      std::vector<const Binding*>& list = by_subject[binding.ns + "/" + who];
      if (list.empty() || list.back() != &binding) list.push_back(&binding);
    }
  }

  void rebuild() {
    by_subject.clear();
    for (const auto& entry : cluster_bindings) add_subjects(entry.second);
    for (const auto& entry : bindings) add_subjects(entry.second);
    aggregate_roles();
  }

  // A role that aggregates may itself be aggregated (view into edit into admin): a few rounds settle it.
  void aggregate_roles() {
    constexpr int kRounds = 4;
    std::vector<Json> all;
    for (const auto& entry : cluster_roles) all.push_back(entry.second.object);
    for (int round = 0; round < kRounds; ++round) {
      for (Json& object : all) {
        if (!object.is_object() || kube::find_key(object, "aggregationRule") == nullptr) continue;
        kube::JsonArray rules = aggregated_rules(object, all);
        if (!rules.empty()) object.get_object()["rules"] = std::move(rules);
      }
    }
    for (const Json& object : all) {
      if (!object.is_object() || kube::find_key(object, "aggregationRule") == nullptr) continue;
      const auto role = cluster_roles.find(std::string(kube::get_string(object, "metadata.name")));
      if (role != cluster_roles.end()) role->second.rules = read_rules(kube::get_array(object, "rules"));
    }
  }

  // By name: the order of reasons and of reviews does not depend on when a binding was made.
  std::vector<const Binding*> bindings_of(const UserInfo& user, std::string_view ns) const {
    std::vector<const Binding*> found;
    const auto take = [&](const std::string& key) {
      const auto it = by_subject.find(key);
      if (it != by_subject.end()) found.insert(found.end(), it->second.begin(), it->second.end());
    };
    const std::string prefix = std::string(ns) + "/";
    take(prefix + "u:" + user.name);
    for (const std::string& group : user.groups) take(prefix + "g:" + group);
    std::sort(found.begin(), found.end(), [](const Binding* a, const Binding* b) { return a->name < b->name; });
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }
};

class RbacAuthorizer final : public Authorizer {
 public:
  explicit RbacAuthorizer(ClusterObjects objects) : objects_(std::move(objects)) {}

  Decision authorize(const Attributes& a) const override {
    Decision decision;
    std::vector<std::string> errors;
    visit(*a.user, a.is_resource ? a.ns : "", &errors, [&](const Binding& binding, const PolicyRule& rule) {
      if (!rule_allows(rule, a)) return true;
      decision.kind = Decision::Kind::kAllow;
      decision.reason = reason(binding, *a.user);
      return false;
    });
    if (!decision.allowed() && !errors.empty()) {
      decision.reason = "RBAC: " + aggregate(errors);
      decision.error = aggregate(errors);
    }
    return decision;
  }

  std::vector<PolicyRule> rules_for(const UserInfo& user, std::string_view ns, std::string* error) const override {
    std::vector<PolicyRule> rules;
    std::vector<std::string> errors;
    visit(user, ns, &errors, [&](const Binding&, const PolicyRule& rule) {
      rules.push_back(rule);
      return true;
    });
    if (error != nullptr && !errors.empty()) *error = aggregate(errors);
    return rules;
  }

 private:
  using Visitor = std::function<bool(const Binding&, const PolicyRule&)>;

  void visit(const UserInfo& user, std::string_view ns, std::vector<std::string>* errors,
             const Visitor& visitor) const {
    bring_up_to_date();
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    for (const Binding* binding : index_.bindings_of(user, "")) {
      if (!visit_binding(*binding, errors, visitor)) return;
    }
    if (ns.empty()) return;
    for (const Binding* binding : index_.bindings_of(user, ns)) {
      if (!visit_binding(*binding, errors, visitor)) return;
    }
  }

  bool visit_binding(const Binding& binding, std::vector<std::string>* errors, const Visitor& visitor) const {
    const bool cluster = binding.role_kind == "ClusterRole";
    const auto& roles = cluster ? index_.cluster_roles : index_.roles;
    const auto it = roles.find(cluster ? binding.role_name : binding.ns + "/" + binding.role_name);
    if (it == roles.end()) {
      errors->push_back(fmt::format("{}.rbac.authorization.k8s.io \"{}\" not found", cluster ? "clusterrole" : "role",
                                    binding.role_name));
      return true;
    }
    return std::all_of(it->second.rules.begin(), it->second.rules.end(),
                       [&](const PolicyRule& rule) { return visitor(binding, rule); });
  }

  static std::string reason(const Binding& b, const UserInfo& user) {
    const auto subject =
        std::find_if(b.subjects.begin(), b.subjects.end(), [&](const Subject& s) { return s.is(user, b.ns); });
    const std::string who = subject == b.subjects.end() ? "" : subject->text(b.ns);
    const std::string binding = b.ns.empty() ? fmt::format("ClusterRoleBinding \"{}\"", b.name)
                                             : fmt::format("RoleBinding \"{}/{}\"", b.name, b.ns);
    return fmt::format("RBAC: allowed by {} of {} \"{}\" to {}", binding, b.role_kind, b.role_name, who);
  }

  static std::string aggregate(std::vector<std::string> errors) {
    std::vector<std::string> seen;
    for (std::string& e : errors) {
      if (std::find(seen.begin(), seen.end(), e) == seen.end()) seen.push_back(std::move(e));
    }
    return seen.size() == 1 ? seen[0] : fmt::format("[{}]", fmt::join(seen, ", "));
  }

  // ---- following the store

  enum Source : size_t { kClusterRoles, kRoles, kClusterBindings, kBindings, kSources };
  static constexpr std::array<const char*, kSources> kNames = {
      "clusterroles.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io",
      "clusterrolebindings.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"};

  void bring_up_to_date() const {
    if (!stale_.load(std::memory_order_acquire) || objects_.store == nullptr) return;
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    // Lowered first: a change that comes while events are taken raises it again.
    if (!stale_.exchange(false, std::memory_order_acq_rel)) return;
    bool changed = false;
    for (size_t source = 0; source < kSources; ++source) changed = follow(static_cast<Source>(source)) || changed;
    if (changed) index_.rebuild();
  }

  bool follow(Source source) const {
    if (watches_[source] == nullptr) return start(source);
    bool changed = false;
    std::vector<Event> events;
    do {
      events.clear();
      if (!watches_[source]->next(256, &events)) return start(source);
      for (const Event& event : events) apply(source, event.object, event.type == EventType::kDeleted);
      changed = changed || !events.empty();
    } while (!events.empty());
    return changed;
  }

  bool start(Source source) const {
    watches_[source] = nullptr;
    clear(source);
    const KindId kind = objects_.kind_of ? objects_.kind_of(kNames[source]) : ClusterObjects::kNoKind;
    if (kind == ClusterObjects::kNoKind) {
      stale_.store(true, std::memory_order_release);  // asked again next time
      return true;
    }
    WatchOptions options;
    options.nudge = [this] { stale_.store(true, std::memory_order_release); };
    ListResult initial;
    Result<std::unique_ptr<Watch>> watch = objects_.store->list_and_watch(kind, {}, options, &initial);
    if (!watch.ok()) {
      stale_.store(true, std::memory_order_release);
      return true;
    }
    watches_[source] = std::move(*watch);
    for (const ObjectRef& object : initial.items) apply(source, object, false);
    return true;
  }

  void clear(Source source) const {
    index_.by_subject.clear();
    if (source == kClusterRoles) index_.cluster_roles.clear();
    if (source == kRoles) index_.roles.clear();
    if (source == kClusterBindings) index_.cluster_bindings.clear();
    if (source == kBindings) index_.bindings.clear();
  }

  void apply(Source source, const ObjectRef& object, bool deleted) const {
    const bool is_role = source == kClusterRoles || source == kRoles;
    auto& roles = source == kClusterRoles ? index_.cluster_roles : index_.roles;
    auto& bindings = source == kClusterBindings ? index_.cluster_bindings : index_.bindings;
    if (deleted) {
      is_role ? roles.erase(object->key) : bindings.erase(object->key);
      return;
    }
    Result<Json> json = kube::parse_json(object->json);
    if (!json.ok()) return;
    if (!is_role) {
      bindings.insert_or_assign(object->key, read_binding(*json));
      return;
    }
    Role role{read_rules(kube::get_array(*json, "rules")), nullptr};
    if (source == kClusterRoles) role.object = std::move(*json);
    roles.insert_or_assign(object->key, std::move(role));
  }

  ClusterObjects objects_;
  mutable std::shared_mutex mutex_;
  mutable Index index_;
  mutable std::atomic<bool> stale_{true};
  // Last: their nudges touch stale_ until they are gone.
  mutable std::array<std::unique_ptr<Watch>, kSources> watches_;
};

}  // namespace

bool rule_allows(const PolicyRule& rule, const Attributes& a) {
  if (!holds(rule.verbs, a.verb)) return false;
  if (!a.is_resource) return url_fits(rule.non_resource_urls, a.path);
  if (!holds(rule.api_groups, a.group) || !resource_fits(rule.resources, a)) return false;
  return rule.resource_names.empty() ||
         std::find(rule.resource_names.begin(), rule.resource_names.end(), a.name) != rule.resource_names.end();
}

std::unique_ptr<Authorizer> make_rbac_authorizer(ClusterObjects objects) {
  return std::make_unique<RbacAuthorizer>(std::move(objects));
}

}  // namespace ghostfleet::controlplane
