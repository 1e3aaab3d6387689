// The life of pods on a fake API server in virtual time. That it is a kubelet's life is judged by the test pods/traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pod_test_host.h"

namespace ghostfleet::agent {
namespace {

using kube::get_int;
using kube::get_string;
using kube::Json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeCluster;
using test::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Json pod_of(const std::string& name, const std::string& behavior = "", const std::string& spec = "") {
  std::string text = R"({"metadata":{"name":")" + name + "\"";
  if (!behavior.empty()) text += R"(,"annotations":{"behavior.ghostfleet.dev/c":")" + behavior + "\"}";
  return json(text + R"(},"spec":{"containers":[{"name":"c","image":"registry.example/app:1"}])" + spec + "}}");
}

class PodManagerTest : public ::testing::TestWithParam<bool> {
 protected:
  PodManagerTest() : cluster_(options(GetParam())) {}
  static FakeCluster::Options options(bool full) {
    FakeCluster::Options o;
    o.pods.full_fidelity = full;
    return o;
  }
  std::string status_of(const std::string& pod, const std::string& type) {
    const Json* c = cluster_.condition(pod, type);
    return c == nullptr ? "absent"
                        : std::string(get_string(*c, "status")) + "/" + std::string(get_string(*c, "reason"));
  }
  const Json& container(const std::string& pod, size_t i = 0) {
    return kube::get_array(*cluster_.pod(pod), "status.containerStatuses")->at(i);
  }
  // No hot loop: so few requests in so long.
  size_t requests() const { return cluster_.requests().size(); }

  FakeCluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(Fidelity, PodManagerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "full" : "light"; });

TEST_P(PodManagerTest, RunsAndIsQuietThen) {
  cluster_.create(pod_of("a"));
  cluster_.run_for(seconds(2));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(cluster_.text("a", "status.podIP"), "192.168.0.2");
  EXPECT_EQ(status_of("a", "Ready"), "True/");
  EXPECT_EQ(status_of("a", "PodScheduled"), "True/");
  EXPECT_EQ(cluster_.manager().running_count(), 1u);
  EXPECT_EQ(get_string(container("a"), "containerID").substr(0, 13), "containerd://");
  EXPECT_EQ(get_string(container("a"), "containerID").size(), 13u + 64);
  const size_t before = requests();
  cluster_.run_for(seconds(300));
  EXPECT_EQ(requests(), before);
}

TEST_P(PodManagerTest, EventsAndConditionsThatLoadToolsRead) {  // C011
  const std::string uid = cluster_.create(pod_of("a"));
  cluster_.run_for(seconds(2));
  EXPECT_THAT(cluster_.events("a"),
              ElementsAre("Normal Pulled x1 spec.containers{c}: Container image \"registry.example/app:1\" already "
                          "present on machine and can be accessed by the pod",
                          "Normal Created x1 spec.containers{c}: Container created",
                          "Normal Started x1 spec.containers{c}: Container started"));
  std::string last;
  for (const char* type : {"PodScheduled", "PodReadyToStartContainers", "ContainersReady", "Ready"}) {
    ASSERT_NE(cluster_.condition("a", type), nullptr) << type;
    const std::string t(get_string(*cluster_.condition("a", type), "lastTransitionTime"));
    EXPECT_GE(t, last) << type;
    last = t;
  }
}

TEST_P(PodManagerTest, OverwrittenConditionsComeBackWithinTenSeconds) {  // C001
  cluster_.create(pod_of("a"));
  cluster_.run_for(seconds(5));
  const std::string id(get_string(container("a"), "containerID"));
  cluster_.patch_status(
      "a", json(R"({"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-01-05T10:00:03Z"}]})"));
  EXPECT_EQ(status_of("a", "Ready"), "False/");
  cluster_.run_for(seconds(10));
  EXPECT_EQ(status_of("a", "Ready"), "True/");
  EXPECT_GT(std::string(get_string(*cluster_.condition("a", "Ready"), "lastTransitionTime")), "2026-01-05T10:00:05Z");
  EXPECT_EQ(get_string(container("a"), "containerID"), id);
  EXPECT_EQ(get_int(container("a"), "restartCount"), 0);
  const size_t before = requests();
  cluster_.run_for(seconds(60));
  EXPECT_EQ(requests(), before);
}

