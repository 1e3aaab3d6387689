// The controllers against the real Api and Store, in process: what a user sees through the API is what is checked.
#include "controlplane/controllers/controllers.h"

#include <gtest/gtest.h>

#include <thread>

#include "controlplane/controllers/meta.h"
#include "controlplane/controllers/signing.h"
#include "controlplane/controllers/statefulset.h"
#include "controlplane/controllers/test_plane.h"

namespace ghostfleet::controlplane::controllers {
namespace {

using kube::get_int;
using kube::get_string;
using kube::Json;

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

TEST_F(ControllersTest, AReplicationControllerKeepsItsPods) {
  start();
  make("", "v1", "replicationcontrollers", "t", R"({"apiVersion":"v1","kind":"ReplicationController",
    "metadata":{"name":"rc"},"spec":{"replicas":2,"selector":{"app":"a"},"template":{"metadata":{"labels":{"app":"a"}},
    "spec":{"containers":[{"name":"c","image":"i"}]}}}})");
  ASSERT_TRUE(eventually([&] { return pods().size() == 2; }));
  const std::string victim(get_string(pods()[0], "metadata.name"));
  (void)api_.remove(resource("", "v1", "pods"), "t", victim, {}, ctx_);
  ASSERT_TRUE(eventually([&] {
    report_all("Running", true);
    return get_int(read("", "v1", "replicationcontrollers", "t/rc"), "status.readyReplicas") == 2;
  }));
  EXPECT_EQ(controller_of(pods()[0])->kind, "ReplicationController");
}

constexpr const char* kStatefulSet = R"({"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{
  "replicas":2,"serviceName":"peers","selector":{"matchLabels":{"app":"a"}},
  "volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],
  "resources":{"requests":{"storage":"1Gi"}}}}],
  "template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})";

TEST_F(ControllersTest, AStatefulSetIsMadeInOrderAndShrinksFromItsEnd) {
  start();
  make("apps", "v1", "statefulsets", "t", kStatefulSet);
  ASSERT_TRUE(eventually([&] { return pods().size() == 1; }));
  const Json first = read("", "v1", "pods", "t/s-0");
  EXPECT_EQ(get_string(first, "spec.hostname"), "s-0");
  EXPECT_EQ(get_string(first, "spec.subdomain"), "peers");
  EXPECT_EQ(label(first, "apps.kubernetes.io/pod-index"), "0");
  EXPECT_EQ(get_string(kube::get_array(first, "spec.volumes")->front(), "persistentVolumeClaim.claimName"), "data-s-0");
  EXPECT_EQ(all("", "v1", "persistentvolumeclaims").size(), 1u);
  EXPECT_TRUE(read("", "v1", "pods", "t/s-1").is_null());  // waits for s-0
  report("s-0", "Running", true);
  ASSERT_TRUE(eventually([&] { return !read("", "v1", "pods", "t/s-1").is_null(); }));
  report("s-1", "Running", true);
  ASSERT_TRUE(
      eventually([&] { return get_int(read("apps", "v1", "statefulsets", "t/s"), "status.availableReplicas") == 2; }));
  const Json set = read("apps", "v1", "statefulsets", "t/s");
  EXPECT_EQ(get_string(set, "status.currentRevision"), get_string(set, "status.updateRevision"));
  EXPECT_EQ(label(first, "controller-revision-hash"), get_string(set, "status.currentRevision"));
  (void)api_.modify(
      resource("apps", "v1", "statefulsets"), "t", "s", "",
      [](Json& s) -> kube::ApiResult<bool> {
        kube::set_path(s, "spec.replicas", 1);
        return true;
      },
      ctx_);
  ASSERT_TRUE(eventually([&] { return pods().size() == 1; }));
  EXPECT_FALSE(read("", "v1", "pods", "t/s-0").is_null());
  EXPECT_EQ(all("", "v1", "persistentvolumeclaims").size(), 2u);  // claims stay
}

