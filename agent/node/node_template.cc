#include "agent/node/node_template.h"

#include <algorithm>

#include "agent/node/node_uid.h"

namespace ghostfleet::agent {
namespace {

std::string place_value(std::string_view place, const NodeIdentity& id) {
  if (place == "name") return id.name;
  if (place == "index") return std::to_string(id.index);
  if (place == "zone") return id.zone;
  if (place == "region") return id.region;
  if (place == "instance_id") return id.instance_id;
  if (place == "internal_ip") return id.internal_ip;
  if (place == "second_ip") return id.second_ip;
  if (place == "machine_id") return id.machine_id;
  if (place == "system_uuid") return id.system_uuid;
  if (place == "boot_id") return id.boot_id;
  if (place == "kubelet_port") return std::to_string(id.kubelet_port);
  std::string dashed = id.internal_ip;
  std::replace(dashed.begin(), dashed.end(), '.', '-');
  return dashed;
}

uint64_t mix(uint64_t x) {  // the finalizer of splitmix64
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t hash_text(std::string_view text, uint64_t seed) {
  uint64_t h = 1469598103934665603ULL ^ mix(seed);
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return mix(h);
}

NodeUid derived_uuid(uint64_t a, uint64_t b) {
  NodeUid uid;
  for (size_t i = 0; i < 8; ++i) {
    uid.bytes[i] = static_cast<uint8_t>(a >> (8 * i));
    uid.bytes[8 + i] = static_cast<uint8_t>(b >> (8 * i));
  }
  uid.bytes[6] = static_cast<uint8_t>((uid.bytes[6] & 0x0f) | 0x40);  // version 4
  uid.bytes[8] = static_cast<uint8_t>((uid.bytes[8] & 0x3f) | 0x80);  // its variant
  return uid;
}

std::string hex_digits(uint64_t value, int digits) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out(static_cast<size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, value >>= 4) out[static_cast<size_t>(i)] = kHex[value & 15];
  return out;
}

Status check_resources(std::string_view field, const StringPairs& resources) {
  for (const auto& [name, quantity] : resources) {
    if (name.empty()) return invalid_argument(std::string(field) + ": a resource without a name");
    if (quantity.empty()) return invalid_argument(std::string(field) + "." + name + ": no quantity");
  }
  return Status::ok_status();
}

}  // namespace

const std::vector<std::string_view>& node_places() {
  static const std::vector<std::string_view> kPlaces = {"name",        "index",       "zone",      "region",
                                                        "instance_id", "internal_ip", "second_ip", "dashed_ip",
                                                        "machine_id",  "system_uuid", "boot_id",   "kubelet_port"};
  return kPlaces;
}

std::string fill_places(std::string_view pattern, const NodeIdentity& identity) {
  std::string out;
  while (!pattern.empty()) {
    const size_t open = pattern.find('{');
    const size_t close = open == std::string_view::npos ? open : pattern.find('}', open);
    if (close == std::string_view::npos) break;
    const std::string_view place = pattern.substr(open + 1, close - open - 1);
    const auto& places = node_places();
    out += pattern.substr(0, open);
    if (std::find(places.begin(), places.end(), place) != places.end()) {
      out += place_value(place, identity);
      pattern.remove_prefix(close + 1);
    } else {
      out += '{';
      pattern.remove_prefix(open + 1);
    }
  }
  return out.append(pattern);
}

Status check_template(const NodeTemplate& t) {
  GF_RETURN_IF_ERROR(check_resources("capacity", t.capacity));
  GF_RETURN_IF_ERROR(check_resources("allocatable", t.allocatable));
  for (const NodeTaint& taint : t.taints) {
    if (taint.key.empty()) return invalid_argument("taints: a taint without a key");
    if (taint.effect != "NoSchedule" && taint.effect != "PreferNoSchedule" && taint.effect != "NoExecute") {
      return invalid_argument("taints: effect \"" + taint.effect + "\" of " + taint.key +
                              " is none of NoSchedule, PreferNoSchedule, NoExecute");
    }
  }
  static constexpr std::string_view kTypes[] = {"InternalIP", "Hostname", "InternalDNS", "ExternalIP", "ExternalDNS"};
  for (const NodeAddress& a : t.addresses) {
    if (std::find(std::begin(kTypes), std::end(kTypes), a.type) == std::end(kTypes)) {
      return invalid_argument("addresses: type \"" + a.type +
                              "\" is none of InternalIP, Hostname, InternalDNS, ExternalIP, ExternalDNS");
    }
  }
  return Status::ok_status();
}

void derive_ids(std::string_view seed_text, NodeIdentity* identity) {
  const std::string text = std::string(seed_text) + '/' + identity->name;
  const uint64_t a = hash_text(text, 1);
  const uint64_t b = hash_text(text, 2);
  if (identity->instance_id.empty()) identity->instance_id = "i-0" + hex_digits(a, 16);
  if (identity->machine_id.empty()) identity->machine_id = hex_digits(mix(a + 3), 16) + hex_digits(mix(b + 3), 16);
  if (identity->system_uuid.empty()) identity->system_uuid = derived_uuid(mix(a + 4), mix(b + 4)).to_string();
  if (identity->boot_id.empty()) identity->boot_id = derived_uuid(mix(a + 5), mix(b + 5)).to_string();
}

}  // namespace ghostfleet::agent
