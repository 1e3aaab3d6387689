#include "emulator/fleet/shard_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/fleet/node_facts.h"

namespace ghostfleet::emulator {

namespace {

bool has(const std::vector<agent::PluginOutage>& outages, std::string_view resource) {
  return std::any_of(outages.begin(), outages.end(), [&](const auto& o) { return o.resource == resource; });
}

}  // namespace

class ShardDevices::NodeDevices final : public agent::DeviceListener {
 public:
  NodeDevices(ShardDevices& owner, uint32_t row, std::string name)
      : manager(std::move(name), *this), owner_(owner), row_(row) {}
  ~NodeDevices() override {
    if (timer != 0) owner_.parts_.loop->cancel(timer);
  }

  void device_counts_changed() override {
    if (sockets) owner_.arm(*this);  // a plugin may have gone: what becomes of it is a matter of time
    owner_.parts_.counts_changed(row_);
  }
  void device_health_changed() override { owner_.parts_.health_changed(row_); }
  void device_checkpoint_changed() override {
    if (sockets) sockets->checkpoint_changed();
  }
  void device_problem(std::string_view, std::string_view what) override { owner_.parts_.tell_user(row_, what); }
  uint32_t row() const { return row_; }

  agent::DeviceManager manager;
  std::unique_ptr<agent::NodeSockets> sockets;  // null: its plugins are models
  std::string faults, outages;                  // the annotations as last seen
  std::string unknown;                          // name of one that nothing reads
  std::vector<agent::PluginOutage> gone;
  EventLoop::TimerId timer = 0;