TEST_P(PodManagerTest, ForeignConditionsStayAndGatesHoldReadyBack) {  // C007
  cluster_.create(pod_of("a", "exit=0 after=20s",
                         R"(,"restartPolicy":"Never","readinessGates":[{"conditionType":"example.test/gate"}])"));
  cluster_.run_for(seconds(2));
  const std::string scheduled(get_string(*cluster_.condition("a", "PodScheduled"), "lastTransitionTime"));
  EXPECT_EQ(status_of("a", "Ready"), "False/ReadinessGatesNotReady");
  EXPECT_EQ(status_of("a", "ContainersReady"), "True/");
  EXPECT_EQ(get_string(*cluster_.condition("a", "Ready"), "message"),
            "corresponding condition of pod readiness gate \"example.test/gate\" does not exist.");
  cluster_.patch_status("a", json(R"({"conditions":[{"type":"example.test/gate","status":"True"}]})"));
  cluster_.run_for(seconds(2));
  EXPECT_EQ(status_of("a", "Ready"), "True/");
  cluster_.run_for(seconds(30));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Succeeded");
  EXPECT_EQ(status_of("a", "Ready"), "False/PodCompleted");
  EXPECT_EQ(status_of("a", "ContainersReady"), "False/PodCompleted");
  EXPECT_EQ(status_of("a", "Initialized"), "True/PodCompleted");
  EXPECT_EQ(status_of("a", "example.test/gate"), "True/");
  EXPECT_EQ(get_string(*cluster_.condition("a", "PodScheduled"), "lastTransitionTime"), scheduled);
  EXPECT_EQ(kube::get_array(*cluster_.pod("a"), "status.conditions")->size(), 6u);
}

TEST_P(PodManagerTest, FinalizersAreRespected) {  // C005
  Json pod = pod_of("held");
  kube::ensure_array(pod, "metadata.finalizers").push_back("example.test/hold");
  cluster_.create(pod);
  cluster_.run_for(seconds(2));
  cluster_.remove("held");
  cluster_.run_for(seconds(60));
  ASSERT_NE(cluster_.pod("held"), nullptr);
  EXPECT_EQ(kube::get_array(*cluster_.pod("held"), "metadata.finalizers")->size(), 1u);
  EXPECT_EQ(get_int(*cluster_.pod("held"), "metadata.deletionGracePeriodSeconds", -1), 0);
  EXPECT_EQ(status_of("held", "Ready"), "False/PodCompleted");
  EXPECT_EQ(cluster_.count(Verb::kDelete, "pods/held"), 1u);
  const size_t before = requests();
  cluster_.run_for(seconds(120));
  EXPECT_EQ(requests(), before);
  cluster_.patch_metadata("held", json(R"({"finalizers":null})"));
  cluster_.run_for(seconds(1));
  EXPECT_EQ(cluster_.pod("held"), nullptr);
  EXPECT_EQ(cluster_.manager().pod_count(), 0u);
}

TEST_P(PodManagerTest, TwoContainersOneFails) {  // C009
  Json pod = json(R"({"metadata":{"name":"two","annotations":{"behavior.ghostfleet.dev/a":"exit=0 after=3s",
      "behavior.ghostfleet.dev/z":"exit=1 after=8s"}},"spec":{"restartPolicy":"Never","containers":[
      {"name":"z","image":"r.example/x:1"},{"name":"a","image":"r.example/x:1"}]}})");
  cluster_.create(pod);
  cluster_.run_for(seconds(6));
  EXPECT_EQ(cluster_.text("two", "status.phase"), "Running");
  EXPECT_EQ(get_string(container("two", 0), "name"), "a");
  EXPECT_EQ(get_string(container("two", 0), "state.terminated.reason"), "Completed");
  cluster_.run_for(seconds(6));
  EXPECT_EQ(cluster_.text("two", "status.phase"), "Failed");
  EXPECT_EQ(get_int(container("two", 0), "state.terminated.exitCode"), 0);
  EXPECT_EQ(get_string(container("two", 1), "name"), "z");
  EXPECT_EQ(get_int(container("two", 1), "state.terminated.exitCode"), 1);
}

