// Admission: a pod's containers get their devices, in the order of a kubelet: init containers first, each limit for
// itself; what the container has already, what earlier init containers had, then the choice among the free ones.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/device/device_manager_parts.h"

namespace ghostfleet::agent {

namespace {

// What an error of a plugin looks like after its way over gRPC.
std::string as_rpc_error(const std::string& message) { return "rpc error: code = Unknown desc = " + message; }

uint32_t count_of(const DeviceBits& bits) { return static_cast<uint32_t>(std::count(bits.begin(), bits.end(), true)); }

DeviceBits both(const DeviceBits& a, const std::vector<uint32_t>& more) {
  DeviceBits out = a;
  for (const uint32_t i : more) {
    if (i < out.size()) out[i] = true;
  }
  return out;
}

// Up to `needed` of `from`, lowest first, go into `to`.
void take_lowest(DeviceBits* from, uint32_t* needed, std::vector<uint32_t>* to) {
  for (uint32_t i = 0; i < from->size() && *needed > 0; ++i) {
    if (!(*from)[i]) continue;
    (*from)[i] = false;
    to->push_back(i);
    --*needed;
  }
}

}  // namespace

void DeviceManager::admit(PodDemand demand, AdmitDone done) {
  const auto asks = [&](const ContainerDemand& c) {
    return std::any_of(c.limits.begin(), c.limits.end(),
                       [&](const auto& limit) { return limit.second > 0 && knows(limit.first); });
  };
  if (std::none_of(demand.containers.begin(), demand.containers.end(), asks)) return done(Status());
  drop_admission(demand.uid);
  if (PodEntry* known = pod_of(demand.uid)) {
    known->confirmed = true;
    known->ended = false;
    if (std::exchange(known->released, false)) known->allocations.clear();
  }
  auto admission = std::make_unique<Admission>();
  admission->demand = std::move(demand);
  admission->done = std::move(done);
  admissions_.push_back(std::move(admission));
  pump();
}

void DeviceManager::pump() {
  if (pumping_) return;
  pumping_ = true;
  while ((pods_known_ || !hold_admissions_) && !admissions_.empty()) {
    if (!step(*admissions_.front())) break;
  }
  pumping_ = false;
}

// False: it waits for a plugin.
bool DeviceManager::step(Admission& a) {
  switch (a.stage) {
    case Admission::Stage::kLimit:
      if (a.container == a.demand.containers.size()) {
        finish(Status());
      } else {
        begin_limit(a);
      }
      return true;
    case Admission::Stage::kPreferred:
      if (!a.preferred) return false;
      on_preferred(a);
      return true;
    case Admission::Stage::kAllocate:
      if (!a.allocated) return false;
      on_allocated(a);
      return true;
    case Admission::Stage::kDone: break;
  }
  return false;
}

// The first of the queue is answered.
void DeviceManager::finish(Status status) {
  const std::unique_ptr<Admission> admission = std::move(admissions_.front());
  admissions_.pop_front();
  recount();
  if (admission->changed) tell({.checkpoint = true});
  admission->done(std::move(status));
}

void DeviceManager::fail(Admission& a, std::string message, Code code) {
  // What its earlier containers got is free at the next admission.
  if (PodEntry* pod = pod_of(a.demand.uid)) pod->ended = true;
  a.resource = nullptr;
  finish(Status(code, std::move(message)));
}

void DeviceManager::begin_limit(Admission& a) {
  const ContainerDemand& container = a.asking();
  if (container.running || a.limit == container.limits.size()) {
    if (const PodEntry* pod = pod_of(a.demand.uid)) end_container(a, *pod);
    ++a.container;
    a.limit = 0;
    a.released = false;
    a.placed = a.placed && scope_ == TopologyScope::kPod;
    return;
  }
  if (!a.placed && !place(a)) return;
  const auto& [name, count] = container.limits[a.limit];
  Resource* r = find(name);
  if (count == 0 || r == nullptr || !knows(name)) return next_limit(a);
  if (!std::exchange(a.released, true)) release_ended();
  PodEntry& pod = entry_of(a.demand.uid);
  pod.confirmed = true;
  const Allocation* has = pod.find(container.name, r);
  const size_t have = has == nullptr ? 0 : has->indexes.size();
  if (have > 0 && have != count) {
    return fail(a, fmt::format("pod \"{}\" container \"{}\" changed request for resource \"{}\" from {} to {}",
                               a.demand.uid, container.name, name, have, count));
  }
  if (r->state == Resource::State::kUnknown || r->state == Resource::State::kExpired)
    return fail(a, "cannot allocate unregistered device " + name);
  if (r->healthy_count() == 0) return fail(a, "no healthy devices present; cannot allocate unhealthy devices " + name);
  if (have > 0 &&
      std::any_of(has->indexes.begin(), has->indexes.end(), [&](uint32_t i) { return !r->is_healthy(i); })) {
    return fail(a, "previously allocated devices are no longer healthy; cannot allocate unhealthy devices " + name);
  }
  if (have > 0) return next_limit(a);
  a.resource = r;
  a.required = a.needed = count;
  a.chosen.clear();
  begin_choice(a);
}

void DeviceManager::begin_choice(Admission& a) {
  Resource& r = *a.resource;
  for (const auto& [of, indexes] : a.reusable) {
    for (const uint32_t i : indexes) {
      if (of != &r || a.needed == 0) continue;
      a.chosen.push_back(i);
      --a.needed;
    }
  }
  if (a.needed == 0) return chosen(a);
  DeviceBits available(r.size());
  for (uint32_t i = 0; i < r.size(); ++i) available[i] = r.is_healthy(i) && !r.is_held(i);
  const uint32_t free = count_of(available);
  if (free < a.needed) {
    return fail(a, fmt::format("requested number of devices unavailable for {}. Requested: {}, Available: {}", r.name,
                               a.needed, free));
  }
  DeviceBits near(a.near == 0 ? 0 : available.size());
  for (uint32_t i = 0; i < near.size(); ++i) near[i] = available[i] && (r.numa_of(i) & a.near) != 0;
  a.rest = available;
  if (a.needed < count_of(near)) {
    a.candidates = near;
    return ask_preferred(a, both(near, a.chosen));
  }
  // All that are near are taken, and the plugin may choose among the rest.
  const DeviceBits all = both(available, a.chosen);
  for (uint32_t i = 0; i < near.size(); ++i) {
    if (near[i]) a.rest[i] = false;
  }
  take_lowest(&near, &a.needed, &a.chosen);
  if (a.needed == 0) return chosen(a);
  a.candidates = a.rest;
  ask_preferred(a, all);
}

void DeviceManager::ask_preferred(Admission& a, const DeviceBits& available) {
  Resource& r = *a.resource;
  a.stage = Admission::Stage::kPreferred;
  a.preferred.reset();
  if (!r.options.preferred_allocation) {
    a.preferred.emplace(DeviceIds());
    return;
  }
  if (r.model != nullptr) {
    const Indexes best = r.model->prefer({available, a.chosen, a.required, chips_of_others(r)});
    for (const uint32_t i : best) {
      if (a.needed == 0 || i >= a.candidates.size() || !a.candidates[i]) continue;
      a.candidates[i] = a.rest[i] = false;
      a.chosen.push_back(i);
      --a.needed;
    }
    a.preferred.emplace(DeviceIds());
    return;
  }
  if (r.plugin == nullptr) return fail(a, fmt::format("endpoint {} has been stopped", r.name));
  DeviceIds ids;
  for (uint32_t i = 0; i < available.size(); ++i) {
    if (available[i]) ids.push_back(r.id_of(node_, i));
  }
  for (const uint32_t i : a.chosen) {
    if (i >= available.size()) ids.push_back(r.id_of(node_, i));
  }
  a.call = next_call_++;
  const std::shared_ptr<DevicePlugin> plugin = r.plugin;
  plugin->preferred_allocation(std::move(ids), ids_of(r, a.chosen), a.required,
                               [this, call = a.call, alive = std::weak_ptr<Alive>(alive_)](Result<DeviceIds> answer) {
                                 if (alive.expired() || admissions_.empty()) return;
                                 Admission& waiting = *admissions_.front();
                                 if (waiting.call != call || waiting.preferred) return;
                                 waiting.preferred.emplace(std::move(answer));
                                 pump();
                               });
}

void DeviceManager::on_preferred(Admission& a) {
  Resource& r = *a.resource;
  a.call = 0;
  if (!a.preferred->ok()) return fail(a, a.preferred->error().message());
  // Ids that were not offered are passed over; the list may have changed since.
  for (const std::string& id : a.preferred->value()) {
    for (uint32_t i = 0; i < a.candidates.size() && i < r.size() && a.needed > 0; ++i) {
      if (!a.candidates[i] || r.id_of(node_, i) != id || r.is_held(i) || !r.is_healthy(i)) continue;
      a.candidates[i] = false;
      a.chosen.push_back(i);
      --a.needed;
    }
  }
  for (DeviceBits* from : {&a.candidates, &a.rest}) {
    for (uint32_t i = 0; i < from->size(); ++i) {
      const bool taken = std::find(a.chosen.begin(), a.chosen.end(), i) != a.chosen.end();
      if (i >= r.size() || r.is_held(i) || !r.is_healthy(i) || taken) (*from)[i] = false;
    }
    take_lowest(from, &a.needed, &a.chosen);
  }
  if (a.needed > 0) {
    return fail(a, fmt::format("unexpectedly allocated less resources than required. Requested: {}, Got: {}",
                               a.required, a.required - a.needed));
  }
  chosen(a);
}

void DeviceManager::chosen(Admission& a) {
  Resource& r = *a.resource;
  if (r.model != nullptr && r.model->insists() && !r.model->acceptable(a.chosen)) return start_over(a);
  for (const uint32_t i : a.chosen) r.hold(i);
  ask_allocate(a);
}

// It waits for devices that go together.
void DeviceManager::start_over(Admission& a) {
  if (PodEntry* pod = pod_of(a.demand.uid)) pod->allocations.clear();
  a.stage = Admission::Stage::kLimit;
  a.container = a.limit = 0;
  a.released = a.changed = a.placed = false;
  a.reusable.clear();
  a.resource = nullptr;
  a.chosen.clear();
  patient_.push_back(std::move(admissions_.front()));
  admissions_.pop_front();
  recount();
}

void DeviceManager::ask_allocate(Admission& a) {
  Resource& r = *a.resource;
  a.stage = Admission::Stage::kAllocate;
  a.allocated.reset();
  if (r.model != nullptr) {
    auto answer = r.model->allocate(node_, a.chosen, chips_of_others(r));
    if (!answer.ok()) answer = Status(Code::kUnavailable, as_rpc_error(answer.error().message()));
    a.allocated.emplace(std::move(answer));
    return;
  }
  if (r.plugin == nullptr) {
    a.allocated.emplace(Status(Code::kUnavailable, fmt::format("endpoint {} has been stopped", r.name)));
    return;
  }
  a.call = next_call_++;
  const std::shared_ptr<DevicePlugin> plugin = r.plugin;
  plugin->allocate(ids_of(r, a.chosen),
                   [this, call = a.call, alive = std::weak_ptr<Alive>(alive_)](Result<AllocateResponse> answer) {
                     if (alive.expired() || admissions_.empty()) return;
                     Admission& waiting = *admissions_.front();
                     if (waiting.call != call || waiting.allocated) return;
                     waiting.allocated.emplace(std::move(answer));
                     pump();
                   });
}

void DeviceManager::on_allocated(Admission& a) {
  a.call = 0;
  if (!a.allocated->ok()) return fail(a, a.allocated->error().message());
  Allocation allocation;
  allocation.container = a.asking().name;
  allocation.resource = a.resource;
  std::sort(a.chosen.begin(), a.chosen.end());
  allocation.indexes = std::move(a.chosen);
  if (a.resource->model == nullptr)
    allocation.response = std::make_unique<AllocateResponse>(std::move(*a.allocated).value());
  entry_of(a.demand.uid).allocations.push_back(std::move(allocation));
  a.changed = true;
  next_limit(a);
}

void DeviceManager::next_limit(Admission& a) {
  a.stage = Admission::Stage::kLimit;
  a.resource = nullptr;
  a.chosen.clear();
  ++a.limit;
}

// Devices of an init container are for those behind it; those of a sidecar or an app container are not.
void DeviceManager::end_container(Admission& a, const PodEntry& pod) {
  const ContainerDemand& container = a.asking();
  for (const Allocation& allocation : pod.allocations) {
    if (allocation.container != container.name) continue;
    auto at = std::find_if(a.reusable.begin(), a.reusable.end(),
                           [&](const auto& one) { return one.first == allocation.resource; });
    if (at == a.reusable.end()) at = a.reusable.insert(at, {allocation.resource, {}});
    for (const uint32_t i : allocation.indexes) {
      std::erase(at->second, i);
      if (container.init && !container.sidecar) at->second.push_back(i);
    }
  }
}

// Whoever is asked is there no more.
void DeviceManager::fail_waiting(const Resource& resource, const std::string& message) {
  if (admissions_.empty()) return;
  Admission& a = *admissions_.front();
  if (a.resource != &resource || a.call == 0) return;
  if (a.stage == Admission::Stage::kPreferred && !a.preferred) a.preferred.emplace(Status(Code::kUnavailable, message));
  if (a.stage == Admission::Stage::kAllocate && !a.allocated) a.allocated.emplace(Status(Code::kUnavailable, message));
}

}  // namespace ghostfleet::agent
