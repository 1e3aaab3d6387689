#include "controlplane/controllers/deployment.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::controlplane::controllers {

using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonObject;

namespace {
constexpr const char* kName = "deployment-controller";
constexpr const char* kRevision = "deployment.kubernetes.io/revision";
constexpr const char* kDesired = "deployment.kubernetes.io/desired-replicas";
constexpr const char* kMax = "deployment.kubernetes.io/max-replicas";
constexpr const char* kHashLabel = "pod-template-hash";
// Longer than the ReplicaSet controller takes to act, so that a status counts what that has just done.
constexpr Duration kCoalesce = std::chrono::milliseconds(30);

int64_t wanted_of(const Json& set) { return get_int(set, "spec.replicas", 1); }
int64_t replicas_of(const Json& deployment) { return get_int(deployment, "spec.replicas", 1); }
bool is_recreate(const Json& deployment) { return get_string(deployment, "spec.strategy.type") == "Recreate"; }

int64_t max_replicas_of(const Json& deployment) {
  const int64_t surge = is_recreate(deployment) ? 0 : rolling_limits(deployment).max_surge;
  return replicas_of(deployment) + (replicas_of(deployment) == 0 ? 0 : surge);
}

// Annotations of a Deployment that its sets do not get.
bool stays_behind(std::string_view key) {
  return key == "kubectl.kubernetes.io/last-applied-configuration" || key == kRevision || key == kDesired ||
         key == kMax || key == "deployment.kubernetes.io/revision-history" ||
         key == "deprecated.deployment.rollback.to";
}

// Annotations for the newest set; true when something changed.
bool carry_annotations(const Json& deployment, int64_t revision, Json* set) {
  JsonObject& to = kube::ensure_object(*set, "metadata.annotations");
  const std::string before = kube::to_json(to);
  if (const JsonObject* from = kube::get_object(deployment, "metadata.annotations")) {
    for (const auto& [key, value] : *from) {
      if (!stays_behind(key)) to[key] = value;
    }
  }
  const std::string old(annotation(*set, kRevision));
  if (revision > annotation_int(*set, kRevision, 0)) {
    if (!old.empty() && old != std::to_string(revision)) {
      const std::string_view history = annotation(*set, "deployment.kubernetes.io/revision-history");
      to["deployment.kubernetes.io/revision-history"] = history.empty() ? old : fmt::format("{},{}", history, old);
    }
    to[kRevision] = std::to_string(revision);
  }
  to[kDesired] = std::to_string(replicas_of(deployment));
  to[kMax] = std::to_string(max_replicas_of(deployment));
  return kube::to_json(to) != before;
}

}  // namespace

DeploymentController::DeploymentController(Context& context)
    : context_(context),
      resource_(*context.find("apps", "v1", "deployments")),
      set_resource_(*context.find("apps", "v1", "replicasets")),
      deployments_(context.watch(resource_)),
      sets_(context.watch(set_resource_)),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {}

void DeploymentController::start() {
  queue_.hold(true);
  deployments_.subscribe([this](const ObjectRef& old, const ObjectRef& now) {
    queue_.add((now ? now : old)->key);
    if (old) return;
    const auto orphans = orphan_sets_.find(now->ns());
    if (orphans != orphan_sets_.end()) queue_.add_after(now->key, std::chrono::milliseconds(50));
  });
  sets_.subscribe([this](const ObjectRef& old, const ObjectRef& now) {
    const ObjectRef& any = now ? now : old;
    std::string owner_uid;
    if (now) {
      if (const auto owner = controller_of(parse_object(now)); owner && owner->kind == "Deployment") {
        owner_uid = owner->uid;
        queue_.add_after(key_of(any->ns(), owner->name), kCoalesce);
      } else if (owner) {
        return;
      }
    }
    const auto known = owner_of_set_.find(any->key);
    if (known != owner_of_set_.end() && (!now || known->second != owner_uid)) {
      auto& index = known->second.empty() ? orphan_sets_[std::string(any->ns())] : sets_by_owner_[known->second];
      index.erase(any->key);
      if (!now) {
        if (const auto owner = controller_of(parse_object(old))) queue_.add(key_of(any->ns(), owner->name));
      }
      owner_of_set_.erase(known);
    }
    if (!now) return;
    owner_of_set_[any->key] = owner_uid;
    (owner_uid.empty() ? orphan_sets_[std::string(any->ns())] : sets_by_owner_[owner_uid]).insert(any->key);
  });
  context_.when_synced([this] { queue_.hold(false); });
}

