#include "controlplane/controllers/garbage_collector.h"

#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/json_scan.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_string;
using kube::Json;

namespace {
constexpr const char* kName = "garbage-collector-controller";
constexpr const char* kForeground = "foregroundDeletion";
constexpr const char* kOrphan = "orphan";
constexpr Duration kKindRefresh = std::chrono::seconds(2);
constexpr Duration kRecheck = std::chrono::seconds(5);

std::string id_of(KindId kind, std::string_view key) { return fmt::format("{} {}", kind, key); }

std::string uid_of(const ObjectRef& object) { return json_text(json_at_path(object->json, "metadata.uid")); }

bool collectable(const Resource& r) {
  return r.info.storage_resource != "events" && r.info.storage_resource != "leases.coordination.k8s.io";
}

// Raw metadata, the only part of an object this controller reads when it changes.
std::vector<OwnerRef> raw_owners(const ObjectRef& object) {
  const std::string_view metadata = json_member(object->json, "metadata");
  const std::string_view refs = json_member(metadata, "ownerReferences");
  if (refs.empty()) return {};
  auto parsed = kube::parse_json(refs);
  if (!parsed.ok()) return {};
  Json holder = kube::JsonObject{};
  kube::set_path(holder, "metadata.ownerReferences", std::move(*parsed));
  return owners_of(holder);
}

bool same_owners(const std::vector<OwnerRef>& a, const std::vector<OwnerRef>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const OwnerRef& x, const OwnerRef& y) {
    return x.uid == y.uid && x.block == y.block && x.name == y.name;
  });
}

bool waits_for_us(const ObjectRef& object) {
  const std::string_view metadata = json_member(object->json, "metadata");
  const std::string_view finalizers = json_member(metadata, "finalizers");
  if (finalizers.empty() || json_member(metadata, "deletionTimestamp").empty()) return false;
  return finalizers.find(kForeground) != std::string_view::npos || finalizers.find(kOrphan) != std::string_view::npos;
}

}  // namespace

GarbageCollector::GarbageCollector(Context& context)
    : context_(context), queue_(context.loop(), [this](const std::string& id) { return sync(id); }) {}

void GarbageCollector::start() {
  queue_.hold(true);
  follow_new_kinds();
  context_.when_synced([this] { queue_.hold(false); });
}

void GarbageCollector::follow_new_kinds() {
  for (const Resource* r : context_.api().resources()) {
    if (!collectable(*r) || !followed_.insert(r->store_kind).second) continue;
    const auto& verbs = r->info.verbs;
    if (std::find(verbs.begin(), verbs.end(), "delete") == verbs.end()) continue;
    context_.watch(*r).subscribe([this, r](const ObjectRef& old, const ObjectRef& now) { on_change(*r, old, now); });
  }
  context_.loop().run_after(kKindRefresh, [this] { follow_new_kinds(); });
}

void GarbageCollector::index(const std::string& id, std::vector<OwnerRef> owners) {
  for (const OwnerRef& owner : owners) by_owner_[owner.uid].insert(id);
  dependents_[id].owners = std::move(owners);
}

void GarbageCollector::drop(const std::string& id) {
  const auto it = dependents_.find(id);
  if (it == dependents_.end()) return;
  for (const OwnerRef& owner : it->second.owners) {
    const auto set = by_owner_.find(owner.uid);
    if (set == by_owner_.end()) continue;
    set->second.erase(id);
    if (set->second.empty()) by_owner_.erase(set);
  }
  dependents_.erase(it);
  by_id_.erase(id);
}

void GarbageCollector::wake_dependents(const std::string& owner_uid) {
  const auto it = by_owner_.find(owner_uid);
  if (it == by_owner_.end()) return;
  for (const std::string& id : it->second) queue_.add(id);
}

