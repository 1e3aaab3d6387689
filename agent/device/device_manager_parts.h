// The parts of a DeviceManager that its .cc files share. Not for others.
#pragma once

#include <algorithm>

#include "agent/device/device_manager.h"

namespace ghostfleet::agent {

struct DeviceManager::Resource {
  // kUnknown: no plugin ever, but a container holds some. kAwaited: known from an earlier agent, 0 devices. kGone: its
  // plugin may come back. kExpired: it did not.
  enum class State : unsigned char { kUnknown, kAwaited, kListed, kGone, kExpired };

  std::string name;
  State state = State::kUnknown;
  std::shared_ptr<const PluginModel> model;  // also of a plugin that is gone
  std::shared_ptr<DevicePlugin> plugin;      // a real one; null: a model, or none
  PluginId id = 0;
  PluginOptions options;
  std::vector<ListedDevice> list;  // of a real plugin
  DeviceBits unhealthy;            // of a model; empty: all are well
  DeviceBits held;
  std::vector<std::string> extra;  // ids that containers hold and nobody lists; their indexes follow the listed ones
  TimePoint gone_at = kNoTime;

  uint32_t size() const { return model != nullptr ? model->count() : static_cast<uint32_t>(list.size()); }
  bool well(uint32_t index) const {
    if (model == nullptr) return list[index].healthy;
    return index >= unhealthy.size() || !unhealthy[index];
  }
  bool is_healthy(uint32_t index) const { return state == State::kListed && index < size() && well(index); }
  uint32_t healthy_count() const {
    uint32_t n = 0;
    for (uint32_t i = 0; i < size(); ++i) n += is_healthy(i) ? 1 : 0;
    return n;
  }
  bool is_held(uint32_t index) const { return index < held.size() && held[index]; }
  void hold(uint32_t index) {
    if (index >= held.size()) held.resize(std::max<size_t>(size() + extra.size(), index + 1));
    held[index] = true;
  }
  std::string id_of(std::string_view node, uint32_t index) const {
    if (index >= size()) return index - size() < extra.size() ? extra[index - size()] : std::string();
    return model != nullptr ? model->id(node, index) : list[index].id;
  }
  uint64_t numa_of(uint32_t index) const {
    if (index >= size()) return 0;
    return model != nullptr ? model->numa_nodes(index) : list[index].numa_nodes;
  }
  uint32_t index_of(std::string_view node, std::string_view id_text) {
    if (model != nullptr) {
      if (const auto at = model->find(node, id_text)) return *at;
    }
    for (uint32_t i = 0; model == nullptr && i < list.size(); ++i) {
      if (list[i].id == id_text) return i;
    }
    const auto at = std::find(extra.begin(), extra.end(), id_text);
    const auto place = static_cast<uint32_t>(at - extra.begin());
    if (at == extra.end()) extra.emplace_back(id_text);
    return size() + place;
  }
};

// What a container holds of one resource.
struct DeviceManager::Allocation {
  std::string container;
  Resource* resource = nullptr;
  Indexes indexes;
  std::unique_ptr<AllocateResponse> response;  // of a real plugin; a model's is made when it is asked for
};

struct DeviceManager::PodEntry {
  std::string uid;
  bool ended = false;      // nothing of it runs: its devices become free with the next admission
  bool confirmed = false;  // the owner knows it; else it is of a checkpoint
  bool released = false;   // they have become free
  std::vector<Allocation> allocations;

  Allocation* find(std::string_view container, const Resource* resource) {
    for (Allocation& a : allocations) {
      if (a.container == container && a.resource == resource) return &a;
    }
    return nullptr;
  }
};

// The admission of one pod: which limit of which container it is at, and what it waits for.
struct DeviceManager::Admission {
  enum class Stage : unsigned char { kLimit, kPreferred, kAllocate, kDone };

  PodDemand demand;
  AdmitDone done;
  Stage stage = Stage::kLimit;
  size_t container = 0, limit = 0;
  bool released = false;  // ended pods were looked for, for this container
  bool changed = false;   // something was allocated
  bool placed = false;    // `near` is known: for the container it is at, or for the whole pod
  NumaNodes near = 0;     // where devices are to be taken first; 0: anywhere
  // Devices of init containers that have ended by the time the next ones run.
  std::vector<std::pair<Resource*, Indexes>> reusable;
  // Of the limit it is at.
  Resource* resource = nullptr;
  uint32_t required = 0, needed = 0;
  Indexes chosen;
  DeviceBits candidates;  // of which the preferred ones count
  DeviceBits rest;        // where they do not suffice
  uint64_t call = 0;      // to a real plugin, on its way
  std::optional<Result<DeviceIds>> preferred;
  std::optional<Result<AllocateResponse>> allocated;

  const ContainerDemand& asking() const { return demand.containers[container]; }
};

struct DeviceManager::Notes {
  bool counts = false, health = false, checkpoint = false;
};

}  // namespace ghostfleet::agent
