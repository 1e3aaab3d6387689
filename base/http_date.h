// Times in HTTP header fields, as clients read them.
//
// Thread rule: pure functions. Source: RFC 9110 5.6.7 (the preferred form alone), 10.2.3.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace ghostfleet {

// "Sun, 06 Nov 1994 08:49:37 GMT" in seconds since 1970; nothing when it is no such text.
std::optional<int64_t> parse_http_date(std::string_view text);
// A Retry-After, in seconds or as a date: from 0 to kLongestRetryAfter; nothing when it is neither.
inline constexpr Duration kLongestRetryAfter = std::chrono::seconds(1000000);
std::optional<Duration> retry_after_of(std::string_view text, WallTime now);

}  // namespace ghostfleet
