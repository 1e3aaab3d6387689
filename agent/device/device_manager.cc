// Plugins: who is registered, what they list, what the Node shows of it, and the checkpoint.
#include "agent/device/device_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "agent/device/device_manager_parts.h"
#include "kube/api/names.h"

namespace ghostfleet::agent {

namespace {

constexpr size_t kMaxIdShown = 80;

bool is_extended(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || name.starts_with("requests.")) return false;
  const std::string_view domain = name.substr(0, slash);
  if (domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")) return false;
  return kube::check_qualified_name(std::string(name)).empty();
}

}  // namespace

DeviceManager::DeviceManager(std::string node, DeviceListener& listener)
    : node_(std::move(node)), listener_(listener), alive_(std::make_shared<Alive>()) {}

DeviceManager::~DeviceManager() = default;

DeviceManager::Resource* DeviceManager::find(std::string_view name) const {
  for (const auto& resource : resources_) {
    if (resource->name == name) return resource.get();
  }
  return nullptr;
}

DeviceManager::Resource* DeviceManager::by_plugin(PluginId plugin) const {
  for (const auto& resource : resources_) {
    if (plugin != 0 && resource->id == plugin) return resource.get();
  }
  return nullptr;
}

DeviceManager::Resource& DeviceManager::resource_of(std::string_view name) {
  if (Resource* known = find(name)) return *known;
  resources_.push_back(std::make_unique<Resource>());
  resources_.back()->name = name;
  return *resources_.back();
}

void DeviceManager::tell(const Notes& notes) {
  if (notes.counts) listener_.device_counts_changed();
  if (notes.health) listener_.device_health_changed();
  if (notes.checkpoint) listener_.device_checkpoint_changed();
}

// What containers hold is kept by id while the indexes of a resource change.
template <class Change>
void DeviceManager::change_list(Resource& resource, Change&& change) {
  std::vector<std::pair<Indexes*, DeviceIds>> kept;
  const auto keep = [&](Indexes& indexes) { kept.emplace_back(&indexes, ids_of(resource, indexes)); };
  for (const auto& pod : pods_) {
    for (Allocation& a : pod->allocations) {
      if (a.resource == &resource) keep(a.indexes);
    }
  }
  Admission* waiting = admissions_.empty() ? nullptr : admissions_.front().get();
  if (waiting != nullptr && waiting->resource == &resource) keep(waiting->chosen);
  if (waiting != nullptr) {
    for (auto& [of, indexes] : waiting->reusable) {
      if (of == &resource) keep(indexes);
    }
  }
  change();
  resource.extra.clear();
  for (auto& [indexes, ids] : kept) {
    for (size_t i = 0; i < ids.size(); ++i) (*indexes)[i] = resource.index_of(node_, ids[i]);
  }
  recount();
}

Result<DeviceManager::PluginId> DeviceManager::register_plugin(std::string_view name,
                                                               std::shared_ptr<DevicePlugin> plugin,
                                                               PluginOptions options, TimePoint /*now*/) {
  if (!is_extended(name)) {
    return invalid_argument(
        fmt::format("the ResourceName \"{}\" is invalid: the name of an extended resource, like "
                    "example.com/device, is expected",
                    name.substr(0, kMaxIdShown)));
  }
  if (find(name) == nullptr && resources_.size() >= kMaxResources) {
    return Status(Code::kResourceExhausted,
                  fmt::format("resource {}: a node has at most {} resources of plugins", name, kMaxResources));
  }
  Resource& resource = resource_of(name);
  fail_waiting(resource, "rpc error: code = Canceled desc = grpc: the client connection is closing");
  resource.plugin = std::move(plugin);
  resource.options = options;
  resource.id = next_plugin_++;
  pump();
  return resource.id;
}

Status DeviceManager::list_devices(PluginId plugin, std::vector<ListedDevice> devices, TimePoint /*now*/) {
  Resource* resource = by_plugin(plugin);
  if (resource == nullptr) return Status();
  if (devices.size() > kMaxDevices) {
    Status bad(Code::kResourceExhausted, fmt::format("plugin of {} lists {} devices: at most {} are taken",
                                                     resource->name, devices.size(), kMaxDevices));
    listener_.device_problem(resource->name, bad.message());
    return bad;
  }
  std::vector<ListedDevice> list;
  std::unordered_map<std::string_view, size_t> seen;
  list.reserve(devices.size());  // `seen` points into it
  size_t empty = 0;
  size_t twice = 0;
  for (ListedDevice& device : devices) {
    const auto known = seen.find(device.id);
    if (device.id.empty()) {
      ++empty;
    } else if (known != seen.end()) {
      ++twice;
      list[known->second].healthy = device.healthy;
      list[known->second].numa_nodes = device.numa_nodes;
    } else {
      list.push_back(std::move(device));
      seen.emplace(list.back().id, list.size() - 1);
    }
  }
  if (empty + twice > 0) {
    listener_.device_problem(resource->name, fmt::format("plugin of {} lists {} devices without an id and {} twice",
                                                         resource->name, empty, twice));
  }
  change_list(*resource, [&] {
    resource->model.reset();
    resource->unhealthy.clear();
    resource->list = std::move(list);
    resource->state = Resource::State::kListed;
    resource->gone_at = kNoTime;
  });
  tell({.counts = true, .health = true, .checkpoint = true});
  retry_patient();
  return Status();
}

void DeviceManager::stop(Resource& resource, bool capacity_too, TimePoint now) {
  fail_waiting(resource, fmt::format("endpoint {} has been stopped", resource.name));
  resource.plugin.reset();
  resource.id = 0;
  if (resource.state == Resource::State::kListed || capacity_too) {
    resource.state = capacity_too ? Resource::State::kAwaited : Resource::State::kGone;
    resource.gone_at = now;
  }
  tell({.counts = true, .health = true, .checkpoint = true});
  pump();
}

void DeviceManager::plugin_gone(PluginId plugin, TimePoint now) {
  if (Resource* resource = by_plugin(plugin)) stop(*resource, false, now);
}

void DeviceManager::model_gone(std::string_view name, bool capacity_too, TimePoint now) {
  Resource* resource = find(name);
  if (resource != nullptr && resource->model != nullptr) stop(*resource, capacity_too, now);
}

void DeviceManager::register_model(std::shared_ptr<const PluginModel> model, TimePoint /*now*/) {
  if (model->count() > kMaxDevices) {
    listener_.device_problem(model->resource(),
                             fmt::format("{} devices: at most {} are taken", model->count(), kMaxDevices));
    return;
  }
  Resource& resource = resource_of(model->resource());
  const auto begin = [&] {
    resource.list.clear();
    resource.plugin.reset();
    resource.options = model->options();
    resource.model = std::move(model);
    resource.state = Resource::State::kListed;
    resource.gone_at = kNoTime;
    apply_faults(resource, true);
  };
  resource.id = 0;
  change_list(resource, begin);
  tell({.counts = true, .health = !pods_.empty(), .checkpoint = true});
  retry_patient();
}

// What is unhealthy of a model's devices. Who does not heal stays so until its plugin starts again.
void DeviceManager::apply_faults(Resource& resource, bool restarted) const {
  DeviceBits bits;
  if (!restarted && !resource.model->heals()) bits = std::move(resource.unhealthy);
  for (const Fault& fault : faults_) {
    for (const uint32_t index : resource.model->hit_by(fault.resource, fault.number, fault.code)) {
      if (index >= resource.size()) continue;
      bits.resize(resource.size());
      bits[index] = true;
    }
  }
  resource.unhealthy = std::move(bits);
}

void DeviceManager::set_faults(const std::vector<Fault>& faults, TimePoint /*now*/) {
  if (faults == faults_) return;
  faults_ = faults;
  Notes notes;
  for (const auto& resource : resources_) {
    if (resource->model == nullptr) continue;
    const DeviceBits before = resource->unhealthy;
    apply_faults(*resource, false);
    const auto bad = [](const DeviceBits& bits, uint32_t i) { return i < bits.size() && bits[i]; };
    for (uint32_t i = 0; i < resource->size(); ++i) {
      if (bad(before, i) == bad(resource->unhealthy, i)) continue;
      notes.counts = notes.checkpoint = true;
      notes.health = notes.health || resource->is_held(i);
    }
  }
  tell(notes);
  if (notes.counts) retry_patient();
}

TimePoint DeviceManager::next_due() const {
  TimePoint due = kNoTime;
  for (const auto& resource : resources_) {
    if (resource->gone_at != kNoTime && resource->state != Resource::State::kExpired)
      due = std::min(due, resource->gone_at + kGrace);
  }
  return due;
}

void DeviceManager::on_time(TimePoint now) {
  Notes notes;
  for (const auto& resource : resources_) {
    if (resource->gone_at == kNoTime || resource->state == Resource::State::kExpired) continue;
    if (now < resource->gone_at + kGrace) continue;
    resource->state = Resource::State::kExpired;
    notes.counts = notes.checkpoint = true;
  }
  tell(notes);
}

std::vector<DeviceCount> DeviceManager::counts() const {
  std::vector<DeviceCount> out;
  for (const auto& resource : resources_) {
    if (resource->state == Resource::State::kUnknown) continue;
    const bool there = resource->state == Resource::State::kListed || resource->state == Resource::State::kGone;
    out.push_back({resource->name, there ? resource->size() : 0, resource->healthy_count()});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.resource < b.resource; });
  return out;
}

