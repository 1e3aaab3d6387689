#include "controlplane/auth/authorizer.h"

#include <gtest/gtest.h>

#include "controlplane/auth/test_cluster.h"

namespace ghostfleet::controlplane {
namespace {

UserInfo user(std::string name, std::vector<std::string> groups = {}) {
  UserInfo u;
  u.name = std::move(name);
  u.groups = std::move(groups);
  return u;
}

Attributes ask(const UserInfo& who, std::string verb, std::string resource, std::string ns = "", std::string name = "",
               std::string group = "") {
  Attributes a;
  a.user = &who;
  a.verb = std::move(verb);
  a.resource = std::move(resource);
  if (const size_t slash = a.resource.find('/'); slash != std::string::npos) {
    a.subresource = a.resource.substr(slash + 1);
    a.resource.resize(slash);
  }
  a.ns = std::move(ns);
  a.name = std::move(name);
  a.group = std::move(group);
  return a;
}

constexpr const char* kRole =
    R"({"metadata":{"name":"r","namespace":"d"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]},
    {"apiGroups":[""],"resources":["secrets"],"resourceNames":["mine"],"verbs":["get"]},
    {"apiGroups":[""],"resources":["pods/log"],"verbs":["get"]}]})";
constexpr const char* kBinding =
    R"({"metadata":{"name":"b","namespace":"d"},"roleRef":{"kind":"Role","name":"r"},
    "subjects":[{"kind":"User","name":"jane"},{"kind":"ServiceAccount","name":"robot","namespace":"e"}]})";

class RbacTest : public testing::Test {
 protected:
  RbacTest() : authorizer(make_authorizer({}, cluster.objects())) {
    cluster.put("roles.rbac.authorization.k8s.io", kRole);
    cluster.put("rolebindings.rbac.authorization.k8s.io", kBinding);
  }
  bool allowed(const Attributes& a) { return authorizer->authorize(a).allowed(); }
  TestCluster cluster;
  std::unique_ptr<Authorizer> authorizer;
  UserInfo jane = user("jane", {"system:authenticated"});
};

TEST_F(RbacTest, RolesInANamespace) {
  const Decision d = authorizer->authorize(ask(jane, "get", "configmaps", "d"));
  EXPECT_TRUE(d.allowed());
  EXPECT_EQ(d.reason, "RBAC: allowed by RoleBinding \"b/d\" of Role \"r\" to User \"jane\"");
  EXPECT_FALSE(allowed(ask(jane, "delete", "configmaps", "d")));
  EXPECT_FALSE(allowed(ask(jane, "get", "configmaps", "other")));
  EXPECT_FALSE(allowed(ask(jane, "list", "configmaps")));
  EXPECT_TRUE(allowed(ask(jane, "get", "secrets", "d", "mine")));
  EXPECT_FALSE(allowed(ask(jane, "get", "secrets", "d", "other")));
  EXPECT_TRUE(allowed(ask(jane, "get", "pods/log", "d", "p")));
  EXPECT_FALSE(allowed(ask(jane, "get", "pods", "d", "p")));
  EXPECT_FALSE(allowed(ask(jane, "get", "configmaps", "d", "", "apps")));
  const UserInfo robot = user("system:serviceaccount:e:robot");
  EXPECT_EQ(authorizer->authorize(ask(robot, "list", "configmaps", "d")).reason,
            "RBAC: allowed by RoleBinding \"b/d\" of Role \"r\" to ServiceAccount \"robot/e\"");
  EXPECT_TRUE(allowed(ask(user("x", {"system:masters"}), "delete", "anything", "d")));
}

