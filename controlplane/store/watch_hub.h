// WatchHub: the subscriptions of one kind, in buckets, so that an event touches only watchers it can concern: those of
// its key, its namespace, its index values (old and new), and of the whole kind.
//
// Thread rule: everything of WatchHub under the kind's lock; a WatchQueue has its own lock, taken inside.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "controlplane/store/store.h"

namespace ghostfleet::controlplane {

// The events a watcher has not pulled yet.
class WatchQueue {
 public:
  WatchQueue(WatchOptions options, Revision from) : options_(std::move(options)), handed_out_(from) {}

  const WatchOptions& options() const { return options_; }
  // True when the owner must be nudged.
  bool push(const std::shared_ptr<const Event>& event);
  bool pull(size_t max, std::vector<Event>* events);
  // `current` when nothing waits, else the last revision handed out.
  Revision progress(Revision current) const;
  void nudge();
  void close();

 private:
  const WatchOptions options_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const Event>> events_;
  Revision handed_out_;
  bool cut_ = false;
  std::mutex nudge_mutex_;
  bool closed_ = false;
};
using WatchQueueRef = std::shared_ptr<WatchQueue>;

class WatchHub {
 public:
  explicit WatchHub(int index_field) : index_field_(index_field) {}

  void add(const WatchQueueRef& queue);
  void remove(const WatchQueueRef& queue);
  bool empty() const { return count_ == 0; }
  // Whether the event is one for a watcher with these options.
  bool concerns(const WatchOptions& options, const Event& event) const;
  // Queues the event where it belongs; watchers to nudge are appended.
  void publish(const std::shared_ptr<const Event>& event, std::vector<WatchQueueRef>* nudges) const;

 private:
  using Bucket = std::vector<WatchQueueRef>;
  using Buckets = std::unordered_map<std::string, Bucket>;

  Bucket& bucket_of(const WatchOptions& options);
  void publish_to(const Bucket& bucket, const std::shared_ptr<const Event>& event,
                  std::vector<WatchQueueRef>* nudges) const;
  void publish_to(const Buckets& buckets, std::string_view key, const std::shared_ptr<const Event>& event,
                  std::vector<WatchQueueRef>* nudges) const;
  std::string_view index_value(const ObjectRef& object) const;

  const int index_field_;
  size_t count_ = 0;
  Bucket all_;
  Buckets by_key_, by_prefix_, by_index_;
};

}  // namespace ghostfleet::controlplane