void GarbageCollector::on_change(const Resource& r, const ObjectRef& old, const ObjectRef& now) {
  if (!now) return on_gone(r, old);
  const std::string id = id_of(r.store_kind, now->key);
  std::vector<OwnerRef> owners = raw_owners(now);
  const auto known = dependents_.find(id);
  if (owners.empty()) {
    if (known != dependents_.end()) drop(id);
  } else if (known == dependents_.end() || !same_owners(known->second.owners, owners)) {
    drop(id);
    by_id_[id] = &r;
    bool doubt = false;
    for (const OwnerRef& owner : owners) doubt |= !alive_owners_.contains(owner.uid);
    index(id, std::move(owners));
    if (doubt) queue_.add(id);
  }
  if (waits_for_us(now)) {
    by_id_[id] = &r;
    queue_.add(id);
    wake_dependents(uid_of(now));
  }
}

void GarbageCollector::on_gone(const Resource& r, const ObjectRef& old) {
  const std::string id = id_of(r.store_kind, old->key);
  const std::string uid = uid_of(old);
  const auto known = dependents_.find(id);
  if (known != dependents_.end()) {
    // Owners that wait in the foreground may be waiting for this one.
    for (const OwnerRef& owner : known->second.owners) {
      const Resource* owner_kind = context_.find_kind(owner.api_version, owner.kind);
      if (owner_kind == nullptr) continue;
      const std::string key = key_of(owner_kind->info.namespaced ? old->ns() : std::string_view(), owner.name);
      const std::string owner_id = id_of(owner_kind->store_kind, key);
      if (by_id_.contains(owner_id)) queue_.add(owner_id);
    }
    drop(id);
  }
  by_id_.erase(id);
  alive_owners_.erase(uid);
  wake_dependents(uid);
  if (r.info.storage_resource == "nodes") collect_lease(old->name());
}

void GarbageCollector::collect_lease(std::string_view node) {
  const Resource* leases = context_.find("coordination.k8s.io", "v1", "leases");
  if (leases == nullptr) return;
  const ObjectRef lease = context_.store().get(leases->store_kind, key_of("kube-node-lease", node));
  if (!lease || raw_owners(lease).empty()) return;
  const std::string id = id_of(leases->store_kind, lease->key);
  by_id_[id] = leases;
  queue_.add(id);
}

GarbageCollector::OwnerState GarbageCollector::state_of(const OwnerRef& owner, const Resource& dependent,
                                                        std::string_view ns) {
  const Resource* r = context_.find_kind(owner.api_version, owner.kind);
  if (r == nullptr) return OwnerState::kUnclear;
  if (r->info.namespaced && !dependent.info.namespaced) return OwnerState::kUnclear;
  const ObjectRef object =
      context_.store().get(r->store_kind, key_of(r->info.namespaced ? ns : std::string_view(), owner.name));
  if (!object || uid_of(object) != owner.uid) return OwnerState::kGone;
  alive_owners_.insert(owner.uid);
  const std::string_view metadata = json_member(object->json, "metadata");
  const bool foreground = !json_member(metadata, "deletionTimestamp").empty() &&
                          json_member(metadata, "finalizers").find(kForeground) != std::string_view::npos;
  return foreground && owner.block ? OwnerState::kWaiting : OwnerState::kAlive;
}

SyncResult GarbageCollector::sync(const std::string& id) {
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return SyncResult::done();
  const Resource& r = *known->second;
  const ObjectRef stored = context_.store().get(r.store_kind, std::string_view(id).substr(id.find(' ') + 1));
  if (!stored) return SyncResult::done();
  const Json object = parse_object(stored);
  if (is_deleting(object)) {
    if (has_finalizer(object, kOrphan)) return finish_orphan(r, object);
    if (has_finalizer(object, kForeground)) return finish_foreground(r, object);
    return SyncResult::done();
  }
  return settle_owners(r, object);
}

