#include "controlplane/controllers/owned_pods.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::controlplane::controllers {

using kube::get_string;
using kube::Json;
using kube::JsonObject;

OwnedPods::OwnedPods(Context& context, std::string component, const Resource& resource,
                     std::function<void(std::string_view)> wake)
    : context_(context),
      component_(std::move(component)),
      resource_(resource),
      selectors_(context.watch(resource), pod_selector_of),
      wake_(std::move(wake)) {
  context.pods().subscribe([this](const PodInfo* old, const PodInfo* now) { on_pod(old, now); });
}

void OwnedPods::on_pod(const PodInfo* old, const PodInfo* now) {
  const std::string& kind = resource_.info.kind;
  if (old != nullptr && old->owner_kind == kind) wake_(key_of(old->ns(), old->owner_name));
  if (now == nullptr) return;
  if (now->owner_kind == kind) {
    if (old == nullptr || old->owner_uid != now->owner_uid) wake_(key_of(now->ns(), now->owner_name));
    return;
  }
  if (!now->owner_uid.empty() || now->deleting) return;
  if (old != nullptr && old->owner_uid.empty() && old->object->labels == now->object->labels) return;
  for (const std::string& key : selectors_.matching(*now->object)) wake_(key);
}

std::vector<const PodInfo*> OwnedPods::claim(const Json& owner, const kube::LabelSelector& selector) {
  std::vector<const PodInfo*> mine, strays, orphans;
  const bool alive = !is_deleting(owner);
  for (const PodInfo* pod : context_.pods().owned_by(get_string(owner, "metadata.uid"))) {
    if (alive && !pod->deleting && !matches(selector, *pod->object)) {
      strays.push_back(pod);
    } else {
      mine.push_back(pod);
    }
  }
  if (alive) {
    for (const PodInfo* pod : context_.pods().orphans_in(get_string(owner, "metadata.namespace"))) {
      if (!pod->deleting && !pod->finished() && matches(selector, *pod->object)) orphans.push_back(pod);
    }
  }
  for (const PodInfo* pod : strays) release(owner, *pod);
  for (const PodInfo* pod : orphans) {
    adopt(owner, *pod);
    if (pod->owner_uid == get_string(owner, "metadata.uid")) mine.push_back(pod);
  }
  return mine;
}

void OwnedPods::adopt(const Json& owner, const PodInfo& pod) {
  const std::string ns(pod.ns()), name(pod.name()), uid = pod.uid;
  (void)context_.modify(component_, context_.pod_resource(), ns, name, "", [&](Json& live) -> kube::ApiResult<bool> {
    if (get_string(live, "metadata.uid") != uid || controller_of(live) || is_deleting(live)) return false;
    kube::ensure_array(live, "metadata.ownerReferences").push_back(controller_ref_to(owner));
    return true;
  });
}

void OwnedPods::release(const Json& owner, const PodInfo& pod) {
  const std::string ns(pod.ns()), name(pod.name()), uid = pod.uid;
  (void)context_.modify(component_, context_.pod_resource(), ns, name, "", [&](Json& live) -> kube::ApiResult<bool> {
    if (get_string(live, "metadata.uid") != uid) return false;
    kube::JsonArray kept;
    for (Json& ref : kube::ensure_array(live, "metadata.ownerReferences")) {
      if (get_string(ref, "uid") != get_string(owner, "metadata.uid")) kept.push_back(std::move(ref));
    }
    kube::set_path(live, "metadata.ownerReferences", std::move(kept));
    return true;
  });
}

kube::ApiResult<ObjectRef> OwnedPods::create(const Json& owner, Json pod) {
  const std::string_view ns = get_string(owner, "metadata.namespace");
  if (get_string(pod, "metadata.name").empty()) {
    std::string prefix = fmt::format("{}-", get_string(owner, "metadata.name"));
    kube::set_path(pod, "metadata.generateName", Json(prefix));
  }
  kube::set_path(pod, "metadata.ownerReferences", kube::JsonArray{controller_ref_to(owner)});
  auto made = context_.create(component_, context_.pod_resource(), ns, std::move(pod));
  if (made.ok()) {
    context_.events().record(reference_to(owner), "Normal", "SuccessfulCreate",
                             fmt::format("Created pod: {}", (*made)->name()), component_);
  } else if (!is_moot(made.error())) {
    context_.events().record(reference_to(owner), "Warning", "FailedCreate",
                             fmt::format("Error creating: {}", made.error().message), component_);
  }
  return made;
}

