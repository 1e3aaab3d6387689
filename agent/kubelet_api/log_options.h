// LogOptions: the query of /containerLogs, checked as a kubelet does.
//
// Thread rule: plain values and pure functions. Limits: numbers are 64 bits.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::kubelet_api {

struct LogOptions {
  bool follow = false, previous = false, timestamps = false;
  std::optional<WallTime> since;  // since_seconds is turned into it
  std::optional<int64_t> tail_lines;
  std::optional<int64_t> limit_bytes;
  bool out = true, err = true;  // of the parameter "stream"
};

// InvalidArgument: a value of the wrong type (HTTP 400) or, with `unprocessable` set, one that makes no sense (422).
Result<LogOptions> parse_log_options(std::string_view query, WallTime now, bool* unprocessable);

}  // namespace ghostfleet::kubelet_api
