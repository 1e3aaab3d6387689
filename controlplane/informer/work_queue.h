// WorkQueue: keys to be brought in order, each at most once in the queue, tried again later with growing delays when
// that fails. Works in slices of a few milliseconds.
//
// Thread rule: the loop's thread only. Ownership: belongs to a controller; destroy it on the loop's thread or when the
// loop does not run.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>

#include "base/event_loop.h"
#include "controlplane/informer/kind_watch.h"

namespace ghostfleet::controlplane {

// What came of bringing a key in order.
struct SyncResult {
  bool failed = false;  // try again with back-off
  Duration after{-1};   // not negative: again after that time
  static SyncResult done() { return {}; }
  static SyncResult retry() { return {.failed = true}; }
  static SyncResult again(Duration d) { return {.after = d}; }
};

class WorkQueue {
 public:
  using Sync = std::function<SyncResult(const std::string& key)>;

  WorkQueue(EventLoop& loop, Sync sync, Duration min_backoff = std::chrono::milliseconds(5),
            Duration max_backoff = std::chrono::seconds(30));
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(std::string_view key);
  // The earlier of this and an older wish for the same key counts.
  void add_after(std::string_view key, Duration delay);
  void forget(std::string_view key);  // nothing delayed, no back-off
  size_t size() const { return ready_.size() + due_of_.size(); }
  // Keys wait until the controller's informers have listed everything.
  void hold(bool held);

  static Duration backoff(Duration min, Duration max, int failures);

 private:
  void schedule();
  void run_slice();
  void move_due();
  void arm();

  EventLoop& loop_;
  Sync sync_;
  Duration min_backoff_, max_backoff_;
  bool held_ = false;
  bool posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::deque<std::string> ready_;
  std::unordered_set<std::string, StringHash, std::equal_to<>> queued_;
  std::multimap<TimePoint, std::string> due_;
  StringMap<TimePoint> due_of_;
  StringMap<int> failures_;
  EventLoop::TimerId timer_ = 0;
  TimePoint timer_due_;
};

}  // namespace ghostfleet::controlplane
