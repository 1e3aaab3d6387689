// What a ResourceQuota's status says of its namespace, as the controller counts it.
#include "controlplane/controllers/resource_quota.h"

#include <gtest/gtest.h>

#include "controlplane/controllers/test_plane.h"

namespace ghostfleet::controlplane::controllers {
namespace {

using kube::Json;

class ResourceQuotaTest : public ControllersTest {
 protected:
  ResourceQuotaTest() {
    make("", "v1", "serviceaccounts", "t",
         R"({"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}})");
  }
  void quota(const std::string& name, const std::string& hard, const std::string& more = "") {
    make("", "v1", "resourcequotas", "t",
         R"({"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":")" + name + R"("},"spec":{"hard":)" + hard +
             more + "}}");
  }
  void pod(const std::string& name, const std::string& requests, const std::string& more = "") {
    make("", "v1", "pods", "t",
         R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
             R"("},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":)" + requests + "}}]" + more +
             "}}");
  }
  void remove_pod(const std::string& name) {
    (void)api_.remove(resource("", "v1", "pods"), "t", name, {.grace_period_seconds = 0}, ctx_);
  }
  // status.used as text, keys in the order of spec.hard; "-": no status yet.
  std::string used(const std::string& name) {
    const Json object = read("", "v1", "resourcequotas", "t/" + name);
    const Json* value = kube::find_path(object, "status.used");
    return value == nullptr ? "-" : kube::to_json(*value);
  }
  bool uses(const std::string& name, const std::string& wanted) {
    return eventually([&] { return used(name) == wanted; });
  }
};

TEST_F(ResourceQuotaTest, TellsWhatIsAllowedAndUsed) {
  start({"resourcequota"});
  quota("q", R"({"pods":"3","requests.cpu":"2","limits.memory":"4Gi"})");
  EXPECT_TRUE(uses("q", R"({"limits.memory":"0","pods":"0","requests.cpu":"0"})")) << used("q");
  const Json object = read("", "v1", "resourcequotas", "t/q");
  EXPECT_EQ(kube::to_json(*kube::find_path(object, "status.hard")),
            R"({"limits.memory":"4Gi","pods":"3","requests.cpu":"2"})");
}

TEST_F(ResourceQuotaTest, FollowsPodsThatComeEndAndGo) {
  start({"resourcequota"});
  quota("q", R"({"cpu":"4","pods":"5"})");
  ASSERT_TRUE(uses("q", R"({"cpu":"0","pods":"0"})")) << used("q");
  pod("a", R"({"cpu":"500m"})");
  pod("b", R"({"cpu":"1"})");
  EXPECT_TRUE(uses("q", R"({"cpu":"1500m","pods":"2"})")) << used("q");
  report("a", "Succeeded", false);  // what has ended holds nothing any more
  EXPECT_TRUE(uses("q", R"({"cpu":"1","pods":"1"})")) << used("q");
  remove_pod("b");
  EXPECT_TRUE(uses("q", R"({"cpu":"0","pods":"0"})")) << used("q");
}

TEST_F(ResourceQuotaTest, CountsWhatWasThereBeforeTheQuota) {
  pod("a", R"({"cpu":"500m","memory":"1Gi"})");
  make("", "v1", "configmaps", "t", R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}})");
  make("apps", "v1", "deployments", "t",
       R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":0,
           "selector":{"matchLabels":{"a":"a"}},"template":{"metadata":{"labels":{"a":"a"}},
           "spec":{"containers":[{"name":"c","image":"i"}]}}}})");
  start({"resourcequota"});
  quota("q", R"({"configmaps":"9","count/deployments.apps":"9","count/pods":"9","requests.memory":"9Gi"})");
  EXPECT_TRUE(uses("q", R"({"configmaps":"1","count/deployments.apps":"1","count/pods":"1","requests.memory":"1Gi"})"))
      << used("q");
}

TEST_F(ResourceQuotaTest, ServicesByTypeAndStorage) {
  start({"resourcequota"});
  quota("q", R"({"persistentvolumeclaims":"9","requests.storage":"1Ti","services":"9",)"
             R"("services.loadbalancers":"9","services.nodeports":"9"})");
  for (const auto& [name, type] :
       {std::pair("a", "ClusterIP"), std::pair("b", "NodePort"), std::pair("c", "LoadBalancer")}) {
    make("", "v1", "services", "t",
         std::string(R"({"apiVersion":"v1","kind":"Service","metadata":{"name":")") + name + R"("},"spec":{"type":")" +
             type + R"(","ports":[{"port":80}]}})");
  }
  make("", "v1", "persistentvolumeclaims", "t",
       R"({"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"v"},"spec":{
           "accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"10Gi"}}}})");
  EXPECT_TRUE(uses("q", R"({"persistentvolumeclaims":"1","requests.storage":"10Gi","services":"3",)"
                        R"("services.loadbalancers":"1","services.nodeports":"2"})"))
      << used("q");
}