 private:
  ShardDevices& owner_;
  uint32_t row_;
};

ShardDevices::ShardDevices(ShardDevicesParts parts) : parts_(std::move(parts)) {}

ShardDevices::~ShardDevices() = default;

const agent::DeviceSetup& ShardDevices::setup_of(uint32_t row) const {
  return *parts_.groups[parts_.names->group_of(row * parts_.count + parts_.number)];
}

ShardDevices::NodeDevices& ShardDevices::node_of(uint32_t row) {
  std::unique_ptr<NodeDevices>& node = nodes_[row];
  if (node) return *node;
  node = std::make_unique<NodeDevices>(*this, row, parts_.names->name(row * parts_.count + parts_.number));
  const agent::DeviceSetup& setup = setup_of(row);
  node->manager.set_topology(setup.topology, setup.scope);
  const TimePoint now = parts_.loop->now();
  if (awaited_.contains(row)) {
    agent::DeviceCheckpoint known;
    for (const auto& model : setup.models) known.registered[model->resource()];
    node->manager.restore(known, now);
    arm(*node);
  } else {
    for (const auto& model : setup.models) node->manager.register_model(model, now);
  }
  return *node;
}

agent::DeviceManager* ShardDevices::manager_for(uint32_t row, bool pods_told) {
  if (setup_of(row).models.empty() && find(row) == nullptr) return nullptr;
  NodeDevices& node = node_of(row);
  if (!pods_told) node.manager.await_pods(!node.sockets || !node.sockets->restored());
  return &node.manager;
}

Status ShardDevices::open_sockets(const agent::NodeSocketOptions& options, agent::NodeSockets::Pods pods) {
  NodeDevices& node = node_of(0);
  auto sockets = agent::NodeSockets::open(*parts_.loop, options, node.manager, std::move(pods));
  if (!sockets.ok()) return sockets.error();
  node.sockets = std::move(*sockets);
  return Status();
}

agent::PluginHandler* ShardDevices::plugin_handler() const {
  const auto it = nodes_.find(0);
  return it == nodes_.end() || !it->second->sockets ? nullptr : &it->second->sockets->plugin_handler();
}

agent::DeviceManager* ShardDevices::find(uint32_t row) const {
  const auto it = nodes_.find(row);
  return it == nodes_.end() ? nullptr : &it->second->manager;
}

void ShardDevices::pods_told(uint32_t row) {
  if (agent::DeviceManager* manager = find(row)) manager->pods_known();
}

void ShardDevices::plugins_awaited(uint32_t row) {
  awaited_.insert(row);
  const auto it = nodes_.find(row);
  if (it == nodes_.end()) return;
  for (const auto& model : setup_of(row).models)
    it->second->manager.model_gone(model->resource(), true, parts_.loop->now());
  arm(*it->second);
}

void ShardDevices::plugins_start(uint32_t row) {
  if (awaited_.erase(row) == 0) return;
  const auto it = nodes_.find(row);
  if (it == nodes_.end()) return;
  for (const auto& model : setup_of(row).models) {
    if (!has(it->second->gone, model->resource())) it->second->manager.register_model(model, parts_.loop->now());
  }
  arm(*it->second);
}

// Its plugins have nothing to do with the Node: they go on.
void ShardDevices::deleted(uint32_t row) { awaited_.erase(row); }

void ShardDevices::node_seen(uint32_t row, std::string_view node_json) {
  const std::string faults(node_annotation(node_json, agent::kUnhealthyDevices));
  const std::string outages(node_annotation(node_json, agent::kDevicePlugins));
  const std::string unknown(unknown_annotation(node_json));
  const auto it = nodes_.find(row);
  if (it == nodes_.end() && faults.empty() && outages.empty() && unknown.empty()) return;
  NodeDevices& node = node_of(row);
  if (std::exchange(node.unknown, unknown) != unknown && !unknown.empty()) {
    parts_.tell_user(row, fmt::format("annotation {}: nothing reads it; {}, {} and {} are read", unknown,
                                      agent::kUnhealthyDevices, agent::kDevicePlugins, kDriverFaults));
  }
  if (node.outages != outages) apply_outages(row, outages);
  if (node.faults != faults) apply_faults(row, faults);
}

// Told once: until the annotation changes.
void ShardDevices::apply_faults(uint32_t row, std::string_view text) {
  NodeDevices& node = node_of(row);
  node.faults = text;
  auto faults = agent::parse_faults(text);
  const std::string& claimed = parts_.claimed[parts_.names->group_of(row * parts_.count + parts_.number)];
  if (faults.ok()) std::erase_if(*faults, [&](const auto& fault) { return fault.resource == claimed; });
  Status bad = faults.ok() ? check_faults(setup_of(row), *faults) : faults.error();
  if (!bad.ok())
    return parts_.tell_user(row, fmt::format("annotation {}: {}", agent::kUnhealthyDevices, bad.message()));
  node.manager.set_faults(*faults, parts_.loop->now());
}

void ShardDevices::apply_outages(uint32_t row, std::string_view text) {
  NodeDevices& node = node_of(row);
  node.outages = text;
  auto outages = agent::parse_outages(text);
  Status bad = outages.ok() ? check_outages(setup_of(row), *outages) : outages.error();
  if (!bad.ok()) return parts_.tell_user(row, fmt::format("annotation {}: {}", agent::kDevicePlugins, bad.message()));
  const std::vector<agent::PluginOutage> before = std::exchange(node.gone, std::move(*outages));
  const TimePoint now = parts_.loop->now();
  for (const auto& model : setup_of(row).models) {
    const auto same = [&](const auto& o) { return o.resource == model->resource(); };
    const auto then = std::find_if(before.begin(), before.end(), same);
    const auto is = std::find_if(node.gone.begin(), node.gone.end(), same);
    if (is != node.gone.end() && (then == before.end() || !(*then == *is))) {
      node.manager.model_gone(model->resource(), is->capacity_too, now);
    } else if (is == node.gone.end() && then != before.end() && !awaited_.contains(row)) {
      node.manager.register_model(model, now);
    }
  }
  arm(node);
}

void ShardDevices::arm(NodeDevices& node) {
  if (node.timer != 0) parts_.loop->cancel(std::exchange(node.timer, 0));
  const TimePoint due = node.manager.next_due();
  if (due == agent::DeviceManager::kNoTime) return;
  const Duration wait = std::max(due - parts_.loop->now(), Duration(0));
  node.timer = parts_.loop->run_after(wait, [this, &node] {
    node.timer = 0;
    node.manager.on_time(parts_.loop->now());
    arm(node);
  });
}

std::optional<std::vector<agent::DeviceCount>> ShardDevices::counts(uint32_t row) const {
  const agent::DeviceManager* manager = find(row);
  if (manager == nullptr) return std::nullopt;
  return manager->counts();
}

bool ShardDevices::deviates(uint32_t row) const {
  const agent::DeviceManager* manager = find(row);
  if (manager == nullptr) return false;
  if (nodes_.at(row)->sockets) return true;
  for (const agent::DeviceCount& count : manager->counts()) {
    if (count.capacity != count.allocatable || count.capacity == 0) return true;
  }
  return false;
}

}  // namespace ghostfleet::emulator
