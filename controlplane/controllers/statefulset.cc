#include "controlplane/controllers/statefulset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ghostfleet::controlplane::controllers {

using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr const char* kName = "statefulset-controller";
constexpr Duration kCoalesce = std::chrono::milliseconds(5);
constexpr Duration kUntilAvailable = std::chrono::milliseconds(500);

std::string revision_of(const PodInfo& pod) {
  const std::string* revision = label_of(*pod.object, kRevisionLabel);
  return revision == nullptr ? "" : *revision;
}

const JsonArray* claim_templates(const Json& set) { return kube::get_array(set, "spec.volumeClaimTemplates"); }

std::string claim_name(const Json& claim, const Json& set, int64_t ordinal) {
  return fmt::format("{}-{}-{}", get_string(claim, "metadata.name"), get_string(set, "metadata.name"), ordinal);
}

// The volumes of a pod: one for each claim, in place of those of the same name.
void mount_claims(const Json& set, int64_t ordinal, Json* pod) {
  const JsonArray* templates = claim_templates(set);
  if (templates == nullptr || templates->empty()) return;
  JsonArray volumes;
  for (const Json& claim : *templates) {
    JsonObject volume{{"name", get_string(claim, "metadata.name")}};
    volume["persistentVolumeClaim"] = JsonObject{{"claimName", claim_name(claim, set, ordinal)}};
    volumes.push_back(std::move(volume));
  }
  if (const JsonArray* own = kube::get_array(*pod, "spec.volumes")) {
    for (const Json& volume : *own) {
      const bool replaced = std::any_of(templates->begin(), templates->end(), [&](const Json& claim) {
        return get_string(claim, "metadata.name") == get_string(volume, "name");
      });
      if (!replaced) volumes.push_back(volume);
    }
  }
  kube::set_path(*pod, "spec.volumes", std::move(volumes));
}

// Zero counts are left out, as omitempty does.
void set_count(Json& object, const char* path, int64_t value) {
  if (value == 0) {
    kube::erase_path(object, path);
  } else {
    kube::set_path(object, path, value);
  }
}

struct Counts {
  int64_t replicas = 0, ready = 0, available = 0, current = 0, updated = 0;
};

}  // namespace

int64_t ordinal_of(std::string_view pod, std::string_view set) {
  if (pod.size() < set.size() + 2 || !pod.starts_with(set) || pod[set.size()] != '-') return -1;
  const std::string_view digits = pod.substr(set.size() + 1);
  int32_t ordinal = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  const bool all = error == std::errc() && end == digits.data() + digits.size();
  return all && ordinal >= 0 && (digits.size() == 1 || digits[0] != '0') ? ordinal : -1;
}

Json stateful_pod(const Json& set, const Revisions::Entry& revision, int64_t ordinal) {
  const Json* pod_template = kube::find_path(revision.data, "spec.template");
  Json pod = pod_from_template(pod_template == nullptr ? Json() : *pod_template);
  const std::string name = fmt::format("{}-{}", get_string(set, "metadata.name"), ordinal);
  kube::set_path(pod, "metadata.name", Json(name));
  set_label(pod, kRevisionLabel, revision.name);
  set_label(pod, "statefulset.kubernetes.io/pod-name", name);
  set_label(pod, "apps.kubernetes.io/pod-index", std::to_string(ordinal));
  kube::set_path(pod, "spec.hostname", Json(name));
  if (const std::string_view service = get_string(set, "spec.serviceName"); !service.empty()) {
    kube::set_path(pod, "spec.subdomain", Json(std::string(service)));
  }
  mount_claims(set, ordinal, &pod);
  return pod;
}

