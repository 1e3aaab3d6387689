#include "agent/pod/behavior.h"

#include <gtest/gtest.h>

#include "agent/pod/backoff.h"

namespace ghostfleet::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Behavior, ReadsEveryWord) {
  std::vector<std::string> problems;
  const Script s =
      parse_script(" exit=1,1,0 after=5s stop=3 stop-after=2s ready=10s live=1m30s started=250ms ", {}, &problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(s.exits, (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(s.exit_of(0), 1);
  EXPECT_EQ(s.exit_of(2), 0);
  EXPECT_EQ(s.exit_of(7), 0);
  EXPECT_EQ(s.after, seconds(5));
  EXPECT_EQ(s.stop, 3);
  EXPECT_EQ(s.stop_after, seconds(2));
  EXPECT_EQ(s.ready, seconds(10));
  EXPECT_EQ(s.live, seconds(90));
  EXPECT_EQ(s.started, milliseconds(250));
}

TEST(Behavior, NonsenseKeepsTheDefaultAndIsNamed) {
  Script defaults;
  defaults.exits = {7};
  defaults.after = seconds(4);
  std::vector<std::string> problems;
  const Script s = parse_script("exit=256 after=-1s stop=x ready=soon colour=red live after=", defaults, &problems);
  EXPECT_EQ(s.exits, std::vector<int>{7});
  EXPECT_EQ(s.after, seconds(4));
  EXPECT_EQ(s.stop, 0);
  ASSERT_EQ(problems.size(), 7u);
  EXPECT_EQ(problems[0], "exit=256: not an exit code from 0 to 255");
  EXPECT_EQ(problems[1], "after=-1s: not a duration such as 5s or 1m30s");
  EXPECT_EQ(problems[4], "colour=red: unknown word; known are exit, after, stop, stop-after, ready, live, started");
}

TEST(Behavior, ExtremesAreRefused) {
  std::vector<std::string> problems;
  const Script s = parse_script("after=99999999h exit=, stop-after=0 exit=0,", {}, &problems);
  EXPECT_EQ(problems.size(), 3u);
  EXPECT_TRUE(s.exits.empty());
  EXPECT_EQ(s.stop_after, Duration(0));
}

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
