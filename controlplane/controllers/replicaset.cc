#include "controlplane/controllers/replicaset.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonObject;

namespace {
constexpr Duration kSlice = std::chrono::milliseconds(10);
constexpr Duration kCoalesce = std::chrono::milliseconds(5);
constexpr Duration kWaitPerPod = std::chrono::microseconds(15);

bool has_all(const Object& pod, const JsonObject* labels) {
  if (labels == nullptr) return true;
  for (const auto& [key, value] : *labels) {
    const std::string* have = label_of(pod, key);
    if (have == nullptr || !value.is_string() || *have != std::string_view(value.get_string())) return false;
  }
  return true;
}

// Zero counts are left out, as omitempty does.
void set_count(Json& object, std::string_view path, int64_t value) {
  if (value == 0) {
    kube::erase_path(object, path);
  } else {
    kube::set_path(object, path, value);
  }
}

}  // namespace

ReplicaCounts count_replicas(const std::vector<const PodInfo*>& pods, const JsonObject* template_labels,
                             int64_t min_ready_seconds, WallTime now) {
  ReplicaCounts counts;
  for (const PodInfo* pod : pods) {
    if (pod->finished()) continue;
    if (pod->deleting) {
      ++counts.terminating;
      continue;
    }
    ++counts.replicas;
    if (has_all(*pod->object, template_labels)) ++counts.fully_labeled;
    if (pod->ready) ++counts.ready;
    if (pod->available(min_ready_seconds, now)) ++counts.available;
  }
  return counts;
}

ReplicaSetController::ReplicaSetController(Context& context, const char* component, std::string_view group,
                                           std::string_view resource)
    : context_(context),
      component_(component),
      resource_(*context.find(group, "v1", resource)),
      sets_(context.watch(resource_)),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }),
      pods_(context, component_, resource_, [this](std::string_view key) { wake(key); }) {}

// A look at a set costs as much as it has pods; so does the wait until the next one.
void ReplicaSetController::wake(std::string_view key) {
  const auto size = sizes_.find(key);
  const Duration wait = size == sizes_.end() ? Duration(0) : kWaitPerPod * static_cast<int64_t>(size->second);
  queue_.add_after(key, std::max<Duration>(kCoalesce, wait));
}

