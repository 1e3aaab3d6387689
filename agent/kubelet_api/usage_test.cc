#include "agent/kubelet_api/usage.h"

#include <gtest/gtest.h>

#include "agent/kubelet_api/test_backend.h"

namespace ghostfleet::kubelet_api {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr WallTime kStart{1767607200000000000};

Usage usage_at(const std::string& words, Duration age) {
  ManualClock clock;
  ManualTimers timers(clock);
  const TestBackend backend(timers);
  const agent::PodView pod = test_pod(kStart, words);  // requests 1 cpu and 1Gi
  return default_usage_model()->container(backend.node(0), pod, pod.containers[0], kStart + age);
}

TEST(Usage, WithoutWordsTheModel) {
  const Usage u = usage_at("", minutes(5));
  EXPECT_GE(u.cpu_cores, 0.2);
  EXPECT_LE(u.cpu_cores, 0.4);
}

TEST(Usage, FollowsTheWordsOfABehaviour) {
  const std::string words = "cpu=curve(0s:10%,1m:70%) memory=2Gi";
  EXPECT_NEAR(usage_at(words, seconds(30)).cpu_cores, 0.4, 1e-9);
  EXPECT_NEAR(usage_at(words, minutes(9)).cpu_cores, 0.7, 1e-9);
  EXPECT_NEAR(usage_at(words, minutes(2)).cpu_seconds, 24 + 42, 1e-6);
  EXPECT_EQ(usage_at(words, minutes(2)).working_set, int64_t{2} << 30);
  EXPECT_NEAR(usage_at("cpu=250m", minutes(2)).cpu_seconds, 30, 1e-6);
  EXPECT_NEAR(usage_at("memory=50%", minutes(2)).working_set, double{1 << 29}, 1);
}

}  // namespace
}  // namespace ghostfleet::kubelet_api
