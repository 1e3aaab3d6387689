#include "base/timer_wheel.h"

#include <algorithm>
#include <cassert>

namespace ghostfleet {
namespace {
constexpr int kLevels = 4;
constexpr uint64_t kLongest = (uint64_t{1} << 32) - 1;
}  // namespace

TimerWheel::TimerWheel(TimePoint start, Duration tick)
    : start_(start), tick_ns_(tick.count()), heads_(kLevels * 256, kNone) {
  assert(tick.count() > 0);
}

void TimerWheel::resize(Index count) {
  for (Index i = count; i < nodes_.size(); ++i) cancel(i);
  nodes_.resize(count);
}

// The tick that contains `t`; the tick before the start is tick 0.
uint64_t TimerWheel::tick_of(TimePoint t) const {
  const int64_t since = (t - start_).count();
  return since <= 0 ? 0 : static_cast<uint64_t>(since / tick_ns_);
}

void TimerWheel::arm(Index index, TimePoint deadline) {
  assert(index < nodes_.size());
  cancel(index);
  const int64_t since = (deadline - start_).count();
  // Rounded up: a timer never fires early.
  const uint64_t tick = since <= 0 ? 0 : static_cast<uint64_t>((since + tick_ns_ - 1) / tick_ns_);
  nodes_[index].deadline = std::clamp(tick, current_, current_ + kLongest);
  place(index);
  ++armed_;
}

void TimerWheel::cancel(Index index) {
  if (nodes_[index].slot == kNone) return;
  unlink(index);
}

// Files a timer by the highest digit (of 8 bits) in which its deadline differs from the current tick.
void TimerWheel::place(Index index) {
  const uint64_t deadline = nodes_[index].deadline;
  const uint64_t diff = deadline ^ current_;
  uint32_t level = 0;
  while (level < kLevels - 1 && (diff >> (8 * (level + 1))) != 0) ++level;
  link(index, level * 256 + static_cast<uint32_t>((deadline >> (8 * level)) & 255));
}

void TimerWheel::link(Index index, uint32_t slot) {
  Index& head = head_of(slot);
  nodes_[index].slot = slot;
  nodes_[index].prev = kNone;
  nodes_[index].next = head;
  if (head != kNone) nodes_[head].prev = index;
  head = index;
}

void TimerWheel::unlink(Index index) {
  Node& node = nodes_[index];
  if (node.prev != kNone) {
    nodes_[node.prev].next = node.next;
  } else {
    head_of(node.slot) = node.next;
  }
  if (node.next != kNone) nodes_[node.next].prev = node.prev;
  node.slot = node.prev = node.next = kNone;
  --armed_;
}

void TimerWheel::begin_tick() {
  // When the low digits are all zero, the slot above holds timers that now belong to lower levels.
  for (uint32_t level = kLevels - 1; level >= 1; --level) {
    if ((current_ & ((uint64_t{1} << (8 * level)) - 1)) != 0) continue;
    const uint32_t slot = level * 256 + static_cast<uint32_t>((current_ >> (8 * level)) & 255);
    Index index = heads_[slot];
    heads_[slot] = kNone;
    while (index != kNone) {
      const Index next = nodes_[index].next;
      place(index);
      index = next;
    }
  }
  const uint32_t slot = static_cast<uint32_t>(current_ & 255);
  ++current_;
  firing_ = heads_[slot];
  heads_[slot] = kNone;
  for (Index i = firing_; i != kNone; i = nodes_[i].next) nodes_[i].slot = kFiring;
}

TimePoint TimerWheel::next_deadline_hint(TimePoint now) const {
  if (armed_ == 0) return now + std::chrono::hours(1);
  // The rest of the lowest level, else its end, where the next level is looked at.
  for (uint64_t tick = current_; tick < (current_ | 255) + 1; ++tick) {
    if (heads_[tick & 255] != kNone) return start_ + Duration(static_cast<int64_t>(tick) * tick_ns_);
  }
  return start_ + Duration(static_cast<int64_t>((current_ | 255) + 1) * tick_ns_);
}

}  // namespace ghostfleet
