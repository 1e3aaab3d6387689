#include "emulator/fleet/second_network.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>

namespace ghostfleet::emulator {
namespace {

constexpr int kPodBits = 16;  // of each node

}  // namespace

Result<SecondNetwork> SecondNetwork::parse(std::string_view cidr, uint32_t nodes) {
  const size_t slash = cidr.find('/');
  int prefix = -1;
  if (slash != std::string_view::npos) {
    const auto [end, error] = std::from_chars(cidr.data() + slash + 1, cidr.data() + cidr.size(), prefix);
    if (error != std::errc() || end != cidr.data() + cidr.size()) prefix = -1;
  }
  agent::Ip address;
  if (prefix < 8 || prefix > 112 || !agent::parse_ip(cidr.substr(0, slash), &address) || address.is_v4()) {
    return invalid_argument(
        fmt::format("\"{}\": an IPv6 network like fd00:10:64::/48, from /8 to /112, is expected", cidr));
  }
  // One bit parts pods and nodes.
  const int wanted = 1 + kPodBits + static_cast<int>(std::bit_width(nodes));
  if (128 - prefix < wanted) {
    return invalid_argument(
        fmt::format("\"{}\": no room for {} nodes; at most a prefix of /{} is expected", cidr, nodes, 128 - wanted));
  }
  return SecondNetwork(agent::cidr_around(address, prefix));
}

std::string SecondNetwork::at(uint64_t offset, bool upper) const {
  agent::Ip ip = network_.base.plus(offset);
  const int half = 127 - network_.bits;  // the bit that parts both, from the last one on
  if (upper) (half >= 64 ? ip.high : ip.low) |= uint64_t{1} << half % 64;
  return agent::format_ip(ip);
}

std::string SecondNetwork::pod_ip(uint32_t node, uint32_t n) const {
  return at(static_cast<uint64_t>(node) << kPodBits | (n + 2) % (1u << kPodBits), false);
}

std::string SecondNetwork::node_ip(uint32_t node) const { return at(static_cast<uint64_t>(node) + 1, true); }

}  // namespace ghostfleet::emulator
