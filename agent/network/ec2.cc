#include "agent/network/ec2.h"

#include <fmt/format.h>

#include <array>

namespace ghostfleet::agent {

std::string_view ec2_action_name(Ec2Action action) {
  static constexpr std::array<std::string_view, kEc2Actions> names = {"AssignPrivateIpAddresses",
                                                                      "UnassignPrivateIpAddresses",
                                                                      "AssignIpv6Addresses",
                                                                      "CreateNetworkInterface",
                                                                      "DeleteNetworkInterface",
                                                                      "ModifyNetworkInterfaceAttribute",
                                                                      "AttachNetworkInterface",
                                                                      "DetachNetworkInterface",
                                                                      "DescribeNetworkInterfaces",
                                                                      "DescribeNetworkInterfaces",
                                                                      "DescribeSubnets",
                                                                      "RunInstances",
                                                                      "GetMetadata"};
  return names[static_cast<size_t>(action)];
}

std::string_view ec2_error_code(Ec2Error error) {
  static constexpr std::array<std::string_view, static_cast<size_t>(Ec2Error::kCount)> codes = {
      "",
      "RequestLimitExceeded",
      "InsufficientCidrBlocks",
      "InsufficientFreeAddressesInSubnet",
      "PrivateIpAddressLimitExceeded",
      "AttachmentLimitExceeded",
      "NetworkInterfaceLimitExceeded",
      "InvalidNetworkInterfaceID.NotFound",
      "InvalidParameterValue",
      "InternalError"};
  return codes[static_cast<size_t>(error)];
}

std::string format_eni(EniId id) { return fmt::format("eni-0{:016x}", id); }

}  // namespace ghostfleet::agent
