#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "controlplane/controllers/cron.h"

using namespace ghostfleet;
using namespace ghostfleet::controlplane::controllers;

// Schedules come from users, zone files from the system: whatever they hold, the next time is later and the search
// ends.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const WallTime now{1767607200000000000};
  Result<TimeZone> zone = TimeZone::parse(text);
  if (zone.ok()) (void)zone->offset_at(1767607200);
  Result<CronSchedule> schedule = CronSchedule::parse(text);
  if (!schedule.ok()) return 0;
  const std::optional<WallTime> due = schedule->next(now, TimeZone());
  if (due && *due <= now) std::abort();
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"*/5 1-3,7 * jan-mar 0", "@every 1h30m", "TZ=Europe/Berlin 0 0 29 2 *", "@daily",
          "TZif2" + std::string(39, '\0') + std::string("\0\0\16\20\0\0CET\0", 10)};
}
