// Pods with claims of devices: which nodes have what they claim, allocation, reservation. (The plugin DynamicResources
// of kube-scheduler.)
#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/json_scan.h"
#include "controlplane/informer/device_claims.h"
#include "controlplane/scheduler/scheduler_impl.h"

namespace ghostfleet::controlplane {

using kube::get_array;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using scheduling::ClaimPlan;
using scheduling::Engine;

namespace {

constexpr Duration kRetryClaimants = std::chrono::milliseconds(100);
constexpr size_t kLongestBase = 38;  // of a pod's name in a generated one

// Users of the claim other than the pod.
size_t other_users(const Json& claim, std::string_view uid) {
  const JsonArray* users = get_array(claim, "status.reservedFor");
  if (users == nullptr) return 0;
  return static_cast<size_t>(
      std::count_if(users->begin(), users->end(), [uid](const Json& u) { return get_string(u, "uid") != uid; }));
}

bool owned_by(const Json& claim, std::string_view uid) {
  const JsonArray* owners = get_array(claim, "metadata.ownerReferences");
  return owners != nullptr && std::any_of(owners->begin(), owners->end(), [uid](const Json& o) {
           return kube::get_bool(o, "controller") && get_string(o, "uid") == uid;
         });
}

// The name of the claim that was made for an entry; nothing: none is there yet; empty: none is needed.
std::optional<std::string> made_claim(const Json& pod, std::string_view entry) {
  const JsonArray* list = get_array(pod, "status.resourceClaimStatuses");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (get_string((*list)[i], "name") == entry) return std::string(get_string((*list)[i], "resourceClaimName"));
  }
  return std::nullopt;
}

}  // namespace

void Scheduler::Impl::start_claims() {
  const auto watch = [this](std::string_view plural, std::unique_ptr<KindWatch>* out, KindWatch::Change change) {
    const Resource* resource = api.find("resource.k8s.io", "v1", plural);
    if (resource == nullptr) return;
    *out = std::make_unique<KindWatch>(api.store(), resource->store_kind, loop);
    (*out)->subscribe(std::move(change));
    (*out)->when_synced([this] { become_ready(); });
    (*out)->start();
  };
  watch("resourceslices", &slices, [this](const ObjectRef& old, const ObjectRef& now) {
    if (!now) devices.remove_slice(old->key);
    if (now) devices.set_slice(now->key, std::shared_ptr<const std::string>(now, &now->json));
    devices_changed();
  });
  watch("deviceclasses", &device_classes, [this](const ObjectRef& old, const ObjectRef& now) {
    if (!now) devices.remove_class(old->key);
    if (const auto json = now ? kube::parse_json(now->json) : Result<Json>(not_found("")); json.ok())
      devices.set_class(now->key, *json);
    devices_changed();
    wake_extended();
  });
  watch("resourceclaims", &claims, [this](const ObjectRef& old, const ObjectRef& now) { on_claim(old, now); });
}

void Scheduler::Impl::on_claim(const ObjectRef& old, const ObjectRef& now) {
  if (!now) devices.remove_claim(old->key);
  if (const auto json = now ? kube::parse_json(now->json) : Result<Json>(not_found("")); json.ok())
    devices.set_claim(now->key, *json);
  devices_changed();
}

// Whoever waits for devices is tried again, a moment later, since changes come in crowds.
void Scheduler::Impl::devices_changed() {
  tried_in_vain.clear();
  if (claimants_armed || parked_claimants.empty()) return;
  claimants_armed = true;
  loop.run_after(kRetryClaimants, [this] {
    claimants_armed = false;
    wake_claimants();
  });
}

void Scheduler::Impl::wake_claimants() {
  const std::vector<std::string> keys = std::exchange(parked_claimants, {});
  for (const std::string& key : keys) {
    const auto it = records.find(key);
    if (it != records.end() && it->second.state == PodRecord::State::kParked) enqueue(key, it->second);
  }
}

void Scheduler::Impl::park_claimant(const std::string& key, PodRecord& record, const std::string& message) {
  unschedulable.add();
  record.state = PodRecord::State::kParked;
  parked_claimants.push_back(key);
  if (!message.empty() && record.message != message) tell_unschedulable(record, message, "");
}

