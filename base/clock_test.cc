#include "base/clock.h"

#include <gtest/gtest.h>

namespace ghostfleet {
namespace {

TEST(Time, RoundTrips) {
  WallTime t;
  ASSERT_TRUE(parse_time("2026-01-05T10:00:00.123456Z", &t));
  EXPECT_EQ(format_micro_time(t), "2026-01-05T10:00:00.123456Z");
  EXPECT_EQ(format_time(t), "2026-01-05T10:00:00Z");
  ASSERT_TRUE(parse_time("2024-02-29T23:59:59+02:00", &t));
  EXPECT_EQ(format_time(t), "2024-02-29T21:59:59Z");
}

TEST(Time, RefusesWhatIsNoTime) {
  WallTime t;
  for (const char* text : {"", "2026-01-05", "2026-13-05T10:00:00Z", "2026-02-29T10:00:00Z", "2026-01-05T25:00:00Z",
                           "2026-01-05T10:00:00", "2026-01-05T10:00:00.Z", "2026-01-05T10:00:00+2:00"}) {
    EXPECT_FALSE(parse_time(text, &t)) << text;
  }
}

TEST(Duration, SpeaksGo) {
  Duration d{};
  for (const char* text : {"0s", "5s", "1m20s", "5m0s", "1h0m0s", "250ms", "1.5s", "1.234s", "-3s"}) {
    ASSERT_TRUE(parse_duration(text, &d)) << text;
    EXPECT_EQ(format_duration(d), text);
  }
  ASSERT_TRUE(parse_duration("90s", &d));
  EXPECT_EQ(format_duration(d), "1m30s");
  for (const char* text : {"", "5", "s", "soon", "5 s", "1.2.3s", "5x"}) EXPECT_FALSE(parse_duration(text, &d)) << text;
}

}  // namespace
}  // namespace ghostfleet
