// Authorizer: may this user do that? Node rules, then RBAC over the cluster's own Role, ClusterRole and binding
// objects; members of system:masters may do everything.
//
// Thread rule: authorize() may be called from any thread. RBAC objects are kept parsed and indexed by subject; the
// index follows the store by watches and is brought up to date inside the call that needs it, so that a grant is seen
// by the request after it. Sources: RBAC and Node authorizer of Kubernetes 1.36; texts from a real server.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/auth/objects.h"
#include "controlplane/auth/user.h"
#include "kube/api/api_error.h"
#include "kube/api/json.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane {

// What is asked for. `verb` is get, list, watch, create, update, patch, delete, deletecollection, or another word
// (impersonate, approve, bind ...); for a path the lower-case HTTP method.
struct Attributes {
  const UserInfo* user = nullptr;
  std::string verb;
  bool is_resource = true;
  std::string group, version, resource, subresource, ns, name;
  std::string path;                                    // when it is no resource
  std::vector<kube::FieldRequirement> field_selector;  // of list, watch, deletecollection
};

struct Decision {
  enum class Kind : unsigned char { kAllow, kDeny, kNoOpinion };
  Kind kind = Kind::kNoOpinion;
  std::string reason;
  std::string error;  // what could not be evaluated (a binding whose role is missing)
  bool allowed() const { return kind == Kind::kAllow; }
};

struct PolicyRule {
  std::vector<std::string> verbs, api_groups, resources, resource_names, non_resource_urls;
};
PolicyRule policy_rule_from_json(const kube::Json& rule);

class Authorizer {
 public:
  virtual ~Authorizer() = default;
  virtual Decision authorize(const Attributes& attributes) const = 0;
  // Every rule that applies to the user in that namespace (cluster-wide ones first). `error` gets what could not be
  // resolved.
  virtual std::vector<PolicyRule> rules_for(const UserInfo& user, std::string_view ns, std::string* error) const = 0;
};

// Modes, in the order they are asked.
struct AuthorizerOptions {
  bool always_allow = false;  // then nothing else is asked
  bool node = true;
  bool rbac = true;
};
std::unique_ptr<Authorizer> make_authorizer(const AuthorizerOptions& options, ClusterObjects objects);

// The answer to a refused request: `pods "p" is forbidden: User "u" cannot get resource "pods" in API group "" in the
// namespace "n": WHY`.
kube::ApiError forbidden_error(const Attributes& attributes, std::string_view reason);
// Only the part after "is forbidden: ", for admission that speaks the same way.
std::string forbidden_text(const Attributes& attributes);

// A user may only write a Role or ClusterRole that holds nothing he may not do himself (or with the verb escalate), and
// only bind such roles (or with the verb bind). Empty: fine; else the words after `is forbidden: `.
std::string check_escalation(const Authorizer& authorizer, const UserInfo& user, std::string_view ns,
                             const std::vector<PolicyRule>& wanted);

// The ClusterRoles, ClusterRoleBindings, Roles and RoleBindings a real server makes at its start and clients rely on;
// complete objects without server-set fields, cluster-scoped ones first. Create those that do not exist.
std::vector<kube::Json> bootstrap_rbac_objects();
// A ClusterRole with an aggregationRule holds the rules of the roles its selectors match (admin, edit, view): the rules
// it should have now, given every ClusterRole.
kube::JsonArray aggregated_rules(const kube::Json& cluster_role, const std::vector<kube::Json>& all);

}  // namespace ghostfleet::controlplane
