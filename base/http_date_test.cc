#include "base/http_date.h"

#include <gtest/gtest.h>

namespace ghostfleet {
namespace {

TEST(HttpDate, ThePreferredFormAlone) {
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
  for (const char* none : {"", "now", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT+1"})
    EXPECT_FALSE(parse_http_date(none)) << none;
}

TEST(RetryAfter, SecondsAndDates) {
  const WallTime now{1767607200250000000};  // Mon, 05 Jan 2026 10:00:00.25 GMT
  EXPECT_EQ(retry_after_of("3", now), std::chrono::seconds(3));
  EXPECT_EQ(retry_after_of("Mon, 05 Jan 2026 10:00:30 GMT", now), std::chrono::milliseconds(29750));
  EXPECT_EQ(retry_after_of("Mon, 05 Jan 2026 09:00:00 GMT", now), Duration(0));
  EXPECT_EQ(retry_after_of("9223372036854775807", now), kLongestRetryAfter);
  EXPECT_LE(retry_after_of("Fri, 31 Dec 9999 23:59:59 GMT", now), kLongestRetryAfter);
  for (const char* none : {"", "soon", "-5", "3s"}) EXPECT_FALSE(retry_after_of(none, now)) << none;
}

}  // namespace
}  // namespace ghostfleet
