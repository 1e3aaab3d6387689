// What users say of a node's devices by annotations: which are broken, which plugins are gone. And the file or flags'
// side of it: which models the plugins of a node are (DeviceConfig), made once for a group of nodes.
//
// Thread rule: plain values, pure functions. Limits: kMaxControl bytes of an annotation, kMaxXid. Errors:
// InvalidArgument names the annotation's part, its value and what is expected.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/device/device_manager.h"
#include "agent/device/neuron_model.h"
#include "agent/device/nvidia_model.h"
#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::agent {

// Of a Node: "nvidia.com/gpu=0,3:79; aws.amazon.com/neuron=1": the numbers of devices with a fault, of GPUs with an XID
// where one is told.
inline constexpr std::string_view kUnhealthyDevices = "devices.ghostfleet.dev/unhealthy";
// "nvidia.com/gpu=gone": the plugin has ended; without its entry it starts again. "=lost": the node has forgotten it,
// as after a restart of the kubelet that the plugin did not notice.
inline constexpr std::string_view kDevicePlugins = "devices.ghostfleet.dev/plugins";
inline constexpr size_t kMaxControl = 64 << 10;
inline constexpr uint32_t kMaxXid = 100000;

Result<std::vector<DeviceManager::Fault>> parse_faults(std::string_view text);

struct PluginOutage {
  std::string resource;
  bool capacity_too = false;
  friend bool operator==(const PluginOutage&, const PluginOutage&) = default;
};
Result<std::vector<PluginOutage>> parse_outages(std::string_view text);

// The models of a node's plugins. Immutable, shared by the nodes of a group.
struct DeviceSetup {
  std::vector<std::shared_ptr<const PluginModel>> models;
  TopologyPolicy topology = TopologyPolicy::kNone;
  TopologyScope scope = TopologyScope::kContainer;
  std::vector<std::string> absent;  // what the node would have, but for DeviceConfig::absent
};
// Whether these make sense on such a node: resources that a plugin gives, numbers that are there.
Status check_faults(const DeviceSetup& setup, const std::vector<DeviceManager::Fault>& faults);
Status check_outages(const DeviceSetup& setup, const std::vector<PluginOutage>& outages);
// Whether each of `absent` (DeviceConfig) is left out of at least one of the setups: a typing error leaves out nothing.
Status check_absent(const std::vector<std::string>& absent, const std::vector<const DeviceSetup*>& setups);

// How the plugins of a group are set up.
struct DeviceConfig {
  MigStrategy mig = MigStrategy::kNone;
  std::vector<std::pair<std::string, uint32_t>> mig_layout;
  uint32_t replicas = 1;
  bool rename_shared = false, refuse_more_than_one = false;
  XidRules xids;
  Contiguity contiguity = Contiguity::kIgnore;
  TopologyPolicy topology = TopologyPolicy::kNone;
  TopologyScope scope = TopologyScope::kContainer;
  std::vector<std::string> absent;  // resources whose plugin never starts
};

// What a node has, beside the counts of its resources.
struct DeviceHardware {
  std::string gpu;              // "h100"; empty: not told
  int64_t gpu_memory_mib = 0;   // of one
  uint32_t cores_per_chip = 0;  // NeuronCores; 0: from the counts of both resources
  uint32_t numa_nodes = 2;
};

using ResourcePairs = std::vector<std::pair<std::string, std::string>>;  // name and quantity

// The plugins of a node with these extended resources. `capacity` becomes what they list: resources of MIG profiles
// and shared ones, and none of those that are absent.
Result<DeviceSetup> make_device_setup(const DeviceConfig& config, const DeviceHardware& hardware,
                                      ResourcePairs* capacity);
// An extended resource that a device plugin gives (and not the cloud's controllers).
bool is_device_resource(std::string_view name);

}  // namespace ghostfleet::agent
