// TimerWheel: very many timers for one thread, without an allocation per timer. A timer is an index (a node's row, a
// pod's slot) that is armed for a tick; arming again moves it. Hierarchical: four levels of 256 slots.
//
// Shapes and units: ticks of `tick` (default 4 ms); the longest delay is 2^32 ticks, further ones are clamped to it. A
// timer never fires early, and at most one tick late when advance() is called at least once a tick. Cost: arm and fire
// are O(1); 24 bytes per index (links and deadline). Thread rule: one owner.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace ghostfleet {

class TimerWheel {
 public:
  using Index = uint32_t;
  static constexpr Index kNone = UINT32_MAX;

  explicit TimerWheel(TimePoint start, Duration tick = std::chrono::milliseconds(4));

  // Indexes below `count` may be armed.
  void resize(Index count);
  Index size() const { return static_cast<Index>(nodes_.size()); }

  void arm(Index index, TimePoint deadline);
  void cancel(Index index);
  bool armed(Index index) const { return nodes_[index].slot != kNone; }
  size_t armed_count() const { return armed_; }

  // Fires every timer whose deadline is not after `now`, in tick order: fn(index). fn may arm and cancel.
  template <class Fn>
  void advance(TimePoint now, Fn&& fn) {
    const uint64_t target = tick_of(now);
    while (current_ <= target) {
      if (armed_ == 0) {
        current_ = target + 1;
        return;
      }
      begin_tick();  // moves the list of this tick to firing_; what fn arms for "now" lands in the next tick
      while (firing_ != kNone) {
        const Index index = firing_;
        unlink(index);
        fn(index);
      }
    }
  }

  // When advance() has something to do next: a lower bound, for sleeping. `now` + an hour when nothing is armed.
  TimePoint next_deadline_hint(TimePoint now) const;

 private:
  struct Node {
    Index prev = kNone;
    Index next = kNone;
    uint32_t slot = kNone;  // level * 256 + slot; kFiring while its tick is being fired; kNone when not armed
    uint64_t deadline = 0;  // tick
  };
  static constexpr uint32_t kFiring = 4 * 256;

  uint64_t tick_of(TimePoint t) const;
  Index& head_of(uint32_t slot) { return slot == kFiring ? firing_ : heads_[slot]; }
  void place(Index index);
  void link(Index index, uint32_t slot);
  void unlink(Index index);
  void begin_tick();

  TimePoint start_;
  int64_t tick_ns_;
  uint64_t current_ = 0;  // the next tick to fire
  size_t armed_ = 0;
  Index firing_ = kNone;
  std::vector<Node> nodes_;
  std::vector<Index> heads_;
};

}  // namespace ghostfleet