TEST_F(RbacTest, FollowsTheStore) {
  EXPECT_TRUE(allowed(ask(jane, "get", "configmaps", "d")));
  cluster.remove("rolebindings.rbac.authorization.k8s.io", "d/b");
  EXPECT_FALSE(allowed(ask(jane, "get", "configmaps", "d")));
  cluster.put("rolebindings.rbac.authorization.k8s.io", kBinding);
  EXPECT_TRUE(allowed(ask(jane, "get", "configmaps", "d")));
  cluster.remove("roles.rbac.authorization.k8s.io", "d/r");
  EXPECT_EQ(authorizer->authorize(ask(jane, "get", "configmaps", "d")).reason,
            "RBAC: role.rbac.authorization.k8s.io \"r\" not found");
}

TEST_F(RbacTest, BootstrapRoles) {
  std::vector<kube::Json> objects = bootstrap_rbac_objects();
  EXPECT_GT(objects.size(), 120u);
  for (const kube::Json& object : objects) {
    const std::string kind(kube::get_string(object, "kind"));
    std::string resource = kind + "s.rbac.authorization.k8s.io";
    for (char& c : resource) c = static_cast<char>(std::tolower(c));
    cluster.put(resource, kube::to_json(object));
  }
  Attributes discovery;
  discovery.user = &jane;
  discovery.is_resource = false;
  discovery.verb = "get";
  discovery.path = "/apis/apps";
  EXPECT_EQ(authorizer->authorize(discovery).reason,
            "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group "
            "\"system:authenticated\"");
  discovery.path = "/metrics";
  EXPECT_FALSE(allowed(discovery));
  std::string error;
  const std::vector<PolicyRule> rules = authorizer->rules_for(jane, "d", &error);
  EXPECT_EQ(error, "");
  EXPECT_EQ(rules[0].resources, (std::vector<std::string>{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}));
  const UserInfo scheduler = user("system:kube-scheduler");
  EXPECT_TRUE(allowed(ask(scheduler, "create", "pods/binding", "d", "p")));
  EXPECT_FALSE(allowed(ask(scheduler, "delete", "nodes", "", "n")));
  // Aggregated roles work without a controller that fills them.
  cluster.put(
      "clusterrolebindings.rbac.authorization.k8s.io",
      R"({"metadata":{"name":"v"},"roleRef":{"kind":"ClusterRole","name":"edit"},"subjects":[{"kind":"User","name":"eve"}]})");
  EXPECT_TRUE(allowed(ask(user("eve"), "create", "deployments", "d", "", "apps")));
  EXPECT_TRUE(allowed(ask(user("eve"), "list", "pods", "d")));
  EXPECT_FALSE(allowed(ask(user("eve"), "create", "roles", "d", "", "rbac.authorization.k8s.io")));
}

TEST_F(RbacTest, NobodyGrantsWhatHeHasNot) {
  EXPECT_EQ(check_escalation(*authorizer, jane, "d", {{{"get"}, {""}, {"configmaps"}, {}, {}}}), "");
  EXPECT_EQ(
      check_escalation(*authorizer, jane, "d", {{{"get", "delete"}, {""}, {"configmaps"}, {}, {}}}),
      "user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n"
      "{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}");
  EXPECT_EQ(check_escalation(*authorizer, user("x", {"system:masters"}), "d", {{{"*"}, {"*"}, {"*"}, {}, {}}}), "");
}

TEST_F(RbacTest, ForbiddenTexts) {
  EXPECT_EQ(
      forbidden_error(ask(jane, "get", "pods", "d", "p"), "").message,
      "pods \"p\" is forbidden: User \"jane\" cannot get resource \"pods\" in API group \"\" in the namespace \"d\"");
  EXPECT_EQ(
      forbidden_error(ask(jane, "patch", "deployments/scale", "d", "x", "apps"), "").message,
      "deployments.apps \"x\" is forbidden: User \"jane\" cannot patch resource \"deployments/scale\" in API group "
      "\"apps\" in the namespace \"d\"");
  EXPECT_EQ(
      forbidden_error(ask(jane, "list", "nodes"), "why").message,
      "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope: why");
  Attributes path;
  path.user = &jane;
  path.is_resource = false;
  path.verb = "get";
  path.path = "/metrics";
  EXPECT_EQ(forbidden_error(path, "").message, "forbidden: User \"jane\" cannot get path \"/metrics\"");
}

