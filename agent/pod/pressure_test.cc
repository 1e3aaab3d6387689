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
using test::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
      "memory.available<200Mi, nodefs.available<10.5%,pid.available<1k,"
      "imagefs.available<0%,nodefs.inodesFree<5%");
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read->size(), 4u);
  EXPECT_EQ((*read)[3].signal, EvictionSignal::kNodeInodes);
  EXPECT_FLOAT_EQ((*read)[3].share, 0.05F);
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
  const auto reclaim = [&soft](std::string_view text) {
    return std::string(agent::parse_minimum_reclaim(text, &soft).message());
  };
  EXPECT_THAT(reclaim("disk=1Gi"), HasSubstr("eviction signal \"disk\": known are memory.available"));
  EXPECT_THAT(reclaim("memory.available=-1Gi"), HasSubstr("a quantity like 500Mi or a share like 5% is expected"));
  EXPECT_THAT(reclaim("memory.available=0%"), HasSubstr("a quantity like 500Mi or a share like 5% is expected"));
  EXPECT_TRUE(agent::parse_minimum_reclaim("memory.available=10%,pid.available=5", &soft).ok());
  EXPECT_FLOAT_EQ(soft[0].reclaim_share, 0.1F);
}

TEST(PressureMonitor, WhatItActedOnStaysMetUntilEnoughIsReclaimed) {
  agent::EvictionRules rules;
  rules.thresholds = agent::parse_thresholds("memory.available<100").value();
  ASSERT_TRUE(agent::parse_minimum_reclaim("memory.available=50", &rules.thresholds).ok());
  agent::PressureMonitor monitor;
  const auto look = [&](int64_t available, int second) {
    agent::Observations seen;
    seen[static_cast<size_t>(EvictionSignal::kMemory)] = agent::Observation{available, 1000};
    return monitor.look(rules, seen, TimePoint{} + std::chrono::seconds(second)).has_value();
  };
  EXPECT_FALSE(look(120, 0));  // not met: nothing has to be won back
  EXPECT_TRUE(look(99, 10));
  EXPECT_TRUE(look(120, 20));  // better, but not by 50
  EXPECT_TRUE(look(149, 30));
  EXPECT_EQ(monitor.pressure(), agent::kMemoryPressure);
  EXPECT_FALSE(look(150, 40));
  EXPECT_FALSE(look(120, 50));  // and from now on the threshold itself counts again
  // The condition lasts for the transition period after the last time.
  EXPECT_FALSE(look(150, 30 + 299));
  EXPECT_EQ(monitor.pressure(), agent::kMemoryPressure);
  EXPECT_FALSE(look(150, 30 + 300));
  EXPECT_EQ(monitor.pressure(), 0u);
  EXPECT_TRUE(monitor.at_rest());
}

