#include "emulator/fleet/single_node.h"

#include "emulator/fleet/fleet_impl.h"

namespace ghostfleet::emulator {
namespace {

// A fleet of one: a connection of its own, and every request of a kubelet.
class ForegroundNode final : public SingleNode {
 public:
  explicit ForegroundNode(std::unique_ptr<Fleet> fleet) : fleet_(std::move(fleet)) {}
  void stop() override { fleet_->stop(); }
  FleetStats snapshot() const override { return fleet_->snapshot(); }
  const MetricsRegistry& metrics() const override { return *fleet_->metrics().front(); }

 private:
  std::unique_ptr<Fleet> fleet_;
};

}  // namespace

Result<std::unique_ptr<SingleNode>> SingleNode::start(SingleNodeOptions options, FleetCallbacks callbacks) {
  if (options.identity.name.empty()) return invalid_argument("node name: must not be empty");
  FleetOptions f;
  FleetGroup group;
  group.count = 1;
  group.name_template = options.identity.name;
  group.node = std::move(options.node);
  group.region = options.identity.region;
  if (!options.identity.zone.empty()) group.zones = {options.identity.zone};
  f.groups.push_back(std::move(group));
  auto names = FleetNames::create(options.fleet_name, f.groups);
  if (!names.ok()) return names.error();
  agent::NodeIdentity identity = options.identity;
  if (identity.internal_ip.empty()) identity.internal_ip = names->identity(0).internal_ip;
  agent::derive_ids(options.fleet_name, &identity);
  names->set_only_identity(std::move(identity), options.pod_ip_prefix);
  f.client = std::move(options.client);
  f.name = options.fleet_name;
  f.connections = ConnectionMode::kPerNode;
  f.full_fidelity = true;
  f.events = agent::NodeEvents::kAll;
  f.lease_duration = options.lease_duration;
  f.shards = 1;
  f.seed = options.seed;
  f.adopt = options.adopt;
  f.pods = std::move(options.pods);
  f.pods.full_fidelity = true;
  auto fleet = start_fleet(std::move(f), std::move(callbacks), std::move(names).value());
  if (!fleet.ok()) return fleet.error();
  return std::unique_ptr<SingleNode>(std::make_unique<ForegroundNode>(std::move(fleet).value()));
}

}  // namespace ghostfleet::emulator
