#include "controlplane/controllers/cron.h"

#include <gtest/gtest.h>

namespace ghostfleet::controlplane::controllers {
namespace {

std::string next(std::string_view schedule, std::string_view after, const TimeZone& zone = {}) {
  Result<CronSchedule> parsed = CronSchedule::parse(schedule);
  WallTime from;
  if (!parsed.ok() || !parse_time(after, &from)) return "bad";
  const std::optional<WallTime> due = parsed->next(from, zone);
  return due ? format_time(*due) : "never";
}

TEST(CronScheduleTest, Next) {
  EXPECT_EQ(next("*/5 * * * *", "2026-01-05T10:00:00Z"), "2026-01-05T10:05:00Z");
  EXPECT_EQ(next("*/5 * * * *", "2026-01-05T10:04:59Z"), "2026-01-05T10:05:00Z");
  EXPECT_EQ(next("0 4 * * *", "2026-01-05T04:00:00Z"), "2026-01-06T04:00:00Z");
  EXPECT_EQ(next("@monthly", "2026-01-05T04:00:00Z"), "2026-02-01T00:00:00Z");
  EXPECT_EQ(next("0 0 29 2 *", "2026-01-05T04:00:00Z"), "2028-02-29T00:00:00Z");
  EXPECT_EQ(next("0 0 31 2 *", "2026-01-05T04:00:00Z"), "never");
  EXPECT_EQ(next("30 9 * * mon-fri", "2026-01-02T09:30:00Z"), "2026-01-05T09:30:00Z");
  // Both day fields are given: either is enough. One is a star: both must fit.
  EXPECT_EQ(next("0 0 10 * tue", "2026-01-05T00:00:00Z"), "2026-01-06T00:00:00Z");
  EXPECT_EQ(next("0 0 */10 * tue", "2026-01-05T00:00:00Z"), "2026-01-06T00:00:00Z");
  EXPECT_EQ(next("0 0 * * tue", "2026-01-06T00:00:00Z"), "2026-01-13T00:00:00Z");
  EXPECT_EQ(next("10-20/5,40 1 * * *", "2026-01-05T01:20:00Z"), "2026-01-05T01:40:00Z");
  EXPECT_EQ(next("@every 90s", "2026-01-05T01:20:00Z"), "2026-01-05T01:21:30Z");
  for (const char* wrong : {"", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *",
                            "@never", "@every x", "a * * * *", ", * * * *", "1- * * * *"}) {
    EXPECT_EQ(next(wrong, "2026-01-05T01:20:00Z"), "bad") << wrong;
  }
}

void append(std::string* out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// A zone of UTC+1 that goes to UTC+2 on 2026-03-29 at 01:00 UTC and back on 2026-10-25 at 01:00 UTC.
std::string zone_file() {
  constexpr uint64_t kForward = 1774746000, kBack = 1792890000;
  std::string file;
  for (const int time_bytes : {4, 8}) {
    file += "TZif2" + std::string(15, '\0');
    for (const uint64_t count : {0, 0, 0, 2, 2, 4}) append(&file, count, 4);
    append(&file, kForward, time_bytes);
    append(&file, kBack, time_bytes);
    file += std::string("\1\0", 2);
    append(&file, 3600, 4);
    file += std::string(2, '\0');
    append(&file, 7200, 4);
    file += std::string("\1\0", 2) + std::string("CET\0", 4);
  }
  return file;
}

TEST(TimeZoneTest, SummerAndWinter) {
  Result<TimeZone> zone = TimeZone::parse(zone_file());
  ASSERT_TRUE(zone.ok());
  EXPECT_EQ(next("0 4 * * *", "2026-01-05T10:00:00Z", *zone), "2026-01-06T03:00:00Z");
  EXPECT_EQ(next("0 4 * * *", "2026-07-05T10:00:00Z", *zone), "2026-07-06T02:00:00Z");
  EXPECT_EQ(next("0 0 30 * *", "2026-03-28T12:00:00Z", *zone), "2026-03-29T22:00:00Z");
  // 02:30 does not exist that day, and exists twice in autumn.
  EXPECT_EQ(next("30 2 * * *", "2026-03-28T12:00:00Z", *zone), "2026-03-30T00:30:00Z");
  EXPECT_EQ(next("30 2 * * *", "2026-10-25T00:30:00Z", *zone), "2026-10-25T01:30:00Z");
  for (size_t cut = 0; cut < zone_file().size(); ++cut) {
    EXPECT_FALSE(TimeZone::parse(zone_file().substr(0, cut)).ok()) << cut;
  }
  EXPECT_FALSE(TimeZone::load("../../etc/passwd").ok());
  EXPECT_FALSE(TimeZone::load("Nowhere/Land").ok());
  EXPECT_TRUE(TimeZone::load("UTC").ok());
}

}  // namespace
}  // namespace ghostfleet::controlplane::controllers
