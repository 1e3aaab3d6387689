// The back-off of a kubelet: 10 s doubling to 300 s, forgotten when nothing happened for twice the longest.
//
// Thread rule: plain value.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace ghostfleet::agent {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(10);
  static constexpr Duration kLongest = std::chrono::seconds(300);

  // Whether a new attempt must still wait, `since` being the end of the last one.
  bool waiting(TimePoint since, TimePoint now) const {
    return seconds_ != 0 && !expired(since) && now - since < current();
  }
  // Starts the next, longer wait: an attempt is made now.
  void next(TimePoint since, TimePoint now) {
    const Duration grown = seconds_ == 0 || expired(since) ? kFirst : std::min(current() * 2, kLongest);
    seconds_ = static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(grown).count());
    updated_ = now;
  }
  Duration current() const { return std::chrono::seconds(seconds_); }
  TimePoint updated() const { return updated_; }

 private:
  bool expired(TimePoint since) const { return since - updated_ > 2 * kLongest; }

  TimePoint updated_;
  uint32_t seconds_ = 0;  // 0: never backed off
};

}  // namespace ghostfleet::agent