TEST_P(PodManagerTest, DeletedWhileTheAgentWasAway) {  // C013 a
  cluster_.create(pod_of("a", "stop-after=5s", R"(,"terminationGracePeriodSeconds":20)"));
  cluster_.run_for(seconds(3));
  cluster_.restart_agent();
  cluster_.remove("a");
  cluster_.restart_agent();
  cluster_.run_for(seconds(30));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  EXPECT_EQ(cluster_.manager().pod_count(), 0u);
}

TEST_P(PodManagerTest, ASecondShorterGraceChangesNothing) {  // C013 b
  cluster_.create(pod_of("b", "stop-after=100s"));
  cluster_.run_for(seconds(2));
  cluster_.remove("b", 60);
  cluster_.run_for(seconds(5));
  cluster_.remove("b", 10);
  cluster_.run_for(seconds(50));
  ASSERT_NE(cluster_.pod("b"), nullptr);
  EXPECT_EQ(cluster_.text("b", "status.phase"), "Running");
  cluster_.run_for(seconds(8));
  EXPECT_EQ(cluster_.pod("b"), nullptr);
}

TEST_P(PodManagerTest, ARestartedAgentTakesItsPodsOver) {
  cluster_.create(pod_of("a"));
  cluster_.create(pod_of("b", "exit=0 after=60s", R"(,"restartPolicy":"Never")"));
  cluster_.create(pod_of("done", "exit=0 after=1s", R"(,"restartPolicy":"Never")"));
  cluster_.run_for(seconds(10));
  const std::string before = kube::to_json(*kube::find_key(*cluster_.pod("a"), "status"));
  const size_t patches = cluster_.count(Verb::kPatch, "/status");
  cluster_.restart_agent();
  cluster_.run_for(seconds(20));
  EXPECT_EQ(kube::to_json(*kube::find_key(*cluster_.pod("a"), "status")), before);
  EXPECT_EQ(cluster_.count(Verb::kPatch, "/status"), patches);
  EXPECT_EQ(cluster_.events("a").size(), 3u);
  EXPECT_EQ(cluster_.manager().pod_count(), 3u);
  EXPECT_EQ(cluster_.manager().running_count(), 2u);
  cluster_.run_for(seconds(40));
  EXPECT_EQ(cluster_.text("b", "status.phase"), "Succeeded");
  EXPECT_EQ(get_int(container("b"), "restartCount"), 0);
  // The address of a pod taken over is not given out again.
  cluster_.create(pod_of("c"));
  cluster_.run_for(seconds(2));
  EXPECT_NE(cluster_.text("c", "status.podIP"), cluster_.text("a", "status.podIP"));
}

TEST_P(PodManagerTest, APodThatOthersDeclareFailedIsDeclaredRunningAgain) {
  cluster_.create(pod_of("a", "stop-after=2s"));
  cluster_.run_for(seconds(3));
  cluster_.patch_status("a", json(R"({"phase":"Failed","reason":"Lost","message":"node was gone","conditions":
      [{"type":"DisruptionTarget","status":"True","reason":"DeletionByPodGC"}]})"));
  cluster_.run_for(seconds(11));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(cluster_.text("a", "status.reason"), "");
  EXPECT_EQ(status_of("a", "DisruptionTarget"), "True/DeletionByPodGC");
  EXPECT_EQ(status_of("a", "Ready"), "True/");
  EXPECT_EQ(get_int(container("a"), "restartCount", -1), 0);
  const size_t before = requests();
  cluster_.run_for(seconds(60));
  EXPECT_EQ(requests(), before);
}

TEST_P(PodManagerTest, ForceDeletedPodsAreStoppedAndForgotten) {
  cluster_.create(pod_of("a", "stop-after=3s"));
  cluster_.run_for(seconds(2));
  cluster_.remove_by_force("a");
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.manager().pod_count(), 0u);
  EXPECT_EQ(cluster_.manager().running_count(), 0u);
  EXPECT_EQ(cluster_.count(Verb::kDelete, "pods/a"), 0u);
  EXPECT_THAT(cluster_.events("a"), Contains("Normal Killing x1 spec.containers{c}: Stopping container c"));
}

