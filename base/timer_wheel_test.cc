#include "base/timer_wheel.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace ghostfleet {
namespace {

using std::chrono::milliseconds;

TEST(TimerWheel, FiresNeverEarlyAndAtMostOneTickLate) {
  const TimePoint start{1000};
  TimerWheel wheel(start, milliseconds(4));
  wheel.resize(5000);
  Rng rng(7);
  std::map<TimerWheel::Index, TimePoint> due;
  for (TimerWheel::Index i = 0; i < 5000; ++i) {
    due[i] = start + rng.between(Duration(0), std::chrono::minutes(20));
    wheel.arm(i, due[i]);
  }
  for (TimePoint now = start; !due.empty() && now < start + std::chrono::minutes(21); now = now + milliseconds(4)) {
    wheel.advance(now, [&](TimerWheel::Index i) {
      ASSERT_TRUE(due.count(i)) << "fired twice: " << i;
      EXPECT_LE(due[i], now);
      EXPECT_LT(now - due[i], milliseconds(8));
      due.erase(i);
    });
  }
  EXPECT_TRUE(due.empty());
  EXPECT_EQ(wheel.armed_count(), 0u);
}

TEST(TimerWheel, ManyInTheSameInstantAllFire) {
  TimerWheel wheel(TimePoint{0}, milliseconds(4));
  wheel.resize(1000);
  for (TimerWheel::Index i = 0; i < 1000; ++i) wheel.arm(i, TimePoint{0} + milliseconds(100));
  int fired = 0;
  wheel.advance(TimePoint{0} + std::chrono::seconds(1), [&](TimerWheel::Index) { ++fired; });
  EXPECT_EQ(fired, 1000);
}

TEST(TimerWheel, CallbackMayCancelAndRearmOthers) {
  TimerWheel wheel(TimePoint{0}, milliseconds(4));
  wheel.resize(3);
  const TimePoint due = TimePoint{0} + milliseconds(40);
  for (TimerWheel::Index i = 0; i < 3; ++i) wheel.arm(i, due);
  int fired = 0;
  wheel.advance(due, [&](TimerWheel::Index i) {
    ++fired;
    for (TimerWheel::Index other = 0; other < 3; ++other) {
      if (other != i) wheel.cancel(other);
    }
    wheel.arm(i, due + milliseconds(4));
  });
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(wheel.armed_count(), 1u);
}

TEST(TimerWheel, HintNeverLiesBehindTheNextTimer) {
  TimerWheel wheel(TimePoint{0}, milliseconds(4));
  wheel.resize(1);
  wheel.arm(0, TimePoint{0} + std::chrono::seconds(10));
  TimePoint now{0};
  bool fired = false;
  for (int i = 0; i < 100 && !fired; ++i) {
    now = wheel.next_deadline_hint(now);
    wheel.advance(now, [&](TimerWheel::Index) { fired = true; });
  }
  EXPECT_TRUE(fired);
  EXPECT_GE(now, TimePoint{0} + std::chrono::seconds(10));
  EXPECT_LE(now, TimePoint{0} + std::chrono::milliseconds(10008));
}

}  // namespace
}  // namespace ghostfleet
