// The scalar types of the API between their texts and their numbers: times, durations, base64.
//
// Thread rule: pure functions. Errors are the texts Go's standard library gives, because clients see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::kube {

// Seconds since 1970 and nanoseconds of the second.
struct ApiTime {
  int64_t seconds = 0;
  int32_t nanos = 0;
};

// "2006-01-02T15:04:05Z07:00". With `micro`: exactly six digits of fraction, as MicroTime demands.
Result<ApiTime> parse_time(std::string_view text, bool micro);
// UTC; with `micro` six digits of fraction, else none.
std::string format_time(const ApiTime& time, bool micro);

// Go's "1h2m3.5s" <-> nanoseconds.
Result<int64_t> parse_duration(std::string_view text);
std::string format_duration(int64_t nanoseconds);

// Standard base64 with padding; line breaks are skipped. (base/digest.h has the encoder.)
Result<std::string> decode_base64(std::string_view text);

}  // namespace ghostfleet::kube