TEST_F(ControllersTest, AStatefulSetRollsDownToItsPartition) {
  start();
  make("apps", "v1", "statefulsets", "t", kStatefulSet);
  const auto revision = [&](const char* pod) {
    return std::string(label(read("", "v1", "pods", pod), "controller-revision-hash"));
  };
  ASSERT_TRUE(eventually([&] {
    report_all("Running", true);
    return get_int(read("apps", "v1", "statefulsets", "t/s"), "status.availableReplicas") == 2;
  }));
  const std::string old = revision("t/s-0");
  const auto change = [&](int partition, const char* image) {
    (void)api_.modify(
        resource("apps", "v1", "statefulsets"), "t", "s", "",
        [&](Json& s) -> kube::ApiResult<bool> {
          kube::set_path(s, "spec.updateStrategy.rollingUpdate.partition", partition);
          kube::ensure_array(s, "spec.template.spec.containers")[0].as_object()["image"] = image;
          return true;
        },
        ctx_);
  };
  change(1, "i2");
  ASSERT_TRUE(eventually([&] {
    report_all("Running", true);
    const Json set = read("apps", "v1", "statefulsets", "t/s");
    return get_int(set, "status.updatedReplicas") == 1 && get_int(set, "status.readyReplicas") == 2;
  }));
  EXPECT_NE(revision("t/s-1"), old);
  EXPECT_EQ(revision("t/s-0"), old);
  change(0, "i2");
  ASSERT_TRUE(eventually([&] {
    report_all("Running", true);
    const Json set = read("apps", "v1", "statefulsets", "t/s");
    return get_string(set, "status.currentRevision") == get_string(set, "status.updateRevision");
  }));
  EXPECT_EQ(revision("t/s-0"), revision("t/s-1"));
}

// Deleted while it runs, a pod keeps its place until it has ended, or gives it up at once.
TEST_F(ControllersTest, AJobReplacesPodsByItsPolicy) {
  start();
  for (const char* policy : {"Failed", "TerminatingOrFailed"}) {
    const std::string name = std::string("j-") + (policy[0] == 'F' ? "ended" : "leaving");
    make("batch", "v1", "jobs", "t",
         R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")" + name +
             R"("},"spec":{"backoffLimit":0,"podReplacementPolicy":")" + policy +
             R"(","template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}})");
    const auto mine = [&] {
      std::vector<Json> out = pods();
      std::erase_if(out, [&](const Json& pod) { return controller_of(pod)->name != name; });
      return out;
    };
    const auto job = [&] { return read("batch", "v1", "jobs", "t/" + name); };
    ASSERT_TRUE(eventually([&] { return mine().size() == 1; }));
    const Json made = mine()[0];
    const std::string pod(get_string(made, "metadata.name"));
    const auto bound = api_.bind("t", pod, get_string(made, "metadata.uid"), "n", ctx_);
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    report(pod, "Running", true);
    (void)api_.remove(resource("", "v1", "pods"), "t", pod, {}, ctx_);
    ASSERT_TRUE(eventually([&] { return get_int(job(), "status.terminating") == 1; }));
    if (policy[0] == 'T') {
      EXPECT_TRUE(eventually([&] { return mine().size() == 2; }));
      continue;
    }
    EXPECT_EQ(mine().size(), 1u);
    report(pod, "Failed", false);
    ASSERT_TRUE(eventually([&] { return condition_text(job(), "Failed", "status") == "True"; }));
    EXPECT_EQ(get_int(job(), "status.failed"), 1);
  }
}