std::vector<Json> stateful_claims(const Json& set, int64_t ordinal) {
  std::vector<Json> claims;
  const JsonArray* templates = claim_templates(set);
  for (size_t i = 0; templates != nullptr && i < templates->size(); ++i) {
    const Json& claim_template = (*templates)[i];
    Json claim = JsonObject{{"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}};
    kube::set_path(claim, "metadata.name", Json(claim_name(claim_template, set, ordinal)));
    for (const char* path : {"metadata.labels", "metadata.annotations", "spec"}) {
      if (const Json* value = kube::find_path(claim_template, path)) kube::set_path(claim, path, *value);
    }
    if (const JsonObject* labels = kube::get_object(set, "spec.selector.matchLabels")) {
      for (const auto& [key, value] : *labels) kube::ensure_object(claim, "metadata.labels")[key] = value;
    }
    if (get_string(set, "spec.persistentVolumeClaimRetentionPolicy.whenDeleted") == "Delete") {
      kube::set_path(claim, "metadata.ownerReferences", JsonArray{controller_ref_to(set)});
    }
    claims.push_back(std::move(claim));
  }
  return claims;
}

StatefulSetController::StatefulSetController(Context& context)
    : context_(context),
      resource_(*context.find("apps", "v1", "statefulsets")),
      claims_(context.find("", "v1", "persistentvolumeclaims")),
      sets_(context.watch(resource_)),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }),
      pods_(context, kName, resource_, [this](std::string_view key) { queue_.add_after(key, kCoalesce); }),
      revisions_(context, kName) {}

