// GarbageCollector: deletes what has lost its owners, over all kinds, custom ones included; and carries out foreground
// and orphan deletion.
//
// It keeps only objects that name owners (owner uid -> dependents). Whether an owner still exists is asked of the store
// by the reference's kind and name, and remembered until its deletion is seen. Events are not collected. Node leases
// are not watched (a hundred thousand renewals in ten seconds): a node's lease is looked at when the node goes. Thread
// rule: the controllers' loop.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_set>

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

class GarbageCollector final : public Controller {
 public:
  explicit GarbageCollector(Context& context);
  void start() override;

 private:
  struct Dependent {
    std::vector<OwnerRef> owners;
  };
  enum class OwnerState { kAlive, kWaiting, kGone, kUnclear };

  void follow_new_kinds();
  void on_change(const Resource& r, const ObjectRef& old, const ObjectRef& now);
  void on_gone(const Resource& r, const ObjectRef& old);
  void index(const std::string& id, std::vector<OwnerRef> owners);
  void drop(const std::string& id);
  void wake_dependents(const std::string& owner_uid);
  SyncResult sync(const std::string& id);
  SyncResult settle_owners(const Resource& r, const kube::Json& object);
  SyncResult finish_foreground(const Resource& r, const kube::Json& object);
  SyncResult finish_orphan(const Resource& r, const kube::Json& object);
  SyncResult drop_references(const Resource& r, const kube::Json& object, const std::vector<std::string>& uids);
  SyncResult remove(const Resource& r, const kube::Json& object, std::string_view policy);
  OwnerState state_of(const OwnerRef& owner, const Resource& dependent, std::string_view ns);
  void collect_lease(std::string_view node);

  Context& context_;
  WorkQueue queue_;  // "KIND-ID key"
  std::set<KindId> followed_;
  StringMap<const Resource*> by_id_;
  StringMap<Dependent> dependents_;
  StringMap<std::unordered_set<std::string>> by_owner_;
  std::unordered_set<std::string> alive_owners_;  // uids seen in the store whose deletion was not seen yet
};

}  // namespace ghostfleet::controlplane::controllers
