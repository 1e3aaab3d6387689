#include "agent/pod/pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pod_test_host.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::FakeCluster;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr TimePoint kStart{1'000'000'000'000};

TEST(SpamFilter, TwentyFiveThenOneInFiveMinutes) {
  SpamFilter bucket;
  for (int i = 0; i < 25; ++i) EXPECT_TRUE(bucket.take(kStart));
  EXPECT_FALSE(bucket.take(kStart + minutes(4)));
  EXPECT_TRUE(bucket.take(kStart + minutes(5) + seconds(1)));
  EXPECT_FALSE(bucket.take(kStart + minutes(5) + seconds(1)));
}

Json pod_of(const std::string& name) {
  return kube::parse_json(R"({"metadata":{"name":")" + name +
                          R"("},"spec":{"containers":[{"name":"c","image":"registry.example/app:1"}]}})")
      .value();
}

// 60 pods start in one moment: 180 events, of which 100 leave at once and the rest 50 a second.
TEST(EventBudget, ANodeWritesFiftyASecond) {
  FakeCluster cluster({});
  const auto events_until = [&](double second) {
    size_t n = 0;
    for (const auto& r : cluster.requests()) n += r.at < second && r.target.find("/events") != std::string::npos;
    return n;
  };
  for (int i = 0; i < 60; ++i) cluster.create(pod_of("p" + std::to_string(i)));
  cluster.run_for(seconds(10));
  EXPECT_EQ(events_until(10), 180u);
  double first = 10;
  for (const auto& r : cluster.requests()) {
    if (r.target.find("/events") != std::string::npos) first = std::min(first, r.at);
  }
  EXPECT_GE(events_until(first + 0.5), 100u);
  EXPECT_LE(events_until(first + 0.5), 100u + 25 + 50);  // pods start over half a second
  EXPECT_LT(events_until(first + 1), 180u);
  EXPECT_TRUE(cluster.dropped.empty());
}

TEST(EventBudget, WhatAFleetMayNotWriteIsDroppedAndCounted) {
  FakeCluster cluster({});
  cluster.event_slots = 2;
  cluster.create(pod_of("a"));
  cluster.run_for(seconds(5));
  EXPECT_EQ(cluster.events("a").size(), 2u);
  EXPECT_THAT(cluster.dropped, ElementsAre(Pair(EventDrop::kFleetBudget, 1)));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Running");
}

TEST(EventBudget, TheFilterOfAnObjectIsCounted) {
  FakeCluster cluster({});
  Json pod = pod_of("a");
  kube::set_path(pod, "spec.containers",
                 kube::parse_json(R"([{"name":"c","image":"registry.example/app:1","readinessProbe":
                     {"httpGet":{"port":80},"periodSeconds":1}}])")
                     .value());
  kube::set_path(pod, "metadata.annotations", kube::parse_json(R"({"behavior.ghostfleet.dev/c":"ready=1h"})").value());
  cluster.create(pod);
  cluster.run_for(seconds(60));
  ASSERT_EQ(cluster.dropped.count(EventDrop::kFilter), 1u);
  EXPECT_GE(cluster.dropped.at(EventDrop::kFilter), 25);
  EXPECT_LE(cluster.dropped.at(EventDrop::kFilter), 45);
}

TEST(EventBudget, WhatTheServerRefusesIsCounted) {
  FakeCluster cluster({});
  cluster.intercept = [](const ApiRequest& request) -> std::optional<ApiResponse> {
    if (request.target.find("/events") == std::string::npos) return std::nullopt;
    return ApiResponse{403, "{}", Duration(0)};
  };
  cluster.create(pod_of("a"));
  cluster.run_for(seconds(5));
  EXPECT_THAT(cluster.dropped, ElementsAre(Pair(EventDrop::kRefused, 3)));
}

}  // namespace
}  // namespace ghostfleet::agent
