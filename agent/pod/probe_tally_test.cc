#include "agent/pod/probe_tally.h"

#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

using std::chrono::seconds;

class ProbeTallyTest : public ::testing::Test {
 protected:
  ProbeSpec& add(ProbeKind kind, ProbeWord word) {
    ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
    probe.present = true;
    probe.word = word;
    return probe;
  }
  ProbeTally of(ProbeKind kind, Duration age) const {
    return tally_probes(spec, spec.script, age)[static_cast<int>(kind)];
  }
  ContainerSpec spec;
};

TEST_F(ProbeTallyTest, WithoutProbesThereIsNothing) {
  EXPECT_FALSE(has_probes(spec));
  EXPECT_FALSE(of(ProbeKind::kLiveness, seconds(100)).present);
}

TEST_F(ProbeTallyTest, OneAPeriodFromTheInitialDelayOn) {
  add(ProbeKind::kLiveness, ProbeWord::kLive).initial_delay = seconds(5);
  EXPECT_TRUE(has_probes(spec));
  EXPECT_EQ(of(ProbeKind::kLiveness, seconds(5)).successful, 0u);
  EXPECT_EQ(of(ProbeKind::kLiveness, seconds(6)).successful, 1u);
  EXPECT_EQ(of(ProbeKind::kLiveness, seconds(26)).successful, 3u);
  spec.script.live = seconds(12);
  EXPECT_EQ(of(ProbeKind::kLiveness, seconds(26)).successful, 1u);
  EXPECT_EQ(of(ProbeKind::kLiveness, seconds(26)).failed, 2u);
}

TEST_F(ProbeTallyTest, TheOthersWaitForTheStartupProbe) {
  add(ProbeKind::kStartup, ProbeWord::kStarted).period = seconds(2);
  add(ProbeKind::kReadiness, ProbeWord::kReady).period = seconds(1);
  spec.script.started = seconds(3);
  spec.script.ready = seconds(6);
  EXPECT_EQ(of(ProbeKind::kStartup, seconds(3)).failed, 2u);  // at 0 and 2 s
  EXPECT_EQ(of(ProbeKind::kReadiness, seconds(3)).failed, 0u);
  EXPECT_EQ(of(ProbeKind::kStartup, seconds(100)).failed, 2u);
  EXPECT_EQ(of(ProbeKind::kStartup, seconds(100)).successful, 1u);  // at 4 s, then never again
  EXPECT_EQ(of(ProbeKind::kReadiness, seconds(10)).failed, 2u);     // at 4 and 5 s
  EXPECT_EQ(of(ProbeKind::kReadiness, seconds(10)).successful, 4u);
}

TEST_F(ProbeTallyTest, AWindowCountsBeforeTheWord) {
  ProbeSpec& probe = add(ProbeKind::kReadiness, ProbeWord::kReady);
  probe.window = ProbeWindow{seconds(15), seconds(35)};
  const ProbeTally tally = of(ProbeKind::kReadiness, seconds(60));
  EXPECT_EQ(tally.successful, 2u);  // at 20 and 30 s
  EXPECT_EQ(tally.failed, 4u);
}

TEST_F(ProbeTallyTest, NoCountEverFalls) {
  add(ProbeKind::kStartup, ProbeWord::kStarted).period = seconds(3);
  add(ProbeKind::kReadiness, ProbeWord::kReady);
  add(ProbeKind::kLiveness, ProbeWord::kLive).period = seconds(7);
  spec.script.started = seconds(5);
  spec.script.ready = seconds(20);
  spec.script.live = seconds(40);
  ProbeTallies before;
  for (int s = 0; s < 100; ++s) {
    const ProbeTallies now = tally_probes(spec, spec.script, seconds(s));
    for (int kind = 0; kind < kProbeKinds; ++kind) {
      EXPECT_GE(now[kind].successful, before[kind].successful);
      EXPECT_GE(now[kind].failed, before[kind].failed);
    }
    before = now;
  }
  ProbeTallies sum = before;
  add_tallies(&sum, before);
  EXPECT_EQ(sum[1].successful, 2 * before[1].successful);
}

}  // namespace
}  // namespace ghostfleet::agent
