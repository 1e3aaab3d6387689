// Devices of a node's device plugins: which containers hold which, and what becomes of their health.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/pod/manager.h"
#include "kube/api/quantity.h"

namespace ghostfleet::agent {

namespace {

uint32_t count_on(const kube::Json* node, std::string_view resource) {
  for (const std::string_view list : {"status.capacity", "status.allocatable"}) {
    const kube::JsonObject* object = node == nullptr ? nullptr : kube::get_object(*node, list);
    const kube::Json* at = object == nullptr ? nullptr : object->if_contains(resource);
    if (at == nullptr || !at->is_string()) continue;
    const auto amount = kube::Quantity::parse(at->get_string());
    if (amount.ok()) return static_cast<uint32_t>(std::clamp<int64_t>(amount->value(), 0, DeviceTable::kMost));
  }
  return 0;
}

}  // namespace

// What a device manager says to a pod that gets less than it asks for; empty: it holds its devices.
std::string Manager::take_devices(Pod& pod) {
  if (!options_->device_plugins) return {};
  const std::shared_ptr<const kube::Json> node = node_.object;
  for (size_t i = pod.spec->init_count; i < pod.spec->regular_end(); ++i) {
    for (const auto& [resource, count] : pod.spec->containers[i].devices) {
      const uint32_t there = count_on(node.get(), resource);
      if (there == 0) continue;  // not a device plugin's
      if (pod.claims() != nullptr && pod.claims()->skips_plugin(pod.spec->containers[i].name, resource)) continue;
      if (devices_ == nullptr) devices_ = std::make_unique<DeviceTable>();
      std::string why;
      std::vector<uint32_t> taken = devices_->take(resource, count, there, &why);
      if (taken.empty()) {
        give_back_devices(pod);
        if (pod.extras != nullptr) pod.extras->devices.clear();
        return why;
      }
      pod.more().devices.push_back({static_cast<uint32_t>(i), resource, std::move(taken), false});
    }
  }
  return {};
}

void Manager::give_back_devices(Pod& pod) {
  if (pod.extras == nullptr || devices_ == nullptr) return;
  for (HeldDevices& held : pod.extras->devices) {
    if (!std::exchange(held.given_back, true)) devices_->give_back(held.resource, held.indexes);
  }
}

// Those of a container that an earlier agent started.
void Manager::adopt_devices(Pod& pod, size_t index, const kube::Json& status) {
  const kube::JsonArray* list = kube::get_array(status, "allocatedResourcesStatus");
  if (!options_->device_plugins || list == nullptr) return;
  const std::shared_ptr<const kube::Json> node = node_.object;
  for (const kube::Json& entry : *list) {
    HeldDevices held{static_cast<uint32_t>(index), std::string(kube::get_string(entry, "name")), {}, false};
    const kube::JsonArray* ids = kube::get_array(entry, "resources");
    const uint32_t there = count_on(node.get(), held.resource);
    for (uint32_t i = 0; ids != nullptr && i < there; ++i) {
      const std::string id = device_id(node_.name, held.resource, i);
      const auto same = [&](const kube::Json& device) { return kube::get_string(device, "resourceID") == id; };
      if (std::any_of(ids->begin(), ids->end(), same)) held.indexes.push_back(i);
    }
    if (held.indexes.empty()) continue;
    if (devices_ == nullptr) devices_ = std::make_unique<DeviceTable>();
    devices_->hold(held.resource, held.indexes);
    pod.more().devices.push_back(std::move(held));
  }
}

void Manager::set_unhealthy_devices(const UnhealthyDevices& unhealthy) {
  if (!options_->device_plugins) return;
  if (devices_ == nullptr) devices_ = std::make_unique<DeviceTable>();
  if (!devices_->set_unhealthy(unhealthy)) return;
  for (const Slot& slot : slots_) {
    Pod* pod = slot.pod.get();
    if (pod == nullptr || pod->extras == nullptr || pod->extras->devices.empty()) continue;
    if (pod->stage != Stage::kActive) continue;
    request_sync(*pod, host_.now());
    wake_later(*pod, Wake::kSettle);
  }
  wake_others();
}

}  // namespace ghostfleet::agent