void DeploymentController::claim_sets(Work* work) {
  const Json& d = work->deployment;
  const std::string uid(get_string(d, "metadata.uid"));
  const auto orphans = orphan_sets_.find(get_string(d, "metadata.namespace"));
  if (orphans != orphan_sets_.end() && !is_deleting(d)) {
    const kube::LabelSelector selector = selector_of(kube::find_path(d, "spec.selector"));
    const std::vector<std::string> keys(orphans->second.begin(), orphans->second.end());
    for (const std::string& key : keys) {
      const ObjectRef set = sets_.get(key);
      if (!set || !matches(selector, *set)) continue;
      (void)context_.modify(kName, set_resource_, set->ns(), set->name(), "", [&](Json& live) -> kube::ApiResult<bool> {
        if (controller_of(live) || is_deleting(live)) return false;
        kube::ensure_array(live, "metadata.ownerReferences").push_back(controller_ref_to(d));
        return true;
      });
    }
  }
  const auto owned = sets_by_owner_.find(uid);
  if (owned == sets_by_owner_.end()) return;
  for (const std::string& key : owned->second) {
    if (const ObjectRef set = sets_.get(key)) work->sets.push_back(parse_object(set));
  }
  std::sort(work->sets.begin(), work->sets.end(), [](const Json& a, const Json& b) {
    const int64_t ta = time_at(a, "metadata.creationTimestamp"), tb = time_at(b, "metadata.creationTimestamp");
    if (ta != tb) return ta < tb;
    const int64_t ra = annotation_int(a, kRevision, 0), rb = annotation_int(b, kRevision, 0);
    if (ra != rb) return ra < rb;
    return get_string(a, "metadata.name") < get_string(b, "metadata.name");
  });
}

void DeploymentController::find_newest(Work* work) {
  work->newest = -1;
  const Json* wanted = kube::find_path(work->deployment, "spec.template");
  if (wanted == nullptr) return;
  for (size_t i = 0; i < work->sets.size(); ++i) {
    const Json* have = kube::find_path(work->sets[i], "spec.template");
    if (have != nullptr && same_template(*have, *wanted)) {
      work->newest = static_cast<int>(i);
      return;
    }
  }
}

int64_t DeploymentController::total_wanted(const Work& work) const {
  int64_t total = 0;
  for (const Json& set : work.sets) total += wanted_of(set);
  return total;
}

bool DeploymentController::ensure_newest(Work* work) {
  int64_t highest_old = 0;
  for (size_t i = 0; i < work->sets.size(); ++i) {
    if (static_cast<int>(i) != work->newest) {
      highest_old = std::max(highest_old, annotation_int(work->sets[i], kRevision, 0));
    }
  }
  const int64_t revision = highest_old + 1;
  if (work->newest < 0) return create_newest(work, revision);
  return refresh_newest(work, revision);
}

