#include "emulator/fleet/ramp.h"

#include <gtest/gtest.h>

namespace ghostfleet::emulator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Ramp, ARateIsAPace) {
  Ramp ramp(100);
  int begun = 0;
  for (TimePoint now = TimePoint{} + seconds(1); now < TimePoint{} + seconds(3); now = now + milliseconds(4)) {
    while (ramp.take(now)) ++begun;
  }
  EXPECT_NEAR(begun, 200, 3);
}

// A server that does `capacity` nodes a second, each of four requests, and answers the slower the more wait.
int run_against(Ramp& ramp, double capacity, bool refuses_over_100, double* worst_latency) {
  TimePoint now = TimePoint{} + seconds(1);
  double done = 0;
  int ready = 0;
  for (int step = 0; step < 5000; ++step, now = now + milliseconds(4)) {
    while (ramp.take(now)) {
    }
    const double latency = ramp.on_the_way() / capacity / 4;
    *worst_latency = std::max(*worst_latency, latency);
    done += capacity * 0.004;
    while (done >= 1 && ramp.on_the_way() > 0) {
      done -= 1;
      ++ready;
      for (int i = 0; i < 4; ++i) {
        ramp.answered(now, Duration(static_cast<int64_t>(latency * 1e9)), refuses_over_100 && ramp.on_the_way() > 100);
      }
      ramp.finished();
    }
    done = std::min(done, 1.0);
  }
  return ready;
}

TEST(Ramp, AFastServerIsUsedToTheFull) {
  Ramp ramp(0);
  double worst = 0;
  EXPECT_GT(run_against(ramp, 3000, false, &worst), 3000 * 20 * 0.3);
  EXPECT_LE(ramp.window(), Ramp::kMaxWindow);
}

TEST(Ramp, ASlowServerIsNotDrowned) {
  Ramp ramp(0);
  double worst = 0;
  run_against(ramp, 20, false, &worst);
  EXPECT_LT(worst, 1.0);
  EXPECT_LT(ramp.window(), 100);
}

TEST(Ramp, RefusalsShrinkTheWindowButNeverToNothing) {
  Ramp ramp(0);
  TimePoint now = TimePoint{} + seconds(1);
  for (int i = 0; i < 100; ++i, now = now + seconds(1)) ramp.answered(now, milliseconds(1), true);
  EXPECT_EQ(ramp.window(), Ramp::kMinWindow);
  EXPECT_TRUE(ramp.take(now));
}

TEST(Ramp, OneBurstOfRefusalsCountsOnce) {
  Ramp ramp(0);
  const TimePoint now = TimePoint{} + seconds(1);
  for (int i = 0; i < 50; ++i) ramp.answered(now + milliseconds(i), milliseconds(1), true);
  EXPECT_NEAR(ramp.window(), Ramp::kFirstWindow * Ramp::kDecrease, 0.01);
}

}  // namespace
}  // namespace ghostfleet::emulator
