#include "agent/network/ipam_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::agent {
namespace {

constexpr int kManyCpus = 30;
constexpr int kPodsOfSmall = 110, kPodsOfLarge = 250;

std::string truth(bool b) { return b ? "true" : "false"; }

}  // namespace

int max_pods_of(const InstanceLimits& l, bool prefix_delegation, bool custom_networking) {
  const int enis = l.interfaces_per_card - (custom_networking ? 1 : 0);
  const int each = (l.ipv4_per_interface - 1) * (prefix_delegation ? kAddressesOfPrefix : 1);
  const int pods = enis * each + 2;
  if (!prefix_delegation) return pods;
  return std::min(pods, l.cpu < kManyCpus ? kPodsOfSmall : kPodsOfLarge);
}

Status check_ipam_config(const IpamConfig& c) {
  if (c.prefix_delegation && !c.limits.nitro) {
    return invalid_argument(
        fmt::format("ENABLE_PREFIX_DELEGATION: {} is not a Nitro instance type and takes no prefixes: leave it false "
                    "(secondary addresses), or use a Nitro type such as m5.large",
                    c.limits.type));
  }
  if (c.ipv6 && !c.prefix_delegation) {
    return invalid_argument("ENABLE_IPv6: addresses come from a /80 prefix: set ENABLE_PREFIX_DELEGATION to true");
  }
  if (c.ipv6 && c.custom_networking) {
    return invalid_argument(
        "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG: true: custom networking is for IPv4: leave it false with ENABLE_IPv6");
  }
  if (c.custom_networking && c.enis() < 2) {
    return invalid_argument(
        fmt::format("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG: pods use no address of the primary interface, and {} has room "
                    "for {} only: a type, or MAX_ENI, of at least 2 interfaces is needed",
                    c.limits.type, c.enis()));
  }
  if (c.multi_nic && c.limits.cards < 2) {
    return invalid_argument(fmt::format(
        "ENABLE_MULTI_NIC: {} has one network card: a type with several (p4d, p5, trn1, trn2, ...) is needed",
        c.limits.type));
  }
  return Status();
}

std::vector<std::pair<std::string, std::string>> ipamd_settings(const IpamConfig& c) {
  std::vector<std::pair<std::string, std::string>> s = {
      {"WARM_ENI_TARGET", std::to_string(c.warm_eni_target)},
      {"WARM_PREFIX_TARGET", std::to_string(c.warm_prefix_target)},
      {"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", truth(c.custom_networking)},
      {"ENABLE_PREFIX_DELEGATION", truth(c.prefix_delegation)},
      {"ENABLE_POD_ENI", truth(c.pod_eni)},
      {"ENABLE_SUBNET_DISCOVERY", truth(c.subnet_discovery)},
      {"ENABLE_MULTI_NIC", truth(c.multi_nic)},
      {"ENABLE_IPv6", truth(c.ipv6)},
      {"DISABLE_NETWORK_RESOURCE_PROVISIONING", truth(c.disable_provisioning)},
      {"AWS_MANAGE_ENIS_NON_SCHEDULABLE", truth(c.manage_unschedulable)},
      {"IP_COOLDOWN_PERIOD", std::to_string(c.ip_cooldown / std::chrono::seconds(1))},
      {"INTROSPECTION_BIND_ADDRESS", c.introspection}};
  if (c.warm_ip_target > 0) s.emplace_back("WARM_IP_TARGET", std::to_string(c.warm_ip_target));
  if (c.minimum_ip_target > 0) s.emplace_back("MINIMUM_IP_TARGET", std::to_string(c.minimum_ip_target));
  if (c.max_eni > 0) s.emplace_back("MAX_ENI", std::to_string(c.max_eni));
  std::sort(s.begin(), s.end());
  return s;
}

std::vector<std::pair<std::string, std::string>> network_settings(const IpamConfig& c) {
  return {{"AWS_VPC_CNI_NODE_PORT_SUPPORT", "true"},
          {"AWS_VPC_ENI_MTU", std::to_string(c.eni_mtu)},
          {"AWS_VPC_K8S_CNI_EXTERNALSNAT", "false"},
          {"AWS_VPC_K8S_CNI_RANDOMIZESNAT", "prng"},
          {"AWS_VPC_K8S_CNI_VETHPREFIX", "eni"}};
}

}  // namespace ghostfleet::agent
