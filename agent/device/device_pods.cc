// Pods: what their containers hold, from adoption or admission until they are forgotten.
#include <fmt/format.h>

#include <algorithm>

#include "agent/device/device_manager_parts.h"
#include "base/hash.h"

namespace ghostfleet::agent {

DeviceManager::PodEntry* DeviceManager::pod_of(std::string_view uid) const {
  for (const auto& pod : pods_) {
    if (pod->uid == uid) return pod.get();
  }
  return nullptr;
}

DeviceManager::PodEntry& DeviceManager::entry_of(std::string_view uid) {
  if (PodEntry* known = pod_of(uid)) return *known;
  pods_.push_back(std::make_unique<PodEntry>());
  pods_.back()->uid = uid;
  return *pods_.back();
}

// Which devices are in use: those of pods that were not released, and those of an admission that is at work.
void DeviceManager::recount() {
  for (const auto& resource : resources_) resource->held.clear();
  for (const auto& pod : pods_) {
    for (const Allocation& a : pod->allocations) {
      for (const uint32_t i : a.indexes) {
        if (!pod->released) a.resource->hold(i);
      }
    }
  }
  if (admissions_.empty() || admissions_.front()->resource == nullptr) return;
  for (const uint32_t i : admissions_.front()->chosen) admissions_.front()->resource->hold(i);
}

bool DeviceManager::release_ended() {
  if (!pods_known_) return false;
  bool some = false;
  for (const auto& pod : pods_) {
    if (!pod->ended || pod->released) continue;
    pod->released = true;
    some = some || !pod->allocations.empty();
  }
  if (some) recount();
  return some;
}

DeviceIds DeviceManager::ids_of(const Resource& resource, const Indexes& indexes) const {
  DeviceIds out;
  out.reserve(indexes.size());
  for (const uint32_t i : indexes) out.push_back(resource.id_of(node_, i));
  return out;
}

ContainerDevices DeviceManager::view_of(const PodEntry& pod, const Allocation& a) const {
  ContainerDevices out{pod.uid, a.container, a.resource->name, {}};
  for (const uint32_t i : a.indexes)
    out.devices.push_back({a.resource->id_of(node_, i), a.resource->is_healthy(i), a.resource->numa_of(i)});
  return out;
}

AllocateResponse DeviceManager::answer_of(const Allocation& a) const {
  if (a.response != nullptr) return *a.response;
  Indexes listed;
  for (const uint32_t i : a.indexes) {
    if (i < a.resource->size()) listed.push_back(i);
  }
  if (a.resource->model == nullptr || listed.empty()) return {};
  auto answer = a.resource->model->allocate(node_, listed, {});
  return answer.ok() ? std::move(answer).value() : AllocateResponse();
}

// Chips of a model's hardware of which other resources have given something out.
DeviceBits DeviceManager::chips_of_others(const Resource& resource) const {
  if (resource.model == nullptr || resource.model->hardware().empty()) return {};
  DeviceBits out(resource.model->chips());
  for (const auto& other : resources_) {
    if (other.get() == &resource || other->model == nullptr) continue;
    if (other->model->hardware() != resource.model->hardware()) continue;
    for (uint32_t i = 0; i < other->size(); ++i) {
      const uint32_t chip = other->model->chip(i);
      if (other->is_held(i) && chip < out.size()) out[chip] = true;
    }
  }
  return out;
}

void DeviceManager::pods_known() {
  if (pods_known_) return;
  pods_known_ = true;
  for (const auto& pod : pods_) pod->ended = pod->ended || !pod->confirmed;
  const std::vector<Wanted> wanted = std::exchange(wanted_, {});
  for (const Wanted& w : wanted) {
    const PodEntry* pod = pod_of(w.uid);
    if (pod != nullptr && !pod->ended) take_free(w.uid, w.container, resource_of(w.resource), w.count);
  }
  pump();
}

// Of a container that runs and whose devices nobody knows.
void DeviceManager::take_free(std::string_view uid, std::string_view container, Resource& resource, uint32_t count) {
  Allocation a;
  a.container = container;
  a.resource = &resource;
  for (uint32_t i = 0; i < resource.size() && a.indexes.size() < count; ++i) {
    if (resource.is_healthy(i) && !resource.is_held(i)) a.indexes.push_back(i);
  }
  if (a.indexes.empty()) return;
  for (const uint32_t i : a.indexes) resource.hold(i);
  entry_of(uid).allocations.push_back(std::move(a));
  tell({.health = true, .checkpoint = true});
}

void DeviceManager::adopt(std::string_view uid, const ContainerDemand& container, std::string_view name,
                          const DeviceIds& ids) {
  if (find(name) == nullptr && resources_.size() >= kMaxResources) return;
  PodEntry& pod = entry_of(uid);
  pod.confirmed = true;
  Resource* known = find(name);
  if (known != nullptr && pod.find(container.name, known) != nullptr) return;
  if (ids.empty()) {
    for (const auto& [limit, count] : container.limits) {
      if (limit != name || known == nullptr || count == 0) continue;
      if (pods_known_) return take_free(uid, container.name, *known, count);
      wanted_.push_back({std::string(uid), container.name, limit, count});
    }
    return;
  }
  Resource& resource = resource_of(name);
  Allocation a;
  a.container = container.name;
  a.resource = &resource;
  for (const std::string& id : ids) {
    const uint32_t index = resource.index_of(node_, id);
    if (std::find(a.indexes.begin(), a.indexes.end(), index) == a.indexes.end()) a.indexes.push_back(index);
  }
  for (const uint32_t i : a.indexes) resource.hold(i);
  pod.allocations.push_back(std::move(a));
  tell({.checkpoint = true});
}

// Of an admission that waits there is nothing more to do.
void DeviceManager::drop_admission(std::string_view uid) {
  const auto is_it = [uid](const std::unique_ptr<Admission>& a) { return a->demand.uid == uid; };
  std::vector<std::unique_ptr<Admission>> dropped;
  const auto take = [&](auto& list) {
    for (auto at = list.begin(); at != list.end();) {
      if (is_it(*at)) {
        dropped.push_back(std::move(*at));
        at = list.erase(at);
      } else {
        ++at;
      }
    }
  };
  take(admissions_);
  take(patient_);
  if (dropped.empty()) return;
  recount();
  for (const auto& admission : dropped) admission->done(Status(Code::kCancelled, "the pod has ended"));
  pump();
}

void DeviceManager::ended(std::string_view uid) {
  drop_admission(uid);
  PodEntry* pod = pod_of(uid);
  if (pod == nullptr || pod->ended) return;
  pod->ended = true;
  retry_patient();
}

void DeviceManager::forget(std::string_view uid) {
  drop_admission(uid);
  const auto at = std::find_if(pods_.begin(), pods_.end(), [uid](const auto& pod) { return pod->uid == uid; });
  if (at == pods_.end()) return;
  const bool held = !(*at)->released && !(*at)->allocations.empty();
  pods_.erase(at);
  if (!held) return;
  recount();
  tell({.checkpoint = true});
  retry_patient();
}

// Something is free, or well again: perhaps what others have waited for.
void DeviceManager::retry_patient() {
  for (std::unique_ptr<Admission>& admission : patient_) admissions_.push_back(std::move(admission));
  patient_.clear();
  pump();
}

std::vector<ContainerDevices> DeviceManager::held() const {
  std::vector<ContainerDevices> out;
  for (const auto& pod : pods_) {
    for (const Allocation& a : pod->allocations) {
      if (!pod->ended) out.push_back(view_of(*pod, a));
    }
  }
  return out;
}

std::vector<ContainerDevices> DeviceManager::held(std::string_view uid, std::string_view container) const {
  std::vector<ContainerDevices> out;
  const PodEntry* pod = pod_of(uid);
  if (pod == nullptr) return out;
  for (const Allocation& a : pod->allocations) {
    if (a.container == container) out.push_back(view_of(*pod, a));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.resource < b.resource; });
  return out;
}