TEST_P(PodManagerTest, ANamesakeReplacesAPodWhoseDeletionWasMissed) {
  cluster_.create(pod_of("a", "stop-after=3s"));
  cluster_.run_for(seconds(3));
  const std::string uid = cluster_.create(pod_of("a"));
  cluster_.run_for(seconds(20));
  EXPECT_EQ(cluster_.text("a", "metadata.uid"), uid);
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(status_of("a", "Ready"), "True/");
  EXPECT_EQ(cluster_.manager().pod_count(), 1u);
  EXPECT_EQ(cluster_.manager().running_count(), 1u);
}

TEST_P(PodManagerTest, APodThatNeverRanFailsBeforeItGoes) {
  cluster_.create(pod_of("a", "", R"(,"terminationGracePeriodSeconds":5)"));
  cluster_.at(milliseconds(50), [&] { cluster_.remove("a"); });
  std::string last;
  cluster_.intercept = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.verb == Verb::kDelete) last = kube::to_json(*kube::find_key(*cluster_.pod("a"), "status"));
    return std::nullopt;
  };
  cluster_.run_for(seconds(5));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  EXPECT_THAT(last, HasSubstr("\"phase\":\"Failed\""));
  EXPECT_THAT(last, HasSubstr("ContainerStatusUnknown"));
}

TEST_P(PodManagerTest, JobsComplete) {
  Json pod = pod_of("j", "", R"(,"restartPolicy":"Never","initContainers":[{"name":"i","image":"r.example/i:1"}])");
  kube::ensure_array(pod, "metadata.ownerReferences").push_back(json(R"({"kind":"Job","controller":true})"));
  cluster_.create(pod);
  cluster_.run_for(seconds(8));
  EXPECT_EQ(cluster_.text("j", "status.phase"), "Succeeded");
}

TEST_P(PodManagerTest, NonsenseInTheAnnotationIsToldAndTheDefaultUsed) {
  Json pod = pod_of("a", "exit=many after=2s");
  cluster_.create(pod);
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_THAT(cluster_.events("a"),
              Contains("Warning InvalidBehavior x1 -: annotation behavior.ghostfleet.dev/c: exit=many: not an "
                       "exit code from 0 to 255; the default is used"));
}

TEST_P(PodManagerTest, RejectedPodsLoseTheirConditionsAndHoldNothing) {
  Json pod = pod_of("big");
  kube::set_path(pod, "spec.containers", json(R"([{"name":"c","image":"x","resources":{"requests":{"cpu":"17"}}}])"));
  cluster_.create(pod);
  cluster_.run_for(seconds(1));
  EXPECT_EQ(cluster_.text("big", "status.reason"), "OutOfcpu");
  EXPECT_EQ(cluster_.text("big", "status.message"),
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 17000, used: 0, capacity: 16000");
  EXPECT_EQ(cluster_.condition("big", "PodScheduled"), nullptr);
  EXPECT_EQ(kube::find_path(*cluster_.pod("big"), "status.hostIP"), nullptr);
  cluster_.run_for(seconds(60));
  EXPECT_LE(requests(), 3u);
}

TEST_P(PodManagerTest, ResizesInPlace) {
  Json pod = pod_of("r");
  kube::set_path(pod, "spec.containers", json(R"([{"name":"c","image":"x","resources":{"requests":{"cpu":"100m"}}}])"));
  cluster_.create(pod);
  cluster_.run_for(seconds(2));
  cluster_.patch_spec("r", json(R"({"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"250m"}}}]}})"));
  cluster_.run_for(seconds(3));
  EXPECT_EQ(get_string(container("r"), "allocatedResources.cpu"), "250m");
  EXPECT_EQ(get_string(container("r"), "resources.requests.cpu"), "250m");
  EXPECT_EQ(get_int(*cluster_.pod("r"), "status.observedGeneration"), 2);
  EXPECT_EQ(cluster_.condition("r", "PodResizeInProgress"), nullptr);
  EXPECT_EQ(get_int(container("r"), "restartCount"), 0);
  EXPECT_THAT(cluster_.events("r"), Contains(HasSubstr("ResizeStarted")));
  EXPECT_THAT(cluster_.events("r"), Contains(HasSubstr("ResizeCompleted")));
}

