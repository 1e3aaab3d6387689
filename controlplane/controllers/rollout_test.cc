#include "controlplane/controllers/rollout.h"

#include <gtest/gtest.h>

#include "controlplane/controllers/job_plan.h"
#include "controlplane/controllers/owned_pods.h"
#include "controlplane/controllers/taint_eviction.h"
#include "controlplane/controllers/zone_pacer.h"

namespace ghostfleet::controlplane::controllers {
namespace {

using Sizes = std::vector<int64_t>;

kube::Json json(std::string_view text) {
  auto parsed = kube::parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return std::move(*parsed);
}

TEST(Rollout, LimitsRoundSurgeUpAndUnavailableDown) {
  const auto d =
      json(R"({"spec":{"replicas":10,"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}}}})");
  EXPECT_EQ(rolling_limits(d).max_surge, 3);
  EXPECT_EQ(rolling_limits(d).max_unavailable, 2);
  const auto zero =
      json(R"({"spec":{"replicas":3,"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":"10%"}}}})");
  EXPECT_EQ(rolling_limits(zero).max_unavailable, 1);
}

TEST(Rollout, NewSetGrowsOnlyIntoTheSurge) {
  EXPECT_EQ(next_new_size(10, {3, 2}, 0, 10), 3);
  EXPECT_EQ(next_new_size(10, {3, 2}, 3, 13), 3);
  EXPECT_EQ(next_new_size(10, {3, 2}, 3, 11), 5);
  EXPECT_EQ(next_new_size(10, {3, 2}, 12, 12), 10);
}

TEST(Rollout, OldSetsShrinkAsFarAsAvailabilityAllows) {
  EXPECT_EQ(next_old_sizes(10, {3, 2}, {3, 0}, {{10, 10}}), (Sizes{8}));
  EXPECT_EQ(next_old_sizes(10, {3, 2}, {5, 5}, {{8, 8}}), (Sizes{3}));
  // Unhealthy ones of the oldest set go first.
  EXPECT_EQ(next_old_sizes(10, {3, 2}, {3, 0}, {{4, 0}, {6, 6}}), (Sizes{2, 6}));
}

TEST(Rollout, AWholeRolloutStaysWithinItsLimits) {
  const RollingLimits limits{3, 2};
  int64_t fresh = 0, fresh_available = 0, old = 10;
  int rounds = 0;
  while (fresh_available < 10 || old > 0) {
    ASSERT_LT(++rounds, 50);
    fresh = next_new_size(10, limits, fresh, fresh + old);
    ASSERT_LE(fresh + old, 13);
    old = next_old_sizes(10, limits, {fresh, fresh_available}, {{old, old}})[0];
    ASSERT_GE(fresh_available + old, 8);
    fresh_available = fresh;  // they become ready
  }
  EXPECT_EQ(fresh, 10);
}

TEST(Rollout, ScalingInTheMiddleIsInProportion) {
  // 10 replicas + surge 5, sizes 8 and 7, scaled to 20 (+5).
  const Sizes next = proportional_sizes({8, 7}, {15, 15}, 25, 25);
  EXPECT_EQ(next, (Sizes{13, 12}));
}

TEST(Rollout, HashIsStableAndSafe) {
  const auto a = json(R"({"metadata":{"labels":{"a":"b","pod-template-hash":"x"}},"spec":{"x":1,"y":[1,2]}})");
  const auto b = json(R"({"spec":{"y":[1,2],"x":1},"metadata":{"labels":{"a":"b"}}})");
  EXPECT_EQ(template_hash(a, 0), template_hash(b, 0));
  EXPECT_TRUE(same_template(a, b));
  EXPECT_NE(template_hash(a, 0), template_hash(a, 1));
  for (const char c : template_hash(a, 0)) {
    EXPECT_NE(std::string("bcdfghjklmnpqrstvwxz2456789").find(c), std::string::npos);
  }
}

TEST(Batches, DoubleUpToTheBurst) {
  int batch = 0, left = 2000;
  std::vector<int> sizes;
  while (left > 0) {
    batch = next_batch(batch, left);
    sizes.push_back(batch);
    left -= batch;
  }
  EXPECT_EQ((std::vector<int>(sizes.begin(), sizes.begin() + 10)),
            (std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128, 256, 500}));
}

