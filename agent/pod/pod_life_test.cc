// What only some pods do: hooks, restarts of all containers, ephemeral containers, changed specs, preemption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using kube::get_int;
using kube::get_string;
using kube::Json;
using test::FakeCluster;
using test::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Json pod_of(std::string_view name, std::string_view containers, std::string_view rest = "",
            std::string_view annotations = "{}") {
  return json("{\"metadata\":{\"name\":\"" + std::string(name) + "\",\"annotations\":" + std::string(annotations) +
              "},\"spec\":{\"containers\":" + std::string(containers) + std::string(rest) + "}}");
}

class PodLifeTest : public ::testing::TestWithParam<bool> {
 protected:
  static FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    return o;
  }
  const Json& container(const std::string& pod, size_t index = 0) {
    return kube::get_array(*cluster_.pod(pod), "status.containerStatuses")->at(index);
  }
  bool ready(const std::string& pod) { return get_string(*cluster_.condition(pod, "Ready"), "status") == "True"; }

  FakeCluster cluster_{options()};
};

INSTANTIATE_TEST_SUITE_P(Fidelity, PodLifeTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(PodLifeTest, APostStartHookHoldsTheNextContainerBack) {
  cluster_.create(pod_of("a", R"([{"name":"c","image":"x","lifecycle":{"postStart":{"sleep":{"seconds":5}}}},
                                  {"name":"d","image":"x"}])"));
  cluster_.run_for(std::chrono::seconds(4));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Pending");
  cluster_.run_for(std::chrono::seconds(4));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_TRUE(ready("a"));
}

TEST_P(PodLifeTest, AFailingPostStartHookStopsItsContainer) {
  cluster_.create(pod_of("a", R"([{"name":"c","image":"x","lifecycle":{"postStart":{"exec":{"command":["ready"]}}}}])",
                         "", R"({"behavior.ghostfleet.dev/c":"ready=1h"})"));
  cluster_.run_for(std::chrono::seconds(8));
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("FailedPostStartHook")));
  EXPECT_THAT(cluster_.events("a"), Contains("Normal Killing x2 spec.containers{c}: FailedPostStartHook"));
  EXPECT_FALSE(ready("a"));
}

TEST_P(PodLifeTest, APreStopHookTakesItsPartOfTheGracePeriod) {
  cluster_.create(pod_of("a", R"([{"name":"c","image":"x","lifecycle":{"preStop":{"sleep":{"seconds":4}}}}])", "",
                         R"({"behavior.ghostfleet.dev/c":"stop=0 stop-after=30s"})"));
  cluster_.run_for(std::chrono::seconds(2));
  cluster_.remove("a", 7);
  // 4 s for the hook, 3 s are left of the grace period, then it is killed.
  cluster_.run_for(std::chrono::milliseconds(6500));
  EXPECT_NE(cluster_.pod("a"), nullptr);
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
}

TEST_P(PodLifeTest, OneContainersEndRestartsAll) {
  cluster_.create(pod_of("a", R"([{"name":"c","image":"x","restartPolicy":"Never","restartPolicyRules":
      [{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[42]}}]},{"name":"d","image":"x"}])",
                         R"(,"restartPolicy":"Never")", R"({"behavior.ghostfleet.dev/c":"exit=42 after=10s"})"));
  cluster_.run_for(std::chrono::seconds(18));
  EXPECT_EQ(get_int(container("a", 0), "restartCount"), 1);
  EXPECT_EQ(get_int(container("a", 1), "restartCount"), 1);
  EXPECT_EQ(get_string(container("a", 1), "lastState.terminated.reason"), "RestartingAllContainers");
  EXPECT_EQ(get_string(*cluster_.condition("a", "AllContainersRestarting"), "status"), "False");
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
}

TEST_P(PodLifeTest, AnEphemeralContainerRunsOnce) {
  cluster_.create(
      pod_of("a", R"([{"name":"c","image":"x"}])", "", R"({"behavior.ghostfleet.dev/dbg":"exit=3 after=2s"})"));
  cluster_.run_for(std::chrono::seconds(2));
  cluster_.patch_spec("a", json(R"({"spec":{"ephemeralContainers":[{"name":"dbg","image":"x"}]}})"));
  cluster_.run_for(std::chrono::seconds(10));
  const Json& status = kube::get_array(*cluster_.pod("a"), "status.ephemeralContainerStatuses")->at(0);
  EXPECT_EQ(get_int(status, "state.terminated.exitCode"), 3);
  EXPECT_EQ(get_int(status, "restartCount"), 0);
  EXPECT_EQ(kube::find_key(status, "started"), nullptr);
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("spec.ephemeralContainers{dbg}: Container started")));
  EXPECT_TRUE(ready("a"));
}

