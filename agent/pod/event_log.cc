#include <algorithm>

#include "agent/pod/pod.h"

namespace ghostfleet::agent {

bool SpamFilter::take(TimePoint now) {
  if (at.ns != 0 && now > at) {
    const double seconds = std::chrono::duration<double>(now - at).count();
    tokens = static_cast<float>(std::min(kBurst, tokens + seconds * kPerSecond));
  }
  at = now;
  if (tokens < 1) return false;
  tokens -= 1;
  return true;
}

}  // namespace ghostfleet::agent
