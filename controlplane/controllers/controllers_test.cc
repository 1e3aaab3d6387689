// The controllers against the real Api and Store, in process: what a user sees through the API is what is checked.
#include "controlplane/controllers/controllers.h"

#include <gtest/gtest.h>

#include <thread>

#include "controlplane/apiserver/api_impl.h"
#include "controlplane/controllers/meta.h"

namespace ghostfleet::controlplane::controllers {
namespace {

using kube::get_int;
using kube::get_string;
using kube::Json;

class ControllersTest : public ::testing::Test {
 protected:
  ControllersTest() : api_(ApiOptions{}, SystemClock::instance()), ctx_(internal_context("test")) {
    make("", "v1", "namespaces", "", R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t"}})");
  }
  void start(std::vector<std::string> enabled = {"all"}) {
    ControllerManager::Options options;
    options.enabled = std::move(enabled);
    options.root_ca_pem = "PEM";
    options.node_monitor_period = std::chrono::milliseconds(50);
    options.node_monitor_grace_period = std::chrono::milliseconds(400);
    auto started = ControllerManager::start(api_, options);
    ASSERT_TRUE(started.ok()) << started.error().to_string();
    manager_ = std::move(*started);
  }
  const Resource& resource(std::string_view group, std::string_view version, std::string_view plural) {
    const Resource* r = api_.find(group, version, plural);
    EXPECT_NE(r, nullptr) << plural;
    return *r;
  }
  void make(std::string_view group, std::string_view version, std::string_view plural, std::string_view ns,
            std::string_view text) {
    auto object = kube::parse_json(text);
    ASSERT_TRUE(object.ok()) << object.error().to_string();
    auto made = api_.create(resource(group, version, plural), ns, std::move(*object), ctx_);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  Json read(std::string_view group, std::string_view version, std::string_view plural, std::string_view key) {
    return parse_object(api_.store().get(resource(group, version, plural).store_kind, key));
  }
  std::vector<Json> all(std::string_view group, std::string_view version, std::string_view plural) {
    std::vector<Json> out;
    const auto list = api_.store().list(resource(group, version, plural).store_kind, {.prefix = "t/"});
    if (list.ok()) {
      for (const ObjectRef& o : list->items) out.push_back(parse_object(o));
    }
    return out;
  }
  std::vector<Json> pods() { return all("", "v1", "pods"); }
  static bool eventually(const std::function<bool()>& done, int seconds = 10) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the pause between two looks
    }
    return true;
  }
  // What a kubelet says of a pod.
  void report(const std::string& name, const char* phase, bool ready) {
    auto done = api_.modify(
        resource("", "v1", "pods"), "t", name, "status",
        [&](Json& live) -> kube::ApiResult<bool> {
          kube::set_path(live, "status.phase", phase);
          set_condition(live, "Ready", ready ? "True" : "False", "", "", SystemClock::instance().wall_now());
          return true;
        },
        ctx_);
    // A pod may have been deleted since it was listed.
    ASSERT_TRUE(done.ok() || done.error().code == 404) << done.error().message;
  }
  void report_all(const char* phase, bool ready) {
    for (const Json& pod : pods()) report(std::string(get_string(pod, "metadata.name")), phase, ready);
  }

  ApiImpl api_;
  RequestContext ctx_;
  std::unique_ptr<ControllerManager> manager_;
};

constexpr const char* kDeployment = R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{
  "replicas":3,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},
  "spec":{"containers":[{"name":"c","image":"i"}]}}}})";

TEST_F(ControllersTest, RefusesUnknownNames) {
  ControllerManager::Options options;
  options.enabled = {"deployment", "nonsense"};
  const auto started = ControllerManager::start(api_, options);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message().find("nonsense"), std::string::npos);
}