bool DeploymentController::refresh_newest(Work* work, int64_t revision) {
  Json& set = work->sets[static_cast<size_t>(work->newest)];
  const int64_t min_ready = get_int(work->deployment, "spec.minReadySeconds");
  Json probe = set;
  const bool changed = carry_annotations(work->deployment, revision, &probe);
  if (changed || get_int(set, "spec.minReadySeconds") != min_ready) {
    const auto done = context_.modify(kName, set_resource_, get_string(set, "metadata.namespace"),
                                      get_string(set, "metadata.name"), "", [&](Json& live) -> kube::ApiResult<bool> {
                                        carry_annotations(work->deployment, revision, &live);
                                        if (min_ready > 0 || get_int(live, "spec.minReadySeconds") > 0) {
                                          kube::set_path(live, "spec.minReadySeconds", min_ready);
                                        }
                                        return true;
                                      });
    if (!done.ok()) return false;
    set = parse_object(*done);
  }
  if (find_condition(work->deployment, "Progressing") == nullptr) {
    work->progressed = true;
    work->progress_reason = "FoundNewReplicaSet";
    work->progress_message = fmt::format("Found new replica set \"{}\"", get_string(set, "metadata.name"));
  }
  return note_revision(work, annotation_int(set, kRevision, revision));
}

bool DeploymentController::note_revision(Work* work, int64_t revision) {
  Json& d = work->deployment;
  if (annotation(d, kRevision) == std::to_string(revision)) return true;
  // Through the status endpoint, as annotations there do not raise the generation.
  const auto done = context_.modify(kName, resource_, get_string(d, "metadata.namespace"),
                                    get_string(d, "metadata.name"), "status", [&](Json& live) -> kube::ApiResult<bool> {
                                      set_annotation(live, kRevision, std::to_string(revision));
                                      return true;
                                    });
  if (!done.ok()) return false;
  d = parse_object(*done);
  return true;
}

bool DeploymentController::create_newest(Work* work, int64_t revision) {
  const Json& d = work->deployment;
  const int64_t collisions = get_int(d, "status.collisionCount");
  const Json* pod_template = kube::find_path(d, "spec.template");
  const std::string hash = template_hash(*pod_template, collisions);
  Json set = JsonObject{{"apiVersion", "apps/v1"}, {"kind", "ReplicaSet"}};
  kube::set_path(set, "metadata.name", Json(fmt::format("{}-{}", get_string(d, "metadata.name"), hash)));
  kube::set_path(set, "metadata.namespace", Json(get_string(d, "metadata.namespace")));
  if (const JsonObject* labels = kube::get_object(*pod_template, "metadata.labels")) {
    kube::set_path(set, "metadata.labels", *labels);
  }
  set_label(set, kHashLabel, hash);
  kube::set_path(set, "metadata.ownerReferences", kube::JsonArray{controller_ref_to(d)});
  carry_annotations(d, revision, &set);
  const int64_t size =
      is_recreate(d) ? replicas_of(d) : next_new_size(replicas_of(d), rolling_limits(d), 0, total_wanted(*work));
  kube::set_path(set, "spec.replicas", size);
  if (const int64_t min_ready = get_int(d, "spec.minReadySeconds"); min_ready > 0) {
    kube::set_path(set, "spec.minReadySeconds", min_ready);
  }
  kube::set_path(set, "spec.selector", *kube::find_path(d, "spec.selector"));
  kube::ensure_object(set, "spec.selector.matchLabels")[kHashLabel] = hash;
  kube::set_path(set, "spec.template", *pod_template);
  kube::ensure_object(set, "spec.template.metadata.labels")[kHashLabel] = hash;
  const std::string name(get_string(set, "metadata.name"));
  const auto made = context_.create(kName, set_resource_, get_string(d, "metadata.namespace"), std::move(set));
  if (!made.ok()) {
    if (made.error().code == 409) {  // another template with the same hash: count it, and try with another name
      (void)context_.modify(kName, resource_, get_string(d, "metadata.namespace"), get_string(d, "metadata.name"),
                            "status", [&](Json& live) -> kube::ApiResult<bool> {
                              kube::set_path(live, "status.collisionCount", collisions + 1);
                              return true;
                            });
      return false;
    }
    if (!is_moot(made.error())) {
      work->failure_reason = "ReplicaSetCreateError";
      work->failure = made.error().message;
      context_.events().record(reference_to(d), "Warning", "ReplicaSetCreateError",
                               fmt::format("Failed to create new replica set \"{}\": {}", name, made.error().message),
                               kName);
    }
    return false;
  }
  work->sets.push_back(parse_object(*made));
  work->newest = static_cast<int>(work->sets.size()) - 1;
  if (size > 0) {
    context_.events().record(reference_to(d), "Normal", "ScalingReplicaSet",
                             fmt::format("Scaled up replica set {} from 0 to {}", name, size), kName);
  }
  work->progressed = true;
  work->progress_reason = "NewReplicaSetCreated";
  work->progress_message = fmt::format("Created new replica set \"{}\"", name);
  return note_revision(work, revision);
}

