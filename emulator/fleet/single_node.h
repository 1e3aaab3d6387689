// SingleNode: one node in the foreground, with everything a kubelet asks of the API: the same requests in the same
// order at the start, the watches it opens (its Node, services, CSI drivers, runtime classes, its pods), leases, status
// and events.
//
// Thread rule: start, stop and snapshot from any one thread that is not the node's; callbacks run on the node's thread.
// Ownership: owns its thread and connection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "emulator/fleet/fleet.h"

namespace ghostfleet::emulator {

struct SingleNodeOptions {
  kube::ClientConfig client;
  IdentityOptions credentials;   // with per_node: a certificate of its own, as a kubelet bootstraps
  agent::NodeIdentity identity;  // name is required; empty ids are derived from it
  agent::NodeTemplate node;
  // The label ghostfleet.dev/fleet; empty: none, and a node of that name that exists already is taken over, as a
  // kubelet does.
  std::string fleet_name;
  bool adopt = false;
  Duration device_plugin_delay = Duration(-1);  // FleetOptions
  // FleetOptions. Resources that device plugins give are then not the template's affair.
  std::optional<agent::NodeSocketOptions> device_sockets;
  Duration lease_duration = std::chrono::seconds(40);
  agent::PodOptions pods;
  std::string pod_ip_prefix = "10.64.0.";  // the n-th pod gets prefix + (n mod 254 + 1)
  std::string second_pod_cidr;             // FleetOptions
  bool second_is_primary = false;
  std::shared_ptr<const NetworkOptions> network;  // FleetOptions; of one group
  std::string network_claims;
  uint64_t seed = 1;
  NodeServerOptions node_server;
  // FleetOptions, with the machine's network.
  std::shared_ptr<const ImageModel> images;
  PullMachine machine;
  std::shared_ptr<const ImageStoreOptions> image_store;  // FleetOptions
  std::shared_ptr<const agent::DraDevices> dra;          // FleetGroup
  std::shared_ptr<const agent::DeviceSetup> devices;     // FleetGroup
};

class SingleNode {
 public:
  static Result<std::unique_ptr<SingleNode>> start(SingleNodeOptions options, FleetCallbacks callbacks = {});
  virtual ~SingleNode() = default;
  virtual void stop() = 0;
  virtual FleetStats snapshot() const = 0;
  virtual std::vector<const MetricsRegistry*> metrics() const = 0;
  virtual std::string node_server() const = 0;  // as Fleet
  virtual std::string network_metrics() const = 0;
  virtual std::optional<std::string> show_network(std::string_view node, std::string_view path) const = 0;
  virtual void set_static_pods(std::vector<agent::StaticManifest> manifests) = 0;
};

}  // namespace ghostfleet::emulator
