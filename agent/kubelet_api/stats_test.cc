#include "agent/kubelet_api/stats.h"

#include <gtest/gtest.h>

#include <regex>

#include "agent/kubelet_api/http_responder.h"
#include "agent/kubelet_api/test_backend.h"
#include "kube/api/json.h"

namespace ghostfleet::kubelet_api {
namespace {

const WallTime kStart{1767607200000000000};

class StatsTest : public ::testing::Test {
 protected:
  ManualClock clock{kStart};
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  TestBackend backend{*timers};
  Stats stats{default_usage_model(), clock};
  std::vector<agent::PodView> pods = {test_pod(kStart)};
};

TEST_F(StatsTest, CountersOnlyGrowAndUsageStaysInItsBand) {
  const auto model = default_usage_model();
  double before = 0;
  for (int i = 1; i < 2000; ++i) {
    const Usage u = model->container(backend.node(0), pods[0], pods[0].containers[0], kStart + std::chrono::seconds(i));
    ASSERT_GE(u.cpu_seconds, before);
    ASSERT_GE(u.cpu_cores, 0.199);
    ASSERT_LE(u.cpu_cores, 0.401);
    ASSERT_LE(u.working_set, 1 << 30);
    before = u.cpu_seconds;
  }
  EXPECT_NEAR(before / 2000, 0.3, 0.02);
}

TEST_F(StatsTest, TheNodesCounterDoesNotFallWhenAPodLeaves) {
  const auto total = [this](const std::vector<agent::PodView>& of) {
    const auto summary = kube::parse_json(stats.summary(0, backend.node(0), of, false));
    return kube::get_int(*summary, "node.cpu.usageCoreNanoSeconds");
  };
  clock.advance(std::chrono::hours(1));
  const int64_t with = total(pods);
  clock.advance(std::chrono::seconds(10));
  EXPECT_GT(total({}), with);
}

TEST_F(StatsTest, SummaryNamesWhatRuns) {
  clock.advance(std::chrono::minutes(1));
  const auto s = kube::parse_json(stats.summary(0, backend.node(0), pods, false));
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(kube::get_string(*s, "node.nodeName"), "n0");
  const kube::Json& pod = kube::get_array(*s, "pods")->at(0);
  EXPECT_EQ(kube::get_string(pod, "podRef.uid"), "uid-1");
  EXPECT_GT(kube::get_int(kube::get_array(pod, "containers")->at(0), "memory.workingSetBytes"), 0);
  const auto brief = kube::parse_json(stats.summary(0, backend.node(0), pods, true));
  EXPECT_EQ(kube::find_path(*brief, "node.fs"), nullptr);
}

TEST_F(StatsTest, TheDiskIsWhatEvictionGoesBy) {
  pods[0].containers[0].use = {0, 3 << 20, 1 << 20, 40, 7};
  pods[0].volumes = {{"cache", 5 << 20}};
  agent::PodView over = test_pod(kStart);
  over.phase = "Failed";
  over.volumes = {{"gone", int64_t{1} << 40}};
  pods.push_back(over);
  const auto s = kube::parse_json(stats.summary(0, backend.node(0), pods, false));
  const kube::Json& pod = kube::get_array(*s, "pods")->at(0);
  const kube::Json& container = kube::get_array(pod, "containers")->at(0);
  EXPECT_EQ(kube::get_int(container, "rootfs.usedBytes"), 3 << 20);
  EXPECT_EQ(kube::get_int(container, "rootfs.inodesUsed"), 39);
  EXPECT_EQ(kube::get_int(container, "logs.usedBytes"), 1 << 20);
  EXPECT_EQ(kube::get_int(container, "logs.inodesUsed"), 1);
  EXPECT_EQ(kube::get_string(kube::get_array(pod, "volume")->at(0), "name"), "cache");
  EXPECT_EQ(kube::get_int(kube::get_array(pod, "volume")->at(0), "usedBytes"), 5 << 20);
  EXPECT_EQ(kube::get_int(pod, "ephemeral-storage.usedBytes"), 9 << 20);
  EXPECT_EQ(kube::get_int(pod, "ephemeral-storage.inodesUsed"), 40);
  EXPECT_EQ(kube::get_int(pod, "process_stats.process_count"), 7);
  // The node tells no disk: 80 GiB, of which only these pods use something; an inode for each 16 KiB.
  const int64_t disk = int64_t{80} << 30;
  for (const char* fs : {"node.fs.", "node.runtime.imageFs.", "node.runtime.containerFs."}) {
    EXPECT_EQ(kube::get_int(*s, std::string(fs) + "capacityBytes"), disk);
    EXPECT_EQ(kube::get_int(*s, std::string(fs) + "availableBytes"), disk - (9 << 20));
    EXPECT_EQ(kube::get_int(*s, std::string(fs) + "inodes"), disk / 16384);
    EXPECT_EQ(kube::get_int(*s, std::string(fs) + "inodesFree"), disk / 16384 - (128 << 10) - 40);
  }
  EXPECT_EQ(kube::get_int(*s, "node.fs.usedBytes"), 9 << 20);
  EXPECT_EQ(kube::get_int(*s, "node.rlimit.curproc"), 7);
  const std::string metrics = stats.cadvisor_metrics(0, backend.node(0), pods);
  EXPECT_NE(
      metrics.find("container_fs_usage_bytes{container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\","
                   "device=\"/dev/nvme0n1p1\"} 9437184 "),
      std::string::npos)
      << metrics;
}

TEST_F(StatsTest, ImagesTakeRoomOfTheDiskTheyShareWithPods) {
  NodeInfo node = backend.node(0);
  node.disk = agent::DiskRoom{100 << 20, 30 << 20, 60 << 20};
  const auto s = kube::parse_json(stats.summary(0, node, pods, false));
  EXPECT_EQ(kube::get_int(*s, "node.runtime.imageFs.usedBytes"), 60 << 20);
  EXPECT_EQ(kube::get_int(*s, "node.fs.usedBytes"), 70 << 20);
  for (const char* fs : {"node.fs.", "node.runtime.imageFs.", "node.runtime.containerFs."}) {
    EXPECT_EQ(kube::get_int(*s, std::string(fs) + "capacityBytes"), 100 << 20);
    EXPECT_EQ(kube::get_int(*s, std::string(fs) + "availableBytes"), 30 << 20);
  }
}

TEST_F(StatsTest, TheConfigurationTellsTheThresholdsOfTheNode) {
  agent::EvictionRules rules;
  rules.thresholds = agent::parse_thresholds("memory.available<1Gi,nodefs.inodesFree<7%").value();
  auto soft = agent::parse_thresholds("nodefs.available<20%").value();
  ASSERT_TRUE(agent::parse_soft_grace("nodefs.available=90s", &soft).ok());
  rules.thresholds.push_back(soft[0]);
  ASSERT_TRUE(agent::parse_minimum_reclaim("memory.available=500Mi,nodefs.available=5%", &rules.thresholds).ok());
  NodeInfo node = backend.node(0);
  node.eviction = &rules;
  const auto config = kube::parse_json(configz(node));
  const auto told = [&](const char* field) {
    const kube::Json* value = kube::find_path(*config, std::string("kubeletconfig.") + field);
    return value == nullptr ? std::string() : kube::to_json(*value);
  };
  EXPECT_EQ(told("evictionHard"), R"({"memory.available":"1Gi","nodefs.inodesFree":"7%"})");
  EXPECT_EQ(told("evictionSoft"), R"({"nodefs.available":"20%"})");
  EXPECT_EQ(told("evictionSoftGracePeriod"), R"({"nodefs.available":"1m30s"})");
  EXPECT_EQ(told("evictionMinimumReclaim"), R"({"memory.available":"500Mi","nodefs.available":"5%"})");
  EXPECT_EQ(told("evictionPressureTransitionPeriod"), "\"5m0s\"");
}

TEST_F(StatsTest, EveryLineOfTheMetricsIsWellFormed) {
  clock.advance(std::chrono::minutes(1));
  pods[0].name = "odd\"name\\";
  const std::regex sample(
      R"re([a-z_:][a-z0-9_:]*(\{[a-zA-Z_]+="([^"\\\n]|\\.)*"(,[a-zA-Z_]+="([^"\\\n]|\\.)*")*\})? [0-9.e+-]+( [0-9]{13})?)re");
  const NodeInfo node = backend.node(0);
  for (const std::string& text : {stats.resource_metrics(0, node, pods), stats.cadvisor_metrics(0, node, pods),
                                  stats.kubelet_metrics(node, pods), stats.probe_metrics(node, pods)}) {
    std::string_view rest = text;
    ASSERT_TRUE(rest.ends_with('\n'));
    while (!rest.empty()) {
      const std::string line(rest.substr(0, rest.find('\n')));
      rest.remove_prefix(line.size() + 1);
      if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
      EXPECT_TRUE(std::regex_match(line, sample)) << line;
    }
  }
}

TEST_F(StatsTest, ProbesAreCountedByResultUntilThePodEnds) {
  agent::ProbeTallies& probes = pods[0].containers[0].probes;
  probes[static_cast<int>(agent::ProbeKind::kStartup)] = {1, 2};
  probes[static_cast<int>(agent::ProbeKind::kLiveness)] = {7, 0};
  const std::string text = stats.probe_metrics(backend.node(0), pods);
  const std::string labels =
      R"(prober_probe_total{container="c",namespace="default",pod="p",pod_uid="uid-1",probe_type=)";
  EXPECT_NE(text.find(labels + "\"Startup\",result=\"failed\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find(labels + "\"Startup\",result=\"successful\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find(labels + "\"Liveness\",result=\"successful\"} 7\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("Readiness"), std::string::npos);
  pods[0].phase = "Succeeded";
  EXPECT_EQ(stats.probe_metrics(backend.node(0), pods).find("prober_probe_total{"), std::string::npos);
}

TEST_F(StatsTest, RunningPodsAndConfiguration) {
  EXPECT_EQ(kube::get_array(*kube::parse_json(running_pods(pods)), "items")->size(), 1u);
  pods[0].containers[0].state = agent::ContainerState::kExited;
  EXPECT_EQ(kube::get_array(*kube::parse_json(running_pods(pods)), "items")->size(), 0u);
  EXPECT_EQ(kube::get_int(*kube::parse_json(configz(backend.node(0))), "kubeletconfig.maxPods"), 110);
}

TEST(HttpResponder, AnswersOneAfterTheOther) {
  HttpResponder responder("hello\n");
  std::string out;
  EXPECT_TRUE(responder.feed("GET / HTTP/1.1\r\nHost: x\r", &out));
  EXPECT_TRUE(out.empty());
  EXPECT_TRUE(responder.feed("\n\r\nPOST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", &out));
  EXPECT_TRUE(responder.feed("cHEAD / HTTP/1.1\r\n\r\n", &out));
  size_t answers = 0;
  for (size_t at = out.find("200 OK"); at != std::string::npos; at = out.find("200 OK", at + 1)) ++answers;
  EXPECT_EQ(answers, 3u);
  EXPECT_TRUE(out.ends_with("\r\n\r\n"));
  EXPECT_FALSE(responder.feed("nonsense\r\n\r\n", &out));
  EXPECT_FALSE(HttpResponder("x").feed(std::string(20000, 'a'), &out));
}

}  // namespace
}  // namespace ghostfleet::kubelet_api
