#include "emulator/fleet/single_node.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "emulator/fleet/fleet_impl.h"

namespace ghostfleet::emulator {
namespace {

// A fleet of one: a connection of its own, and every request of a kubelet.
class ForegroundNode final : public SingleNode {
 public:
  explicit ForegroundNode(std::unique_ptr<Fleet> fleet) : fleet_(std::move(fleet)) {}
  void stop() override { fleet_->stop(); }
  FleetStats snapshot() const override { return fleet_->snapshot(); }
  std::vector<const MetricsRegistry*> metrics() const override { return fleet_->metrics(); }
  std::string node_server() const override { return fleet_->node_server(); }
  std::string network_metrics() const override { return fleet_->network_metrics(); }
  std::optional<std::string> show_network(std::string_view node, std::string_view path) const override {
    return fleet_->show_network(node, path);
  }
  void set_static_pods(std::vector<agent::StaticManifest> manifests) override {
    fleet_->set_static_pods(std::move(manifests));
  }

 private:
  std::unique_ptr<Fleet> fleet_;
};

// Several agents on one machine do not share an address, unless names collide.
std::string address_of(const NodeServerOptions& server, const std::string& name, bool network) {
  if (server.mode == NodeServerMode::kPorts) return server.address;
  if (server.mode == NodeServerMode::kOff) return network ? "100.64.1.1" : "10.0.1.1";
  const uint64_t hash = hash_text(name);
  return fmt::format("127.64.{}.{}", 1 + hash % 250, 1 + hash / 250 % 250);
}

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
  group.machine = options.machine;
  group.dra = std::move(options.dra);
  group.devices = std::move(options.devices);
  if (options.device_sockets) {
    std::erase_if(group.node.capacity, [](const auto& pair) { return agent::is_device_resource(pair.first); });
    if (group.devices == nullptr) group.devices = std::make_shared<const agent::DeviceSetup>();
  }
  f.images = std::move(options.images);
  f.image_store = std::move(options.image_store);
  f.groups.push_back(std::move(group));
  auto names = FleetNames::create(options.fleet_name, f.groups);
  if (!names.ok()) return names.error();
  agent::NodeIdentity identity = options.identity;
  NodeServerOptions& server = options.node_server;
  server.mode = resolve_mode(server.mode, options.client.server_url);
  if (identity.internal_ip.empty())
    identity.internal_ip = address_of(server, identity.name, options.network != nullptr);
  agent::derive_ids(options.fleet_name, &identity);
  names->set_only_identity(std::move(identity), options.pod_ip_prefix);
  f.client = std::move(options.client);
  f.identity = std::move(options.credentials);
  f.name = options.fleet_name;
  f.connections = ConnectionMode::kPerNode;
  f.full_fidelity = true;
  f.events = agent::NodeEvents::kAll;
  f.lease_duration = options.lease_duration;
  f.shards = 1;
  f.seed = options.seed;
  f.node_server = std::move(server);
  f.adopt = options.adopt;
  f.device_plugin_delay = options.device_plugin_delay;
  f.device_sockets = std::move(options.device_sockets);
  f.second_pod_cidr = std::move(options.second_pod_cidr);
  f.second_is_primary = options.second_is_primary;
  f.network = std::move(options.network);
  f.network_claims = std::move(options.network_claims);
  f.pods = std::move(options.pods);
  f.pods.full_fidelity = true;
  f.pods.seed = options.seed;
  auto fleet = start_fleet(std::move(f), std::move(callbacks), std::move(names).value());
  if (!fleet.ok()) return fleet.error();
  return std::unique_ptr<SingleNode>(std::make_unique<ForegroundNode>(std::move(fleet).value()));
}

}  // namespace ghostfleet::emulator
