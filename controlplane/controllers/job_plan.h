// The arithmetic of a Job: what finished pods mean, how many pods to make or delete, when it is over. Pure functions.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ghostfleet::controlplane::controllers {

// "0-3,7" and back; indexes at or above `limit` and broken parts are dropped.
std::set<int64_t> parse_indexes(std::string_view text, int64_t limit);
std::string format_indexes(const std::set<int64_t>& indexes);

// How many pods a Job without indexes should have running.
int64_t wanted_active(int64_t parallelism, int64_t completions, int64_t succeeded, int64_t active);

// The lowest indexes that neither succeeded, failed for good nor run.
std::vector<int64_t> next_indexes(int64_t completions, const std::set<int64_t>& succeeded,
                                  const std::set<int64_t>& failed, const std::set<int64_t>& active, int64_t count);

// Delay before the next pod after `failures` failures in a row: 10 s, doubled each time, at most 10 minutes.
Duration failure_backoff(int64_t failures);

}  // namespace ghostfleet::controlplane::controllers
