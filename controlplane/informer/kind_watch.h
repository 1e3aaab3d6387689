// KindWatch: all objects of one kind, followed from an event loop. It lists, then watches; when its watch is cut off it
// lists again and tells what changed meanwhile. Holds references to the store's own immutable objects, never copies.
//
// Thread rule: everything on the loop's thread (or before it runs); the store's nudge may come from any thread.
// Ownership: create and destroy it on the loop's thread, or when the loop does not run. It works in slices of a few
// milliseconds so that watches on one loop do not starve each other.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/event_loop.h"
#include "controlplane/store/store.h"

namespace ghostfleet::controlplane {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
template <class T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

class KindWatch {
 public:
  // `old` is null for a new object, `now` for one that is gone.
  using Change = std::function<void(const ObjectRef& old, const ObjectRef& now)>;

  KindWatch(Store& store, KindId kind, EventLoop& loop, std::string prefix = "");
  ~KindWatch();
  KindWatch(const KindWatch&) = delete;
  KindWatch& operator=(const KindWatch&) = delete;

  // What exists already is told at once as new.
  void subscribe(Change change);
  // Called once the first list was handed out; at once when that has happened.
  void when_synced(std::function<void()> done);
  void start();

  bool synced() const { return synced_; }
  ObjectRef get(std::string_view key) const;
  const StringMap<ObjectRef>& objects() const { return objects_; }
  KindId kind() const { return kind_; }

  // The answer of a write of our own: taken in now instead of when its event comes, so that whoever wrote it does not
  // act on what was before. The later event of the same version is dropped.
  void observe(const ObjectRef& object);
  void observe_removed(const ObjectRef& object);

 private:
  struct Shared;  // outlives us in the nudge

  void relist();
  enum class Taken : unsigned char { kNothing, kSome, kCut };

  // shared_->posted is true from a nudge (or schedule) until run_slice() found nothing: one run is on its way.
  void schedule();
  void run_slice();
  Taken take_events();
  void look_again();
  void apply(const Event& event);
  void take_initial();
  void tell(const ObjectRef& old, const ObjectRef& now);

  Store& store_;
  KindId kind_;
  EventLoop& loop_;
  std::string prefix_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Watch> watch_;
  std::vector<ObjectRef> initial_;  // of the latest list, from initial_next_ on not handed out yet
  size_t initial_next_ = 0;
  bool listing_ = false;
  bool synced_ = false;
  StringMap<ObjectRef> objects_;
  StringMap<Revision> removed_;  // keys we removed ourselves whose deletion has not come by the watch yet
  std::vector<Change> changes_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace ghostfleet::controlplane