SyncResult GarbageCollector::settle_owners(const Resource& r, const Json& object) {
  std::vector<std::string> gone, waiting;
  size_t alive = 0, unclear = 0;
  for (const OwnerRef& owner : owners_of(object)) {
    switch (state_of(owner, r, get_string(object, "metadata.namespace"))) {
      case OwnerState::kAlive: ++alive; break;
      case OwnerState::kWaiting: waiting.push_back(owner.uid); break;
      case OwnerState::kGone: gone.push_back(owner.uid); break;
      case OwnerState::kUnclear: ++unclear; break;
    }
  }
  if (alive + unclear + waiting.size() + gone.size() == 0) return SyncResult::done();
  if (alive > 0) {
    gone.insert(gone.end(), waiting.begin(), waiting.end());
    return gone.empty() ? SyncResult::done() : drop_references(r, object, gone);
  }
  if (unclear > 0) return SyncResult::again(kRecheck);
  const bool has_dependents = by_owner_.contains(get_string(object, "metadata.uid"));
  if (!waiting.empty() && has_dependents) return remove(r, object, "Foreground");
  if (has_finalizer(object, kOrphan)) return remove(r, object, "Orphan");
  if (has_finalizer(object, kForeground)) return remove(r, object, "Foreground");
  return remove(r, object, "Background");
}

SyncResult GarbageCollector::remove(const Resource& r, const Json& object, std::string_view policy) {
  DeleteOptions options;
  options.uid_precondition = get_string(object, "metadata.uid");
  options.propagation_policy = policy;
  const auto removed =
      context_.remove(kName, r, get_string(object, "metadata.namespace"), get_string(object, "metadata.name"), options);
  if (removed.ok() || removed.error().code == 404 || removed.error().code == 409) return SyncResult::done();
  return SyncResult::retry();
}

SyncResult GarbageCollector::drop_references(const Resource& r, const Json& object,
                                             const std::vector<std::string>& uids) {
  const auto done = context_.modify(kName, r, get_string(object, "metadata.namespace"),
                                    get_string(object, "metadata.name"), "", [&](Json& live) -> kube::ApiResult<bool> {
                                      if (get_string(live, "metadata.uid") != get_string(object, "metadata.uid"))
                                        return false;
                                      kube::JsonArray kept;
                                      for (Json& ref : kube::ensure_array(live, "metadata.ownerReferences")) {
                                        if (std::find(uids.begin(), uids.end(), get_string(ref, "uid")) == uids.end())
                                          kept.push_back(std::move(ref));
                                      }
                                      if (kept.empty()) {
                                        kube::erase_path(live, "metadata.ownerReferences");
                                      } else {
                                        kube::set_path(live, "metadata.ownerReferences", std::move(kept));
                                      }
                                      return true;
                                    });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

SyncResult GarbageCollector::finish_foreground(const Resource& r, const Json& object) {
  const std::string uid(get_string(object, "metadata.uid"));
  const auto dependents = by_owner_.find(uid);
  bool blocked = false;
  if (dependents != by_owner_.end()) {
    for (const std::string& id : dependents->second) {
      queue_.add(id);
      for (const OwnerRef& owner : dependents_[id].owners) blocked |= owner.uid == uid && owner.block;
    }
  }
  if (blocked) return SyncResult::again(kRecheck);  // their deletion wakes us earlier
  const auto done =
      context_.modify(kName, r, get_string(object, "metadata.namespace"), get_string(object, "metadata.name"), "",
                      [&](Json& live) -> kube::ApiResult<bool> {
                        return get_string(live, "metadata.uid") == uid && remove_finalizer(live, kForeground);
                      });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

SyncResult GarbageCollector::finish_orphan(const Resource& r, const Json& object) {
  const std::string uid(get_string(object, "metadata.uid"));
  const auto dependents = by_owner_.find(uid);
  if (dependents != by_owner_.end()) {
    const std::vector<std::string> ids(dependents->second.begin(), dependents->second.end());
    for (const std::string& id : ids) {
      const auto kind = by_id_.find(id);
      if (kind == by_id_.end()) continue;
      const ObjectRef stored =
          context_.store().get(kind->second->store_kind, std::string_view(id).substr(id.find(' ') + 1));
      if (!stored) continue;
      if (drop_references(*kind->second, parse_object(stored), {uid}).failed) return SyncResult::retry();
    }
  }
  const auto done = context_.modify(kName, r, get_string(object, "metadata.namespace"),
                                    get_string(object, "metadata.name"), "", [&](Json& live) -> kube::ApiResult<bool> {
                                      return get_string(live, "metadata.uid") == uid && remove_finalizer(live, kOrphan);
                                    });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

}  // namespace ghostfleet::controlplane::controllers