TEST_P(PodManagerTest, RestartRulesOfAContainer) {
  Json pod = pod_of("r", "exit=42,42,1 after=1s", R"(,"restartPolicy":"Never")");
  kube::set_path(pod, "spec.containers", json(R"([{"name":"c","image":"x","restartPolicy":"Never","restartPolicyRules":
      [{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]}])"));
  cluster_.create(pod);
  cluster_.run_for(seconds(60));
  EXPECT_EQ(cluster_.text("r", "status.phase"), "Failed");
  EXPECT_EQ(get_int(container("r"), "restartCount"), 2);
}

// ---- when the API server does not answer as it should

TEST_P(PodManagerTest, StatusIsSentAgainAfterFailures) {
  const std::vector<ApiResponse> failures = {{0, "", Duration(0)},
                                             {429, "", seconds(3)},
                                             {500, "", Duration(0)},
                                             {503, "", seconds(1)},
                                             {409, "", Duration(0)}};
  for (const ApiResponse& failure : failures) {
    FakeCluster cluster(options(GetParam()));
    int left = 3;
    std::vector<double> times;
    cluster.intercept = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
      if (r.target.find("/pods/") == std::string::npos) return std::nullopt;
      times.push_back(cluster.seconds());
      return left-- > 0 ? std::optional(failure) : std::nullopt;
    };
    cluster.create(pod_of("a"));
    cluster.run_for(seconds(60));
    EXPECT_EQ(cluster.text("a", "status.phase"), "Running") << failure.status;
    EXPECT_EQ(cluster.manager().running_count(), 1u);
    for (size_t i = 1; i < 3; ++i) EXPECT_GE(times[i] - times[i - 1], failure.retry_after > Duration(0) ? 1.0 : 4.9);
  }
}

TEST_P(PodManagerTest, ARefusalIsTriedAgainSoonAndThenLessOften) {
  int refusals = 0, most = 2;
  cluster_.intercept = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.target.find("/pods/") == std::string::npos || refusals >= most) return std::nullopt;
    ++refusals;
    return ApiResponse{403, "", Duration(0)};
  };
  cluster_.create(pod_of("a"));
  cluster_.run_for(seconds(2));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");  // the authorizer was late
  refusals = 0;
  most = 1000;
  cluster_.create(pod_of("b"));
  cluster_.run_for(seconds(120));
  EXPECT_GE(refusals, 15);
  EXPECT_LE(refusals, 40);
}

TEST_P(PodManagerTest, AServerThatIsAwayForTwoMinutesLosesNothing) {
  cluster_.create(pod_of("a", "exit=0 after=30s", R"(,"restartPolicy":"Never")"));
  cluster_.run_for(seconds(5));
  bool away = true;
  cluster_.intercept = [&](const ApiRequest&) { return away ? std::optional(ApiResponse{}) : std::nullopt; };
  const size_t before = requests();
  cluster_.run_for(seconds(120));
  EXPECT_LE(requests() - before, 40u);
  away = false;
  cluster_.run_for(seconds(15));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Succeeded");
}

TEST_P(PodManagerTest, DeleteIsTriedAgainButNotForAnotherPodOfThatName) {
  int deletes = 0;
  ApiResponse answer{500, "", Duration(0)};
  cluster_.intercept = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.verb != Verb::kDelete || ++deletes > 2) return std::nullopt;
    return answer;
  };
  cluster_.create(pod_of("a"));
  cluster_.run_for(seconds(2));
  cluster_.remove("a");
  cluster_.run_for(seconds(40));
  EXPECT_EQ(deletes, 3);
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  deletes = 0;
  answer.status = 409;
  cluster_.create(pod_of("b"));
  cluster_.run_for(seconds(2));
  cluster_.remove("b");
  cluster_.run_for(seconds(40));
  EXPECT_EQ(deletes, 1);
}

TEST_P(PodManagerTest, EventsAreRetriedRecreatedAndCut) {
  // Lost connection: again after ten seconds; gone when it is to be counted: told anew.
  int posts = 0;
  cluster_.intercept = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.target.find("/events") == std::string::npos) return std::nullopt;
    if (r.verb == Verb::kPost && ++posts == 1) return ApiResponse{};
    if (r.verb == Verb::kPatch) return ApiResponse{404, "", Duration(0)};
    return std::nullopt;
  };
  cluster_.create(pod_of("a", "exit=1,0 after=30s", R"(,"restartPolicy":"OnFailure")"));
  cluster_.run_for(seconds(5));
  EXPECT_TRUE(cluster_.events("a").empty());
  cluster_.run_for(seconds(7));
  EXPECT_EQ(cluster_.events("a").size(), 3u);
  cluster_.run_for(seconds(30));
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Started x2")));
}