void StatefulSetController::start() {
  queue_.hold(true);
  sets_.subscribe([this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  context_.when_synced([this] { queue_.hold(false); });
}

bool StatefulSetController::available(const Look& look, const PodInfo& pod) const {
  return healthy(pod) && pod.available(get_int(look.set, "spec.minReadySeconds"), context_.now());
}

SyncResult StatefulSetController::sync(const std::string& key) {
  const ObjectRef object = sets_.get(key);
  if (!object) return SyncResult::done();
  const Json set = parse_object(object);
  const std::vector<const PodInfo*> claimed = pods_.claim(set, selector_of(kube::find_path(set, "spec.selector")));
  if (is_deleting(set)) return SyncResult::done();
  const std::vector<Revisions::Entry> entries = revisions_.bring_up(set);
  if (entries.empty()) return SyncResult::retry();
  const Revisions::Entry& update = entries.back();
  const Revisions::Entry* current = &update;
  for (const Revisions::Entry& entry : entries) {
    if (entry.name == get_string(set, "status.currentRevision")) current = &entry;
  }
  Look look{.set = set, .current = *current, .update = update};
  look.start = get_int(set, "spec.ordinals.start");
  look.end = look.start + get_int(set, "spec.replicas", 1);
  look.ordered = get_string(set, "spec.podManagementPolicy") != "Parallel";
  std::vector<std::string> used = {current->hash, update.hash};
  for (const PodInfo* pod : claimed) {
    const int64_t ordinal = ordinal_of(pod->name(), get_string(set, "metadata.name"));
    if (ordinal >= 0) look.pods[ordinal] = pod;
    used.push_back(revision_of(*pod));
  }
  find_first_unhealthy(&look);
  SyncResult result = SyncResult::done();
  if (fill(look, &result) && shrink(look, &result)) roll(look, &result);
  const SyncResult written = write_status(set, *current, update);
  revisions_.prune(entries, get_string(set, "metadata.namespace"), get_int(set, "spec.revisionHistoryLimit", 10), used);
  return result.failed || result.after.count() > 0 ? result : written;
}

void StatefulSetController::find_first_unhealthy(Look* look) const {
  for (const bool wanted : {true, false}) {
    for (const auto& [ordinal, pod] : look->pods) {
      const bool is_wanted = ordinal >= look->start && ordinal < look->end;
      if (is_wanted == wanted && !look->first_unhealthy && !healthy(*pod)) look->first_unhealthy = pod;
    }
  }
}

bool StatefulSetController::fill(const Look& look, SyncResult* result) {
  bool acted = false;
  for (int64_t ordinal = look.start; ordinal < look.end; ++ordinal) {
    if (!fill_one(look, ordinal, &acted, result)) return false;
  }
  return !acted;
}

// False: those behind it have to wait.
bool StatefulSetController::fill_one(const Look& look, int64_t ordinal, bool* acted, SyncResult* result) {
  const auto it = look.pods.find(ordinal);
  if (it == look.pods.end()) {
    *acted = true;
    return make(look, ordinal, result) && !look.ordered;
  }
  const PodInfo& pod = *it->second;
  if (pod.finished() && !pod.deleting) {
    const bool failed = pod.phase == PodPhase::kFailed;
    const std::string_view ns = get_string(look.set, "metadata.namespace"),
                           name = get_string(look.set, "metadata.name");
    context_.events().record(reference_to(look.set), failed ? "Warning" : "Normal",
                             failed ? "RecreatingFailedPod" : "RecreatingTerminatedPod",
                             fmt::format("StatefulSet {}/{} is recreating {} Pod {}", ns, name,
                                         failed ? "failed" : "terminated", pod.name()),
                             kName);
    *acted = true;
    return remove(look.set, pod, result) && !look.ordered;
  }
  if (!look.ordered) return true;
  if (!healthy(pod)) return false;
  if (available(look, pod)) return true;
  *result = SyncResult::again(kUntilAvailable);
  return false;
}

// The highest number goes first.
bool StatefulSetController::shrink(const Look& look, SyncResult* result) {
  bool complete = true;
  for (auto it = look.pods.rbegin(); it != look.pods.rend(); ++it) {
    const PodInfo& pod = *it->second;
    if (it->first >= look.start && it->first < look.end) continue;
    complete = false;
    if (pod.deleting) {
      if (look.ordered) return false;
      continue;
    }
    if (look.ordered && !healthy(pod) && &pod != look.first_unhealthy) return false;
    if (!remove(look.set, pod, result) || look.ordered) return false;
  }
  return complete;
}

void StatefulSetController::roll(const Look& look, SyncResult* result) {
  if (get_string(look.set, "spec.updateStrategy.type") == "OnDelete") return;
  const int64_t partition = get_int(look.set, "spec.updateStrategy.rollingUpdate.partition");
  for (int64_t ordinal = look.end - 1; ordinal >= look.start + partition; --ordinal) {
    const auto it = look.pods.find(ordinal);
    if (it == look.pods.end()) return;
    const PodInfo& pod = *it->second;
    if (revision_of(pod) != look.update.name && !pod.deleting) {
      remove(look.set, pod, result);
      return;
    }
    if (!healthy(pod)) return;
    if (!available(look, pod)) {
      *result = SyncResult::again(kUntilAvailable);
      return;
    }
  }
}

bool StatefulSetController::make(const Look& look, int64_t ordinal, SyncResult* result) {
  const int64_t partition = get_int(look.set, "spec.updateStrategy.rollingUpdate.partition", -1);
  const int64_t old_below = look.start + (partition >= 0 ? partition : get_int(look.set, "status.currentReplicas"));
  const bool rolls = get_string(look.set, "spec.updateStrategy.type") != "OnDelete";
  const bool old = rolls && ordinal < old_below;
  Json pod = stateful_pod(look.set, old ? look.current : look.update, ordinal);
  const std::string name(get_string(pod, "metadata.name"));
  const std::string_view set = get_string(look.set, "metadata.name");
  if (!make_claims(look.set, ordinal)) {
    *result = SyncResult::retry();
    return false;
  }
  kube::set_path(pod, "metadata.ownerReferences", JsonArray{controller_ref_to(look.set)});
  const auto made =
      context_.create(kName, context_.pod_resource(), get_string(look.set, "metadata.namespace"), std::move(pod));
  if (made.ok()) {
    context_.events().record(reference_to(look.set), "Normal", "SuccessfulCreate",
                             fmt::format("create Pod {} in StatefulSet {} successful", name, set), kName);
    return true;
  }
  if (is_moot(made.error())) return false;
  context_.events().record(
      reference_to(look.set), "Warning", "FailedCreate",
      fmt::format("create Pod {} in StatefulSet {} failed error: {}", name, set, made.error().message), kName);
  *result = SyncResult::retry();
  return false;
}

bool StatefulSetController::make_claims(const Json& set, int64_t ordinal) {
  if (claims_ == nullptr) return true;
  const std::string ns(get_string(set, "metadata.namespace"));
  for (Json& claim : stateful_claims(set, ordinal)) {
    const std::string name(get_string(claim, "metadata.name"));
    if (context_.api().get(*claims_, ns, name).ok()) continue;
    const auto made = context_.create(kName, *claims_, ns, std::move(claim));
    const std::string what = fmt::format("create Claim {} Pod {}-{} in StatefulSet {}", name,
                                         get_string(set, "metadata.name"), ordinal, get_string(set, "metadata.name"));
    context_.events().record(reference_to(set), made.ok() ? "Normal" : "Warning",
                             made.ok() ? "SuccessfulCreate" : "FailedCreate",
                             made.ok() ? what + " success" : what + " failed error: " + made.error().message, kName);
    if (!made.ok()) return false;
  }
  return true;
}

bool StatefulSetController::remove(const Json& set, const PodInfo& pod, SyncResult* result) {
  const std::string ns(pod.ns()), name(pod.name());
  DeleteOptions options;
  options.uid_precondition = pod.uid;
  const auto removed = context_.remove(kName, context_.pod_resource(), ns, name, options);
  if (removed.ok()) {
    context_.events().record(
        reference_to(set), "Normal", "SuccessfulDelete",
        fmt::format("delete Pod {} in StatefulSet {} successful", name, get_string(set, "metadata.name")), kName);
    return true;
  }
  if (removed.error().code == 404 || removed.error().code == 409) return true;
  *result = SyncResult::retry();
  return false;
}

SyncResult StatefulSetController::write_status(const Json& set, const Revisions::Entry& current,
                                               const Revisions::Entry& update) {
  const std::string_view set_name = get_string(set, "metadata.name");
  const int64_t min_ready = get_int(set, "spec.minReadySeconds"), wanted = get_int(set, "spec.replicas", 1);
  Counts counts;
  for (const PodInfo* pod : context_.pods().owned_by(get_string(set, "metadata.uid"))) {
    if (ordinal_of(pod->name(), set_name) < 0) continue;
    ++counts.replicas;
    const bool runs = pod->phase == PodPhase::kRunning && pod->ready;
    if (runs) ++counts.ready;
    if (runs && pod->available(min_ready, context_.now())) ++counts.available;
    if (pod->deleting) continue;
    if (revision_of(*pod) == current.name) ++counts.current;
    if (revision_of(*pod) == update.name) ++counts.updated;
  }
  const bool rolls = get_string(set, "spec.updateStrategy.type") != "OnDelete";
  const bool complete = rolls && counts.updated == wanted && counts.replicas == wanted && counts.available == wanted;
  if (complete) counts.current = counts.updated;
  const auto fill = [&](Json& o) {
    kube::ensure_object(o, "status");
    const std::string before = kube::to_json(*kube::find_path(o, "status"));
    kube::set_path(o, "status.observedGeneration", get_int(set, "metadata.generation"));
    kube::set_path(o, "status.replicas", counts.replicas);
    kube::set_path(o, "status.availableReplicas", counts.available);
    set_count(o, "status.readyReplicas", counts.ready);
    set_count(o, "status.currentReplicas", counts.current);
    set_count(o, "status.updatedReplicas", counts.updated);
    kube::set_path(o, "status.currentRevision", Json(complete ? update.name : current.name));
    kube::set_path(o, "status.updateRevision", Json(update.name));
    kube::set_path(o, "status.collisionCount", get_int(o, "status.collisionCount"));
    return kube::to_json(*kube::find_path(o, "status")) != before;
  };
  Json probe = set;
  if (!fill(probe)) return SyncResult::done();
  const auto done = context_.modify(kName, resource_, get_string(set, "metadata.namespace"), set_name, "status",
                                    [&](Json& live) -> kube::ApiResult<bool> { return fill(live); });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

}  // namespace ghostfleet::controlplane::controllers
