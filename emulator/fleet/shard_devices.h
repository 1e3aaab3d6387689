// ShardDevices: the device managers of a shard's nodes (docs/devices.md). A node has one once it has pods that may hold
// devices, or something is wrong with its devices; all others hold nothing and show what their group's plugins list.
//
// Thread rule: the shard's loop. Ownership: names and loop outlive it; what the parts' functions reach too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/device/device_control.h"
#include "agent/device/socket/node_sockets.h"
#include "base/event_loop.h"
#include "emulator/fleet/identity.h"

namespace ghostfleet::emulator {

struct ShardDevicesParts {
  const FleetNames* names = nullptr;
  std::vector<std::shared_ptr<const agent::DeviceSetup>> groups;  // never null
  std::vector<std::string> claimed;  // by group: the resource that a DRA driver gives instead of a plugin; empty: none
  uint32_t number = 0, count = 1;    // ShardConfig
  EventLoop* loop = nullptr;
  std::function<void(uint32_t row)> counts_changed;  // what the Node shows is another one
  std::function<void(uint32_t row)> health_changed;  // of devices that pods hold
  std::function<void(uint32_t row, std::string_view text)> tell_user;
};

class ShardDevices {
 public:
  explicit ShardDevices(ShardDevicesParts parts);
  ~ShardDevices();

  // For the pods of a node; null: its group has no device plugins. `pods_told`: all its pods of an earlier run are
  // known already.
  agent::DeviceManager* manager_for(uint32_t row, bool pods_told);
  // Made already; null: it has none.
  agent::DeviceManager* find(uint32_t row) const;
  // All pods of an earlier run have been told.
  void pods_told(uint32_t row);

  // Real plugins for the first node, over sockets: it has a manager from now on. Before the loop runs. `pods`: those of
  // the node that have not ended.
  Status open_sockets(const agent::NodeSocketOptions& options, agent::NodeSockets::Pods pods);
  // Of type DevicePlugin, for that node; null: it has no sockets.
  agent::PluginHandler* plugin_handler() const;

  // An existing Node was told that it has no devices, until plugins_start.
  void plugins_awaited(uint32_t row);
  void plugins_start(uint32_t row);
  void deleted(uint32_t row);
  void node_seen(uint32_t row, std::string_view node_json);
  // What the Node is to show; nothing: what its template says.
  std::optional<std::vector<agent::DeviceCount>> counts(uint32_t row) const;
  // Whether the Node must be kept at these: something is wrong with its devices, or real plugins tell them.
  bool deviates(uint32_t row) const;

 private:
  class NodeDevices;
  const agent::DeviceSetup& setup_of(uint32_t row) const;
  NodeDevices& node_of(uint32_t row);
  void apply_faults(uint32_t row, std::string_view text);
  void apply_outages(uint32_t row, std::string_view text);
  void arm(NodeDevices& node);

  ShardDevicesParts parts_;
  std::unordered_map<uint32_t, std::unique_ptr<NodeDevices>> nodes_;
  std::unordered_set<uint32_t> awaited_;
};

}  // namespace ghostfleet::emulator
