// Devices of a node's device plugins: pods get them when they are admitted, and give them back when they have ended.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "agent/pod/manager.h"
#include "kube/api/quantity.h"

namespace ghostfleet::agent {

namespace {

int64_t allocatable_of(const kube::Json& node, std::string_view resource) {
  const kube::JsonObject* list = kube::get_object(node, "status.allocatable");
  const kube::Json* at = list == nullptr ? nullptr : list->if_contains(resource);
  if (at == nullptr || !at->is_string()) return 0;
  const auto amount = kube::Quantity::parse(at->get_string());
  return amount.ok() ? amount->value() : 0;
}

}  // namespace

// Whether its containers may hold devices.
bool Manager::wants_devices(const Pod& pod) const {
  if (node_.devices == nullptr) return false;
  for (size_t i = 0; i < pod.spec->regular_end(); ++i) {
    if (!pod.spec->containers[i].devices.empty()) return true;
  }
  return false;
}

ContainerDemand Manager::demand_of(const Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerDemand demand{spec.name, spec.init, spec.sidecar, false, {}};
  for (const auto& limit : spec.devices) {
    const bool claimed = pod.claims() != nullptr && pod.claims()->skips_plugin(spec.name, limit.first);
    if (!claimed) demand.limits.push_back(limit);
  }
  return demand;
}

// Asks for its devices. What follows is done inside the call, or when the plugins have answered.
void Manager::take_devices(Pod& pod, const kube::Json& json, bool node_is_fresh) {
  struct Wait {
    bool inside = true;
    std::optional<Status> answer;
  };
  PodDemand demand{std::string(pod.uid()), {}};
  for (size_t i = 0; i < pod.spec->regular_end(); ++i) demand.containers.push_back(demand_of(pod, i));
  const auto wait = std::make_shared<Wait>();
  node_.devices->admit(std::move(demand), [this, wait, uid = std::string(pod.uid()), serial = pod.serial, node_is_fresh,
                                           alive = std::weak_ptr<const bool>(alive_)](Status status) {
    if (wait->inside) {
      wait->answer = std::move(status);
      return;
    }
    Pod* waiting = alive.expired() ? nullptr : find(uid);
    if (waiting == nullptr || waiting->serial != serial || waiting->work != Work::kAdmitting) return;
    if (waiting->stage != Stage::kActive || waiting->extras == nullptr || waiting->extras->json == nullptr) return;
    const std::unique_ptr<kube::Json> kept = std::move(waiting->extras->json);
    waiting->work = Work::kNone;
    devices_taken(*waiting, *kept, node_is_fresh, status);
    settle(*waiting);
    wake_others();
  });
  wait->inside = false;
  if (wait->answer) return devices_taken(pod, json, node_is_fresh, *wait->answer);
  pod.work = Work::kAdmitting;
  pod.more().json = std::make_unique<kube::Json>(json);
}

void Manager::devices_taken(Pod& pod, const kube::Json& json, bool node_is_fresh, const Status& status) {
  if (status.ok()) return judge_rest(pod, json, node_is_fresh);
  if (status.code() == Code::kResourceExhausted) return reject(pod, "TopologyAffinityError", status.message());
  reject(pod, "UnexpectedAdmissionError", "Allocate failed due to " + status.message() + ", which is unexpected");
}

// The node as admission takes it to be: with at least what is given out already, though its plugins may not be back.
std::shared_ptr<const kube::Json> Manager::node_for(const Pod& pod) const {
  if (node_.object == nullptr || !wants_devices(pod)) return node_.object;
  std::shared_ptr<kube::Json> raised;
  for (size_t i = 0; i < pod.spec->regular_end(); ++i) {
    for (const auto& [resource, count] : pod.spec->containers[i].devices) {
      const uint32_t given = node_.devices->allocated(resource);
      if (given == 0 || allocatable_of(*node_.object, resource) >= given) continue;
      if (raised == nullptr) raised = std::make_shared<kube::Json>(*node_.object);
      kube::ensure_object(*raised, "status.allocatable")[resource] = std::to_string(given);
    }
  }
  return raised != nullptr ? raised : node_.object;
}

void Manager::give_back_devices(const Pod& pod) {
  if (wants_devices(pod)) node_.devices->ended(pod.uid());
}

// Those of a container that an earlier agent started. What an init container holds is in no status.
void Manager::adopt_devices(Pod& pod, size_t index, const kube::Json& status) {
  if (node_.devices == nullptr || index >= pod.spec->regular_end()) return;
  ContainerDemand demand = demand_of(pod, index);
  demand.running = pod.runs[index].now.state == RunState::kRunning;
  if (demand.init && !demand.running) return;
  const kube::JsonArray* list = kube::get_array(status, "allocatedResourcesStatus");
  for (const auto& [resource, count] : demand.limits) {
    DeviceIds ids;
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const kube::Json& entry = (*list)[i];
      const kube::JsonArray* devices = kube::get_array(entry, "resources");
      if (kube::get_string(entry, "name") != resource || devices == nullptr) continue;
      for (const kube::Json& device : *devices) ids.emplace_back(kube::get_string(device, "resourceID"));
    }
    std::erase(ids, "");
    // A node that starts anew gives those out that it knows nothing of.
    if (ids.empty() && node_.rebooted) continue;
    node_.devices->adopt(pod.uid(), demand, resource, ids);
  }
}

