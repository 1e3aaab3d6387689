#include "agent/pod/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace ghostfleet::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Backoff, DoublesFromTenSecondsToFiveMinutes) {
  Backoff b;
  TimePoint now{1'000'000'000'000};
  EXPECT_FALSE(b.waiting(now, now));
  std::vector<int64_t> waits;
  for (int i = 0; i < 7; ++i) {
    b.next(now, now);
    waits.push_back(b.current() / seconds(1));
    EXPECT_TRUE(b.waiting(now, now + b.current() - milliseconds(1)));
    EXPECT_FALSE(b.waiting(now, now + b.current()));
    now = now + b.current();
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{10, 20, 40, 80, 160, 300, 300}));
}

TEST(Backoff, IsForgottenAfterALongRun) {
  Backoff b;
  const TimePoint start{1'000'000'000'000};
  b.next(start, start);
  b.next(start, start);
  EXPECT_EQ(b.current(), seconds(20));
  const TimePoint much_later = start + seconds(601);
  EXPECT_FALSE(b.waiting(much_later, much_later));
  b.next(much_later, much_later);
  EXPECT_EQ(b.current(), seconds(10));
}

}  // namespace
}  // namespace ghostfleet::agent