uint32_t DeviceManager::allocated(std::string_view name) const {
  const Resource* resource = find(name);
  if (resource == nullptr) return 0;
  return static_cast<uint32_t>(std::count(resource->held.begin(), resource->held.end(), true));
}

// As a kubelet does: what has expired is only remembered by those who hold some.
bool DeviceManager::knows(std::string_view name) const {
  const Resource* resource = find(name);
  if (resource == nullptr) return false;
  const bool there = resource->state != Resource::State::kUnknown && resource->state != Resource::State::kExpired;
  return there || allocated(name) > 0;
}

std::vector<ContainerDevices> DeviceManager::devices() const {
  std::vector<ContainerDevices> out;
  for (const auto& resource : resources_) {
    if (resource->state != Resource::State::kListed) continue;
    ContainerDevices all;
    all.resource = resource->name;
    all.devices.reserve(resource->size());
    for (uint32_t i = 0; i < resource->size(); ++i)
      all.devices.push_back({resource->id_of(node_, i), resource->is_healthy(i), resource->numa_of(i)});
    out.push_back(std::move(all));
  }
  return out;
}

DeviceCheckpoint DeviceManager::checkpoint() const {
  DeviceCheckpoint out;
  for (const auto& pod : pods_) {
    for (const Allocation& a : pod->allocations) {
      if (pod->released) continue;
      DeviceCheckpoint::Entry entry{pod->uid, a.container, a.resource->name, {}, encode_response(answer_of(a))};
      for (const uint32_t i : a.indexes) {
        const uint64_t nodes = a.resource->numa_of(i);
        if (nodes == 0) entry.ids[-1].push_back(a.resource->id_of(node_, i));
        for (uint32_t n = 0; n < PluginModel::kMaxNumaNodes; ++n) {
          if ((nodes >> n & 1) != 0) entry.ids[n].push_back(a.resource->id_of(node_, i));
        }
      }
      out.entries.push_back(std::move(entry));
    }
  }
  for (const auto& resource : resources_) {
    if (resource->state == Resource::State::kUnknown || resource->state == Resource::State::kExpired) continue;
    std::vector<std::string>& ids = out.registered[resource->name];
    for (uint32_t i = 0; i < resource->size(); ++i) {
      if (resource->is_healthy(i)) ids.push_back(resource->id_of(node_, i));
    }
  }
  return out;
}

