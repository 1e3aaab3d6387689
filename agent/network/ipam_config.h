// IpamConfig: the settings of a node's address daemon (environment of the aws-node DaemonSet) and the limits of its
// instance type.
//
// Thread rule: plain values; one IpamConfig is shared by all nodes of a group.
// Errors: check_ipam_config names the variable, its value and what would be right.
// Source: amazon-vpc-cni-k8s v1.23, README (CNI configuration variables) and prefix delegation guide; AWS docs,
// limits of network interfaces by instance type.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::agent {

inline constexpr int kAddressesOfPrefix = 16;  // a /28
inline constexpr int kPrefixBits = 28, kPrefix6Bits = 80;

struct InstanceLimits {
  std::string type;  // m5.large; for messages
  int cards = 1;
  int interfaces_per_card = 3;  // on card 0; the others have as many
  int ipv4_per_interface = 10;  // its primary address among them
  int efa_interfaces = 0;
  int cpu = 2;
  bool nitro = true;  // others know no prefixes
};

// What a value of 0 means for the targets: unset.
struct IpamConfig {
  InstanceLimits limits;
  int max_pods = 0;  // of the kubelet; 0: max_pods_of()

  bool prefix_delegation = false;  // ENABLE_PREFIX_DELEGATION
  int warm_eni_target = 1;         // WARM_ENI_TARGET
  int warm_ip_target = 0;          // WARM_IP_TARGET
  int minimum_ip_target = 0;       // MINIMUM_IP_TARGET
  int warm_prefix_target = 1;      // WARM_PREFIX_TARGET as the shipped manifest sets it
  int max_eni = 0;                 // MAX_ENI
  bool subnet_discovery = true;    // ENABLE_SUBNET_DISCOVERY
  bool multi_nic = false;          // ENABLE_MULTI_NIC
  bool custom_networking = false;  // AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG
  std::string eni_config = "default";
  bool pod_eni = false;                 // ENABLE_POD_ENI
  bool disable_provisioning = false;    // DISABLE_NETWORK_RESOURCE_PROVISIONING
  bool manage_unschedulable = false;    // AWS_MANAGE_ENIS_NON_SCHEDULABLE
  bool ipv6 = false;                    // ENABLE_IPv6
  int eni_mtu = 9001;                   // AWS_VPC_ENI_MTU
  uint16_t eni_config_subnet = 0xffff;  // of the ENIConfig; with custom_networking
  std::string introspection = "127.0.0.1:61679";

  Duration ip_cooldown = std::chrono::seconds(30);         // IP_COOLDOWN_PERIOD
  Duration loop = std::chrono::seconds(5);                 // half before the check, half after
  Duration shrink_interval = std::chrono::seconds(30);     // between decreases
  Duration reconcile_interval = std::chrono::seconds(60);  // also: how long a dropped range is not learned again
  Duration space_pause = std::chrono::seconds(120);        // after the subnet had no room
  Duration min_eni_age = std::chrono::seconds(60);
  Duration leak_sweep = std::chrono::hours(1);
  Duration leak_sweep_jitter = std::chrono::seconds(300);

  bool targets_set(int card) const { return card > 0 || warm_ip_target > 0 || minimum_ip_target > 0; }
  // Cards above the first are kept at one spare address.
  int warm_ips(int card) const { return card > 0 ? 1 : warm_ip_target; }
  int minimum_ips(int card) const { return card > 0 ? 1 : minimum_ip_target; }
  bool prefixes(int card) const { return prefix_delegation && card == 0; }
  int managed_cards() const { return multi_nic ? limits.cards : 1; }
  // Addresses, or ranges, that one interface can take beside its primary address.
  int slots() const { return limits.ipv4_per_interface - 1; }
  int addresses_per_eni(int card) const { return prefixes(card) ? slots() * kAddressesOfPrefix : slots(); }
  int unit(int card) const { return prefixes(card) ? kAddressesOfPrefix : slots(); }
  int warm_units(int card) const { return prefixes(card) ? warm_prefix_target : warm_eni_target; }
  int enis() const {
    return max_eni > 0 && max_eni < limits.interfaces_per_card ? max_eni : limits.interfaces_per_card;
  }
};

// Pods that the addresses allow: (interfaces of card 0) * (addresses - 1) + 2; one interface less with custom
// networking; with prefixes 16 times the addresses, cut to the recommended 110 (below 30 vCPU) or 250.
int max_pods_of(const InstanceLimits& limits, bool prefix_delegation, bool custom_networking);
inline int effective_max_pods(const IpamConfig& c) {
  return c.max_pods > 0 ? c.max_pods : max_pods_of(c.limits, c.prefix_delegation, c.custom_networking);
}

Status check_ipam_config(const IpamConfig& config);

// The settings as their environment variables, for introspection.
std::vector<std::pair<std::string, std::string>> ipamd_settings(const IpamConfig& config);
std::vector<std::pair<std::string, std::string>> network_settings(const IpamConfig& config);

}  // namespace ghostfleet::agent
