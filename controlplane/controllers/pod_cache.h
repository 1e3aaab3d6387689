// PodCache: what controllers need of every pod, parsed once per version and indexed by controller, node and namespace.
//
// Thread rule: the controllers' loop. Pointers to PodInfo stay valid until the pod's deletion was told; their content
// changes with each version.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>

#include "controlplane/controllers/meta.h"
#include "controlplane/informer/kind_watch.h"

namespace ghostfleet::controlplane::controllers {

enum class PodPhase : unsigned char { kPending, kRunning, kSucceeded, kFailed, kUnknown };

struct PodInfo {
  ObjectRef object;
  std::string uid, node, ip;
  std::string owner_kind, owner_name, owner_uid;  // the controller; empty for orphans
  PodPhase phase = PodPhase::kPending;
  bool ready = false;
  bool deleting = false;
  bool tracked = false;  // finalizer batch.kubernetes.io/job-tracking
  int32_t restarts = 0;
  int64_t deletion_cost = 0;
  int64_t created_ns = 0;
  int64_t ready_since_ns = 0;
  int64_t deleted_at_ns = 0;  // deletionTimestamp
  int64_t finished_ns = 0;    // of the last container

  std::string_view name() const { return object->name(); }
  std::string_view ns() const { return object->ns(); }
  bool finished() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  bool active() const { return !finished() && !deleting; }
  bool available(int64_t min_ready_seconds, WallTime now) const {
    return ready && (min_ready_seconds <= 0 || ready_since_ns + min_ready_seconds * 1000000000 <= now.ns);
  }
};

PodInfo parse_pod(const ObjectRef& object);

class PodCache {
 public:
  using Set = std::unordered_set<const PodInfo*>;
  // `old` is what the pod was (null: new), `now` what it is (null: gone).
  using Change = std::function<void(const PodInfo* old, const PodInfo* now)>;

  explicit PodCache(KindWatch& watch);
  void subscribe(Change change) { changes_.push_back(std::move(change)); }

  const PodInfo* find(std::string_view key) const;
  const Set& owned_by(std::string_view controller_uid) const { return look(by_owner_, controller_uid); }
  const Set& on_node(std::string_view node) const { return look(by_node_, node); }
  const Set& in_namespace(std::string_view ns) const { return look(by_namespace_, ns); }
  const Set& orphans_in(std::string_view ns) const { return look(orphans_, ns); }
  const StringMap<std::unique_ptr<PodInfo>>& all() const { return pods_; }
  const StringMap<Set>& nodes() const { return by_node_; }
  size_t size() const { return pods_.size(); }

 private:
  static const Set& look(const StringMap<Set>& index, std::string_view key);
  static void unlink(StringMap<Set>* index, const std::string& key, const PodInfo* pod);
  void on_change(const ObjectRef& now, const ObjectRef& old);
  void link(const PodInfo* pod);
  void unlink(const PodInfo* pod);

  StringMap<std::unique_ptr<PodInfo>> pods_;
  StringMap<Set> by_owner_, by_node_, by_namespace_, orphans_;
  std::vector<Change> changes_;
};

}  // namespace ghostfleet::controlplane::controllers
