#include "emulator/fleet/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kube/api/names.h"

namespace ghostfleet::emulator {
namespace {

constexpr uint32_t kPodNetwork = (10u << 24) | (64u << 16);  // 10.64.0.0
constexpr uint32_t kPodAddresses = (256u - 64u) << 16;       // to 10.255.255.255
constexpr uint32_t kMaxPodStride = 256;

std::string ip_text(uint32_t ip) {
  return fmt::format("{}.{}.{}.{}", ip >> 24, (ip >> 16) & 255, (ip >> 8) & 255, ip & 255);
}

Status check_group(const FleetGroup& group, size_t number) {
  const std::string where = fmt::format("groups[{}]", number);
  if (group.count == 0) return invalid_argument(where + ".count: 0; at least 1");
  if (group.count > kMaxFleetNodes) {
    return invalid_argument(fmt::format("{}.count: {} is more than {}", where, group.count, kMaxFleetNodes));
  }
  for (const std::string& zone : group.zones) {
    if (zone.empty()) return invalid_argument(where + ".zones: an empty zone");
  }
  return agent::check_template(group.node).with_context(where);
}

}  // namespace

std::optional<uint32_t> parse_ipv4(std::string_view text) {
  uint32_t ip = 0;
  for (int part = 0; part < 4; ++part) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto used = static_cast<size_t>(end - text.data());
    if (error != std::errc() || value > 255 || used > 3) return std::nullopt;
    ip = ip << 8 | value;
    text.remove_prefix(used);
    if (part == 3) break;
    if (!text.starts_with('.')) return std::nullopt;
    text.remove_prefix(1);
  }
  return text.empty() ? std::optional<uint32_t>(ip) : std::nullopt;
}

Result<NodeNetwork> NodeNetwork::parse(std::string_view cidr, uint32_t nodes) {
  NodeNetwork n;
  const size_t slash = cidr.find('/');
  const auto ip = parse_ipv4(cidr.substr(0, slash));
  int prefix = -1;
  if (slash != std::string_view::npos) {
    const auto [end, error] = std::from_chars(cidr.data() + slash + 1, cidr.data() + cidr.size(), prefix);
    if (error != std::errc() || end != cidr.data() + cidr.size()) prefix = -1;
  }
  if (!ip || prefix < 1 || prefix > 30) {
    return invalid_argument(fmt::format("\"{}\": an IPv4 network like 10.0.0.0/12 is expected", cidr));
  }
  const uint32_t size = 1u << (32 - prefix);
  n.base = *ip & ~(size - 1);
  n.prefix = prefix;
  n.first = size > 1024 ? 256 : 1;
  if (size - n.first - 1 < nodes) {
    return invalid_argument(fmt::format("\"{}\": room for {} nodes, {} are wanted", cidr, size - n.first - 1, nodes));
  }
  return n;
}

Result<NameTemplate> NameTemplate::parse(std::string_view text) {
  NameTemplate t;
  const size_t open = text.find("{index");
  if (open == std::string_view::npos) {
    t.prefix_ = text;
    return t;
  }
  const size_t close = text.find('}', open);
  if (close == std::string_view::npos) {
    return invalid_argument(fmt::format("name template \"{}\": {{index has no closing brace", text));
  }
  const std::string_view format = text.substr(open + 6, close - open - 6);
  if (!format.empty()) {
    const auto [end, error] = std::from_chars(format.data() + 1, format.data() + format.size(), t.width_);
    if (format[0] != ':' || error != std::errc() || end != format.data() + format.size() || t.width_ < 1 ||
        t.width_ > 10) {
      return invalid_argument(fmt::format("name template \"{}\": use {{index}} or {{index:5}} (1 to 10 digits)", text));
    }
  }
  t.has_index_ = true;
  t.prefix_ = text.substr(0, open);
  t.suffix_ = text.substr(close + 1);
  if (t.suffix_.find("{index") != std::string::npos) {
    return invalid_argument(fmt::format("name template \"{}\": {{index}} comes twice", text));
  }
  return t;
}

std::string NameTemplate::name(uint32_t index) const {
  if (!has_index_) return prefix_;
  return fmt::format("{}{:0{}}{}", prefix_, index, width_, suffix_);
}

std::optional<uint32_t> NameTemplate::index_of(std::string_view name) const {
  if (!has_index_) return name == prefix_ ? std::optional<uint32_t>(0) : std::nullopt;
  if (name.size() <= prefix_.size() + suffix_.size() || !name.starts_with(prefix_) || !name.ends_with(suffix_)) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(prefix_.size(), name.size() - prefix_.size() - suffix_.size());
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  // "007" is no name of {index}: only the way we write a number is ours.
  if (fmt::format("{:0{}}", index, width_) != digits) return std::nullopt;
  return index;
}

