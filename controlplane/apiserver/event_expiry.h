// EventExpiry: Events go an hour after they were last written, as a real API server lets them (--event-ttl).
//
// Thread rule: one owner; the Api it works on is any thread's. It looks at a bounded number of events at a time, so
// that the loop it runs on is not held up.
#pragma once

#include <string>

#include "base/clock.h"
#include "controlplane/apiserver/api_impl.h"

namespace ghostfleet::controlplane {

class EventExpiry {
 public:
  explicit EventExpiry(ApiImpl& api, Duration ttl = std::chrono::hours(1));

  // Looks at the next `max` events; true when that was the last of them, and the next call begins anew.
  bool sweep(size_t max);

 private:
  ApiImpl& api_;
  const Duration ttl_;
  const KindId kind_;
  std::string after_;  // the last key looked at
};

}  // namespace ghostfleet::controlplane