bool DeploymentController::resize(Work* work, size_t index, int64_t size) {
  Json& set = work->sets[index];
  const int64_t before = wanted_of(set);
  const Json& d = work->deployment;
  const std::string desired = std::to_string(replicas_of(d)), max = std::to_string(max_replicas_of(d));
  if (before == size && annotation(set, kDesired) == desired && annotation(set, kMax) == max) return true;
  const auto done = context_.modify(kName, set_resource_, get_string(set, "metadata.namespace"),
                                    get_string(set, "metadata.name"), "", [&](Json& live) -> kube::ApiResult<bool> {
                                      kube::set_path(live, "spec.replicas", size);
                                      set_annotation(live, kDesired, desired);
                                      set_annotation(live, kMax, max);
                                      return true;
                                    });
  if (!done.ok()) return false;
  set = parse_object(*done);
  if (before != size) {
    work->progressed = true;
    context_.events().record(reference_to(d), "Normal", "ScalingReplicaSet",
                             fmt::format("Scaled {} replica set {} from {} to {}", before < size ? "up" : "down",
                                         get_string(set, "metadata.name"), before, size),
                             kName);
  }
  return true;
}

bool DeploymentController::roll(Work* work) {
  if (!ensure_newest(work)) return false;
  const RollingLimits limits = rolling_limits(work->deployment);
  const int64_t replicas = replicas_of(work->deployment);
  const size_t newest = static_cast<size_t>(work->newest);
  const int64_t size = next_new_size(replicas, limits, wanted_of(work->sets[newest]), total_wanted(*work));
  if (!resize(work, newest, size)) return false;
  std::vector<SetSize> old;
  std::vector<size_t> indexes;
  for (size_t i = 0; i < work->sets.size(); ++i) {
    if (i == newest || wanted_of(work->sets[i]) == 0) continue;
    old.push_back({wanted_of(work->sets[i]), get_int(work->sets[i], "status.availableReplicas")});
    indexes.push_back(i);
  }
  const SetSize fresh{wanted_of(work->sets[newest]), get_int(work->sets[newest], "status.availableReplicas")};
  const std::vector<int64_t> next = next_old_sizes(replicas, limits, fresh, old);
  for (size_t i = 0; i < indexes.size(); ++i) {
    if (next[i] != old[i].wanted && !resize(work, indexes[i], next[i])) return false;
  }
  return true;
}

bool DeploymentController::recreate(Work* work) {
  bool old_pods = false;
  for (size_t i = 0; i < work->sets.size(); ++i) {
    if (static_cast<int>(i) == work->newest) continue;
    if (wanted_of(work->sets[i]) > 0 && !resize(work, i, 0)) return false;
    for (const PodInfo* pod : context_.pods().owned_by(get_string(work->sets[i], "metadata.uid"))) {
      old_pods |= !pod->finished();
    }
  }
  if (old_pods) return true;  // wait until they are gone
  if (!ensure_newest(work)) return false;
  return resize(work, static_cast<size_t>(work->newest), replicas_of(work->deployment));
}

bool DeploymentController::needs_scaling(const Work& work) const {
  for (const Json& set : work.sets) {
    if (wanted_of(set) == 0) continue;
    const int64_t desired = annotation_int(set, kDesired, -1);
    if (desired >= 0 && desired != replicas_of(work.deployment)) return true;
  }
  return false;
}

