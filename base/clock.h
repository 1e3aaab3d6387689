// Time, injected. A TimePoint is nanoseconds of a monotonic clock, a WallTime nanoseconds since 1970 UTC; a Duration is
// nanoseconds. State machines never ask the operating system for the time: they are handed a Clock, which a test drives
// by hand and a scenario runs in virtual time.
//
// Thread rule: SystemClock may be used from any thread; a ManualClock belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ghostfleet {

using Duration = std::chrono::nanoseconds;

// Monotonic: for timers and measuring. Its zero means nothing.
struct TimePoint {
  int64_t ns = 0;
  friend auto operator<=>(const TimePoint&, const TimePoint&) = default;
  friend TimePoint operator+(TimePoint t, Duration d) { return {t.ns + d.count()}; }
  friend TimePoint operator-(TimePoint t, Duration d) { return {t.ns - d.count()}; }
  friend Duration operator-(TimePoint a, TimePoint b) { return Duration(a.ns - b.ns); }
};

// Calendar time: for timestamps in API objects.
struct WallTime {
  int64_t ns = 0;
  friend auto operator<=>(const WallTime&, const WallTime&) = default;
  friend WallTime operator+(WallTime t, Duration d) { return {t.ns + d.count()}; }
  friend WallTime operator-(WallTime t, Duration d) { return {t.ns - d.count()}; }
  friend Duration operator-(WallTime a, WallTime b) { return Duration(a.ns - b.ns); }
  int64_t seconds() const { return ns / 1000000000; }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall_now() const = 0;
};

// The operating system's clocks.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override;
  WallTime wall_now() const override;
  static SystemClock& instance();
};

// A clock that stands still until it is advanced; both times move together.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(WallTime start = {1767607200000000000});  // 2026-01-05T10:00:00Z
  TimePoint now() const override { return now_; }
  WallTime wall_now() const override { return wall_; }
  void advance(Duration d);

 private:
  TimePoint now_{1000000000};
  WallTime wall_;
};

// metav1.Time: "2026-01-05T10:00:00Z", cut to whole seconds.
std::string format_time(WallTime t);
// metav1.MicroTime: "2026-01-05T10:00:00.123456Z".
std::string format_micro_time(WallTime t);
// Writes the 27 characters of a MicroTime to `out`, for pre-rendered requests.
void format_micro_time_to(WallTime t, char* out);
// RFC 3339 with any number of decimals and any offset; false when the text is something else.
bool parse_time(std::string_view text, WallTime* out);

// "1m30s", "5s", "250ms", "1h0m0s": Go's duration text, both ways. Parsing accepts what Go's time.ParseDuration
// accepts.
std::string format_duration(Duration d);
bool parse_duration(std::string_view text, Duration* out);

}  // namespace ghostfleet