TEST_F(ControllersTest, DeploymentRollsOutAndUpdates) {
  start();
  make("apps", "v1", "deployments", "t", kDeployment);
  ASSERT_TRUE(eventually([&] { return pods().size() == 3; }));
  const Json pod = pods()[0];
  EXPECT_EQ(get_string(pod, "metadata.ownerReferences").empty(), true);
  EXPECT_EQ(controller_of(pod)->kind, "ReplicaSet");
  report_all("Running", true);
  ASSERT_TRUE(eventually([&] {
    return condition_text(read("apps", "v1", "deployments", "t/d"), "Progressing", "reason") ==
           "NewReplicaSetAvailable";
  }));
  EXPECT_EQ(get_int(read("apps", "v1", "deployments", "t/d"), "status.availableReplicas"), 3);
  (void)api_.modify(
      resource("apps", "v1", "deployments"), "t", "d", "",
      [](Json& d) -> kube::ApiResult<bool> {
        kube::ensure_array(d, "spec.template.spec.containers")[0].as_object()["image"] = "i2";
        return true;
      },
      ctx_);
  ASSERT_TRUE(eventually([&] {
    report_all("Running", true);
    const Json d = read("apps", "v1", "deployments", "t/d");
    return annotation(d, "deployment.kubernetes.io/revision") == "2" && get_int(d, "status.observedGeneration") == 2 &&
           get_int(d, "status.updatedReplicas") == 3 && get_int(d, "status.replicas") == 3;
  }));
  EXPECT_EQ(annotation(read("apps", "v1", "deployments", "t/d"), "deployment.kubernetes.io/revision"), "2");
  EXPECT_EQ(all("apps", "v1", "replicasets").size(), 2u);
}

TEST_F(ControllersTest, DeletedPodsAreReplacedAndScaledDown) {
  start();
  make("apps", "v1", "deployments", "t", kDeployment);
  ASSERT_TRUE(eventually([&] { return pods().size() == 3; }));
  const std::string victim(get_string(pods()[0], "metadata.name"));
  (void)api_.remove(resource("", "v1", "pods"), "t", victim, {}, ctx_);
  ASSERT_TRUE(eventually([&] {
    const auto now = pods();
    return now.size() == 3 && std::none_of(now.begin(), now.end(),
                                           [&](const Json& p) { return get_string(p, "metadata.name") == victim; });
  }));
  (void)api_.modify(
      resource("apps", "v1", "deployments"), "t", "d", "",
      [](Json& d) -> kube::ApiResult<bool> {
        kube::set_path(d, "spec.replicas", 1);
        return true;
      },
      ctx_);
  EXPECT_TRUE(eventually([&] { return pods().size() == 1; }));
}

TEST_F(ControllersTest, DeletingADeploymentCollectsEverything) {
  start();
  make("apps", "v1", "deployments", "t", kDeployment);
  ASSERT_TRUE(eventually([&] { return pods().size() == 3; }));
  (void)api_.remove(resource("apps", "v1", "deployments"), "t", "d", {.propagation_policy = "Background"}, ctx_);
  EXPECT_TRUE(eventually([&] { return pods().empty() && all("apps", "v1", "replicasets").empty(); }));
}

TEST_F(ControllersTest, ForegroundWaitsForDependentsAndOrphansKeepTheirs) {
  start();
  make("apps", "v1", "deployments", "t", kDeployment);
  ASSERT_TRUE(eventually([&] { return pods().size() == 3; }));
  (void)api_.remove(resource("apps", "v1", "deployments"), "t", "d", {.propagation_policy = "Orphan"}, ctx_);
  ASSERT_TRUE(eventually([&] { return read("apps", "v1", "deployments", "t/d").is_null(); }));
  const auto sets = all("apps", "v1", "replicasets");
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_FALSE(controller_of(sets[0]).has_value());
  (void)api_.remove(resource("apps", "v1", "replicasets"), "t", get_string(sets[0], "metadata.name"),
                    {.propagation_policy = "Foreground"}, ctx_);
  EXPECT_TRUE(eventually([&] { return pods().empty() && all("apps", "v1", "replicasets").empty(); }));
}