TEST_F(ControllersTest, ACronJobMakesUpForTheLatestMissedTime) {
  start();
  // As if it had last run an hour ago: one Job is due at once.
  const WallTime now = SystemClock::instance().wall_now();
  make("batch", "v1", "cronjobs", "t", R"({"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"c"},"spec":{
    "schedule":"*/10 * * * *","concurrencyPolicy":"Forbid","suspend":true,"successfulJobsHistoryLimit":0,
    "jobTemplate":{"spec":{"template":{
    "spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}})");
  const auto change = [&](const char* subresource, const char* path, Json value) {
    auto done = api_.modify(
        resource("batch", "v1", "cronjobs"), "t", "c", subresource,
        [&](Json& live) -> kube::ApiResult<bool> {
          kube::set_path(live, path, value);
          return true;
        },
        ctx_);
    ASSERT_TRUE(done.ok()) << done.error().message;
  };
  change("status", "status.lastScheduleTime", Json(format_time(now - std::chrono::hours(1))));
  change("", "spec.suspend", false);
  ASSERT_TRUE(eventually([&] { return all("batch", "v1", "jobs").size() == 1; }));
  const Json job = all("batch", "v1", "jobs")[0];
  EXPECT_EQ(controller_of(job)->kind, "CronJob");
  EXPECT_FALSE(annotation(job, "batch.kubernetes.io/cronjob-scheduled-timestamp").empty());
  ASSERT_TRUE(eventually([&] {
    const Json cron = read("batch", "v1", "cronjobs", "t/c");
    const kube::JsonArray* active = kube::get_array(cron, "status.active");
    return active != nullptr && active->size() == 1 &&
           get_string(cron, "status.lastScheduleTime") ==
               annotation(job, "batch.kubernetes.io/cronjob-scheduled-timestamp");
  }));
  ASSERT_TRUE(eventually([&] {
    report_all("Succeeded", false);
    const Json cron = read("batch", "v1", "cronjobs", "t/c");
    return !get_string(cron, "status.lastSuccessfulTime").empty() && kube::get_array(cron, "status.active") == nullptr;
  }));
  EXPECT_TRUE(eventually([&] { return all("batch", "v1", "jobs").empty(); }));  // no history is kept
}

TEST(StatefulNames, Ordinals) {
  EXPECT_EQ(ordinal_of("web-0", "web"), 0);
  EXPECT_EQ(ordinal_of("web-12", "web"), 12);
  for (const char* other : {"web", "web-", "web-01", "web-x", "web-1x", "web--1", "wob-1", "web-99999999999"}) {
    EXPECT_EQ(ordinal_of(other, "web"), -1) << other;
  }
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

// CertificateSigningRequests as kubelets make them: O=system:nodes, CN=system:node:n1; and of somebody who is no node.
constexpr const char* kNodeRequest =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIc01JR1NBZ0VBTURBeEZUQVRCZ05WQkFvTURITjVjM1JsYlRw"
    "dWIyUmxjekVYTUJVR0ExVUVBd3dPYzNsegpkR1Z0T201dlpHVTZiakV3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNB"
    "QVRSbC92bStiS1dkMWdYCkswWnh1N0VGS2pHbHduTENjZWJycXJQYm5wZ1JBZGQvSEpSQ3pPb1J0eDVuNmtqZFVzU3BpaFpncGw3"
    "MU9rb3MKck1aeVp6RU9vQUF3Q2dZSUtvWkl6ajBFQXdJRFNRQXdSZ0loQVBzcXBFdE1ZNTU3OENZRkxoTGVpOFdSMzFzRAp0SkZk"
    "Rm1yOVJUTlB5dExOQWlFQXdaTW16QnVLRmRiMkcwZUplcksvbEdNdk9scStFbEQ3SEtXVlJWd1dnODg9Ci0tLS0tRU5EIENFUlRJ"
    "RklDQVRFIFJFUVVFU1QtLS0tLQo=";
constexpr const char* kOtherRequest =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIZU1JR0ZBZ0VBTUNNeERqQU1CZ05WQkFvTUJXOTBhR1Z5TVJF"
    "d0R3WURWUVFEREFoemIyMWxZbTlrZVRCWgpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQUJOR1grK2I1c3BaM1dCY3JS"
    "bkc3c1FVcU1hWENjc0p4CjV1dXFzOXVlbUJFQjEzOGNsRUxNNmhHM0htZnFTTjFTeEttS0ZtQ21YdlU2U2l5c3huSm5NUTZnQURB"
    "S0JnZ3EKaGtqT1BRUURBZ05JQURCRkFpRUFnRFN2Tm5YUzR5bWNkZ3MwbGdnZHd0K1ZjWG5YZVUzRGdsMXdtb00wUDE0QwpJRGla"
    "d2x0VE9tYlBqQ1dtNjNSbk5pK3dVZEYyUFcvNlkrRzlIZnM4bFdUOAotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
constexpr const char* kKubeletSigner = "kubernetes.io/kube-apiserver-client-kubelet";

std::string signing_request(const std::string& name, const char* pem, const char* signer = kKubeletSigner,
                            const char* usages = R"("client auth","digital signature")") {
  return R"({"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":")" + name +
         R"("},"spec":{"signerName":")" + signer + R"(","usages":[)" + usages + R"(],"request":")" + pem + R"("}})";
}

