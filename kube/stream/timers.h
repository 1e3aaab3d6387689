// Timers: time for sessions, so that tests drive it. An EventLoop gives the real one.
//
// Thread rule: the loop of the session.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/event_loop.h"

namespace ghostfleet::kube::stream {

class Timers {
 public:
  using Id = uint64_t;  // 0: none
  virtual ~Timers() = default;
  virtual TimePoint now() const = 0;
  virtual Id run_after(Duration delay, std::function<void()> task) = 0;
  virtual void cancel(Id id) = 0;
};

std::shared_ptr<Timers> loop_timers(EventLoop& loop);

}  // namespace ghostfleet::kube::stream
