// ShardDra: the DRA drivers of a shard's nodes (docs/dra.md): their ResourceSlices are published when a node is
// registered, again when something is wrong with a device, and removed when the driver stays away.
//
// Only nodes with something to do, or with faults, take memory: slices are rendered when they are sent. So many nodes
// publish at once as `kMostAtOnce` says, behind all other traffic.
//
// Thread rule: the shard's loop. Ownership: names and loop outlive it; what the parts' functions reach too.
// Source: a kubelet removes the slices of its node at its start, and those of a driver that is gone for 30 s.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/actions.h"
#include "agent/dra/slice_publisher.h"
#include "base/event_loop.h"
#include "emulator/fleet/identity.h"

namespace ghostfleet::emulator {

struct ShardDraParts {
  const FleetNames* names = nullptr;
  std::vector<std::shared_ptr<const agent::DraDevices>> groups;  // null: the group has no driver
  std::string fleet;
  uint32_t number = 0, count = 1;  // ShardConfig
  bool collection = false;         // old slices go in one request, as by a kubelet
  EventLoop* loop = nullptr;
  Rng* rng = nullptr;
  std::function<void(uint32_t row, const agent::ApiRequest& request)> send;  // tag kDraTag
  std::function<std::string(uint32_t row)> uid;                              // of the Node
  std::function<void(uint32_t row)> driver_changed;
  std::function<void(uint32_t row, std::string_view text)> tell_user;  // about a node, for a person
};

inline constexpr agent::Tag kDraTag = agent::Tag{1} << 61;

class ShardDra {
 public:
  static constexpr size_t kMostAtOnce = 32;

  explicit ShardDra(ShardDraParts parts);

  // The Node is there. `existing`: of an earlier run, whose slices may be there too.
  void registered(uint32_t row, bool existing);
  void deleted(uint32_t row);
  void node_seen(uint32_t row, std::string_view node_json);
  void answered(uint32_t row, const agent::ApiResponse& response);
  // Null: the node has none.
  std::shared_ptr<const agent::DraDriver> driver_of(uint32_t row) const;
  // Nodes that publish or wait for their turn.
  size_t busy() const { return work_.size(); }

 private:
  using Task = agent::SlicePublisher::Task;
  struct Work {
    Task task = Task::kStart;
    bool existing = false;
    std::optional<Task> then;  // something has changed since it began
    std::unique_ptr<agent::SlicePublisher> publisher;
  };
  const std::shared_ptr<const agent::DraDevices>& devices_of(uint32_t row) const;
  std::string name_of(uint32_t row) const;
  agent::DriverFaults faults_of(uint32_t row) const;
  void ask(uint32_t row, Task task, bool existing);
  void pump();
  void begin(uint32_t row, Work& work);
  void send_next(uint32_t row);
  void finish(uint32_t row, Work& work);
  void set_faults(uint32_t row, agent::DriverFaults faults);

  ShardDraParts parts_;
  std::unordered_map<uint32_t, Work> work_;
  std::deque<uint32_t> waiting_;
  size_t active_ = 0;
  std::unordered_map<uint32_t, agent::DriverFaults> faults_;
  bool refusal_told_ = false;
};

}  // namespace ghostfleet::emulator
