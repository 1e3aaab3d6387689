// The syntax of a CronJob's schedule: five fields or a descriptor ("@daily", "@every 1h").
//
// Thread rule: pure.
#pragma once

#include <string>
#include <string_view>

namespace ghostfleet::controlplane {

// "" when the schedule is fine, else what is wrong with it, in the words of the parser a real API server uses.
std::string check_cron_schedule(std::string_view schedule);

// False for a time zone nobody knows.
bool is_known_time_zone(std::string_view name);

}  // namespace ghostfleet::controlplane
