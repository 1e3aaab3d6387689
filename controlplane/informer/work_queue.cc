#include "controlplane/informer/work_queue.h"

#include <algorithm>

namespace ghostfleet::controlplane {

namespace {
constexpr Duration kSlice = std::chrono::milliseconds(5);
}

WorkQueue::WorkQueue(EventLoop& loop, Sync sync, Duration min_backoff, Duration max_backoff)
    : loop_(loop), sync_(std::move(sync)), min_backoff_(min_backoff), max_backoff_(max_backoff) {}

WorkQueue::~WorkQueue() {
  *alive_ = false;
  if (timer_ != 0) loop_.cancel(timer_);
}

Duration WorkQueue::backoff(Duration min, Duration max, int failures) {
  Duration d = min;
  for (int i = 1; i < failures && d < max; ++i) d *= 2;
  return std::min(d, max);
}

void WorkQueue::add(std::string_view key) {
  if (!queued_.emplace(key).second) return;
  ready_.emplace_back(key);
  schedule();
}

void WorkQueue::add_after(std::string_view key, Duration delay) {
  if (delay.count() <= 0) return add(key);
  const TimePoint when = loop_.now() + delay;
  const auto it = due_of_.find(key);
  if (it != due_of_.end()) {
    if (it->second <= when) return;
    const auto range = due_.equal_range(it->second);
    for (auto d = range.first; d != range.second; ++d) {
      if (d->second == key) {
        due_.erase(d);
        break;
      }
    }
    it->second = when;
  } else {
    due_of_.emplace(key, when);
  }
  due_.emplace(when, key);
  arm();
}

void WorkQueue::forget(std::string_view key) {
  const auto failures = failures_.find(key);
  if (failures != failures_.end()) failures_.erase(failures);
}

void WorkQueue::hold(bool held) {
  held_ = held;
  if (!held_) schedule();
}

void WorkQueue::arm() {
  if (due_.empty()) return;
  const TimePoint first = due_.begin()->first;
  if (timer_ != 0 && timer_due_ <= first) return;
  if (timer_ != 0) loop_.cancel(timer_);
  timer_due_ = first;
  timer_ = loop_.run_after(std::max(first - loop_.now(), Duration(0)), [this, alive = alive_] {
    if (!*alive) return;
    timer_ = 0;
    move_due();
  });
}

void WorkQueue::move_due() {
  const TimePoint now = loop_.now();
  while (!due_.empty() && due_.begin()->first <= now) {
    const std::string key = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    due_of_.erase(key);
    add(key);
  }
  arm();
}

void WorkQueue::schedule() {
  if (posted_ || held_ || ready_.empty()) return;
  posted_ = true;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    posted_ = false;
    run_slice();
  });
}

void WorkQueue::run_slice() {
  const TimePoint end = loop_.now() + kSlice;
  while (!ready_.empty() && !held_) {
    const std::string key = std::move(ready_.front());
    ready_.pop_front();
    queued_.erase(key);
    const SyncResult result = sync_(key);
    if (result.failed) {
      add_after(key, backoff(min_backoff_, max_backoff_, ++failures_[key]));
    } else {
      forget(key);
      if (result.after.count() >= 0) add_after(key, result.after);
    }
    if (loop_.now() >= end) break;
  }
  schedule();
}

}  // namespace ghostfleet::controlplane
