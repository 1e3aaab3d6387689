// SecondNetwork: the addresses of a fleet's second family, IPv6: the lower half of the network is its pods', the upper
// half its nodes'. Each node has 65,536 addresses for pods, used from the third on; they are computed, never stored.
//
// Thread rule: plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/network/ip.h"
#include "base/status.h"

namespace ghostfleet::emulator {

class SecondNetwork {
 public:
  // "fd00:10:64::/48"; InvalidArgument when the text is no IPv6 network or has no room for that many nodes.
  static Result<SecondNetwork> parse(std::string_view cidr, uint32_t nodes);

  std::string pod_ip(uint32_t node, uint32_t n) const;
  std::string node_ip(uint32_t node) const;

 private:
  explicit SecondNetwork(const agent::Cidr& network) : network_(network) {}
  // The network's address with `offset` added; `upper`: in its upper half.
  std::string at(uint64_t offset, bool upper) const;

  agent::Cidr network_;
};

}  // namespace ghostfleet::emulator
