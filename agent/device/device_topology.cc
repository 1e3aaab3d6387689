// Which NUMA nodes the devices of a container, or of a whole pod, are to come from.
#include <algorithm>
#include <map>

#include "agent/device/device_manager_parts.h"

namespace ghostfleet::agent {
namespace {

bool contains(const std::vector<uint32_t>& list, uint32_t index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

using Limits = std::vector<std::pair<std::string, uint32_t>>;

// What a pod holds at most at a time: init containers run one by one, beside the sidecars before them.
Limits most_at_a_time(const PodDemand& demand) {
  std::map<std::string, uint32_t> lasting, most;
  for (const ContainerDemand& container : demand.containers) {
    for (const auto& [resource, count] : container.limits) {
      if (!container.init || container.sidecar) {
        lasting[resource] += count;
      } else {
        most[resource] = std::max(most[resource], lasting[resource] + count);
      }
    }
  }
  for (const auto& [resource, count] : lasting) most[resource] = std::max(most[resource], count);
  return {most.begin(), most.end()};
}

}  // namespace

// False: the node's policy refuses the pod, which is answered then.
bool DeviceManager::place(Admission& a) {
  a.placed = true;
  a.near = 0;
  if (topology_ == TopologyPolicy::kNone) return true;
  release_ended();
  const bool whole = scope_ == TopologyScope::kPod;
  const NumaNodes machine = machine_nodes();
  std::vector<TopologyHints> hints;
  for (const auto& [name, count] : whole ? most_at_a_time(a.demand) : a.asking().limits) {
    const Resource* r = find(name);
    if (count > 0 && r != nullptr && knows(name)) hints.push_back(hints_of(a, *r, count, machine));
  }
  const TopologyChoice choice = choose_topology(topology_, machine, hints);
  a.near = choice.nodes;
  if (!choice.admitted) fail(a, std::string(kTopologyRefusal), Code::kResourceExhausted);
  return choice.admitted;
}

NumaNodes DeviceManager::machine_nodes() const {
  NumaNodes all = 0;
  for (const auto& resource : resources_) {
    for (uint32_t i = 0; i < resource->size(); ++i) all |= resource->numa_of(i);
  }
  return topology_nodes(all);
}

// What the container, or any of the pod's, has of it already is the only choice it has.
TopologyHints DeviceManager::hints_of(const Admission& a, const Resource& r, uint32_t count, NumaNodes machine) const {
  if (r.state == Resource::State::kUnknown || r.state == Resource::State::kExpired) return std::nullopt;
  Indexes has, reused;
  if (const PodEntry* pod = pod_of(a.demand.uid)) {
    for (const Allocation& allocation : pod->allocations) {
      if (allocation.resource == &r && (scope_ == TopologyScope::kPod || allocation.container == a.asking().name))
        has.insert(has.end(), allocation.indexes.begin(), allocation.indexes.end());
    }
  }
  if (!has.empty() && has.size() != count) return std::vector<TopologyHint>();
  for (const auto& [of, indexes] : a.reusable) {
    if (of == &r && has.empty()) reused = indexes;
  }
  std::vector<TopologyDevice> devices(r.size());
  for (uint32_t i = 0; i < r.size(); ++i) {
    devices[i].nodes = r.numa_of(i) & machine;
    devices[i].reused = contains(reused, i);
    devices[i].available = has.empty() ? devices[i].reused || (r.is_healthy(i) && !r.is_held(i)) : contains(has, i);
  }
  return topology_hints(devices, count);
}

}  // namespace ghostfleet::agent
