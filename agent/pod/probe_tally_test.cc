#include "agent/pod/probe_tally.h"

#include <gtest/gtest.h>

#include "tests/support/pod_test_host.h"

namespace ghostfleet::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::FakeCluster;

constexpr TimePoint kBase{1000000000000};
TimePoint at(Duration d) { return kBase + d; }

TEST(Beats, AreCountedFromTheBaseOn) {
  EXPECT_EQ(beats_between(kBase, seconds(10), at(seconds(-5)), at(seconds(-1))), 0u);
  EXPECT_EQ(beats_between(kBase, seconds(10), at(seconds(-5)), at(seconds(0))), 1u);
  EXPECT_EQ(beats_between(kBase, seconds(10), at(seconds(0)), at(seconds(10))), 1u);  // (from, until]
  EXPECT_EQ(beats_between(kBase, seconds(10), at(seconds(1)), at(seconds(99))), 9u);
  EXPECT_EQ(beats_between(kBase, seconds(10), at(seconds(50)), at(seconds(20))), 0u);
}

TEST(Beats, PassWhileTheScriptSaysSo) {
  ProbeSpec probe;
  probe.present = true;
  probe.window = ProbeWindow{seconds(15), seconds(35)};
  // Beats at ages 0, 10, ... of a container that started at the base.
  const ProbeTally whole = tally_beats({}, probe, kBase, kBase, at(-seconds(1)), at(seconds(60)));
  EXPECT_EQ(whole.successful, 2u);  // at 20 and 30 s
  EXPECT_EQ(whole.failed, 5u);
  // A container that started 5 s before the beat's base is older at each of them.
  const ProbeTally older = tally_beats({}, probe, kBase, at(-seconds(5)), at(-seconds(1)), at(seconds(60)));
  EXPECT_EQ(older.successful, 2u);  // at ages 15 and 25 s, and no longer at 35 s
  ProbeTally sum = whole;
  add_tally(&sum, older);
  EXPECT_EQ(sum.successful, 4u);
  EXPECT_EQ(sum.failed, 10u);
}

// What a node tells of its probes beside what happened to its pods.
class ProbeTallyTest : public ::testing::TestWithParam<bool> {
 protected:
  ProbeTallyTest() : cluster(options()) {}
  static FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    return o;
  }
  void create(const std::string& behavior, const std::string& probes) {
    cluster.create(kube::parse_json(R"({"metadata":{"name":"p","annotations":{"behavior.ghostfleet.dev/c":")" +
                                    behavior + R"("}},"spec":{"containers":[{"name":"c","image":"x",)" + probes +
                                    "}]}}")
                       .value());
  }
  ProbeTally of(ProbeKind kind) const {
    const auto pods = const_cast<FakeCluster&>(cluster).manager().describe({});
    return pods.empty() ? ProbeTally{} : pods[0].containers[0].probes[static_cast<size_t>(kind)];
  }
  // How often the node was told that a probe had failed.
  uint64_t told(const std::string& probe) const {
    uint64_t count = 0;
    for (const std::string& event : cluster.events("p")) {
      if (event.find(probe + " probe failed") == std::string::npos) continue;
      count += std::stoull(event.substr(event.find(" x") + 2));
    }
    return count;
  }
  FakeCluster cluster;
};

