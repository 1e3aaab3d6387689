// Store: the in-memory multi-version map of the control plane, partitioned by resource kind, with one global revision.
//
// Objects are bytes: compact JSON whose metadata.resourceVersion is a hole of 16 digits that the store fills when it
// commits (revisions are fixed width: they start at the microseconds of the clock when the store is made). Everything
// that reads gets shared, immutable Objects.
//
// Thread rule: every method may be called from any thread; critical sections are short and never call out. Watch
// callbacks are only a nudge ("there is something"): the owner then pulls events on its own thread. Durability: none
// here. Compaction: history is kept for `history`, `history_events` and `history_bytes` per kind; older revisions are
// kExpired.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::controlplane {

using Revision = uint64_t;

// Bytes ready for commit: the 16 characters at `revision_offset` are overwritten with the revision.
struct EncodedObject {
  std::string json;
  size_t revision_offset = 0;
};

// One version of one object. Immutable; shared by the map, the history, watchers and sockets.
struct Object {
  std::string key;  // "namespace/name", or "name" for cluster-scoped kinds
  std::string json;
  Revision revision = 0;         // of the commit that made this version
  Revision create_revision = 0;  // of the commit that created the object
  size_t revision_offset = 0;    // where the 16 digits stand in `json`
  TimePoint committed;           // monotonic time of the commit
  // What selectors and indexes ask for, cut out of the bytes once by the kind's extractor (see KindConfig).
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<std::string> fields;  // values of KindConfig::indexed_fields, in that order

  std::string_view name() const;
  std::string_view ns() const;
};
using ObjectRef = std::shared_ptr<const Object>;

enum class EventType : unsigned char { kAdded, kModified, kDeleted };

// What an event looks like on the wire, made once by the first watcher that needs it and shared by the others. A slot
// is one combination of encoding and transform; which is which is the API server's business.
class FrameCache {
 public:
  static constexpr int kSlots = 6;
  // The slot's bytes; made by `encode` when they are missing.
  SharedBytes get(int slot, const std::function<SharedBytes()>& encode);
  // Forgets all of it: whoever still needs the event encodes it again.
  void drop();

 private:
  std::mutex mutex_;
  SharedBytes slots_[kSlots];
};

struct Event {
  EventType type = EventType::kAdded;
  Revision revision = 0;
  ObjectRef object;                    // kDeleted: the last content with the revision of the deletion
  ObjectRef previous;                  // null for kAdded
  std::shared_ptr<FrameCache> frames;  // null for events read from the history of a kind nobody watched
};

// A kind's configuration in the store.
struct KindConfig {
  std::string name;                         // "pods", "deployments.apps": KindInfo::storage_resource
  std::vector<std::string> indexed_fields;  // e.g. {"spec.nodeName", "status.phase", ...}: what field selectors may ask
  int watch_index_field = -1;  // index into indexed_fields with one watcher bucket per value (pods: spec.nodeName)
  // Fills labels and fields from the bytes; called outside the lock, once per version.
  std::function<void(std::string_view json, Object* object)> extract;
};

using KindId = uint32_t;

struct ListOptions {
  std::string prefix;                         // "ns/" or "" for all
  std::string key;                            // only this object; empty: all
  std::string index_value;                    // only those with this value of the watched index field; empty: all
  std::string start_after;                    // key after which to begin, empty: from the start
  size_t limit = 0;                           // 0: all
  Revision revision = 0;                      // 0: current; else exactly that revision (kExpired when it is gone)
  std::function<bool(const Object&)> filter;  // must be cheap: it runs under the kind's read lock
};

struct ListResult {
  std::vector<ObjectRef> items;  // in key order
  Revision revision = 0;         // at which the list was taken
  bool more = false;             // there are items after the last one
  size_t remaining = 0;          // how many, when no filter was given
};

// A subscription. Pull events on one thread; the nudge may come on any.
class Watch {
 public:
  virtual ~Watch() = default;
  // Up to `max` events in revision order; false when this watch fell so far behind that it was cut (its owner ends the
  // stream, the client resumes or relists).
  virtual bool next(size_t max, std::vector<Event>* events) = 0;
  // Every event up to this revision has been handed out (for bookmarks).
  virtual Revision progress() const = 0;
};

struct WatchOptions {
  std::string prefix;       // "ns/" or ""
  std::string key;          // exact key, or empty
  std::string index_value;  // with KindConfig::watch_index_field: only objects (old or new) with this value; empty: all
  Revision after = 0;       // events with a greater revision; must be given
  size_t max_backlog = 100000;
  // Called with no store lock held when the queue turns from empty to non-empty, on the writer's thread. It is never
  // called after the Watch's destructor has returned, and must not destroy the Watch itself.
  std::function<void()> nudge;
};

struct StoreOptions {
  Duration history = std::chrono::seconds(75);
  size_t history_events = 200000;  // per kind, never fewer than what `history` would keep unless this bound is hit
  size_t history_bytes = 192 * 1024 * 1024;  // per kind, of versions that only the history holds; as history_events
  size_t max_object_bytes = 3 * 1024 * 1024 / 2;
};

class Store {
 public:
  static std::unique_ptr<Store> create(StoreOptions options, const Clock& clock);
  virtual ~Store() = default;

  // Registers a kind (idempotent by name); custom resources register at run time.
  virtual KindId add_kind(KindConfig config) = 0;

  virtual Revision revision() const = 0;
  // Revision below which exact lists and watches of that kind are kExpired.
  virtual Revision compacted(KindId kind) const = 0;

  virtual ObjectRef get(KindId kind, std::string_view key) const = 0;  // null: none
  virtual Result<ListResult> list(KindId kind, const ListOptions& options) const = 0;
  virtual size_t count(KindId kind, std::string_view prefix) const = 0;

  // Commits one change. `expected` is the version it is based on: null to create. kAlreadyExists or kConflict when the
  // current version is another one, kNotFound when it is gone; nothing is changed then.
  virtual Result<ObjectRef> put(KindId kind, std::string_view key, const ObjectRef& expected, EncodedObject object) = 0;
  // Deletes; answers the deleted content with the deletion's revision.
  virtual Result<ObjectRef> remove(KindId kind, std::string_view key, const ObjectRef& expected) = 0;

  // kExpired when `after` is older than the history. A revision of the future is fine.
  virtual Result<std::unique_ptr<Watch>> watch(KindId kind, WatchOptions options) = 0;
  // A consistent list and the watch that continues it, with no gap.
  virtual Result<std::unique_ptr<Watch>> list_and_watch(KindId kind, const ListOptions& list, WatchOptions options,
                                                        ListResult* initial) = 0;
};

// 16 digits.
std::string format_revision(Revision revision);

}  // namespace ghostfleet::controlplane