class ApproverTest : public ControllersTest {
 protected:
  ApproverTest() {
    ClusterObjects objects;
    objects.store = &api_.store();
    objects.kind_of = [this](std::string_view name) { return api_.kind_of(name); };
    objects.pod_node_name_field = 0;
    authorizer_ = make_authorizer({}, objects);
    for (const Json& object : bootstrap_rbac_objects()) {
      if (!get_string(object, "metadata.namespace").empty()) continue;
      const bool role = get_string(object, "kind") == "ClusterRole";
      make(kRbac, "v1", role ? "clusterroles" : "clusterrolebindings", "", kube::to_json(object));
    }
  }
  void ask(const std::string& name, UserInfo who, const std::string& text) {
    RequestContext ctx = internal_context("test");
    ctx.user = std::move(who);
    auto made = api_.create(resource("certificates.k8s.io", "v1", "certificatesigningrequests"), "",
                            *kube::parse_json(text), ctx);
    ASSERT_TRUE(made.ok()) << name << ": " << made.error().message;
  }
  void ask(const std::string& name, UserInfo who) { ask(name, std::move(who), signing_request(name, kNodeRequest)); }
  void bind(const std::string& role, const std::string& account) {
    make(kRbac, "v1", "clusterrolebindings", "",
         R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":")" + account +
             R"("},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":")" + role +
             R"("},"subjects":[{"kind":"ServiceAccount","namespace":"t","name":")" + account + R"("}]})");
  }
  Json request(const std::string& name) {
    return read("certificates.k8s.io", "v1", "certificatesigningrequests", name);
  }
  bool approved(const std::string& name) {
    return eventually([&] { return condition_text(request(name), "Approved", "reason") == "AutoApproved"; });
  }
  bool pending(const std::string& name) { return kube::get_array(request(name), "status.conditions") == nullptr; }
  static UserInfo account(const std::string& name) {
    return {"system:serviceaccount:t:" + name, "", {"system:serviceaccounts", "system:authenticated"}, {}};
  }
  static UserInfo node(const std::string& name) {
    return {"system:node:" + name, "", {"system:nodes", "system:authenticated"}, {}};
  }

  static constexpr const char* kRbac = "rbac.authorization.k8s.io";
};

// Requests are looked at in the order they came: when the last is approved, those before it have had their answer.
TEST_F(ApproverTest, AServiceAccountNeedsTheRight) {
  bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "may");
  bind("cluster-admin", "admin");
  bind("system:node-bootstrapper", "request-only");
  start();
  ask("without", account("nobody"));
  ask("request-only", account("request-only"));
  ask("admin", account("admin"));
  ask("may", account("may"));
  EXPECT_TRUE(approved("may"));
  EXPECT_TRUE(approved("admin"));
  EXPECT_EQ(condition_text(request("may"), "Approved", "message"),
            "Auto approving kubelet client certificate after SubjectAccessReview.");
  EXPECT_TRUE(pending("without"));
  EXPECT_TRUE(pending("request-only"));
  // A grant that comes later counts too.
  bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "nobody");
  EXPECT_TRUE(approved("without"));
  EXPECT_TRUE(pending("request-only"));
}

TEST_F(ApproverTest, BootstrapTokensAndNodesHaveItFromTheStart) {
  start();
  ask("other-node", node("n2"));
  ask("renewal", node("n1"));
  ask("token", {"system:bootstrap:abcdef", "", {"system:bootstrappers", "system:authenticated"}, {}});
  EXPECT_TRUE(approved("token"));
  EXPECT_TRUE(approved("renewal"));
  EXPECT_EQ(condition_text(request("renewal"), "Approved", "message"),
            "Auto approving self kubelet client certificate after SubjectAccessReview.");
  EXPECT_TRUE(pending("other-node"));
}

TEST_F(ApproverTest, OnlyClientCertificatesOfNodesAreRecognised) {
  const UserInfo master{"admin", "", {kMastersGroup}, {}};
  start();
  ask("no-node", master, signing_request("no-node", kOtherRequest));
  ask("signer", master, signing_request("signer", kNodeRequest, "kubernetes.io/kube-apiserver-client"));
  ask("usages", master, signing_request("usages", kNodeRequest, kKubeletSigner, R"("client auth")"));
  ask("rsa", master,
      signing_request("rsa", kNodeRequest, kKubeletSigner, R"("client auth","digital signature","key encipherment")"));
  EXPECT_TRUE(approved("rsa"));
  for (const char* name : {"no-node", "signer", "usages"}) EXPECT_TRUE(pending(name)) << name;
}

TEST(ApprovalRights, AreAskedForInTheOrderOfTheControllerManager) {
  Json request = *kube::parse_json(signing_request("r", kNodeRequest));
  kube::set_path(request, "spec.username", "someone");
  EXPECT_EQ(approval_rights(request), std::vector<std::string>{"nodeclient"});
  kube::set_path(request, "spec.username", "system:node:n1");
  EXPECT_EQ(approval_rights(request), (std::vector<std::string>{"selfnodeclient", "nodeclient"}));
  kube::set_path(request, "spec.request", "no base64");
  EXPECT_TRUE(approval_rights(request).empty());
}

}  // namespace
}  // namespace ghostfleet::controlplane::controllers
