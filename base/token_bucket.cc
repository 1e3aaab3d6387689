#include "base/token_bucket.h"

#include <algorithm>
#include <cmath>

namespace ghostfleet {
namespace {

constexpr double kRounding = 1e-9;  // what sums of small shares may lack of a whole token

}  // namespace

void TokenBucket::refill(TimePoint now) {
  if (now <= at_) return;
  tokens_ = std::min(burst_, tokens_ + std::chrono::duration<double>(now - at_).count() * rate_);
  at_ = now;
}

bool TokenBucket::has(TimePoint now, double tokens) {
  if (rate_ <= 0) return true;
  refill(now);
  return tokens_ >= tokens - kRounding;
}

bool TokenBucket::take(TimePoint now, double tokens) {
  if (!has(now, tokens)) return false;
  tokens_ -= tokens;
  return true;
}

TimePoint TokenBucket::reserve(TimePoint now) {
  if (rate_ <= 0) return now;
  refill(now);
  tokens_ -= 1;
  if (tokens_ >= 0) return now;
  return now + Duration(std::llround(std::ceil(-tokens_ / rate_ * 1e9)));
}

}  // namespace ghostfleet