TEST(PressureMonitor, ASoftThresholdThatWasNotActedOnHasNothingToReclaim) {
  agent::EvictionRules rules;
  rules.thresholds = agent::parse_thresholds("memory.available<100").value();
  ASSERT_TRUE(agent::parse_soft_grace("memory.available=60s", &rules.thresholds).ok());
  ASSERT_TRUE(agent::parse_minimum_reclaim("memory.available=50", &rules.thresholds).ok());
  agent::PressureMonitor monitor;
  agent::Observations seen;
  seen[static_cast<size_t>(EvictionSignal::kMemory)] = agent::Observation{99, 1000};
  EXPECT_FALSE(monitor.look(rules, seen, TimePoint{}));
  seen[static_cast<size_t>(EvictionSignal::kMemory)] = agent::Observation{120, 1000};
  EXPECT_FALSE(monitor.look(rules, seen, TimePoint{} + std::chrono::seconds(10)));
  seen[static_cast<size_t>(EvictionSignal::kMemory)] = agent::Observation{99, 1000};
  EXPECT_FALSE(monitor.look(rules, seen, TimePoint{} + std::chrono::seconds(65)));  // the grace began anew
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

TEST_P(PressureTest, FilesRunOut) {
  FakeCluster cluster(options());
  // 90 GiB allocatable are a disk of 100 GiB with 6553600 inodes, of which the system has 131072; a twentieth is left
  // alone.
  cluster.create(pod_of("writer", "inodes=6200000", "{}", ",\"priority\":5"));
  cluster.create(pod_of("small", "inodes=100"));
  cluster.run_for(std::chrono::seconds(20));
  // Both have more files than they asked for, which nobody can: the least important one goes first, in vain.
  EXPECT_EQ(message(cluster, "small"),
            "The node was low on resource: inodes. Threshold quantity: 320Ki, available: 222428. ");
  cluster.run_for(std::chrono::seconds(20));
  EXPECT_EQ(message(cluster, "writer"),
            "The node was low on resource: inodes. Threshold quantity: 320Ki, available: 222528. ");
  EXPECT_THAT(cluster.node_news(), ElementsAre("pressure DiskPressure", "reclaiming inodes", "reclaiming inodes"));
}

TEST_P(PressureTest, EvictionGoesOnUntilTheMinimumIsReclaimed) {
  FakeCluster::Options o = options();
  ASSERT_TRUE(agent::parse_minimum_reclaim("memory.available=4Gi", &o.pods.eviction.thresholds).ok());
  FakeCluster cluster(o);
  cluster.create(pod_of("a", "memory=62Gi"));
  cluster.create(pod_of("b", "memory=3Gi"));
  cluster.create(pod_of("c", "memory=3Gi", "{}", ",\"priority\":1"));
  cluster.run_for(std::chrono::seconds(60));
  EXPECT_EQ(cluster.text("a", "status.reason"), "Evicted");
  EXPECT_EQ(cluster.text("b", "status.phase"), "Running");  // 58 GiB are free again
  o.pods.eviction.thresholds[0].reclaim_amount = 60LL << 30;
  FakeCluster greedy(o);
  greedy.create(pod_of("a", "memory=62Gi"));
  greedy.create(pod_of("b", "memory=3Gi"));
  greedy.create(pod_of("c", "memory=3Gi", "{}", ",\"priority\":1"));
  greedy.run_for(std::chrono::seconds(60));
  EXPECT_EQ(message(greedy, "b"),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 58Gi. Container c was using "
            "3Gi, request is 0, has larger consumption of memory. ");
  EXPECT_EQ(greedy.text("c", "status.phase"), "Running");
}

TEST_P(PressureTest, WhatANodeTellsOfUseIsWhatItEvictsBy) {
  FakeCluster cluster(options());
  cluster.create(pod_of("a", "storage=2Gi logs=1Gi inodes=500 pids=9 memory=curve(0s:1Gi,1h:2Gi) volume:cache=3Gi",
                        "{}", ",\"volumes\":[{\"name\":\"cache\",\"emptyDir\":{}}]"));
  cluster.run_for(std::chrono::minutes(3));  // volumes are measured by then
  const auto pods = cluster.manager().describe({});
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_EQ(pods[0].containers[0].use.storage, 2LL << 30);
  EXPECT_EQ(pods[0].containers[0].use.logs, 1LL << 30);
  ASSERT_EQ(pods[0].volumes.size(), 1u);
  EXPECT_EQ(pods[0].volumes[0].used, 3LL << 30);
  const agent::ResourceUse use = pods[0].use();
  EXPECT_EQ(use.disk(), 6LL << 30);
  EXPECT_EQ(use.inodes, 500);
  EXPECT_EQ(use.pids, 9);
  // The threshold that this use just meets evicts the pod: both count the same.
  const int64_t left = (100LL << 30) - use.disk();
  for (const auto& [limit, phase] : {std::pair(left, "Running"), std::pair(left + 1, "Failed")}) {
    FakeCluster::Options o = options();
    o.pods.eviction.thresholds = {{EvictionSignal::kNodeFs, 0, {}, 0.1F, Duration(0)},
                                  {EvictionSignal::kImageFs, limit, std::to_string(limit), 0, Duration(0)}};
    FakeCluster judge(o);
    judge.create(pod_of("a", "storage=2Gi logs=4Gi"));
    judge.run_for(std::chrono::seconds(30));
    EXPECT_EQ(judge.text("a", "status.phase"), phase) << limit;
  }
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