Result<FleetNames> FleetNames::create(std::string_view fleet_name, const std::vector<FleetGroup>& groups) {
  FleetNames names;
  names.seed_text_ = fleet_name;
  if (groups.empty()) return invalid_argument("groups: none; at least one");
  for (size_t i = 0; i < groups.size(); ++i) {
    const FleetGroup& g = groups[i];
    Status status = check_group(g, i);
    auto parsed = NameTemplate::parse(g.name_template);
    if (status.ok() && !parsed.ok()) status = parsed.error();
    if (status.ok() && g.count > 1 && !parsed->has_index()) {
      status = invalid_argument(
          fmt::format("name template \"{}\": {} nodes need {{index}} in their name, as in \"{}-{{index}}\"",
                      g.name_template, g.count, g.name_template));
    }
    if (!status.ok()) return status;
    const std::string last = parsed->name(g.first_index + g.count - 1);
    const auto faults = kube::check_dns1123_subdomain(last);
    if (!faults.empty()) {
      return invalid_argument(fmt::format("name template \"{}\": \"{}\": {}", g.name_template, last, faults[0]));
    }
    names.parts_.push_back({std::move(parsed).value(), names.size_, g.count, g.first_index, g.region, g.zones});
    names.size_ += g.count;
    if (names.size_ > kMaxFleetNodes) {
      return invalid_argument(fmt::format("more than {} nodes in one fleet", kMaxFleetNodes));
    }
  }
  // Two groups collide when a name of one is a name of another. Numbers run without gaps, so the first and last names
  // and those of the smaller group tell.
  for (uint32_t n = 0; names.parts_.size() > 1 && n < names.size_; ++n) {
    const std::string name = names.name(n);
    const auto found = names.find(name);
    if (found != n) {
      return invalid_argument(fmt::format("name templates collide: \"{}\" is a node of two groups", name));
    }
  }
  names.pod_stride_ = std::clamp(kPodAddresses / names.size_, 2u, kMaxPodStride);
  return names;
}

std::vector<agent::Cidr> FleetNames::pod_ranges() {
  const auto half = [](uint32_t second) { return agent::Ip::v4((10u << 24) | (second << 16)); };
  return {{half(64), 10}, {half(128), 9}};
}

uint32_t FleetNames::group_of(uint32_t node) const {
  uint32_t group = 0;
  while (group + 1 < parts_.size() && node >= parts_[group + 1].begin) ++group;
  return group;
}

std::string FleetNames::name(uint32_t node) const {
  const Part& part = parts_[group_of(node)];
  return part.names.name(part.first_index + (node - part.begin));
}

std::optional<uint32_t> FleetNames::find(std::string_view name) const {
  for (const Part& part : parts_) {
    const auto index = part.names.index_of(name);
    if (!index) continue;
    const uint32_t at = part.names.has_index() ? *index : part.first_index;
    if (at >= part.first_index && at - part.first_index < part.count) return part.begin + (at - part.first_index);
  }
  return std::nullopt;
}

agent::NodeIdentity FleetNames::identity(uint32_t node) const {
  if (override_) {
    agent::NodeIdentity only = *override_;
    if (!network_.shared_address.empty()) only.kubelet_port = network_.first_port;
    if (second_ && only.second_ip.empty()) only.second_ip = second_->node_ip(node);
    return only;
  }
  const Part& part = parts_[group_of(node)];
  agent::NodeIdentity id;
  id.index = part.first_index + (node - part.begin);
  id.name = part.names.name(id.index);
  id.region = part.region;
  if (!part.zones.empty()) id.zone = part.zones[(node - part.begin) % part.zones.size()];
  if (network_.shared_address.empty()) {
    id.internal_ip = ip_text(network_.base + network_.first + node);
  } else {
    id.internal_ip = network_.shared_address;
    id.kubelet_port = static_cast<uint16_t>(network_.first_port + node);
  }
  if (second_) id.second_ip = second_->node_ip(node);
  agent::derive_ids(seed_text_, &id);
  return id;
}

std::optional<uint32_t> FleetNames::node_at(std::string_view address, uint16_t port) const {
  if (override_) return 0;
  if (!network_.shared_address.empty()) {
    if (port < network_.first_port || port - network_.first_port >= static_cast<int64_t>(size_)) return std::nullopt;
    return static_cast<uint32_t>(port - network_.first_port);
  }
  const auto ip = parse_ipv4(address);
  const uint32_t first = network_.base + network_.first;
  if (!ip || *ip < first || *ip - first >= size_) return std::nullopt;
  return *ip - first;
}

std::string FleetNames::pod_ip(uint32_t node, uint32_t n) const {
  if (!pod_prefix_.empty()) return pod_prefix_ + std::to_string(n % 254 + 1);
  return ip_text(kPodNetwork + node * pod_stride_ + (pod_stride_ > 2 ? 1 + n % (pod_stride_ - 2) : n % pod_stride_));
}

std::string FleetNames::second_pod_ip(uint32_t node, uint32_t n) const {
  return second_ ? second_->pod_ip(node, n) : std::string();
}

void FleetNames::set_only_identity(agent::NodeIdentity identity, std::string pod_prefix) {
  override_ = std::make_shared<const agent::NodeIdentity>(std::move(identity));
  pod_prefix_ = std::move(pod_prefix);
}

}  // namespace ghostfleet::emulator