// The pod's claims as they are now. A text says why the pod must wait.
std::string Scheduler::Impl::read_claims(const Json& pod, std::vector<Json>* out) const {
  const std::string_view ns = get_string(pod, "metadata.namespace"), uid = get_string(pod, "metadata.uid");
  const JsonArray* entries = get_array(pod, "spec.resourceClaims");
  for (size_t i = 0; entries != nullptr && i < entries->size(); ++i) {
    std::string name(get_string((*entries)[i], "resourceClaimName"));
    const bool from_template = name.empty();
    if (from_template) {
      const auto made = made_claim(pod, get_string((*entries)[i], "name"));
      if (!made)
        return fmt::format("pod \"{}/{}\": ResourceClaim not created yet", ns, get_string(pod, "metadata.name"));
      if (made->empty()) continue;
      name = *made;
    }
    const ObjectRef object = api.store().get(claims_resource->store_kind, fmt::format("{}/{}", ns, name));
    auto claim = object ? kube::parse_json(object->json) : Result<Json>(not_found(""));
    if (!claim.ok()) return fmt::format("resourceclaim \"{}\" not found", name);
    if (!get_string(*claim, "metadata.deletionTimestamp").empty())
      return fmt::format("resourceclaim \"{}\" is being deleted", name);
    if (from_template && !owned_by(*claim, uid)) {
      return fmt::format("ResourceClaim {}/{} was not created for Pod {}/{} (Pod is not owner)", ns, name, ns,
                         get_string(pod, "metadata.name"));
    }
    if (is_allocated(*claim) && other_users(*claim, uid) >= kMostReserved)
      return fmt::format("resourceclaim \"{}\" is in use by as many pods as can have it", name);
    out->push_back(std::move(*claim));
  }
  return read_extended_claim(pod, out);
}

// The claim for extended resources that an earlier try has left.
std::string Scheduler::Impl::read_extended_claim(const Json& pod, std::vector<Json>* out) const {
  const std::string_view name = get_string(pod, "status.extendedResourceClaimStatus.resourceClaimName");
  if (name.empty()) return {};
  const ObjectRef object =
      api.store().get(claims_resource->store_kind, fmt::format("{}/{}", get_string(pod, "metadata.namespace"), name));
  auto claim = object ? kube::parse_json(object->json) : Result<Json>(not_found(""));
  if (!claim.ok()) return fmt::format("resourceclaim \"{}\" not found", name);
  out->push_back(std::move(*claim));
  return {};
}

bool Scheduler::Impl::uses_devices(const PodRecord& record) const {
  return record.has_claims ||
         std::any_of(record.extended.begin(), record.extended.end(),
                     [this](const scheduling::ExtendedRequest& r) { return !devices.class_for(r.resource).empty(); });
}

// A class may have come that stands for what they ask for.
void Scheduler::Impl::wake_extended() {
  std::vector<std::string> awake;
  for (auto& [pod_class, keys] : parked) {
    std::erase_if(keys, [&](const std::string& key) {
      const auto it = records.find(key);
      if (it == records.end() || it->second.state != PodRecord::State::kParked || !uses_devices(it->second))
        return false;
      awake.push_back(key);
      return true;
    });
  }
  for (const std::string& key : awake) enqueue(key, records.find(key)->second);
}

bool Scheduler::Impl::schedule_with_claims(const std::string& key, PodRecord& record) {
  const auto pod = kube::parse_json(record.object->json);
  if (!pod.ok()) return false;
  std::vector<Json> asked;
  if (const std::string waits = read_claims(*pod, &asked); !waits.empty()) {
    // As long as its controller has made no claim a pod is not even looked at.
    const bool told = waits.find("not created yet") == std::string::npos;
    park_claimant(key, record, told ? fmt::format("0/{} nodes are available: {}.", engine.node_count(), waits) : "");
    return false;
  }
  // A claim for its extended resources that is there already is one among the others.
  const bool extended = get_string(*pod, "status.extendedResourceClaimStatus.resourceClaimName").empty();
  ClaimPlan plan(devices, std::move(asked), extended ? record.extended : std::vector<scheduling::ExtendedRequest>());
  const std::string signature = fmt::format("{}|{}|{}", record.pod_class, record.pin, plan.signature());
  if (tried_in_vain.count(signature) != 0 && !record.message.empty()) {
    park_claimant(key, record, record.message);
    return false;
  }
  Engine::Wish wish;
  for (const scheduling::ExtendedRequest& r : record.extended) {
    if (!devices.class_for(r.resource).empty()) wish.lenient.push_back(r.resource_id);
  }
  wish.filter = [&](Engine::NodeId node) {
    return plan.try_node(engine.node_name(node),
                         [&](int resource) { return engine.free_of(node, resource).allocatable > 0; });
  };
  const Engine::Placement place = engine.place_if(record.pod_class, record.pin, wish);
  if (place.node == Engine::kNoNode || !plan.error().empty()) {
    tried_in_vain.insert(signature);
    park_claimant(key, record,
                  plan.error().empty()
                      ? place.message
                      : fmt::format("0/{} nodes are available: {}.", engine.node_count(), plan.error()));
    give_up_allocation(record, plan.claims());
    return false;
  }
  if (!take_claims(record, plan, *plan.found(engine.node_name(place.node)))) {
    engine.assign(record.pod_class, place.node);  // what refuse() takes back
    record.node = place.node;
    refuse(key, record, kube::internal_api_error("a claim could not be reserved"));
    return false;
  }
  return bind_to(key, record, place.node);
}

bool Scheduler::Impl::take_claims(const PodRecord& record, const ClaimPlan& plan, const ClaimPlan::Found& found) {
  size_t next = 0;
  for (const Json& claim : plan.claims()) {
    const Json* allocation = is_allocated(claim) ? nullptr : &found.allocations[next++];
    if (!reserve(record, claim, allocation)) return false;
  }
  return found.extended_spec.is_null() || make_extended_claim(record, found);
}