TEST_F(ControllersTest, AnOwnerThatNeverWasIsGarbage) {
  start();
  make("", "v1", "configmaps", "t",
       R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child","ownerReferences":[
    {"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"11111111-2222-3333-4444-555555555555"}]}})");
  EXPECT_TRUE(eventually([&] { return read("", "v1", "configmaps", "t/child").is_null(); }));
}

TEST_F(ControllersTest, NamespaceGetsItsThingsAndIsEmptied) {
  start();
  ASSERT_TRUE(eventually([&] {
    return !read("", "v1", "serviceaccounts", "t/default").is_null() &&
           !read("", "v1", "configmaps", "t/kube-root-ca.crt").is_null();
  }));
  make("", "v1", "configmaps", "t",
       R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held","finalizers":["example.com/a"]}})");
  (void)api_.remove(resource("", "v1", "namespaces"), "", "t", {}, ctx_);
  ASSERT_TRUE(eventually([&] {
    return condition_text(read("", "v1", "namespaces", "t"), "NamespaceFinalizersRemaining", "status") == "True";
  }));
  EXPECT_EQ(condition_text(read("", "v1", "namespaces", "t"), "NamespaceContentRemaining", "message"),
            "Some resources are remaining: configmaps. has 1 resource instances");
  (void)api_.modify(
      resource("", "v1", "configmaps"), "t", "held", "",
      [](Json& c) -> kube::ApiResult<bool> {
        kube::erase_path(c, "metadata.finalizers");
        return true;
      },
      ctx_);
  EXPECT_TRUE(eventually([&] { return read("", "v1", "namespaces", "t").is_null(); }));
}

TEST_F(ControllersTest, JobCompletesAndCounts) {
  start();
  make("batch", "v1", "jobs", "t", R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{
    "completions":4,"parallelism":2,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}})");
  ASSERT_TRUE(eventually([&] {
    for (const Json& pod : pods()) {
      if (get_string(pod, "status.phase") == "Pending")
        report(std::string(get_string(pod, "metadata.name")), "Succeeded", false);
    }
    return condition_text(read("batch", "v1", "jobs", "t/j"), "Complete", "status") == "True";
  }));
  EXPECT_EQ(get_int(read("batch", "v1", "jobs", "t/j"), "status.succeeded"), 4);
  for (const Json& pod : pods()) EXPECT_FALSE(has_finalizer(pod, "batch.kubernetes.io/job-tracking"));
}

TEST_F(ControllersTest, DaemonSetCoversNodes) {
  start();
  for (const char* name : {"n1", "n2"}) {
    make("", "v1", "nodes", "",
         std::string(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":")") + name + R"("}})");
  }
  make("apps", "v1", "daemonsets", "t", R"({"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"ds"},"spec":{
    "selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},
    "spec":{"containers":[{"name":"c","image":"i"}]}}}})");
  ASSERT_TRUE(eventually([&] { return pods().size() == 2; }));
  ASSERT_TRUE(eventually(
      [&] { return get_int(read("apps", "v1", "daemonsets", "t/ds"), "status.desiredNumberScheduled") == 2; }));
  (void)api_.remove(resource("", "v1", "nodes"), "", "n2", {}, ctx_);
  EXPECT_TRUE(eventually([&] { return pods().size() == 1; }));
}

TEST_F(ControllersTest, ASilentNodeBecomesUnknownAndTainted) {
  start();
  make("", "v1", "nodes", "", R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}})");
  const auto beat = [&](const char* time) {
    (void)api_.modify(
        resource("", "v1", "nodes"), "", "n1", "status",
        [&](Json& live) -> kube::ApiResult<bool> {
          set_condition(live, "Ready", "True", "KubeletReady", "ok", SystemClock::instance().wall_now());
          for (Json& c : kube::ensure_array(live, "status.conditions")) {
            c.as_object()["lastHeartbeatTime"] = time;
          }
          return true;
        },
        ctx_);
  };
  beat("2026-01-01T00:00:00Z");
  ASSERT_TRUE(eventually([&] {
    const Json node = read("", "v1", "nodes", "n1");
    return condition_text(node, "Ready", "reason") == "NodeStatusUnknown" &&
           kube::to_json(node).find("node.kubernetes.io/unreachable") != std::string::npos;
  }));
  beat("2026-01-01T00:00:10Z");
  EXPECT_TRUE(eventually(
      [&] { return kube::to_json(read("", "v1", "nodes", "n1")).find("node.kubernetes.io/") == std::string::npos; }));
}

}  // namespace
}  // namespace ghostfleet::controlplane::controllers
