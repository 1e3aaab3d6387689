// LoopContext: what all HTTP connections of one event loop share: a coarse timer wheel for deadlines (no reactor timer
// per call; it wakes the loop when something is due, not at every tick), the list of connections with output, flushed
// once per turn of the loop, and scratch buffers (no buffer per idle connection).
//
// Thread rule: everything on the loop's thread, except of(). Ownership: shared by the connections of the loop; the loop
// must outlive its last use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/timer_wheel.h"

namespace ghostfleet::kube::http {

class TimerTarget {
 public:
  virtual ~TimerTarget() = default;
  virtual void on_timer(uint64_t cookie) = 0;
};

class Flushable {
 public:
  virtual ~Flushable() = default;
  virtual void flush() = 0;
};

class LoopContext : public std::enable_shared_from_this<LoopContext> {
 public:
  using TimerId = uint32_t;
  static constexpr Duration kTick = std::chrono::milliseconds(20);
  static constexpr size_t kReadBytes = 128 * 1024;

  // The context of that loop, made on first use. Any thread.
  static std::shared_ptr<LoopContext> of(EventLoop& loop);

  explicit LoopContext(EventLoop& loop);
  EventLoop& loop() { return loop_; }
  TimePoint now() const { return loop_.now(); }

  // A timer belongs to its target until it is released; arming again moves it.
  TimerId acquire_timer(TimerTarget* target, uint64_t cookie);
  void release_timer(TimerId id);
  void arm(TimerId id, TimePoint deadline);
  void disarm(TimerId id) { wheel_.cancel(id); }
  bool armed(TimerId id) const { return wheel_.armed(id); }

  // flush() is called once before the loop waits for events again.
  void schedule_flush(std::shared_ptr<Flushable> target);

  // Valid until the caller returns to the loop.
  char* read_buffer() { return read_buffer_.get(); }
  std::string plain_in, plain_out, wire_out;

 private:
  struct Timer {
    TimerTarget* target = nullptr;
    uint64_t cookie = 0;
  };
  // The connections to flush in this turn. The posted task owns it, not the context: a loop that is destroyed before
  // the turn ends must not leave a circle of connections that hold the context that holds them.
  struct Batch {
    std::vector<std::shared_ptr<Flushable>> targets;
  };
  void tick();
  void wake_at(TimePoint at);

  EventLoop& loop_;
  TimerWheel wheel_;
  std::vector<Timer> timers_;
  std::vector<TimerId> free_timers_;
  TimePoint tick_at_;  // when tick() runs next; zero: not planned
  EventLoop::TimerId tick_timer_ = 0;
  std::weak_ptr<Batch> batch_;
  std::vector<std::shared_ptr<Flushable>> spare_;  // memory of an earlier batch
  std::unique_ptr<char[]> read_buffer_;
};

}  // namespace ghostfleet::kube::http
