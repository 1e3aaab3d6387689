#include "agent/pod/pressure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using agent::EvictionSignal;
using agent::EvictionThreshold;
using kube::get_string;
using kube::Json;
using test::FakeCluster;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Json json(std::string_view text) { return kube::parse_json(text).value(); }

// A pod with one container c: what its behaviour says, and its spec besides the container.
Json pod_of(std::string_view name, std::string_view behavior, std::string_view resources = "{}",
            std::string_view rest = "") {
  return json("{\"metadata\":{\"name\":\"" + std::string(name) +
              "\",\"annotations\":{\"behavior.ghostfleet.dev/c\":\"" + std::string(behavior) +
              " stop=143\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"x\",\"resources\":" +
              std::string(resources) + "}]" + std::string(rest) + "}}");
}

TEST(Thresholds, AreReadAsAKubeletsFlags) {
  const auto read = agent::parse_thresholds(
      "memory.available<200Mi, nodefs.available<10.5%,nodefs.inodesFree<5%,"
      "imagefs.available<0%,pid.available<1k");
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ((*read)[0].signal, EvictionSignal::kMemory);
  EXPECT_EQ((*read)[0].amount, 200 << 20);
  EXPECT_EQ((*read)[0].text, "200Mi");
  EXPECT_FLOAT_EQ((*read)[1].share, 0.105F);
  EXPECT_EQ((*read)[2].signal, EvictionSignal::kPid);
  EXPECT_EQ((*read)[2].amount, 1000);
}

TEST(Thresholds, NonsenseIsNamed) {
  const auto said = [](std::string_view text) {
    const auto read = agent::parse_thresholds(text);
    return read.ok() ? std::string() : std::string(read.error().message());
  };
  EXPECT_THAT(said("memory<1Gi"), HasSubstr("eviction signal \"memory\": known are memory.available"));
  EXPECT_THAT(said("memory.available"), HasSubstr("SIGNAL<VALUE is expected"));
  EXPECT_THAT(said("memory.available<lots"), HasSubstr("a quantity like 100Mi or a share like 10%"));
  EXPECT_THAT(said("memory.available<101%"), HasSubstr("a quantity like 100Mi or a share like 10%"));
  EXPECT_THAT(said("memory.available<1Gi,memory.available<2Gi"), HasSubstr("twice"));
  std::vector<EvictionThreshold> soft = agent::parse_thresholds("memory.available<1Gi").value();
  EXPECT_THAT(agent::parse_soft_grace("", &soft).message(), HasSubstr("a grace period is needed"));
  EXPECT_THAT(agent::parse_soft_grace("memory.available=soon", &soft).message(), HasSubstr("a duration like 1m30s"));
  EXPECT_TRUE(agent::parse_soft_grace("memory.available=1m30s", &soft).ok());
  EXPECT_EQ(soft[0].grace, std::chrono::seconds(90));
}

class PressureTest : public ::testing::TestWithParam<bool> {
 protected:
  static FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    return o;
  }
  std::string message(FakeCluster& cluster, const std::string& pod) {
    return std::string(cluster.text(pod, "status.message"));
  }
};

INSTANTIATE_TEST_SUITE_P(Fidelity, PressureTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(PressureTest, APodThatUsesTooMuchMemoryIsEvicted) {
  FakeCluster cluster(options());
  cluster.create(pod_of("greedy", "memory=curve(0s:1Gi,20s:1Gi,21s:64Gi)", R"({"requests":{"memory":"1Gi"}})"));
  cluster.create(pod_of("modest", "memory=1Gi", R"({"requests":{"memory":"2Gi"}})"));
  cluster.run_for(std::chrono::seconds(45));
  EXPECT_EQ(cluster.text("greedy", "status.phase"), "Failed");
  EXPECT_EQ(cluster.text("greedy", "status.reason"), "Evicted");
  EXPECT_EQ(message(cluster, "greedy"),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. "
            "Container c was using 64Gi, request is 1Gi, has larger consumption of memory. ");
  const Json* target = cluster.condition("greedy", "DisruptionTarget");
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(get_string(*target, "status"), "True");
  EXPECT_EQ(get_string(*target, "reason"), "TerminationByKubelet");
  EXPECT_EQ(get_string(*target, "message"), message(cluster, "greedy"));
  EXPECT_THAT(cluster.events("greedy"), Contains(StartsWith("Warning Evicted x1 -: The node was low on resource")));
  EXPECT_THAT(cluster.events("greedy"), Contains("Normal Killing x1 spec.containers{c}: Stopping container c"));
  EXPECT_EQ(cluster.text("modest", "status.phase"), "Running");
  EXPECT_THAT(cluster.node_news(), ElementsAre("pressure MemoryPressure", "reclaiming memory"));
  // While the condition lasts, what asks for nothing is refused.
  cluster.create(pod_of("late", "memory=1Mi"));
  cluster.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster.text("late", "status.reason"), "Evicted");
  EXPECT_EQ(message(cluster, "late"), "Pod was rejected: The node had condition: [MemoryPressure]. ");
  cluster.run_for(std::chrono::minutes(6));
  EXPECT_THAT(cluster.node_news(), ElementsAre("pressure MemoryPressure", "reclaiming memory", "pressure "));
}

