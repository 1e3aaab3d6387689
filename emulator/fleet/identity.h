// FleetGroup: nodes of one kind and how they are named, numbered and addressed. A node's identity is computed from its
// group and index, never stored: a fleet of a million keeps no name.
//
// Addresses: node n of the whole fleet has 10.0.0.0/12 + 256 + n (so at most 2^20 - 512 nodes), or an address of
// another network, or all share one address and differ by port (NodeNetwork); its pods take a slice of 10.64.0.0 to
// 10.255.255.255 of at most 256 addresses.
// Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/device_control.h"
#include "agent/dra/devices.h"
#include "agent/node/node_template.h"
#include "base/status.h"
#include "emulator/fleet/second_network.h"
#include "emulator/images/image_model.h"

namespace ghostfleet::emulator {

inline constexpr uint32_t kMaxFleetNodes = (1u << 20) - 512;

// Where the nodes' InternalIPs come from.
struct NodeNetwork {
  uint32_t base = 10u << 24;  // node n has base + first + n
  int prefix = 12;
  uint32_t first = 256;
  std::string shared_address;  // not empty: of all nodes
  uint16_t first_port = 0;     // with shared_address: node n is at first_port + n

  // "10.0.0.0/12": InvalidArgument when the text is no IPv4 network or has no room for that many nodes.
  static Result<NodeNetwork> parse(std::string_view cidr, uint32_t nodes);
  agent::Cidr range() const { return {agent::Ip::v4(base), static_cast<uint8_t>(prefix)}; }
  static NodeNetwork loopback() { return {(127u << 24) | (64u << 16), 10, 256, {}, 0}; }  // 127.64.0.0/10
};

// Of an IPv4 address in its usual form.
std::optional<uint32_t> parse_ipv4(std::string_view text);

struct FleetGroup {
  uint32_t count = 0;
  // Must hold {index} exactly once when count > 1; {index:5} pads with zeros to five digits. The finished name must be
  // a DNS-1123 subdomain.
  std::string name_template = "node-{index}";
  uint32_t first_index = 0;
  agent::NodeTemplate node;
  std::string region;
  std::vector<std::string> zones;  // node i is in zone i mod size; empty: none
  // For modelled image pulls: the machine, and what differs from the fleet's settings.
  PullMachine machine = {};
  std::optional<PullOptions> pull = {};
  // Its device plugins; null: those of the extended resources of `node`.
  std::shared_ptr<const agent::DeviceSetup> devices = {};
  // FleetOptions, of this group alone.
  std::optional<Duration> device_plugin_delay = {};
  // What its nodes offer through a DRA driver; null: they have none.
  std::shared_ptr<const agent::DraDevices> dra = {};
};

// The names of a group: index to name, and back without a table.
class NameTemplate {
 public:
  static Result<NameTemplate> parse(std::string_view text);
  std::string name(uint32_t index) const;
  // The index whose name this is; nothing when it is none of ours.
  std::optional<uint32_t> index_of(std::string_view name) const;
  bool has_index() const { return has_index_; }

 private:
  std::string prefix_, suffix_;
  int width_ = 0;
  bool has_index_ = false;
};

// All groups of a fleet as one row of nodes 0..size-1.
class FleetNames {
 public:
  static Result<FleetNames> create(std::string_view fleet_name, const std::vector<FleetGroup>& groups);

  // The range of the pods' addresses, in whole networks.
  static std::vector<agent::Cidr> pod_ranges();

  uint32_t size() const { return size_; }
  std::string name(uint32_t node) const;
  std::optional<uint32_t> find(std::string_view name) const;
  uint32_t group_of(uint32_t node) const;
  agent::NodeIdentity identity(uint32_t node) const;
  // The n-th pod address of a node; wraps at the end of the node's slice.
  std::string pod_ip(uint32_t node, uint32_t n) const;
  // Of the second address family; empty when there is none.
  std::string second_pod_ip(uint32_t node, uint32_t n) const;
  void set_network(NodeNetwork network) { network_ = std::move(network); }
  void set_second_network(SecondNetwork network) { second_ = network; }
  bool has_second() const { return second_.has_value(); }
  // The node of that address and port; nothing when it is none of ours.
  std::optional<uint32_t> node_at(std::string_view address, uint16_t port) const;
  // For a "fleet" of one node in the foreground, whose identity somebody chose.
  void set_only_identity(agent::NodeIdentity identity, std::string pod_prefix);

 private:
  struct Part {
    NameTemplate names;
    uint32_t begin = 0, count = 0, first_index = 0;
    std::string region;
    std::vector<std::string> zones;
  };
  std::string seed_text_;
  std::vector<Part> parts_;
  uint32_t size_ = 0;
  uint32_t pod_stride_ = 256;
  NodeNetwork network_;
  std::optional<SecondNetwork> second_;
  std::shared_ptr<const agent::NodeIdentity> override_;
  std::string pod_prefix_;
};

}  // namespace ghostfleet::emulator
