#include "emulator/profile/fleet_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "emulator/profile/vpc_file.h"
#include "kube/api/quantity.h"

namespace ghostfleet::emulator {
namespace {

constexpr int kOnHostNetwork = 2;  // aws-node and kube-proxy, in EKS's formula of max-pods

int64_t pods_of(const agent::NodeTemplate& node) {
  for (const agent::StringPairs* pairs : {&node.allocatable, &node.capacity}) {
    for (const auto& [name, amount] : *pairs) {
      const auto pods = kube::Quantity::parse(amount);
      if (name == "pods" && pods.ok()) return pods->value();
    }
  }
  return 0;
}

Status check_zones(const VpcSpec& vpc, const NetworkGroup& group) {
  std::set<std::string> there;
  for (const VpcSubnet& s : vpc.subnets) there.insert(s.zone);
  for (const std::string& zone : group.zones) {
    if (there.count(zone) != 0) continue;
    return invalid_argument(
        fmt::format("network: {}: zone {}: VPC {} has no subnet in it, but in {}: give the nodes "
                    "these zones, or the VPC a subnet there",
                    group.name, zone, vpc.name, fmt::join(there, ", ")));
  }
  return Status();
}

// Addresses that a node's interfaces can hold for pods.
int addresses_of(const agent::IpamConfig& c) {
  return (c.enis() - (c.custom_networking ? 1 : 0)) * c.addresses_per_eni(0);
}

std::string remark_on(const NetworkGroup& group, const agent::IpamConfig& c) {
  if (c.ipv6) return {};
  const int addresses = addresses_of(c);
  if (c.max_pods > addresses + kOnHostNetwork) {
    return fmt::format(
        "{}: {} allows {} pods, but its interfaces hold {} addresses: pods beyond them wait (FailedCreatePodSandBox); "
        "maxPods: {} keeps the scheduler from placing them",
        group.name, group.profile.name, c.max_pods, addresses, addresses + kOnHostNetwork);
  }
  const int wanted = agent::max_pods_of(c.limits, c.prefix_delegation, c.custom_networking);
  if (!c.prefix_delegation || group.max_pods_given || c.max_pods >= wanted) return {};
  return fmt::format(
      "{}: {} allows {} pods, the figure of single addresses; with prefixes EKS recommends {}: a kubelet does not know "
      "of prefixes, maxPods: {} tells it",
      group.name, group.profile.name, c.max_pods, wanted, wanted);
}

}  // namespace

Result<std::shared_ptr<const NetworkOptions>> make_network_options(const VpcSpec& vpc,
                                                                   const std::vector<NetworkGroup>& groups) {
  auto options = std::make_shared<NetworkOptions>();
  options->vpc = vpc;
  for (const NetworkGroup& group : groups) {
    if (!group.used) {
      options->groups.push_back(nullptr);
      continue;
    }
    GF_RETURN_IF_ERROR(check_zones(vpc, group));
    auto config = ipam_config_of(vpc, group.profile, pods_of(group.node));
    if (!config.ok()) return config.error().with_context("network: " + group.name);
    if (std::string remark = remark_on(group, *config); !remark.empty()) options->remarks.push_back(std::move(remark));
    options->groups.push_back(std::make_shared<const agent::IpamConfig>(std::move(config).value()));
  }
  return std::shared_ptr<const NetworkOptions>(std::move(options));
}

}  // namespace ghostfleet::emulator