TEST_P(PressureTest, APodThatEndsWellWhenItIsEvictedHasSucceeded) {
  FakeCluster cluster(options());
  Json pod = pod_of("a", "memory=64Gi");
  kube::find_key(*kube::find_path(pod, "metadata.annotations"), "behavior.ghostfleet.dev/c")->as_string() =
      "memory=64Gi stop=0";
  cluster.create(std::move(pod));
  cluster.run_for(std::chrono::seconds(20));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Succeeded");
  EXPECT_EQ(cluster.text("a", "status.reason"), "");
  EXPECT_EQ(get_string(*cluster.condition("a", "Ready"), "reason"), "PodCompleted");
  EXPECT_EQ(get_string(*cluster.condition("a", "DisruptionTarget"), "status"), "True");
}

TEST_P(PressureTest, TheEventNamesTheOffenders) {
  FakeCluster cluster(options());
  cluster.create(pod_of("greedy", "memory=65Gi", R"({"requests":{"memory":"1Gi"}})"));
  cluster.run_for(std::chrono::seconds(20));
  std::string annotations;
  for (const auto& r : cluster.requests()) {
    if (r.verb != agent::Verb::kPost || r.target.find("/events") == std::string::npos) continue;
    const Json event = json(r.body);
    if (get_string(event, "reason") == "Evicted")
      annotations = kube::to_json(*kube::find_path(event, "metadata.annotations"));
  }
  EXPECT_EQ(annotations,
            R"({"offending_containers":"c","offending_containers_usage":"65Gi","starved_resource":"memory"})");
}

TEST_P(PressureTest, WhoIsAboveItsRequestGoesFirstThenTheLeastImportantThenTheGreediest) {
  FakeCluster cluster(options());
  const char* small = R"({"requests":{"memory":"1Gi"}})";
  cluster.create(pod_of("inside", "memory=39Gi", R"({"requests":{"memory":"40Gi"}})", ",\"priority\":-5"));
  cluster.create(pod_of("important", "memory=20Gi", small, ",\"priority\":10"));
  cluster.create(pod_of("little", "memory=3Gi", small));
  cluster.create(pod_of("greedy", "memory=8Gi", small));
  cluster.create(pod_of("critical", "memory=9Gi", small, ",\"priorityClassName\":\"system-node-critical\""));
  cluster.run_for(std::chrono::seconds(90));
  // 79 of 64 GiB: greedy, little and important have to go; each waits for the one before it.
  std::vector<std::string> order;
  for (const auto& r : cluster.requests()) {
    if (r.body.find("\"reason\":\"Evicted\"") != std::string::npos && r.target.find("/events") != std::string::npos)
      order.push_back(r.pod);
  }
  EXPECT_THAT(order, ElementsAre("greedy", "little", "important"));
  EXPECT_EQ(cluster.text("inside", "status.phase"), "Running");
  EXPECT_EQ(cluster.text("critical", "status.phase"), "Running");
}

TEST_P(PressureTest, ASoftThresholdWaitsAndGivesThePodTime) {
  FakeCluster::Options o = options();
  EvictionThreshold soft{EvictionSignal::kMemory, 2LL << 30, "2Gi", 0, std::chrono::seconds(60)};
  o.pods.eviction.thresholds.push_back(soft);
  o.pods.eviction.max_pod_grace_seconds = 7;
  FakeCluster cluster(o);
  cluster.create(pod_of("a", "memory=63Gi stop-after=20s", R"({"requests":{"memory":"1Gi"}})"));
  cluster.run_for(std::chrono::seconds(50));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Running");
  EXPECT_THAT(cluster.node_news(), ElementsAre("pressure MemoryPressure"));
  cluster.run_for(std::chrono::seconds(25));
  EXPECT_THAT(cluster.events("a"), Contains(HasSubstr("Threshold quantity: 2Gi, available: 1Gi. ")));
  cluster.run_for(std::chrono::seconds(15));
  EXPECT_EQ(cluster.text("a", "status.reason"), "Evicted");
  EXPECT_EQ(
      kube::get_int(kube::get_array(*cluster.pod("a"), "status.containerStatuses")->at(0), "state.terminated.exitCode"),
      137);
}

