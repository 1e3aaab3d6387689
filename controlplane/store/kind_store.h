// KindStore: one kind's current objects, its history window and its watchers, under one lock.
//
// Thread rule: any thread. The global revision is drawn under this lock, so that the kind's order is revision order and
// a list's revision covers every commit of the kind up to it.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/spinning_mutex.h"
#include "controlplane/store/sorted_index.h"
#include "controlplane/store/store.h"
#include "controlplane/store/watch_hub.h"

namespace ghostfleet::controlplane {

class KindStore {
 public:
  KindStore(KindConfig config, const StoreOptions& options, const Clock& clock, std::atomic<Revision>* revision);

  const KindConfig& config() const { return config_; }
  Revision compacted() const;
  ObjectRef get(std::string_view key) const;
  size_t count(std::string_view prefix) const;
  Result<ListResult> list(const ListOptions& options);
  Result<ObjectRef> put(std::string_view key, const ObjectRef& expected, EncodedObject object);
  Result<ObjectRef> remove(std::string_view key, const ObjectRef& expected);
  Result<WatchQueueRef> watch(WatchOptions options);
  Result<WatchQueueRef> list_and_watch(const ListOptions& list, WatchOptions options, ListResult* initial);
  void unwatch(const WatchQueueRef& queue);
  Revision progress(const WatchQueue& queue) const;

 private:
  // What differed from the present at a past revision: the version each since changed key had then (null: none).
  // Extended, not rebuilt, when the next page is asked for at the same revision.
  struct Overlay {
    Revision covered = 0;  // events up to here are in it
    std::map<std::string, ObjectRef, std::less<>> then;
  };

  std::shared_ptr<Object> make_object(std::string_view key, EncodedObject encoded) const;
  Status check_expected(const ObjectRef* current, std::string_view key, const ObjectRef& expected) const;
  // What a commit leaves for after the lock: watchers to wake, and history whose memory is let go of.
  struct Aftermath {
    std::vector<WatchQueueRef> nudges;
    std::vector<std::shared_ptr<const Event>> forgotten;
    void settle();
  };

  void commit(std::shared_ptr<const Event> event, Aftermath* after);
  void compact(TimePoint now, Aftermath* after);
  size_t first_event_after(Revision revision) const;
  std::string_view index_value(const Object& object) const;
  void reindex(const Object* before, const Object* after);
  ListResult list_current(const ListOptions& options) const;
  ListResult list_at(const ListOptions& options);
  Overlay& overlay_at(Revision revision);

  const KindConfig config_;
  const StoreOptions& options_;
  const Clock& clock_;
  std::atomic<Revision>& revision_;

  mutable SpinningSharedMutex mutex_;
  SortedIndex index_;
  std::deque<std::shared_ptr<const Event>> history_;
  size_t history_bytes_ = 0;
  Revision compacted_;
  WatchHub hub_;
  // Keys by value of the watched index field (pods by node), so that a kubelet's list does not scan every pod.
  std::unordered_map<std::string, std::set<std::string>> by_index_;
  std::map<Revision, Overlay> overlays_;  // under mutex_ held exclusively
};

}  // namespace ghostfleet::controlplane