TEST(JobPlan, IndexesRoundTrip) {
  EXPECT_EQ(format_indexes({0, 1, 2, 5, 7, 8}), "0-2,5,7,8");
  EXPECT_EQ(parse_indexes("0-2,5,7,8", 8), (std::set<int64_t>{0, 1, 2, 5, 7}));
  EXPECT_TRUE(parse_indexes("a-b,,-", 10).empty());
  EXPECT_EQ(next_indexes(6, {0, 2}, {}, {1}, 2), (Sizes{3, 4}));
}

TEST(JobPlan, Counts) {
  EXPECT_EQ(wanted_active(10, 4, 1, 0), 3);
  EXPECT_EQ(wanted_active(2, 100, 0, 0), 2);
  EXPECT_EQ(wanted_active(3, -1, 0, 0), 3);
  EXPECT_EQ(wanted_active(3, -1, 1, 2), 2);  // a work queue lets the others finish
  EXPECT_EQ(failure_backoff(1), std::chrono::seconds(10));
  EXPECT_EQ(failure_backoff(3), std::chrono::seconds(40));
  EXPECT_EQ(failure_backoff(60), std::chrono::minutes(10));
}

TEST(Evictions, StayIsTheShortestToleration) {
  const std::vector<Taint> taints = {{"a", "", "NoExecute"}, {"b", "", "NoExecute"}};
  EXPECT_EQ(stay(taints, {{"a", "Exists", "", "NoExecute", true, 20}}), Duration(0));
  const Toleration forever{"b", "Exists", "", "", false, 0};
  EXPECT_EQ(stay(taints, {{"a", "Exists", "", "NoExecute", true, 20}, forever}), std::chrono::seconds(20));
  EXPECT_LT(stay({taints[1]}, {forever}).count(), 0);
}

TEST(Zones, StatesAndPace) {
  const ZoneRates rates;
  EXPECT_EQ(zone_state({4, 0}, rates), ZoneState::kNormal);
  EXPECT_EQ(zone_state({1, 3}, rates), ZoneState::kPartial);
  EXPECT_EQ(zone_state({0, 4}, rates), ZoneState::kFull);
  EXPECT_EQ(zone_state({2, 2}, rates), ZoneState::kNormal);  // fewer than three
  ZonePacer pacer(rates);
  EXPECT_EQ(pacer.update({{"a", {1, 3}}, {"b", {4, 0}}}), ZonePacer::Verdict::kSame);
  pacer.enqueue("a", "n1");
  TimePoint now{1000000000};
  EXPECT_TRUE(pacer.take_due(now).empty());  // a small zone that is mostly down stops
  pacer.update({{"a", {0, 4}}, {"b", {4, 0}}});
  pacer.enqueue("a", "n2");
  EXPECT_EQ(pacer.take_due(now), (std::vector<std::string>{"n1"}));
  EXPECT_TRUE(pacer.take_due(now + std::chrono::seconds(9)).empty());
  EXPECT_EQ(pacer.take_due(now + std::chrono::seconds(10)), (std::vector<std::string>{"n2"}));
  EXPECT_EQ(pacer.update({{"a", {0, 4}}, {"b", {0, 4}}}), ZonePacer::Verdict::kAllDown);
  EXPECT_EQ(pacer.update({{"a", {0, 4}}, {"b", {1, 3}}}), ZonePacer::Verdict::kBackFromAllDown);
}

TEST(ScaleDown, OrderOfGoing) {
  PodInfo unassigned, pending, unready, cheap, plain;
  pending.node = unready.node = cheap.node = plain.node = "n";
  unready.phase = cheap.phase = plain.phase = PodPhase::kRunning;
  cheap.ready = plain.ready = true;
  cheap.deletion_cost = -5;
  std::vector<const PodInfo*> pods = {&plain, &cheap, &unready, &pending, &unassigned};
  sort_for_deletion(&pods, WallTime{1767607200000000000});
  EXPECT_EQ(pods, (std::vector<const PodInfo*>{&unassigned, &pending, &unready, &cheap, &plain}));
}

}  // namespace
}  // namespace ghostfleet::controlplane::controllers
