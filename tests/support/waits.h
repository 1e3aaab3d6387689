// Waiting in tests: for a condition, never for a time.
//
// Thread rule: the test's thread.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"

namespace ghostfleet::tests {

// Waits for a condition, never longer than `limit`.
inline bool eventually(const std::function<bool()>& condition, Duration limit = std::chrono::seconds(30)) {
  const TimePoint end = SystemClock::instance().now() + limit;
  while (!condition()) {
    if (SystemClock::instance().now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the pause between two looks
  }
  return true;
}

}  // namespace ghostfleet::tests