class NodeTest : public testing::Test {
 protected:
  NodeTest() : authorizer(make_authorizer({false, true, false}, cluster.objects())) {
    cluster.put("nodes", R"({"metadata":{"name":"n"}})");
    cluster.put("pods", R"({"metadata":{"name":"p","namespace":"d"},"spec":{"nodeName":"n","serviceAccountName":"robot",
      "imagePullSecrets":[{"name":"pull"}],"volumes":[{"name":"v","secret":{"secretName":"used"}},
      {"name":"w","projected":{"sources":[{"configMap":{"name":"root"}}]}},{"name":"x","persistentVolumeClaim":{"claimName":"pvc"}}],
      "containers":[{"name":"c","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"env","key":"k"}}}]}]}})");
  }
  std::string why(const Attributes& a) {
    const Decision d = authorizer->authorize(a);
    return d.allowed() ? "allowed" : d.reason;
  }
  TestCluster cluster;
  std::unique_ptr<Authorizer> authorizer;
  UserInfo n = user("system:node:n", {"system:nodes"}), m = user("system:node:m", {"system:nodes"});
};

TEST_F(NodeTest, WhatItsPodsReferTo) {
  for (const char* secret : {"used", "pull", "env"})
    EXPECT_EQ(why(ask(n, "get", "secrets", "d", secret)), "allowed") << secret;
  EXPECT_EQ(why(ask(n, "get", "secrets", "d", "other")), "no relationship found between node 'n' and this object");
  EXPECT_EQ(why(ask(m, "get", "secrets", "d", "used")), "no relationship found between node 'm' and this object");
  EXPECT_EQ(why(ask(n, "list", "secrets", "d")), "No Object name found");
  EXPECT_EQ(why(ask(n, "update", "secrets", "d", "used")), "can only read resources of this type");
  EXPECT_EQ(why(ask(n, "watch", "configmaps", "d", "root")), "allowed");
  EXPECT_EQ(why(ask(n, "get", "persistentvolumeclaims", "d", "pvc")), "allowed");
  EXPECT_EQ(why(ask(n, "create", "serviceaccounts/token", "d", "robot")), "allowed");
  EXPECT_EQ(why(ask(n, "create", "serviceaccounts/token", "d", "default")),
            "no relationship found between node 'n' and this object");
}

TEST_F(NodeTest, ItselfItsLeaseItsPods) {
  EXPECT_EQ(why(ask(n, "create", "leases", "kube-node-lease", "", "coordination.k8s.io")), "allowed");
  EXPECT_EQ(why(ask(n, "update", "leases", "kube-node-lease", "other", "coordination.k8s.io")),
            "can only access node lease with the same name as the requesting node");
  EXPECT_EQ(why(ask(n, "create", "leases", "d", "", "coordination.k8s.io")),
            "can only access leases in the \"kube-node-lease\" system namespace");
  EXPECT_EQ(why(ask(n, "patch", "nodes/status", "", "n")), "allowed");
  EXPECT_EQ(why(ask(n, "get", "nodes", "", "m")), "node 'n' cannot read 'm', only its own Node object");
  EXPECT_EQ(why(ask(n, "list", "nodes")), "node 'n' cannot read all nodes, only its own Node object");
  Attributes pods = ask(n, "watch", "pods");
  EXPECT_EQ(why(pods), "can only list/watch pods with spec.nodeName field selector");
  pods.field_selector = {{"spec.nodeName", true, "n"}};
  EXPECT_EQ(why(pods), "allowed");
  EXPECT_EQ(why(ask(n, "create", "events", "d")), "allowed");
  EXPECT_EQ(why(ask(n, "delete", "services", "d", "s")), "");
  EXPECT_EQ(why(ask(user("system:node:n"), "get", "secrets", "d", "used")), "");
}

}  // namespace
}  // namespace ghostfleet::controlplane
