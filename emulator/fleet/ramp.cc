#include "emulator/fleet/ramp.h"

#include <algorithm>

namespace ghostfleet::emulator {

bool Ramp::take(TimePoint now) {
  if (rate_ > 0) {
    const auto gap = Duration(static_cast<int64_t>(1e9 / rate_));
    if (next_turn_ == TimePoint{}) next_turn_ = now;
    if (now < next_turn_) return false;
    // What could not be used for lack of events is made up for, but never more than a tenth of a second of it.
    next_turn_ = std::max(next_turn_ + gap, now - std::chrono::milliseconds(100));
    ++on_the_way_;
    return true;
  }
  if (on_the_way_ >= static_cast<uint32_t>(std::min(window_, max_window_))) return false;
  ++on_the_way_;
  return true;
}

void Ramp::answered(TimePoint now, Duration latency, bool overloaded) {
  if (overloaded || latency > kSlow) return shrink(now);
  if (latency > kBusy) {
    doubling_ = false;
    return;
  }
  // Growing what is not used would make a burst later.
  if (on_the_way_ + 1 < static_cast<uint32_t>(window_)) return;
  window_ = std::min(max_window_, window_ + (doubling_ ? 0.25 : 0.25 / window_));  // four requests make a node
}

void Ramp::shrink(TimePoint now) {
  doubling_ = false;
  if (last_decrease_ != TimePoint{} && now - last_decrease_ < kRest) return;
  last_decrease_ = now;
  window_ = std::max(kMinWindow, window_ * kDecrease);
}

}  // namespace ghostfleet::emulator
