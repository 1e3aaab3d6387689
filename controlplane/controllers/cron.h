// Cron schedules and time zones: when a CronJob is due.
//
// A schedule has five fields (minute, hour, day of month, month, day of week) or is a descriptor (@daily, @every 1h).
// If neither day field is a star, one of the two is enough. A time that daylight saving leaves out is not due that day,
// one that comes twice is due twice.
//
// Thread rule: plain values; TimeZone::load reads a file.
// Limits: a zone file of 1 MiB; a schedule that is never due within five years is never due.
// Formats: RFC 8536 (TZif). The rule for years after the last transition in the file is not read: zone files as Debian
// builds them reach to 2037.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::controlplane::controllers {

class TimeZone {
 public:
  // UTC.
  TimeZone() = default;
  // The bytes of a zone file.
  static Result<TimeZone> parse(std::string_view file);
  // By name ("Europe/Berlin"), from the system's zone files. "" and "UTC" are UTC.
  static Result<TimeZone> load(const std::string& name);

  // Seconds east of Greenwich at a moment (seconds since 1970).
  int64_t offset_at(int64_t utc) const;

 private:
  struct Transition {
    int64_t at = 0;
    int32_t offset = 0;
  };
  int32_t first_offset_ = 0;
  std::vector<Transition> transitions_;
};

class CronSchedule {
 public:
  static Result<CronSchedule> parse(std::string_view text);
  // The first time after `after` at which it is due.
  std::optional<WallTime> next(WallTime after, const TimeZone& zone) const;
  // "TZ=Europe/Berlin 0 4 * * *" names a zone itself; else empty.
  const std::string& zone_name() const { return zone_name_; }

 private:
  bool day_matches(unsigned day, unsigned weekday) const;

  std::bitset<60> minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;
  std::bitset<13> months_;
  std::bitset<7> weekdays_;
  bool any_day_ = false, any_weekday_ = false;
  Duration every_{0};  // @every
  std::string zone_name_;
};

}  // namespace ghostfleet::controlplane::controllers