void ReplicaSetController::start() {
  queue_.hold(true);
  sets_.subscribe([this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  context_.when_synced([this] { queue_.hold(false); });
}

SyncResult ReplicaSetController::sync(const std::string& key) {
  const ObjectRef object = sets_.get(key);
  if (!object) {
    batch_.erase(key);
    sizes_.erase(key);
    return SyncResult::done();
  }
  const Json set = parse_object(object);
  const kube::LabelSelector selector = pod_selector_of(set);
  std::vector<const PodInfo*> pods = pods_.claim(set, selector);
  sizes_[key] = pods.size();
  std::vector<const PodInfo*> active;
  for (const PodInfo* pod : pods) {
    if (pod->active()) active.push_back(pod);
  }
  std::string reason, problem;
  SyncResult result = SyncResult::done();
  if (!is_deleting(set)) result = manage(set, active, &reason, &problem);
  if (!result.failed && result.after.count() == 0) return result;  // a slice of a larger change: status at its end
  // Pods made and deleted just now are in the cache already.
  const auto& owned = context_.pods().owned_by(get_string(set, "metadata.uid"));
  pods.assign(owned.begin(), owned.end());
  const int64_t min_ready = get_int(set, "spec.minReadySeconds");
  const ReplicaCounts counts =
      count_replicas(pods, kube::get_object(set, "spec.template.metadata.labels"), min_ready, context_.now());
  write_status(set, counts, reason, problem);
  if (!result.failed && min_ready > 0 && counts.ready > counts.available) {
    return SyncResult::again(std::chrono::milliseconds(500));
  }
  return result;
}

SyncResult ReplicaSetController::manage(const Json& set, std::vector<const PodInfo*> active, std::string* reason,
                                        std::string* problem) {
  const int wanted = static_cast<int>(get_int(set, "spec.replicas", 1));
  const int have = static_cast<int>(active.size());
  if (have < wanted) return grow(set, wanted - have, reason, problem);
  batch_.erase(key_of(get_string(set, "metadata.namespace"), get_string(set, "metadata.name")));
  if (have > wanted) return shrink(set, std::move(active), have - wanted);
  return SyncResult::done();
}

SyncResult ReplicaSetController::grow(const Json& set, int missing, std::string* reason, std::string* problem) {
  const TimePoint end = context_.loop().now() + kSlice;
  const Json* pod_template = kube::find_path(set, "spec.template");
  const Json pod = pod_from_template(pod_template == nullptr ? Json() : *pod_template);
  int& batch = batch_[key_of(get_string(set, "metadata.namespace"), get_string(set, "metadata.name"))];
  while (missing > 0) {
    const int size = next_batch(batch, missing);
    for (int i = 0; i < size; ++i) {
      const auto made = pods_.create(set, pod);
      if (!made.ok()) {
        batch = 0;
        if (is_moot(made.error())) return SyncResult::done();
        *reason = "FailedCreate";
        *problem = made.error().message;
        return SyncResult::retry();
      }
      --missing;
      if (missing > 0 && context_.loop().now() >= end) {
        batch = std::max(batch, i + 1);
        return SyncResult::again(Duration(0));
      }
    }
    batch = size;
  }
  return SyncResult::done();
}

SyncResult ReplicaSetController::shrink(const Json& set, std::vector<const PodInfo*> active, int surplus) {
  const TimePoint end = context_.loop().now() + kSlice;
  if (surplus < static_cast<int>(active.size())) sort_for_deletion(&active, context_.now());
  bool failed = false;
  for (int i = 0; i < surplus; ++i) {
    failed |= !pods_.remove(set, *active[static_cast<size_t>(i)]);
    if (i + 1 < surplus && context_.loop().now() >= end) {
      return failed ? SyncResult::retry() : SyncResult::again(Duration(0));
    }
  }
  return failed ? SyncResult::retry() : SyncResult::done();
}

void ReplicaSetController::write_status(const Json& set, const ReplicaCounts& counts, const std::string& reason,
                                        const std::string& problem) {
  const int64_t generation = get_int(set, "metadata.generation");
  const auto fill = [&](Json& o) {
    const std::string before = kube::to_json(*kube::find_path(o, "status"));
    kube::set_path(o, "status.replicas", counts.replicas);
    set_count(o, "status.fullyLabeledReplicas", counts.fully_labeled);
    set_count(o, "status.readyReplicas", counts.ready);
    set_count(o, "status.availableReplicas", counts.available);
    if (counts.terminating > 0 || kube::find_path(o, "status.terminatingReplicas") != nullptr) {
      kube::set_path(o, "status.terminatingReplicas", counts.terminating);
    }
    kube::set_path(o, "status.observedGeneration", generation);
    if (problem.empty()) {
      remove_condition(o, "ReplicaFailure");
      if (const auto* left = kube::get_array(o, "status.conditions"); left != nullptr && left->empty()) {
        kube::erase_path(o, "status.conditions");
      }
    } else {
      set_condition(o, "ReplicaFailure", "True", reason, problem, context_.now());
    }
    return kube::to_json(*kube::find_path(o, "status")) != before;
  };
  Json probe = set;
  kube::ensure_object(probe, "status");
  if (!fill(probe)) return;
  (void)context_.modify(component_, resource_, get_string(set, "metadata.namespace"), get_string(set, "metadata.name"),
                        "status", [&](Json& live) -> kube::ApiResult<bool> {
                          if (get_string(live, "metadata.uid") != get_string(set, "metadata.uid")) return false;
                          kube::ensure_object(live, "status");
                          return fill(live);
                        });
}

}  // namespace ghostfleet::controlplane::controllers
