// VPC file: the cloud network of a fleet as YAML (kind: VPC).
//
// Format: docs/network.md. Strict: unknown fields, wrong types, ranges that
// overlap or do not fit, and settings that contradict each other are errors
// with file, line, field, value and what would be right; all of them are told
// at once. Thread rule: plain values. Limits: kMaxVpcSubnets, kMaxVpcFile
// bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "emulator/profile/profile.h"
#include "emulator/vpc/vpc_spec.h"

namespace ghostfleet::emulator {

inline constexpr size_t kMaxVpcSubnets = 10000;
inline constexpr size_t kMaxVpcFile = 16u << 20;

Result<VpcSpec> parse_vpc_file(std::string_view text, std::string file);

// What a profile says of its interfaces. A type whose label
// karpenter.k8s.aws/instance-hypervisor is not "nitro" takes no prefixes.
agent::InstanceLimits instance_limits(const Profile& profile);

// The settings of a node of that type in that network, or why they cannot be.
Result<agent::IpamConfig> ipam_config_of(const VpcSpec& vpc, const Profile& profile, int64_t max_pods);

}  // namespace ghostfleet::emulator
