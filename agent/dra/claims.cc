#include "agent/dra/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ghostfleet::agent {

using kube::get_array;
using kube::get_string;
using kube::Json;
using kube::JsonArray;

namespace {

template <typename Each>
void for_each_item(const Json& value, std::string_view path, Each each) {
  const JsonArray* list = get_array(value, path);
  if (list == nullptr) return;
  for (const Json& item : *list) each(item);
}

// The claim that a template was made into, as the pod's status tells it.
void resolve(const Json& pod, ClaimRef* ref) {
  ref->missing = true;
  for_each_item(pod, "status.resourceClaimStatuses", [ref](const Json& status) {
    if (get_string(status, "name") != ref->pod_claim) return;
    ref->object = get_string(status, "resourceClaimName");
    ref->missing = false;
  });
}

bool made_for(const Json& claim, std::string_view uid) {
  bool found = false;
  for_each_item(claim, "metadata.ownerReferences", [&](const Json& owner) {
    found |= kube::get_bool(owner, "controller") && get_string(owner, "uid") == uid;
  });
  return found;
}

bool reserved_for(const Json& claim, std::string_view uid) {
  bool found = false;
  for_each_item(claim, "status.reservedFor", [&](const Json& user) { found |= get_string(user, "uid") == uid; });
  return found;
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::string why_not(int status, std::string_view body) {
  if (status == 0) return "the server did not answer";
  const auto object = kube::parse_json(body);
  const std::string_view message = object.ok() ? get_string(*object, "message") : std::string_view();
  return message.empty() ? fmt::format("the server answered {}", status) : std::string(message.substr(0, 1000));
}

// "gpus/a" of "claim:gpus/a" belongs to the claim "gpus", as "gpus" does: the request, or nothing when it is another's.
std::optional<std::string_view> request_of(std::string_view title, std::string_view pod_claim) {
  constexpr std::string_view kPrefix = "claim:";
  if (!title.starts_with(kPrefix)) return std::nullopt;
  title.remove_prefix(kPrefix.size());
  if (!title.starts_with(pod_claim)) return std::nullopt;
  title.remove_prefix(pod_claim.size());
  if (title.empty()) return title;
  return title.front() == '/' ? std::optional(title.substr(1)) : std::nullopt;
}

// A device of a container's status.
void adopt_device(std::string_view id, std::string_view request, const DraDriver& driver, ClaimCache::Entry* entry) {
  const std::string prefix = cdi_device(driver.devices->kind, "");
  if (!id.starts_with(prefix)) return;
  const std::string_view device = id.substr(prefix.size());
  PreparedDevice found{std::string(driver_name(driver.devices->kind)), driver.pool, std::string(device), {}, {}};
  if (!request.empty()) found.requests.emplace_back(request);
  if (std::find(entry->devices.begin(), entry->devices.end(), found) == entry->devices.end())
    entry->devices.push_back(std::move(found));
}

void adopt_devices(const Json& status, std::string_view pod_claim, const DraDriver& driver, ClaimCache::Entry* entry) {
  for_each_item(status, "containerStatuses", [&](const Json& container) {
    for_each_item(container, "allocatedResourcesStatus", [&](const Json& item) {
      const auto request = request_of(get_string(item, "name"), pod_claim);
      if (!request) return;
      for_each_item(item, "resources", [&](const Json& health) {
        adopt_device(get_string(health, "resourceID"), *request, driver, entry);
      });
    });
  });
}

// The first driver that is not there; empty: all are.
std::string absent_driver(const std::vector<std::string>& wanted, const NodeDrivers& drivers) {
  for (const std::string& name : wanted) {
    if (!drivers.serves(name)) return name;
  }
  return {};
}

// What of an answer is kept.
PreparedDevice prepared_by(const std::string& driver, const DriverDevice& device) {
  return {driver, device.pool, device.device, device.requests, device.cdi, device.share};
}

}  // namespace

ClaimsOfPod read_claims(const Json& pod) {
  ClaimsOfPod out;
  for_each_item(pod, "spec.resourceClaims", [&](const Json& item) {
    ClaimRef ref;
    ref.pod_claim = get_string(item, "name");
    ref.object = get_string(item, "resourceClaimName");
    ref.from_template = ref.object.empty();
    if (ref.from_template) resolve(pod, &ref);
    out.refs.push_back(std::move(ref));
  });
  const std::string_view extended = get_string(pod, "status.extendedResourceClaimStatus.resourceClaimName");
  if (extended.empty()) return out;
  out.refs.push_back({{}, std::string(extended), false, false});
  for_each_item(pod, "status.extendedResourceClaimStatus.requestMappings", [&](const Json& item) {
    out.extended.push_back(
        {std::string(get_string(item, "containerName")), std::string(get_string(item, "resourceName"))});
  });
  return out;
}

// ---- the claims of a pod

void PodClaims::set(ClaimsOfPod claims) { claims_ = std::move(claims); }

bool PodClaims::skips_plugin(std::string_view container, std::string_view resource) const {
  return std::any_of(claims_.extended.begin(), claims_.extended.end(),
                     [&](const ExtendedResource& e) { return e.container == container && e.resource == resource; });
}

void PodClaims::begin() {
  tried_ = true;
  fetched_.clear();
  at_ = 0;
}

PodClaims::Next PodClaims::next(const PodRef& pod, std::string* text) {
  while (at_ < claims_.refs.size()) {
    const ClaimRef& ref = claims_.refs[at_];
    if (ref.missing) {
      *text = fmt::format("pod \"{}/{}\": ResourceClaim not created yet", pod.ns, pod.name);
      return Next::kFailed;
    }
    if (!ref.object.empty()) {
      *text = ref.object;
      return Next::kFetch;
    }
    ++at_;  // there is nothing to do for it
  }
  return Next::kReady;
}

std::string PodClaims::take(const PodRef& pod, int status, std::string_view body, const NodeDrivers& drivers) {
  if (at_ >= claims_.refs.size()) return "no claim is waited for";
  const ClaimRef& ref = claims_.refs[at_];
  if (status < 200 || status >= 300)
    return fmt::format("fetch ResourceClaim {}: {}", ref.object, why_not(status, body));
  const auto claim = kube::parse_json(body);
  if (!claim.ok()) return fmt::format("fetch ResourceClaim {}: {}", ref.object, claim.error().message());
  Fetched f;
  f.ref = at_;
  f.uid = get_string(*claim, "metadata.uid");
  if (ref.from_template && !made_for(*claim, pod.uid)) {
    return fmt::format("ResourceClaim {}/{} was not created for Pod {}/{} (Pod is not owner)", pod.ns, ref.object,
                       pod.ns, pod.name);
  }
  if (!reserved_for(*claim, pod.uid)) {
    return fmt::format("pod {} ({}) is not allowed to use ResourceClaim {} ({})", pod.name, pod.uid, ref.object, f.uid);
  }
  if (kube::find_path(*claim, "status.allocation") == nullptr)
    return fmt::format("ResourceClaim {}: not allocated", ref.object);
  for_each_item(*claim, "status.allocation.devices.results", [&](const Json& r) {
    const std::string_view request = get_string(r, "request");
    f.devices.push_back({std::string(get_string(r, "driver")),
                         std::string(get_string(r, "pool")),
                         std::string(get_string(r, "device")),
                         {std::string(request.substr(0, request.find('/')))},
                         {}});
    if (!contains(f.drivers, f.devices.back().driver)) f.drivers.push_back(f.devices.back().driver);
  });
  // Also when the claim is prepared already: without its driver something is wrong with the node.
  if (const std::string absent = absent_driver(f.drivers, drivers); !absent.empty()) return not_registered(absent);
  fetched_.push_back(std::move(f));
  ++at_;
  return {};
}

std::string PodClaims::note(const PodRef& pod, ClaimCache* cache) {
  batches_.clear();
  batch_at_ = 0;
  for (const Fetched& f : fetched_) {
    const std::string& name = claims_.refs[f.ref].object;
    ClaimCache::Entry* entry = cache->find(pod.ns, name);
    if (entry != nullptr && !entry->uid.empty() && entry->uid != f.uid) {
      return fmt::format(
          "old ResourceClaim with same name {} and different UID {} still exists (previous pod force-deleted?!)", name,
          entry->uid);
    }
    if (entry == nullptr) entry = &cache->add(pod.ns, name);
    entry->uid = f.uid;
    entry->drivers = f.drivers;
    if (!contains(entry->pods, pod.uid)) entry->pods.emplace_back(pod.uid);
    if (entry->prepared) continue;
    for (const std::string& driver : f.drivers) add_claim(driver, {std::string(pod.ns), f.uid, name}, &batches_);
  }
  return {};
}

const PodClaims::Fetched* PodClaims::fetched(std::string_view uid) const {
  const auto at = std::find_if(fetched_.begin(), fetched_.end(), [uid](const Fetched& f) { return f.uid == uid; });
  return at == fetched_.end() ? nullptr : &*at;
}

std::string PodClaims::take_prepared(const PodRef& pod, const Result<ClaimAnswers>& answers, ClaimCache* cache) {
  const DriverBatch& asked = batches_[batch_at_];
  std::string fault = answer_fault("NodePrepareResources", asked, answers);
  if (!fault.empty()) return fault;
  for (const ClaimName& claim : asked.claims) {
    ClaimCache::Entry& entry = cache->add(pod.ns, claim.name);
    std::erase_if(entry.devices, [&](const PreparedDevice& d) { return d.driver == asked.driver; });
    for (const DriverDevice& device : answers->at(claim.uid).devices)
      entry.devices.push_back(prepared_by(asked.driver, device));
  }
  ++batch_at_;
  return {};
}

ClaimAnswers PodClaims::answer_of(const DraDriver& own) const {
  ClaimAnswers out;
  for (const ClaimName& claim : batches_[batch_at_].claims) {
    ClaimAnswer& answer = out[claim.uid];
    const Fetched* f = fetched(claim.uid);
    for (const PreparedDevice& d : f->devices) {
      if (d.driver != batches_[batch_at_].driver) continue;
      answer.devices.push_back({d.requests, d.pool, d.device, {}, {}});
      if (d.pool == own.pool && device_index(*own.devices, d.device)) continue;
      answer.error =
          "requested device is not allocatable: " + (d.pool == own.pool ? d.device : d.pool + "/" + d.device);
      break;
    }
  }
  return out;
}

void PodClaims::done(const PodRef& pod, ClaimCache* cache) {
  for (const DriverBatch& batch : batches_) {
    for (const ClaimName& claim : batch.claims) cache->add(pod.ns, claim.name).prepared = true;
  }
  // Allocated without a device of any driver.
  for (const Fetched& f : fetched_) cache->add(pod.ns, claims_.refs[f.ref].object).prepared = true;
  batches_.clear();
  fetched_.clear();
  prepared_ = true;
}

std::string PodClaims::begin_release(const PodRef& pod, ClaimCache* cache) {
  release_.reset();
  if (!tried_) return {};
  std::vector<std::string> names;
  for (const ClaimRef& ref : claims_.refs) {
    if (ref.missing) return fmt::format("pod \"{}/{}\": ResourceClaim not created yet", pod.ns, pod.name);
    if (!ref.object.empty()) names.push_back(ref.object);
  }
  release_.emplace(pod.ns, pod.uid, names, cache);
  return {};
}

void PodClaims::released(ClaimCache* cache) {
  release_->finish(cache);
  release_.reset();
  prepared_ = false;
}

void PodClaims::forget(const PodRef& pod, ClaimCache* cache) {
  for (const ClaimRef& ref : claims_.refs) {
    ClaimCache::Entry* entry = ref.object.empty() ? nullptr : cache->find(pod.ns, ref.object);
    if (entry == nullptr) continue;
    std::erase(entry->pods, pod.uid);
    if (entry->pods.empty()) cache->erase(pod.ns, ref.object);
  }
  prepared_ = false;
}

void PodClaims::adopt(const PodRef& pod, const Json& status, const NodeDrivers& drivers, ClaimCache* cache) {
  tried_ = prepared_ = true;
  if (drivers.others != nullptr) return;  // the checkpoint tells
  for (const ClaimRef& ref : claims_.refs) {
    if (ref.object.empty()) continue;
    ClaimCache::Entry& entry = cache->add(pod.ns, ref.object);
    if (!contains(entry.pods, pod.uid)) entry.pods.emplace_back(pod.uid);
    entry.prepared = true;
    if (drivers.own == nullptr) continue;
    const std::string name(driver_name(drivers.own->devices->kind));
    if (!contains(entry.drivers, name)) entry.drivers.push_back(name);
    adopt_devices(status, ref.pod_claim, *drivers.own, &entry);
  }
}

}  // namespace ghostfleet::agent