INSTANTIATE_TEST_SUITE_P(Fidelity, ProbeTallyTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(ProbeTallyTest, WithoutProbesThereIsNothing) {
  create("", R"("env":[])");
  cluster.run_for(minutes(1));
  for (const ProbeKind kind : {ProbeKind::kStartup, ProbeKind::kReadiness, ProbeKind::kLiveness}) {
    EXPECT_EQ(of(kind).successful, 0u);
    EXPECT_EQ(of(kind).failed, 0u);
  }
}

TEST_P(ProbeTallyTest, ReadinessThatIsDrawnIsCountedAsItHappened) {
  create("ready=uniform(15s, 40s)", R"("readinessProbe":{"httpGet":{"port":80},"periodSeconds":3})");
  for (int i = 0; i < 30; ++i) {
    cluster.run_for(seconds(2));
    ASSERT_EQ(of(ProbeKind::kReadiness).failed, told("Readiness")) << "after " << i;
  }
  EXPECT_GE(of(ProbeKind::kReadiness).failed, 5u);
  EXPECT_LE(of(ProbeKind::kReadiness).failed, 16u);
  const uint64_t before = of(ProbeKind::kReadiness).successful;
  EXPECT_GE(before, 6u);
  cluster.run_for(seconds(30));
  EXPECT_EQ(of(ProbeKind::kReadiness).successful, before + 10);
}

TEST_P(ProbeTallyTest, WhatPassesAtOnceIsAskedOnceAPeriodFromTheStartOn) {
  create("", R"("readinessProbe":{"exec":{"command":["true"]},"periodSeconds":10},)"
             R"("livenessProbe":{"exec":{"command":["true"]},"periodSeconds":20,"initialDelaySeconds":45})");
  cluster.run_for(milliseconds(4000));
  EXPECT_EQ(of(ProbeKind::kReadiness).successful, 1u);
  EXPECT_EQ(of(ProbeKind::kLiveness).successful, 0u);
  cluster.run_for(seconds(36));
  EXPECT_EQ(of(ProbeKind::kReadiness).successful, 4u);
  EXPECT_EQ(of(ProbeKind::kLiveness).successful, 0u);
  cluster.run_for(seconds(60));
  EXPECT_EQ(of(ProbeKind::kReadiness).successful, 10u);
  // At 60 and 80 s of the sandbox; at 40 s the delay was not over.
  EXPECT_EQ(of(ProbeKind::kLiveness).successful, 2u);
}

TEST_P(ProbeTallyTest, TheOthersWaitForTheStartupProbeWhichIsAskedNoMore) {
  create("started=12s", R"("startupProbe":{"exec":{"command":["started"]},"periodSeconds":2,"failureThreshold":30},)"
                        R"("readinessProbe":{"exec":{"command":["true"]},"periodSeconds":1},)"
                        R"("livenessProbe":{"exec":{"command":["true"]},"periodSeconds":1})");
  cluster.run_for(seconds(10));
  EXPECT_EQ(of(ProbeKind::kStartup).failed, told("Startup"));
  EXPECT_GE(of(ProbeKind::kStartup).failed, 3u);
  EXPECT_EQ(of(ProbeKind::kReadiness).successful, 0u);
  EXPECT_EQ(of(ProbeKind::kLiveness).successful, 0u);
  cluster.run_for(seconds(60));
  EXPECT_EQ(of(ProbeKind::kStartup).failed, told("Startup"));
  EXPECT_EQ(of(ProbeKind::kStartup).successful, 1u);
  EXPECT_GE(of(ProbeKind::kReadiness).successful, 50u);
  EXPECT_GE(of(ProbeKind::kLiveness).successful, 50u);
}

TEST_P(ProbeTallyTest, RestartsAddUpAndADeletedPodIsNotAskedWhetherItLives) {
  create("live=10s stop-after=20s",
         R"("readinessProbe":{"exec":{"command":["ready"]},"periodSeconds":1},)"
         R"("livenessProbe":{"exec":{"command":["live"]},"periodSeconds":2,"failureThreshold":2})");
  ProbeTally ready_before, live_before;
  for (int i = 0; i < 120; ++i) {
    cluster.run_for(seconds(1));
    const ProbeTally ready = of(ProbeKind::kReadiness);
    const ProbeTally live = of(ProbeKind::kLiveness);
    ASSERT_GE(ready.successful, ready_before.successful);
    ASSERT_GE(live.successful, live_before.successful);
    ASSERT_EQ(live.failed, told("Liveness")) << "after " << i;
    ready_before = ready;
    live_before = live;
  }
  EXPECT_GE(live_before.failed, 4u);
  cluster.remove("p", 30);
  cluster.run_for(milliseconds(100));
  const ProbeTally live = of(ProbeKind::kLiveness);
  const ProbeTally ready = of(ProbeKind::kReadiness);
  cluster.run_for(seconds(10));
  EXPECT_EQ(of(ProbeKind::kLiveness).successful, live.successful);
  EXPECT_EQ(of(ProbeKind::kLiveness).failed, live.failed);
  EXPECT_GE(of(ProbeKind::kReadiness).successful, ready.successful + 9);
}

}  // namespace
}  // namespace ghostfleet::agent