bool OwnedPods::remove(const Json& owner, const PodInfo& pod) {
  const std::string ns(pod.ns()), name(pod.name());
  DeleteOptions options;
  options.uid_precondition = pod.uid;
  const auto removed = context_.remove(component_, context_.pod_resource(), ns, name, options);
  if (!removed.ok()) {
    if (removed.error().code == 404 || removed.error().code == 409) return true;
    context_.events().record(reference_to(owner), "Warning", "FailedDelete",
                             fmt::format("Error deleting: {}", removed.error().message), component_);
    return false;
  }
  context_.events().record(reference_to(owner), "Normal", "SuccessfulDelete", fmt::format("Deleted pod: {}", name),
                           component_);
  return true;
}

kube::LabelSelector pod_selector_of(const Json& workload) {
  if (get_string(workload, "kind") == "ReplicationController") {
    return selector_from_map(kube::get_object(workload, "spec.selector"));
  }
  return selector_of(kube::find_path(workload, "spec.selector"));
}

Json pod_from_template(const Json& pod_template) {
  JsonObject metadata;
  for (const char* key : {"labels", "annotations", "finalizers"}) {
    const Json* v = kube::find_path(pod_template, std::string("metadata.") + key);
    if (v != nullptr && !v->is_null()) metadata[key] = *v;
  }
  JsonObject pod{{"apiVersion", "v1"}, {"kind", "Pod"}};
  pod["metadata"] = std::move(metadata);
  if (const Json* spec = kube::find_key(pod_template, "spec")) pod["spec"] = *spec;
  return pod;
}

namespace {

int phase_rank(const PodInfo& pod) {
  if (pod.phase == PodPhase::kPending) return 0;
  return pod.phase == PodPhase::kUnknown ? 1 : 2;
}

// Ready times are compared by the power of two of their age, so that pods of one roll-out count as equal.
int age_rank(int64_t since_ns, WallTime now) {
  const int64_t seconds = since_ns == 0 ? 0 : std::max<int64_t>(0, (now.ns - since_ns) / 1000000000);
  int rank = 0;
  while ((int64_t{1} << rank) <= seconds && rank < 62) ++rank;
  return rank;
}

}  // namespace

bool goes_before(const PodInfo& a, const PodInfo& b, int a_on_node, int b_on_node, WallTime now) {
  if (a.node.empty() != b.node.empty()) return a.node.empty();
  if (phase_rank(a) != phase_rank(b)) return phase_rank(a) < phase_rank(b);
  if (a.ready != b.ready) return !a.ready;
  if (a.deletion_cost != b.deletion_cost) return a.deletion_cost < b.deletion_cost;
  if (a_on_node != b_on_node) return a_on_node > b_on_node;
  if (a.ready && b.ready) {
    const int ra = age_rank(a.ready_since_ns, now), rb = age_rank(b.ready_since_ns, now);
    if (ra != rb) return ra < rb;
  }
  if (a.restarts != b.restarts) return a.restarts > b.restarts;
  const int ca = age_rank(a.created_ns, now), cb = age_rank(b.created_ns, now);
  if (ca != cb) return ca < cb;
  return a.uid < b.uid;
}

void sort_for_deletion(std::vector<const PodInfo*>* pods, WallTime now) {
  StringMap<int> on_node;
  for (const PodInfo* pod : *pods) {
    if (!pod->node.empty()) ++on_node[pod->node];
  }
  const auto count = [&](const PodInfo* pod) { return pod->node.empty() ? 0 : on_node.find(pod->node)->second; };
  std::sort(pods->begin(), pods->end(),
            [&](const PodInfo* a, const PodInfo* b) { return goes_before(*a, *b, count(a), count(b), now); });
}

int next_batch(int previous, int left) {
  const int batch = previous <= 0 ? 1 : previous * 2;
  return std::max(0, std::min({batch, left, kBurstReplicas}));
}

}  // namespace ghostfleet::controlplane::controllers
