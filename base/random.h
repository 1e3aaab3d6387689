// A small seeded generator (xoshiro256**, seeded by splitmix64; both published by Blackman and Vigna in the public
// domain). A run with the same seed makes the same choices, which is what makes a scenario replayable.
//
// Thread rule: one owner.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace ghostfleet {

class Rng {
 public:
  explicit Rng(uint64_t seed);
  uint64_t next();
  // Uniform in [0, bound); bound > 0.
  uint64_t below(uint64_t bound);
  // Uniform in [0, 1).
  double uniform();
  // Uniform in [low, high).
  Duration between(Duration low, Duration high);

 private:
  uint64_t s_[4];
};

}  // namespace ghostfleet