TEST_P(PodManagerTest, AFloodOfEventsIsCutAtTwentyFive) {
  cluster_.create(pod_of("a", "ready=10m"));
  Json pod = pod_of("b", "ready=10m");
  kube::set_path(pod, "spec.containers",
                 json(R"([{"name":"c","image":"x","readinessProbe":{"exec":{"command":["ready"]},
      "periodSeconds":1}}])"));
  cluster_.create(pod);
  cluster_.run_for(seconds(250));
  EXPECT_THAT(cluster_.events("b"), Contains(HasSubstr("Unhealthy x25 ")));
  cluster_.run_for(seconds(200));
  EXPECT_THAT(cluster_.events("b"), Contains(Not(HasSubstr("Unhealthy x25 "))));
  EXPECT_EQ(status_of("b", "Ready"), "False/ContainersNotReady");
  cluster_.run_for(seconds(200));
  EXPECT_EQ(status_of("b", "Ready"), "True/");
}

TEST_P(PodManagerTest, FiveHundredAtOnceAllEnd) {  // C004
  FakeCluster::Options o = options(GetParam());
  o.node = json(R"({"status":{"allocatable":{"cpu":"64","memory":"256Gi","pods":"1000"}}})");
  FakeCluster cluster(o);
  for (int i = 0; i < 500; ++i) {
    cluster.create(pod_of("p" + std::to_string(i), "exit=0 after=20s", R"(,"restartPolicy":"Never")"));
  }
  cluster.run_for(seconds(25));
  int done = 0;
  for (int i = 0; i < 500; ++i) done += cluster.text("p" + std::to_string(i), "status.phase") == "Succeeded" ? 1 : 0;
  EXPECT_EQ(done, 500);
  for (int i = 0; i < 500; ++i) cluster.remove("p" + std::to_string(i));
  cluster.run_for(seconds(5));
  EXPECT_EQ(cluster.manager().pod_count(), 0u);
}

TEST(PodManagerFull, AsksForTokensAgainBeforeTheyEnd) {
  FakeCluster::Options o;
  o.pods.full_fidelity = true;
  FakeCluster cluster(o);
  cluster.create(pod_of("a"));
  cluster.run_for(std::chrono::minutes(40));
  EXPECT_EQ(cluster.count(Verb::kPost, "/token"), 1u);
  cluster.run_for(std::chrono::minutes(10));
  EXPECT_EQ(cluster.count(Verb::kPost, "/token"), 2u);
}

TEST(PodManagerFull, ManySimilarEventsAreCombined) {
  FakeCluster::Options o;
  o.pods.full_fidelity = true;
  FakeCluster cluster(o);
  Json pod = pod_of("a");
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    kube::ensure_array(pod, "spec.volumes")
        .push_back(json(R"({"name":"v)" + n + R"(","secret":{"secretName":"s)" + n + "\"}}"));
  }
  cluster.create(pod);
  cluster.run_for(milliseconds(600));
  const std::vector<std::string> events = cluster.events("a");
  ASSERT_EQ(events.size(), 10u);
  EXPECT_EQ(events[8],
            "Warning FailedMount x1 -: MountVolume.SetUp failed for volume \"v8\" : secret \"s8\" not found");
  EXPECT_EQ(events[9],
            "Warning FailedMount x3 -: (combined from similar events): MountVolume.SetUp failed for volume \"v11\" : "
            "secret \"s11\" not found");
}

TEST(PodManagerFull, AMissingSecretThatComesIsMounted) {
  FakeCluster::Options o;
  o.pods.full_fidelity = true;
  FakeCluster cluster(o);
  cluster.create(pod_of("a", "", R"(,"volumes":[{"name":"s","secret":{"secretName":"late"}}])"));
  cluster.run_for(seconds(5));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Pending");
  cluster.put_object("secrets", {{"metadata", {{"name", "late"}}}});
  cluster.run_for(seconds(10));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Running");
}

}  // namespace
}  // namespace ghostfleet::agent