// The claim for what the pod's containers ask for as extended resources, and its name in the pod's status.
bool Scheduler::Impl::make_extended_claim(const PodRecord& record, const ClaimPlan::Found& found) {
  const std::string ns(record.object->ns()), name(record.object->name());
  Json claim = JsonObject{{"apiVersion", "resource.k8s.io/v1"}, {"kind", "ResourceClaim"}};
  claim.get_object()["metadata"] =
      JsonObject{{"generateName", name.substr(0, kLongestBase) + "-extended-resources-"},
                 {"namespace", ns},
                 {"annotations", JsonObject{{"resource.kubernetes.io/extended-resource-claim", "true"}}},
                 {"finalizers", JsonArray{Json(kClaimFinalizer)}},
                 {"ownerReferences", JsonArray{JsonObject{{"apiVersion", "v1"},
                                                          {"kind", "Pod"},
                                                          {"name", name},
                                                          {"uid", record.uid},
                                                          {"controller", true},
                                                          {"blockOwnerDeletion", true}}}}};
  claim.get_object()["spec"] = found.extended_spec;
  context.warnings.clear();
  const auto made = api.create(*claims_resource, ns, std::move(claim), context);
  if (!made.ok() || !made->object) return false;
  const auto stored = kube::parse_json(made->object->json);
  if (!stored.ok() || !reserve(record, *stored, &found.extended_allocation)) return false;
  const std::string claim_name(made->object->name());
  context.warnings.clear();
  const auto told = api.modify(
      *pods_resource, ns, name, "status",
      [&](Json& live) -> kube::ApiResult<bool> {
        if (get_string(live, "metadata.uid") != record.uid) return false;
        kube::set_path(live, "status.extendedResourceClaimStatus",
                       JsonObject{{"requestMappings", found.mappings}, {"resourceClaimName", claim_name}});
        return true;
      },
      context);
  return told.ok();
}

// With an allocation the claim gets it too. The watch is told at once, so that the next pod finds the devices taken.
bool Scheduler::Impl::reserve(const PodRecord& record, const Json& claim, const Json* allocation) {
  const std::string ns(get_string(claim, "metadata.namespace")), name(get_string(claim, "metadata.name"));
  const std::string uid(get_string(claim, "metadata.uid"));
  context.warnings.clear();
  if (allocation != nullptr) {
    const auto kept = api.modify(
        *claims_resource, ns, name, "",
        [&](Json& live) -> kube::ApiResult<bool> {
          JsonArray& finalizers = kube::ensure_array(live, "metadata.finalizers");
          const auto same = [](const Json& f) {
            return f.is_string() && std::string_view(f.get_string()) == kClaimFinalizer;
          };
          if (std::any_of(finalizers.begin(), finalizers.end(), same)) return false;
          finalizers.push_back(Json(kClaimFinalizer));
          return true;
        },
        context);
    if (!kept.ok()) return false;
  }
  bool ours = true;
  const auto done = api.modify(
      *claims_resource, ns, name, "status",
      [&](Json& live) -> kube::ApiResult<bool> {
        ours = get_string(live, "metadata.uid") == uid && is_allocated(live) == (allocation == nullptr);
        if (!ours) return false;
        if (allocation != nullptr) kube::set_path(live, "status.allocation", *allocation);
        JsonArray& users = kube::ensure_array(live, "status.reservedFor");
        const auto same = [&](const Json& u) { return get_string(u, "uid") == record.uid; };
        if (std::any_of(users.begin(), users.end(), same)) return allocation != nullptr;
        users.push_back(JsonObject{{"resource", "pods"}, {"name", record.object->name()}, {"uid", record.uid}});
        return true;
      },
      context);
  if (!done.ok() || !ours) return false;
  if (done->object) claims->observe(done->object);
  return true;
}

// A pod that fits nowhere may be held back by where its own claim is: one that nobody else has is made free again.
void Scheduler::Impl::give_up_allocation(const PodRecord& record, const std::vector<Json>& asked) {
  for (const Json& claim : asked) {
    if (!is_allocated(claim) || other_users(claim, record.uid) > 0) continue;
    if (kube::find_path(claim, "status.allocation.nodeSelector") == nullptr) continue;
    context.warnings.clear();
    const auto done = api.modify(
        *claims_resource, get_string(claim, "metadata.namespace"), get_string(claim, "metadata.name"), "status",
        [&](Json& live) -> kube::ApiResult<bool> {
          if (!is_allocated(live) || other_users(live, record.uid) > 0) return false;
          kube::erase_path(live, "status.allocation");
          kube::erase_path(live, "status.reservedFor");
          return true;
        },
        context);
    if (done.ok() && done->object) claims->observe(done->object);
    return;  // one at a time
  }
}

}  // namespace ghostfleet::controlplane