void DeviceManager::restore(const DeviceCheckpoint& checkpoint, TimePoint now) {
  for (const auto& [name, ids] : checkpoint.registered) {
    if (resources_.size() >= kMaxResources && find(name) == nullptr) continue;
    Resource& resource = resource_of(name);
    if (resource.state != Resource::State::kUnknown) continue;
    resource.state = Resource::State::kAwaited;
    resource.gone_at = now;
  }
  for (const DeviceCheckpoint::Entry& entry : checkpoint.entries) {
    if (resources_.size() >= kMaxResources && find(entry.resource) == nullptr) continue;
    Resource& resource = resource_of(entry.resource);
    PodEntry& pod = entry_of(entry.pod_uid);
    if (pod.find(entry.container, &resource) != nullptr) continue;
    Allocation a;
    a.container = entry.container;
    a.resource = &resource;
    for (const auto& [numa, ids] : entry.ids) {
      for (const std::string& id : ids) {
        const uint32_t index = resource.index_of(node_, id);
        if (std::find(a.indexes.begin(), a.indexes.end(), index) == a.indexes.end()) a.indexes.push_back(index);
      }
    }
    if (auto response = decode_response(entry.response); response.ok())
      a.response = std::make_unique<AllocateResponse>(std::move(response).value());
    pod.allocations.push_back(std::move(a));
  }
  recount();
  tell({.counts = true});
}

}  // namespace ghostfleet::agent
