// Pods with claims of devices: which nodes have what they claim, allocation, reservation. (The plugin DynamicResources
// of kube-scheduler.)
#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/json_scan.h"
#include "controlplane/scheduler/scheduler_impl.h"

namespace ghostfleet::controlplane {

using kube::get_array;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using scheduling::DeviceBook;
using scheduling::Engine;

namespace {

constexpr Duration kRetryClaimants = std::chrono::milliseconds(100);
constexpr size_t kMostReserved = 256;
constexpr std::string_view kFinalizer = "resource.kubernetes.io/delete-protection";

bool is_allocated(const Json& claim) { return kube::find_path(claim, "status.allocation") != nullptr; }

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

std::string what_is_asked(const std::vector<Json>& claims) {
  std::string out;
  for (const Json& claim : claims) {
    const Json* spec = kube::find_key(claim, "spec");
    const Json* nodes = kube::find_path(claim, "status.allocation.nodeSelector");
    out += (spec != nullptr ? kube::to_json(*spec) : "") + (nodes != nullptr ? kube::to_json(*nodes) : "") + ";";
    if (is_allocated(claim)) out += get_string(claim, "metadata.uid");
  }
  return out;
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
  return {};
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
  const std::string signature = fmt::format("{}|{}|{}", record.pod_class, record.pin, what_is_asked(asked));
  if (tried_in_vain.count(signature) != 0 && !record.message.empty()) {
    park_claimant(key, record, record.message);
    return false;
  }
  std::vector<const Json*> open;
  for (const Json& claim : asked) {
    if (!is_allocated(claim)) open.push_back(&claim);
  }
  scheduling::DeviceSearch search(devices, open);
  std::map<Engine::NodeId, std::vector<Json>> found;
  std::string error;
  const auto filter = [&](Engine::NodeId node) -> std::string {
    const std::string& name = engine.node_name(node);
    for (const Json& claim : asked) {
      if (is_allocated(claim) && !DeviceBook::usable_on(claim, name)) return "resourceclaim not available on the node";
    }
    if (open.empty()) return {};
    DeviceBook::Outcome outcome = search.on(name);
    if (error.empty()) error = outcome.error;
    if (!outcome.fits) return outcome.error.empty() ? "cannot allocate all claims" : outcome.error;
    found[node] = std::move(outcome.allocations);
    return {};
  };
  const Engine::Placement place = engine.place_if(record.pod_class, record.pin, filter);
  if (place.node == Engine::kNoNode || !error.empty()) {
    tried_in_vain.insert(signature);
    park_claimant(
        key, record,
        error.empty() ? place.message : fmt::format("0/{} nodes are available: {}.", engine.node_count(), error));
    give_up_allocation(record, asked);
    return false;
  }
  if (!take_claims(record, asked, found[place.node])) {
    engine.assign(record.pod_class, place.node);  // what refuse() takes back
    record.node = place.node;
    refuse(key, record, kube::internal_api_error("a claim could not be reserved"));
    return false;
  }
  return bind_to(key, record, place.node);
}

bool Scheduler::Impl::take_claims(const PodRecord& record, const std::vector<Json>& asked,
                                  const std::vector<Json>& allocations) {
  size_t next = 0;
  for (const Json& claim : asked) {
    const Json* allocation = is_allocated(claim) ? nullptr : &allocations[next++];
    if (!reserve(record, claim, allocation)) return false;
  }
  return true;
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
            return f.is_string() && std::string_view(f.get_string()) == kFinalizer;
          };
          if (std::any_of(finalizers.begin(), finalizers.end(), same)) return false;
          finalizers.push_back(Json(kFinalizer));
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