bool DeploymentController::scale_evenly(Work* work) {
  const int64_t replicas = replicas_of(work->deployment);
  std::vector<size_t> active;
  for (size_t i = 0; i < work->sets.size(); ++i) {
    if (wanted_of(work->sets[i]) > 0) active.push_back(i);
  }
  if (active.empty() && work->newest >= 0) active.push_back(static_cast<size_t>(work->newest));
  if (active.empty()) return true;
  if (active.size() == 1) return resize(work, active[0], replicas);
  const bool full = work->newest >= 0 && complete(*work);
  if (full || is_recreate(work->deployment)) {
    for (const size_t i : active) {
      if (!resize(work, i, static_cast<int>(i) == work->newest ? replicas : 0)) return false;
    }
    return true;
  }
  std::sort(active.begin(), active.end(), [&](size_t a, size_t b) {
    const int64_t wa = wanted_of(work->sets[a]), wb = wanted_of(work->sets[b]);
    return wa != wb ? wa > wb : a > b;
  });
  std::vector<int64_t> sizes, annotated;
  for (const size_t i : active) {
    sizes.push_back(wanted_of(work->sets[i]));
    annotated.push_back(annotation_int(work->sets[i], kMax, 0));
  }
  const int64_t allowed = max_replicas_of(work->deployment);
  const std::vector<int64_t> next = proportional_sizes(sizes, annotated, allowed, allowed);
  for (size_t k = 0; k < active.size(); ++k) {
    if (!resize(work, active[k], next[k])) return false;
  }
  return true;
}

SyncResult DeploymentController::sync(const std::string& key) {
  const ObjectRef object = deployments_.get(key);
  if (!object) return SyncResult::done();
  Work work;
  work.deployment = parse_object(object);
  claim_sets(&work);
  find_newest(&work);
  bool ok = true;
  if (!is_deleting(work.deployment)) {
    if (kube::get_bool(work.deployment, "spec.paused")) {
      ok = scale_evenly(&work);
    } else if (needs_scaling(work)) {
      ok = scale_evenly(&work);
    } else {
      ok = is_recreate(work.deployment) ? recreate(&work) : roll(&work);
    }
    if (ok) clean_up(&work);
  }
  return finish(&work, ok);
}

SyncResult DeploymentController::finish(Work* work, bool ok) {
  // The counts of a set made a moment ago would all be zero: its event brings us back when there is something to say.
  if (work->progress_reason == "NewReplicaSetCreated" && work->failure.empty()) return SyncResult::again(kCoalesce);
  const SyncResult result = write_status(work);
  return ok ? result : SyncResult::retry();
}

void DeploymentController::clean_up(Work* work) {
  const int64_t limit = get_int(work->deployment, "spec.revisionHistoryLimit", 10);
  if (!complete(*work)) return;
  std::vector<const Json*> old;
  for (size_t i = 0; i < work->sets.size(); ++i) {
    if (static_cast<int>(i) != work->newest) old.push_back(&work->sets[i]);
  }
  std::sort(old.begin(), old.end(), [](const Json* a, const Json* b) {
    return annotation_int(*a, kRevision, 0) < annotation_int(*b, kRevision, 0);
  });
  for (int64_t i = 0; i + limit < static_cast<int64_t>(old.size()); ++i) {
    const Json& set = *old[static_cast<size_t>(i)];
    if (wanted_of(set) != 0 || get_int(set, "status.replicas") != 0 || is_deleting(set)) continue;
    DeleteOptions options;
    options.uid_precondition = get_string(set, "metadata.uid");
    options.propagation_policy = "Background";
    (void)context_.remove(kName, set_resource_, get_string(set, "metadata.namespace"), get_string(set, "metadata.name"),
                          options);
  }
}

}  // namespace ghostfleet::controlplane::controllers