TEST_P(PodLifeTest, ANewImageRestartsItsContainer) {
  cluster_.create(pod_of("a", R"([{"name":"c","image":"x:1"}])"));
  cluster_.run_for(std::chrono::seconds(2));
  cluster_.patch_spec("a", json(R"({"spec":{"containers":[{"name":"c","image":"x:2"}]}})"));
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(get_int(container("a"), "restartCount"), 1);
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Container c definition changed, will be restarted")));
}

TEST_P(PodLifeTest, AResizeWaitsForRoom) {
  const std::string cpu = R"([{"name":"c","image":"x","resources":{"requests":{"cpu":"6"}}}])";
  cluster_.create(pod_of("a", cpu));
  cluster_.create(pod_of("b", cpu));
  cluster_.run_for(std::chrono::seconds(2));
  cluster_.patch_spec("a", json(R"({"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"12"}}}]}})"));
  cluster_.run_for(std::chrono::seconds(3));
  ASSERT_NE(cluster_.condition("a", "PodResizePending"), nullptr);
  EXPECT_EQ(get_string(*cluster_.condition("a", "PodResizePending"), "reason"), "Deferred");
  EXPECT_EQ(get_string(container("a"), "allocatedResources.cpu"), "6");
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Warning ResizeDeferred x1")));
  cluster_.remove("b");
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.condition("a", "PodResizePending"), nullptr);
  EXPECT_EQ(get_string(container("a"), "resources.requests.cpu"), "12");
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("ResizeCompleted")));
}

TEST_P(PodLifeTest, ACriticalPodRemovesOthers) {
  cluster_.create(pod_of("small", R"([{"name":"c","image":"x","resources":{"requests":{"cpu":"3"}}}])"));
  cluster_.create(pod_of("big", R"([{"name":"c","image":"x","resources":{"requests":{"cpu":"10"}}}])", "",
                         R"({"behavior.ghostfleet.dev/c":"stop=143"})"));
  cluster_.run_for(std::chrono::seconds(2));
  cluster_.create(pod_of("critical", R"([{"name":"c","image":"x","resources":{"requests":{"cpu":"8"}}}])",
                         R"(,"priorityClassName":"system-node-critical")"));
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.text("critical", "status.phase"), "Running");
  EXPECT_EQ(cluster_.text("small", "status.phase"), "Running");
  EXPECT_EQ(cluster_.text("big", "status.phase"), "Failed");
  EXPECT_EQ(cluster_.text("big", "status.reason"), "Preempting");
  EXPECT_EQ(cluster_.text("big", "status.message"), "Preempted in order to admit critical pod");
  EXPECT_EQ(get_string(*cluster_.condition("big", "DisruptionTarget"), "reason"), "TerminationByKubelet");
}

TEST_P(PodLifeTest, ReadinessIsLostAgain) {
  cluster_.create(pod_of("a",
                         R"([{"name":"c","image":"x","readinessProbe":{"exec":{"command":["live"]},"periodSeconds":2,
                                   "failureThreshold":2}}])",
                         "", R"({"behavior.ghostfleet.dev/c":"live=10s"})"));
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_TRUE(ready("a"));
  cluster_.run_for(std::chrono::seconds(12));
  EXPECT_FALSE(ready("a"));
  EXPECT_EQ(get_int(container("a"), "restartCount"), 0);
}

TEST_P(PodLifeTest, AnImageThatMayNotBePulledMustHaveBeenUsed) {
  const auto image_of = [](std::string_view name, std::string_view policy) {
    return pod_of(name, R"([{"name":"c","image":"x:1","imagePullPolicy":")" + std::string(policy) + R"("}])");
  };
  cluster_.create(image_of("a", "Never"));
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(get_string(container("a"), "state.waiting.reason"), "ErrImageNeverPull");
  cluster_.create(image_of("b", "IfNotPresent"));
  cluster_.run_for(std::chrono::seconds(20));
  EXPECT_TRUE(ready("a"));
}

