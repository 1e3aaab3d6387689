#include "controlplane/controllers/pod_cache.h"

#include "controlplane/apiserver/json_scan.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_int;
using kube::get_string;
using kube::Json;

namespace {

PodPhase phase_of(std::string_view text) {
  if (text == "Running") return PodPhase::kRunning;
  if (text == "Succeeded") return PodPhase::kSucceeded;
  if (text == "Failed") return PodPhase::kFailed;
  if (text == "Unknown") return PodPhase::kUnknown;
  return PodPhase::kPending;
}

void read_containers(const Json& pod, PodInfo* info) {
  const kube::JsonArray* statuses = get_array(pod, "status.containerStatuses");
  if (statuses == nullptr) return;
  for (const Json& status : *statuses) {
    info->restarts = std::max(info->restarts, static_cast<int32_t>(get_int(status, "restartCount")));
    info->finished_ns = std::max(info->finished_ns, time_at(status, "state.terminated.finishedAt"));
  }
}

}  // namespace

PodInfo parse_pod(const ObjectRef& object) {
  PodInfo info;
  info.object = object;
  const Json pod = pick_json(
      object->json,
      {{"metadata", {"uid", "ownerReferences", "deletionTimestamp", "creationTimestamp", "finalizers", "annotations"}},
       {"spec", {"nodeName"}},
       {"status", {"phase", "podIP", "conditions", "containerStatuses"}}});
  info.uid = get_string(pod, "metadata.uid");
  info.node = get_string(pod, "spec.nodeName");
  info.ip = get_string(pod, "status.podIP");
  if (const auto owner = controller_of(pod)) {
    info.owner_kind = owner->kind;
    info.owner_name = owner->name;
    info.owner_uid = owner->uid;
  }
  info.phase = phase_of(get_string(pod, "status.phase"));
  info.deleting = is_deleting(pod);
  info.deleted_at_ns = time_at(pod, "metadata.deletionTimestamp");
  info.tracked = has_finalizer(pod, "batch.kubernetes.io/job-tracking");
  info.created_ns = time_at(pod, "metadata.creationTimestamp");
  info.ready = condition_text(pod, "Ready", "status") == "True";
  if (info.ready) {
    WallTime since;
    if (parse_time(condition_text(pod, "Ready", "lastTransitionTime"), &since)) info.ready_since_ns = since.ns;
  }
  info.deletion_cost = annotation_int(pod, "controller.kubernetes.io/pod-deletion-cost", 0);
  read_containers(pod, &info);
  return info;
}

PodCache::PodCache(KindWatch& watch) {
  watch.subscribe([this](const ObjectRef& old, const ObjectRef& now) { on_change(now, old); });
}

const PodInfo* PodCache::find(std::string_view key) const {
  const auto it = pods_.find(key);
  return it == pods_.end() ? nullptr : it->second.get();
}

const PodCache::Set& PodCache::look(const StringMap<Set>& index, std::string_view key) {
  static const Set kEmpty;
  const auto it = index.find(key);
  return it == index.end() ? kEmpty : it->second;
}

void PodCache::unlink(StringMap<Set>* index, const std::string& key, const PodInfo* pod) {
  const auto it = index->find(key);
  if (it == index->end()) return;
  it->second.erase(pod);
  if (it->second.empty()) index->erase(it);
}

void PodCache::link(const PodInfo* pod) {
  const std::string ns(pod->ns());
  by_namespace_[ns].insert(pod);
  if (!pod->node.empty()) by_node_[pod->node].insert(pod);
  if (pod->owner_uid.empty()) {
    orphans_[ns].insert(pod);
  } else {
    by_owner_[pod->owner_uid].insert(pod);
  }
}

void PodCache::unlink(const PodInfo* pod) {
  const std::string ns(pod->ns());
  unlink(&by_namespace_, ns, pod);
  if (!pod->node.empty()) unlink(&by_node_, pod->node, pod);
  if (pod->owner_uid.empty()) {
    unlink(&orphans_, ns, pod);
  } else {
    unlink(&by_owner_, pod->owner_uid, pod);
  }
}

void PodCache::on_change(const ObjectRef& now, const ObjectRef& old) {
  if (!now) {
    const auto it = pods_.find(old->key);
    if (it == pods_.end()) return;
    const std::unique_ptr<PodInfo> gone = std::move(it->second);
    pods_.erase(it);
    unlink(gone.get());
    for (const Change& change : changes_) change(gone.get(), nullptr);
    return;
  }
  std::unique_ptr<PodInfo>& slot = pods_[now->key];
  if (!slot) {
    slot = std::make_unique<PodInfo>(parse_pod(now));
    const PodInfo* pod = slot.get();
    link(pod);
    for (const Change& change : changes_) change(nullptr, pod);
    return;
  }
  PodInfo* pod = slot.get();
  PodInfo before = std::move(*pod);
  *pod = parse_pod(now);
  // The indexes hold the pod by address: relink only where a key moved.
  if (before.node != pod->node || before.owner_uid != pod->owner_uid || before.uid != pod->uid) {
    PodInfo after = std::move(*pod);
    *pod = std::move(before);
    unlink(pod);
    before = std::move(*pod);
    *pod = std::move(after);
    link(pod);
  }
  for (const Change& change : changes_) change(&before, pod);
}

}  // namespace ghostfleet::controlplane::controllers
