// Whether a pool of addresses must grow or shrink, and by how much: the exact rules of the VPC CNI.
//
// Thread rule: pure functions. Units: addresses, or prefixes of 16 where the card works with prefixes.
// Source: amazon-vpc-cni-k8s v1.23, WARM_ and MINIMUM_ targets (docs/eni-and-ip-target.md,
// docs/prefix-and-ip-target.md).
#pragma once

#include "agent/network/address_pool.h"
#include "agent/network/ipam_config.h"

namespace ghostfleet::agent {

struct TargetState {
  int shortage = 0, over = 0;
  bool defined = false;  // WARM_IP_TARGET or MINIMUM_IP_TARGET is set, or the card is not the first
};

TargetState target_state(const IpamConfig& config, int card, const PoolStats& stats);
bool pool_too_low(const IpamConfig& config, int card, const PoolStats& stats);
bool pool_too_high(const IpamConfig& config, int card, const PoolStats& stats);
// What one grow action asks for on an existing interface: prefixes or addresses.
int grow_amount(const IpamConfig& config, int card, const PoolStats& stats);
// The same for a new interface.
int grow_amount_of_new_eni(const IpamConfig& config, int card, const PoolStats& stats);
// Ranges that one shrink action may drop.
int shrink_amount(const IpamConfig& config, int card, const PoolStats& stats);
// Whether to look for an interface that can go.
bool may_remove_eni(const IpamConfig& config, int card, const PoolStats& stats, bool has_unused_eni);

}  // namespace ghostfleet::agent