TEST_P(PodLifeTest, AnInitContainerOfWhichOnlyTheCodeIsToldEndsAtOnce) {
  cluster_.create(pod_of("a", R"([{"name":"c","image":"x"}])", R"(,"initContainers":[{"name":"i","image":"x"}])",
                         R"({"behavior.ghostfleet.dev/i":"exit=0"})"));
  cluster_.run_for(std::chrono::milliseconds(900));
  EXPECT_TRUE(ready("a"));
}

TEST(PodLifeFull, ANameTooLongForTheKernelKeepsThePodFromStarting) {
  FakeCluster::Options options;
  options.pods.full_fidelity = true;
  FakeCluster cluster(options);
  const auto named = [](const std::string& pod, const std::string& host) {
    return pod_of(pod, R"([{"name":"c","image":"x"}])",
                  R"(,"setHostnameAsFQDN":true,"subdomain":"s","hostname":")" + host + "\"");
  };
  cluster.create(named("short", "h"));
  cluster.create(named("long", std::string(50, 'h')));
  cluster.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster.text("short", "status.phase"), "Running");
  EXPECT_EQ(cluster.text("long", "status.phase"), "Pending");
  EXPECT_THAT(cluster.events("long"), Contains(HasSubstr("s.default.svc.cluster.local is too long (64 characters")));
}

TEST(PodLifeFull, AMissingKeyIsNamed) {
  FakeCluster::Options options;
  options.pods.full_fidelity = true;
  FakeCluster cluster(options);
  cluster.put_object("configmaps", json(R"({"metadata":{"name":"m"},"data":{"b":"1"}})"));
  cluster.create(pod_of("a", R"([{"name":"c","image":"x","env":[{"name":"A","valueFrom":{"configMapKeyRef":
                                  {"name":"m","key":"k"}}}]}])"));
  cluster.run_for(std::chrono::seconds(5));
  EXPECT_THAT(cluster.events("a"), Contains(HasSubstr("Error: couldn't find key k in ConfigMap default/m")));
  cluster.put_object("configmaps", json(R"({"metadata":{"name":"m"},"data":{"k":"1"}})"));
  cluster.run_for(std::chrono::seconds(20));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Running");
}

TEST(PodLifeFull, TheNodesNewestLabelsCount) {
  FakeCluster::Options options;
  options.pods.full_fidelity = true;
  FakeCluster cluster(options);
  // Another one ends while the node is asked for.
  cluster.create(pod_of("b", R"([{"name":"c","image":"x"}])", R"(,"restartPolicy":"Never")",
                        R"({"behavior.ghostfleet.dev/c":"exit=0 after=1s"})"));
  cluster.run_for(std::chrono::seconds(4));
  cluster.create(pod_of("a", R"([{"name":"c","image":"x"}])", R"(,"nodeSelector":{"zone":"b"})"));
  cluster.remove_by_force("b");
  cluster.run_for(std::chrono::seconds(2));
  EXPECT_EQ(cluster.text("a", "status.reason"), "NodeAffinity");
  EXPECT_EQ(cluster.count(agent::Verb::kGet, "/api/v1/nodes/"), 1u);
}

TEST_P(PodLifeTest, ANodeOfTwoFamiliesTellsBothAddresses) {
  FakeCluster::Options o = options();
  o.dual_stack = true;
  FakeCluster cluster(o);
  cluster.create(pod_of("a", R"([{"name":"c","image":"x"}])"));
  cluster.create(pod_of("h", R"([{"name":"c","image":"x"}])", ",\"hostNetwork\":true"));
  cluster.run_for(std::chrono::seconds(3));
  const auto addresses = [&](const std::string& pod, const char* list) {
    return kube::to_json(*kube::find_path(*cluster.pod(pod), std::string("status.") + list));
  };
  EXPECT_EQ(addresses("a", "hostIPs"), R"([{"ip":"192.0.2.2"},{"ip":"2001:db8::2"}])");
  EXPECT_EQ(addresses("a", "podIPs"), R"([{"ip":"192.168.0.2"},{"ip":"2001:db8:1::2"}])");
  EXPECT_EQ(cluster.text("a", "status.podIP"), "192.168.0.2");
  EXPECT_EQ(addresses("h", "podIPs"), R"([{"ip":"192.0.2.2"},{"ip":"2001:db8::2"}])");
  // A new agent takes both over.
  const std::string before = addresses("a", "podIPs");
  cluster.restart_agent();
  cluster.run_for(std::chrono::seconds(3));
  EXPECT_EQ(addresses("a", "podIPs"), before);
}

}  // namespace
}  // namespace ghostfleet