// Whether the API server knows the health of what the pod holds.
bool Manager::devices_told(const Pod& pod, const kube::Json& json) const {
  if (!wants_devices(pod)) return true;
  const kube::JsonArray* statuses = kube::get_array(json, "status.containerStatuses");
  for (size_t s = 0; statuses != nullptr && s < statuses->size(); ++s) {
    std::string told, held;
    const kube::JsonArray* list = kube::get_array((*statuses)[s], "allocatedResourcesStatus");
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const kube::JsonArray* devices = kube::get_array((*list)[i], "resources");
      if (kube::get_string((*list)[i], "name").starts_with("claim:") || devices == nullptr) continue;
      for (const kube::Json& device : *devices) {
        told += kube::get_string(device, "resourceID");
        told += kube::get_string(device, "health") == "Healthy" ? "+" : "-";
      }
    }
    for (const ContainerDevices& one : node_.devices->held(pod.uid(), kube::get_string((*statuses)[s], "name"))) {
      for (const HeldDevice& device : one.devices) held += device.id + (device.healthy ? "+" : "-");
    }
    if (told != held) return false;
  }
  return true;
}

void Manager::on_devices_changed() {
  for (const Slot& slot : slots_) {
    Pod* pod = slot.pod.get();
    if (pod == nullptr || pod->stage != Stage::kActive || !wants_devices(*pod)) continue;
    request_sync(*pod, host_.now());
    wake_later(*pod, Wake::kSettle);
  }
  wake_others();
}

// Plugins that asked for it are told before each creation of a container.
Manager::Start Manager::prepare_devices(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  if (node_.devices == nullptr || spec.devices.empty() || std::exchange(run.devices_ready, false))
    return Start::kStarted;
  if (!node_.devices->needs_pre_start(pod.uid(), spec.name)) return Start::kStarted;
  pod.work = Work::kPreparing;
  run.image_ready = run.objects_ready = true;  // told already
  const auto inside = std::make_shared<bool>(true);
  node_.devices->pre_start(pod.uid(), spec.name,
                           [this, inside, index, uid = std::string(pod.uid()), serial = pod.serial,
                            alive = std::weak_ptr<const bool>(alive_)](const Status& status) {
                             Pod* waiting = alive.expired() ? nullptr : find(uid);
                             if (waiting == nullptr || waiting->serial != serial) return;
                             if (waiting->work != Work::kPreparing) return;
                             if (*inside) return devices_prepared(*waiting, index, status, true);
                             devices_prepared(*waiting, index, status, false);
                             settle(*waiting);
                             wake_others();
                           });
  *inside = false;
  if (pod.work == Work::kPreparing) return Start::kBusy;
  if (!std::exchange(run.devices_ready, false)) return Start::kFailed;
  return Start::kStarted;
}

void Manager::devices_prepared(Pod& pod, size_t index, const Status& status, bool inside) {
  ContainerRun& run = pod.runs[index];
  pod.work = Work::kNone;
  if (status.ok()) {
    run.devices_ready = true;
  } else {
    run.image_ready = run.objects_ready = false;
    tell(pod, true, "Failed", "Error: " + status.message(), static_cast<int>(index));
    pod.more().set_pull_error(static_cast<uint32_t>(index), status.message());
    fail(pod, index, Why::kNotPrepared, error_delay());
  }
  if (!inside) run_pass(pod);
}

}  // namespace ghostfleet::agent
