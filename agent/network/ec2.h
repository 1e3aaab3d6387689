// What a node asks of EC2 about its network interfaces, and what comes back: plain data, no client. The names are those
// of the API's actions and error codes.
//
// Thread rule: plain values. Source: the EC2 API reference; amazon-vpc-cni-k8s v1.23 (what ipamd calls).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/network/ip.h"
#include "base/clock.h"

namespace ghostfleet::agent {

enum class Ec2Action : uint8_t {
  kAssignPrivateIpAddresses,
  kUnassignPrivateIpAddresses,
  kAssignIpv6Addresses,
  kCreateNetworkInterface,
  kDeleteNetworkInterface,
  kModifyNetworkInterfaceAttribute,
  kAttachNetworkInterface,
  kDetachNetworkInterface,
  kDescribeNetworkInterfaces,  // of this instance, with what is tagged on them
  kDescribeLeaked,             // DescribeNetworkInterfaces, filtered: our own interfaces that are not attached
  kDescribeSubnets,
  kRunInstances,
  kReadMetadata,  // the instance's metadata service: not an EC2 call, never throttled
  kCount
};
inline constexpr int kEc2Actions = static_cast<int>(Ec2Action::kCount);
// As the API spells it.
std::string_view ec2_action_name(Ec2Action action);

enum class Ec2Error : uint8_t {
  kNone,
  kRequestLimitExceeded,
  kInsufficientCidrBlocks,
  kInsufficientFreeAddressesInSubnet,
  kPrivateIpAddressLimitExceeded,
  kAttachmentLimitExceeded,
  kNetworkInterfaceLimitExceeded,
  kInvalidNetworkInterfaceNotFound,
  kInvalidParameterValue,
  kInternalError,
  kCount
};
std::string_view ec2_error_code(Ec2Error error);  // empty for kNone
inline bool out_of_space(Ec2Error e) {
  return e == Ec2Error::kInsufficientCidrBlocks || e == Ec2Error::kInsufficientFreeAddressesInSubnet;
}
// The SDK asks again by itself.
inline bool worth_repeating(Ec2Error e) {
  return e == Ec2Error::kRequestLimitExceeded || e == Ec2Error::kInternalError;
}

// "eni-0" and 16 hexadecimal digits; 0 is none.
using EniId = uint64_t;
std::string format_eni(EniId id);

using SubnetIndex = uint16_t;
inline constexpr SubnetIndex kPrimarySubnet = UINT16_MAX;  // that of the primary interface

struct Ec2Call {
  Ec2Action action = Ec2Action::kReadMetadata;
  bool prefixes = false;  // /28 instead of single addresses
  uint8_t card = 0, device = 0;
  uint16_t count = 0;
  SubnetIndex subnet = kPrimarySubnet;
  EniId eni = 0;
  std::vector<Cidr> cidrs;  // kUnassign...
};

// An interface as EC2 tells of it.
struct EniView {
  EniId id = 0;
  uint8_t card = 0, device = 0;
  bool primary = false, trunk = false, efa = false;
  bool efa_only = false;   // carries no addresses
  bool no_manage = false;  // tagged node.k8s.amazonaws.com/no_manage
  bool excluded = false;   // its subnet is tagged kubernetes.io/role/cni=0
  SubnetIndex subnet = 0;
  Ip primary_ip;
  std::vector<Cidr> cidrs;  // secondary addresses and prefixes
};

struct Ec2Answer {
  Ec2Error error = Ec2Error::kNone;
  Duration took{0};
  EniId eni = 0;                     // kCreate...
  std::vector<Cidr> cidrs;           // given out by this call
  std::vector<EniView> enis;         // kDescribe..., kReadMetadata
  std::vector<SubnetIndex> subnets;  // kDescribeSubnets: most free addresses first
  bool ok() const { return error == Ec2Error::kNone; }
};

}  // namespace ghostfleet::agent