uint64_t DeviceManager::look_of(std::string_view uid, std::string_view container) const {
  const PodEntry* pod = pod_of(uid);
  if (pod == nullptr) return 0;
  uint64_t look = 0;
  for (const Allocation& a : pod->allocations) {
    if (a.container != container) continue;
    look = hash_text(a.resource->name, look);
    for (const uint32_t i : a.indexes) look = hash_mix(look, uint64_t{i} << 1 | (a.resource->is_healthy(i) ? 1 : 0));
  }
  return look;
}

AllocateResponse DeviceManager::response_of(std::string_view uid, std::string_view container) const {
  AllocateResponse out;
  const PodEntry* pod = pod_of(uid);
  if (pod == nullptr) return out;
  const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const Allocation& a : pod->allocations) {
    if (a.container != container) continue;
    const AllocateResponse one = answer_of(a);
    add(out.envs, one.envs);
    add(out.annotations, one.annotations);
    add(out.mounts, one.mounts);
    add(out.nodes, one.nodes);
    add(out.cdi_names, one.cdi_names);
  }
  return out;
}

std::string DeviceManager::start_failure(std::string_view uid, std::string_view container) const {
  const PodEntry* pod = pod_of(uid);
  if (pod == nullptr) return {};
  for (const Allocation& a : pod->allocations) {
    if (a.container != container || a.resource->model == nullptr) continue;
    const bool all_listed =
        std::all_of(a.indexes.begin(), a.indexes.end(), [&](uint32_t i) { return i < a.resource->size(); });
    if (!all_listed) continue;
    if (std::string why = a.resource->model->start_failure(a.indexes); !why.empty()) return why;
  }
  return {};
}

bool DeviceManager::needs_pre_start(std::string_view uid, std::string_view container) const {
  const PodEntry* pod = pod_of(uid);
  if (pod == nullptr) return false;
  return std::any_of(pod->allocations.begin(), pod->allocations.end(), [container](const Allocation& a) {
    return a.container == container && a.resource->options.pre_start && a.resource->plugin != nullptr;
  });
}

void DeviceManager::pre_start(std::string_view uid, std::string_view container, std::function<void(Status)> done) {
  struct Waiting {
    std::function<void(Status)> done;
    size_t left = 1;  // this call itself
    void answered(const Status& status) {
      if (left == 0) return;
      left = status.ok() ? left - 1 : 0;
      if (left == 0) done(status);
    }
  };
  auto waiting = std::make_shared<Waiting>();
  waiting->done = std::move(done);
  const PodEntry* pod = pod_of(uid);
  std::vector<std::pair<std::shared_ptr<DevicePlugin>, DeviceIds>> calls;
  for (size_t i = 0; pod != nullptr && i < pod->allocations.size(); ++i) {
    const Allocation& a = pod->allocations[i];
    if (a.container == container && a.resource->options.pre_start && a.resource->plugin != nullptr)
      calls.emplace_back(a.resource->plugin, ids_of(*a.resource, a.indexes));
  }
  waiting->left += calls.size();
  for (auto& [plugin, ids] : calls) {
    plugin->pre_start_container(std::move(ids), [waiting, alive = std::weak_ptr<Alive>(alive_)](const Status& status) {
      if (!alive.expired()) waiting->answered(status);
    });
  }
  waiting->answered(Status());
}

}  // namespace ghostfleet::agent
