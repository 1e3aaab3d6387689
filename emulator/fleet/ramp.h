// Ramp: how many nodes of a shard may be on their way to Ready at once. With a rate it is a pace; else the window
// grows while the server answers quickly and shrinks when it says 429 or 503, or when its answers get slow (additive
// increase, multiplicative decrease; doubled in each round trip until the first sign of trouble).
//
// Thread rule: one owner. Time is handed in.
// Units: the window counts nodes; latencies are of single requests.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace ghostfleet::emulator {

class Ramp {
 public:
  static constexpr double kMinWindow = 8;
  static constexpr double kFirstWindow = 16;
  // Of all shards together: API servers refuse more than 200 writes at a time, and heartbeats need room too.
  static constexpr double kMaxWindow = 128;
  static constexpr Duration kSlow = std::chrono::seconds(1);         // of a request: time to shrink
  static constexpr Duration kBusy = std::chrono::milliseconds(300);  // no longer time to grow
  static constexpr Duration kRest = std::chrono::milliseconds(500);  // between two decreases
  static constexpr double kDecrease = 0.7;

  // `rate` nodes a second; 0: adaptive. `share`: of how many ramps this is one.
  explicit Ramp(double rate, uint32_t share = 1)
      : rate_(rate), max_window_(kMaxWindow / share > kMinWindow ? kMaxWindow / share : kMinWindow) {}

  // May one more begin? With a rate this also spends its turn.
  bool take(TimePoint now);
  void finished() {
    if (on_the_way_ > 0) --on_the_way_;
  }
  // Every answer to any request of the shard: heartbeats tell of the server's state too.
  void answered(TimePoint now, Duration latency, bool overloaded);

  uint32_t on_the_way() const { return on_the_way_; }
  double window() const { return window_; }

 private:
  void shrink(TimePoint now);

  double rate_;
  double max_window_;
  double window_ = kFirstWindow;
  bool doubling_ = true;
  uint32_t on_the_way_ = 0;
  TimePoint next_turn_;
  TimePoint last_decrease_;
};

}  // namespace ghostfleet::emulator