TEST_F(ResourceQuotaTest, FollowsItsOwnSpec) {
  start({"resourcequota"});
  pod("a", R"({"cpu":"1"})");
  quota("q", R"({"pods":"1"})");
  ASSERT_TRUE(uses("q", R"({"pods":"1"})")) << used("q");
  (void)api_.modify(
      resource("", "v1", "resourcequotas"), "t", "q", "",
      [](Json& q) -> kube::ApiResult<bool> {
        kube::set_path(q, "spec.hard", kube::JsonObject{{"requests.cpu", "3"}});
        return true;
      },
      ctx_);
  EXPECT_TRUE(uses("q", R"({"requests.cpu":"1"})")) << used("q");
}

TEST_F(ResourceQuotaTest, ScopesChooseAmongPods) {
  make("scheduling.k8s.io", "v1", "priorityclasses", "",
       R"({"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":10})");
  start({"resourcequota"});
  const auto only = [](const std::string& scope) { return R"(,"scopes":[")" + scope + "\"]"; };
  const auto where = [](const std::string& terms) {
    return R"(,"scopeSelector":{"matchExpressions":[)" + terms + "]}";
  };
  quota("best-effort", R"({"pods":"99"})", only("BestEffort"));
  quota("not-best-effort", R"({"pods":"99","requests.cpu":"99"})", only("NotBestEffort"));
  quota("ending", R"({"pods":"99"})", only("Terminating"));
  quota("lasting", R"({"pods":"99"})", only("NotTerminating"));
  quota("high", R"({"pods":"99"})",
        where(R"({"scopeName":"PriorityClass","operator":"In","values":["high","other"]})"));
  quota("others", R"({"pods":"99"})", where(R"({"scopeName":"PriorityClass","operator":"NotIn","values":["high"]})"));
  quota("some-class", R"({"pods":"99"})", where(R"({"scopeName":"PriorityClass","operator":"Exists"})"));
  quota("crossing", R"({"pods":"99"})", where(R"({"scopeName":"CrossNamespacePodAffinity","operator":"Exists"})"));
  quota("both", R"({"pods":"99"})",
        R"(,"scopes":["NotBestEffort"])" + where(R"({"scopeName":"PriorityClass","operator":"In","values":["high"]})"));
  pod("bare", "{}");
  pod("bare-ending", "{}", R"(,"activeDeadlineSeconds":600)");
  pod("asking", R"({"cpu":"2"})", R"(,"priorityClassName":"high")");
  pod("near", R"({"cpu":"1"})",
      R"(,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
         {"topologyKey":"kubernetes.io/hostname","namespaceSelector":{},"labelSelector":{"matchLabels":{"a":"b"}}}]}})");
  EXPECT_TRUE(uses("best-effort", R"({"pods":"2"})")) << used("best-effort");
  EXPECT_TRUE(uses("not-best-effort", R"({"pods":"2","requests.cpu":"3"})")) << used("not-best-effort");
  EXPECT_TRUE(uses("ending", R"({"pods":"1"})")) << used("ending");
  EXPECT_TRUE(uses("lasting", R"({"pods":"3"})")) << used("lasting");
  EXPECT_TRUE(uses("high", R"({"pods":"1"})")) << used("high");
  EXPECT_TRUE(uses("others", R"({"pods":"3"})")) << used("others");
  EXPECT_TRUE(uses("some-class", R"({"pods":"1"})")) << used("some-class");
  EXPECT_TRUE(uses("crossing", R"({"pods":"1"})")) << used("crossing");
  EXPECT_TRUE(uses("both", R"({"pods":"1"})")) << used("both");
  remove_pod("asking");
  EXPECT_TRUE(uses("not-best-effort", R"({"pods":"1","requests.cpu":"1"})")) << used("not-best-effort");
  EXPECT_TRUE(uses("both", R"({"pods":"0"})")) << used("both");
}

TEST_F(ResourceQuotaTest, AScopeIsMindedWhenAPodIsMadeToo) {
  start({"resourcequota"});
  quota("q", R"({"pods":"1"})", R"(,"scopes":["BestEffort"])");
  ASSERT_TRUE(uses("q", R"({"pods":"0"})")) << used("q");
  pod("asking", R"({"cpu":"1"})");
  pod("first", "{}");
  auto second = kube::parse_json(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"second"},"spec":{"containers":[{"name":"c","image":"i"}]}})");
  const auto refused = api_.create(resource("", "v1", "pods"), "t", std::move(*second), ctx_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 403);
  EXPECT_NE(refused.error().message.find("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace ghostfleet::controlplane::controllers
