// TokenBucket: so many at once, then so many a second.
//
// Thread rule: plain value, one owner. Time comes in with each call; a time before the last one counts as the last one.
#pragma once

#include "base/clock.h"

namespace ghostfleet {

class TokenBucket {
 public:
  // A rate of 0 or less: no limit.
  TokenBucket(double per_second, double burst) : rate_(per_second), burst_(burst), tokens_(burst) {}

  // Whether there are so many tokens.
  bool has(TimePoint now, double tokens = 1);
  // Takes them, when there are.
  bool take(TimePoint now, double tokens = 1);
  // For those that wait: takes a token that may be there only later, and says when.
  TimePoint reserve(TimePoint now);

 private:
  void refill(TimePoint now);

  double rate_, burst_;
  double tokens_;  // below zero: reserved ahead
  TimePoint at_;
};

}  // namespace ghostfleet