TEST_P(PressureTest, ADiskAndProcessIdsRunOut) {
  FakeCluster::Options o = options();
  o.pods.eviction.thresholds.push_back({EvictionSignal::kPid, 1000, "1k", 0, Duration(0)});
  FakeCluster cluster(o);
  cluster.create(pod_of("forks", "pids=4194000"));
  cluster.run_for(std::chrono::seconds(20));
  EXPECT_EQ(message(cluster, "forks"), "The node was low on resource: pids. Threshold quantity: 1k, available: 304. ");
  cluster.create(pod_of("never", "pids=1"));
  cluster.run_for(std::chrono::seconds(3));
  EXPECT_EQ(message(cluster, "never"), "Pod was rejected: The node had condition: [PIDPressure]. ");
  FakeCluster second(options());
  second.create(pod_of("writes", "storage=88Gi", R"({"requests":{"ephemeral-storage":"1Gi"}})"));
  second.run_for(std::chrono::seconds(20));
  // 90 GiB allocatable are a disk of 100 GiB; 12 GiB are left, less than the 15 % of its images.
  EXPECT_THAT(message(second, "writes"), StartsWith("The node was low on resource: ephemeral-storage. Threshold "));
  EXPECT_THAT(message(second, "writes"), HasSubstr("Container c was using 88Gi, request is 1Gi, has larger "
                                                   "consumption of ephemeral-storage. "));
  EXPECT_THAT(second.node_news(), ElementsAre("pressure DiskPressure", "reclaiming ephemeral-storage"));
}

TEST_P(PressureTest, LimitsOfLocalStorage) {
  FakeCluster cluster(options());
  const char* limit = R"({"limits":{"ephemeral-storage":"1Gi"}})";
  cluster.create(pod_of("layer", "storage=2Gi", R"({"limits":{"ephemeral-storage":"1Gi"}})",
                        ",\"initContainers\":[{\"name\":\"i\",\"image\":\"x\",\"resources\":"
                        "{\"limits\":{\"ephemeral-storage\":\"5Gi\"}}}]"));
  cluster.create(pod_of("whole", "storage=2Gi", limit));
  cluster.create(
      pod_of("volume", "volume:cache=2Gi", "{}", R"(,"volumes":[{"name":"cache","emptyDir":{"sizeLimit":"1Gi"}}])"));
  cluster.create(pod_of("fits", "storage=1Gi", limit));
  cluster.run_for(std::chrono::seconds(95));
  EXPECT_EQ(message(cluster, "layer"), "Container c exceeded its local ephemeral storage limit \"1Gi\". ");
  EXPECT_EQ(message(cluster, "whole"), "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ");
  EXPECT_EQ(message(cluster, "volume"), "Usage of EmptyDir volume \"cache\" exceeds the limit \"1Gi\". ");
  for (const char* pod : {"layer", "whole", "volume"}) {
    EXPECT_EQ(cluster.text(pod, "status.reason"), "Evicted");
    EXPECT_EQ(cluster.condition(pod, "DisruptionTarget"), nullptr);
  }
  EXPECT_EQ(cluster.text("fits", "status.phase"), "Running");
  EXPECT_TRUE(cluster.node_news().empty());
}

TEST(Pressure, ANodeWhosePodsTellNothingIsNotLookedAt) {
  FakeCluster cluster({});
  cluster.create(pod_of("a", "", R"({"requests":{"memory":"1Gi"}})"));
  cluster.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Running");
  EXPECT_EQ(cluster.timers(), 0u);
  // One that can never use more than there is costs one look.
  cluster.create(pod_of("b", "memory=2Gi"));
  cluster.run_for(std::chrono::seconds(15));
  EXPECT_EQ(cluster.timers(), 0u);
  cluster.create(pod_of("c", "memory=curve(0s:1Gi,1h:70Gi)"));
  cluster.run_for(std::chrono::seconds(15));
  EXPECT_EQ(cluster.timers(), 1u);
  cluster.remove("c", 0);
  cluster.run_for(std::chrono::seconds(15));
  EXPECT_EQ(cluster.timers(), 0u);
}

}  // namespace
}  // namespace ghostfleet
