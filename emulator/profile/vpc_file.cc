#include "emulator/profile/vpc_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "emulator/profile/object_reader.h"
#include "kube/api/names.h"

namespace ghostfleet::emulator {
namespace {

using agent::Cidr;
using agent::Ip;

constexpr size_t kMostOccupied = 65536;  // of a subnet

std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text.substr(0, 60)); }

// Why a text is no range: perhaps only its first address is wrong.
std::string expected_range(std::string_view text, std::string_view example) {
  const size_t slash = text.find('/');
  Ip ip;
  Cidr all;
  if (slash != std::string_view::npos && agent::parse_ip(text.substr(0, slash), &ip)) {
    const std::string_view bits = text.substr(slash);
    if (agent::parse_cidr((ip.is_v4() ? "0.0.0.0" : "::") + std::string(bits), &all)) {
      return fmt::format("the range begins at its first address: {} is expected",
                         format_cidr(agent::cidr_around(ip, all.bits)));
    }
  }
  return fmt::format("a range like {} is expected", example);
}

bool read_range(ObjectReader* reader, std::string_view key, bool v4, int fewest, int most, Cidr* out) {
  const std::string text = reader->required_text(key);
  if (text.empty()) return false;
  if (!agent::parse_cidr(text, out)) {
    reader->complain(key, quoted(text), expected_range(text, v4 ? "10.0.0.0/16" : "fd00:10::/64"));
    return false;
  }
  if (out->base.is_v4() == v4 && out->bits >= fewest && out->bits <= most) return true;
  const std::string sizes = fewest == most ? fmt::format("of /{}", most) : fmt::format("from /{} to /{}", fewest, most);
  reader->complain(key, quoted(text), fmt::format("an {} range {} is expected", v4 ? "IPv4" : "IPv6", sizes));
  return false;
}

std::vector<Cidr> read_ranges(ObjectReader* spec, std::string_view key, bool v4, int fewest, int most) {
  std::vector<Cidr> out;
  for (const std::string& text : spec->text_list(key)) {
    Cidr cidr;
    if (!agent::parse_cidr(text, &cidr) || cidr.base.is_v4() != v4) {
      spec->complain(key, quoted(text), expected_range(text, v4 ? "10.0.0.0/16" : "fd00:10::/56"));
    } else if (cidr.bits < fewest || cidr.bits > most) {
      spec->complain(key, quoted(text), fmt::format("a range from /{} to /{} is expected", fewest, most));
    } else {
      const auto other = std::find_if(out.begin(), out.end(), [&cidr](const Cidr& c) { return c.overlaps(cidr); });
      if (other != out.end())
        spec->complain(key, quoted(text), fmt::format("overlaps {}: give ranges that do not", format_cidr(*other)));
      out.push_back(cidr);
    }
  }
  return out;
}

void read_reservations(ObjectReader* reader, VpcSubnet* subnet) {
  for (ObjectReader& item : reader->list("reservations")) {
    VpcReservation r;
    r.kind = item.one_of("type", {"prefix", "explicit"}, "prefix") == "prefix" ? ReservationKind::kPrefix
                                                                               : ReservationKind::kExplicit;
    const bool ok = read_range(&item, "cidr", true, Subnet::kFewestBits, Subnet::kMostBits, &r.cidr);
    item.finish();
    if (!ok) continue;
    if (!subnet->cidr.contains(r.cidr)) {
      item.complain("cidr", format_cidr(r.cidr),
                    fmt::format("a range within the subnet's {} is expected", format_cidr(subnet->cidr)));
      continue;
    }
    for (const VpcReservation& other : subnet->reservations) {
      if (other.cidr.overlaps(r.cidr))
        item.complain("cidr", format_cidr(r.cidr),
                      fmt::format("overlaps the reservation {}: give ranges that do not", format_cidr(other.cidr)));
    }
    subnet->reservations.push_back(r);
  }
}

void read_occupied(ObjectReader* reader, VpcSubnet* subnet) {
  const std::vector<std::string> texts = reader->text_list("occupied");
  if (texts.size() > kMostOccupied) {
    reader->complain("occupied", std::to_string(texts.size()), fmt::format("at most {} are expected", kMostOccupied));
    return;
  }
  for (const std::string& text : texts) {
    Ip ip;
    if (!agent::parse_ip(text, &ip) || !subnet->cidr.contains(ip)) {
      reader->complain("occupied", quoted(text),
                       fmt::format("an address of {} is expected", format_cidr(subnet->cidr)));
      continue;
    }
    for (const VpcReservation& r : subnet->reservations) {
      if (r.kind == ReservationKind::kPrefix && r.cidr.contains(ip))
        reader->complain("occupied", quoted(text),
                         fmt::format("lies in {}, which is reserved for prefixes", format_cidr(r.cidr)));
    }
    subnet->occupied.push_back(ip);
  }
}

// What was read of the subnets, to compare each new one with.
struct Seen {
  std::map<std::string, int> names;
  std::vector<std::pair<Cidr, std::string>> ranges;  // sorted by base
};

// Sorted ranges that do not overlap have only two neighbours that could.
const std::pair<Cidr, std::string>* overlapping(const Seen& seen, const Cidr& cidr) {
  const auto after = std::lower_bound(seen.ranges.begin(), seen.ranges.end(), cidr,
                                      [](const auto& have, const Cidr& c) { return have.first.base < c.base; });
  if (after != seen.ranges.end() && after->first.overlaps(cidr)) return &*after;
  if (after != seen.ranges.begin() && std::prev(after)->first.overlaps(cidr)) return &*std::prev(after);
  return nullptr;
}

void note_range(Seen* seen, const Cidr& cidr, const std::string& name) {
  const auto at = std::lower_bound(seen->ranges.begin(), seen->ranges.end(), cidr,
                                   [](const auto& have, const Cidr& c) { return have.first.base < c.base; });
  seen->ranges.insert(at, {cidr, name});
}

void check_place(ObjectReader* reader, std::string_view key, const Cidr& cidr, const std::string& name,
                 const std::vector<Cidr>& around, Seen* seen) {
  const auto holds = [&cidr](const Cidr& c) { return c.contains(cidr); };
  if (!around.empty() && std::none_of(around.begin(), around.end(), holds)) {
    std::vector<std::string> texts;
    for (const Cidr& c : around) texts.push_back(format_cidr(c));
    reader->complain(key, format_cidr(cidr),
                     fmt::format("a range within the VPC's {} is expected", fmt::join(texts, ", ")));
  }
  if (const auto* other = overlapping(*seen, cidr)) {
    reader->complain(
        key, format_cidr(cidr),
        fmt::format("overlaps {} of subnet {}: give ranges that do not", format_cidr(other->first), other->second));
    return;
  }
  note_range(seen, cidr, name);
}

VpcSubnet read_subnet(ObjectReader* reader, const VpcSpec& vpc, const std::vector<Cidr>& ipv6, Seen* v4_seen,
                      Seen* v6_seen) {
  VpcSubnet s;
  s.name = reader->required_text("name");
  s.zone = reader->required_text("zone");
  if (!s.name.empty() && v4_seen->names[s.name]++ > 0)
    reader->complain("name", quoted(s.name), "another subnet has this name: give each its own");
  const bool ok = read_range(reader, "cidr", true, Subnet::kFewestBits, Subnet::kMostBits, &s.cidr);
  if (ok) check_place(reader, "cidr", s.cidr, s.name, vpc.cidrs, v4_seen);
  if (reader->has("ipv6Cidr")) {
    Cidr six;
    if (read_range(reader, "ipv6Cidr", false, 64, 64, &six)) {
      check_place(reader, "ipv6Cidr", six, s.name, ipv6, v6_seen);
      s.ipv6 = six;
    }
  } else {
    reader->text("ipv6Cidr");
  }
  s.placement =
      reader->one_of("placement", {"random", "lowest"}, "random") == "random" ? Placement::kRandom : Placement::kLowest;
  s.for_pods = reader->boolean("cniTag", false);
  s.excluded = reader->boolean("excluded", false);
  if (s.for_pods && s.excluded) reader->complain("excluded", "true", "contradicts cniTag: true: leave out one of them");
  if (ok) {
    read_reservations(reader, &s);
    read_occupied(reader, &s);
  } else {
    (void)reader->list("reservations");
    (void)reader->text_list("occupied");
  }
  s.occupied_share = reader->number("occupiedShare", 0, 1, 0);
  reader->finish();
  return s;
}

void read_latencies(ObjectReader reader, Ec2Latencies* l) {
  const auto read = [&reader](std::string_view key, Duration* d) {
    *d = reader.duration(key, *d);
    if (*d > std::chrono::hours(1)) {
      reader.complain(key, format_duration(*d), "at most 1h is expected");
      *d = std::chrono::hours(1);
    }
  };
  read("describe", &l->describe);
  read("assign", &l->assign);
  read("unassign", &l->unassign);
  read("create", &l->create);
  read("attach", &l->attach);
  read("detach", &l->detach);
  read("modify", &l->modify);
  read("delete", &l->remove);
  read("run", &l->run);
  l->jitter = reader.number("jitter", 0, 1, l->jitter);
  reader.finish();
}

// The names are those of the environment variables, as fields are written.
std::string read_ipam(ObjectReader reader, agent::IpamConfig* c) {
  const auto number = [&reader](std::string_view key, int64_t low, int64_t high, int fallback) {
    return static_cast<int>(reader.integer(key, low, high, fallback));
  };
  c->prefix_delegation = reader.boolean("enablePrefixDelegation", false);
  c->warm_eni_target = number("warmEniTarget", 0, 64, c->warm_eni_target);
  c->warm_ip_target = number("warmIpTarget", 0, 10000, 0);
  c->minimum_ip_target = number("minimumIpTarget", 0, 10000, 0);
  c->warm_prefix_target = number("warmPrefixTarget", 0, 700, c->warm_prefix_target);
  c->max_eni = number("maxEni", 0, 64, 0);
  c->subnet_discovery = reader.boolean("enableSubnetDiscovery", true);
  c->multi_nic = reader.boolean("enableMultiNic", false);
  c->pod_eni = reader.boolean("enablePodEni", false);
  c->ipv6 = reader.boolean("enableIPv6", false);
  c->disable_provisioning = reader.boolean("disableNetworkResourceProvisioning", false);
  c->manage_unschedulable = reader.boolean("manageEnisNonSchedulable", false);
  c->ip_cooldown = reader.duration("ipCooldownPeriod", c->ip_cooldown);
  c->space_pause = reader.duration("insufficientSpacePause", c->space_pause);
  if (c->ip_cooldown > std::chrono::hours(1))
    reader.complain("ipCooldownPeriod", format_duration(c->ip_cooldown), "at most 1h is expected");
  if (c->space_pause > std::chrono::hours(1))
    reader.complain("insufficientSpacePause", format_duration(c->space_pause), "at most 1h is expected");
  std::string subnet;
  c->custom_networking = reader.has("eniConfig");
  ObjectReader eni_config = reader.object("eniConfig");
  if (c->custom_networking) {
    c->eni_config = eni_config.text("name", "default");
    subnet = eni_config.required_text("subnet");
  }
  eni_config.finish();
  reader.finish();
  if (c->ipv6 && !c->prefix_delegation)
    reader.complain("enableIPv6", "true", "needs enablePrefixDelegation: true (a node gets a /80)");
  if (c->ipv6 && c->custom_networking)
    reader.complain("eniConfig", "", "custom networking is for IPv4: leave out eniConfig or enableIPv6");
  return subnet;
}

// A prefix is an aligned block of 16, and the first and the last block of a
// subnet hold addresses of EC2's own.
void check_prefixes(const std::vector<ObjectReader>& items, const VpcSpec& vpc) {
  constexpr int kSmallest = 26;
  if (!vpc.ipam.prefix_delegation || vpc.ipam.ipv6) return;
  for (size_t i = 0; i < vpc.subnets.size(); ++i) {
    const VpcSubnet& s = vpc.subnets[i];
    const bool used = vpc.ipam.custom_networking ? vpc.ipam.eni_config_subnet == i : !s.excluded;
    if (!used || s.cidr.bits <= kSmallest || !s.cidr.base.is_v4()) continue;
    ObjectReader item = items[i];
    item.complain("cidr", format_cidr(s.cidr),
                  fmt::format("has no room for a /28 prefix beside the addresses EC2 keeps: with "
                              "enablePrefixDelegation a /{} at least, better a /24 or larger, is "
                              "needed",
                              kSmallest));
  }
}

void check_ipv6(const std::vector<ObjectReader>& items, const VpcSpec& vpc) {
  for (size_t i = 0; vpc.ipam.ipv6 && i < vpc.subnets.size(); ++i) {
    ObjectReader item = items[i];
    if (!vpc.subnets[i].ipv6) item.complain("ipv6Cidr", "", "is required with enableIPv6: a /64");
  }
}

void read_spec(ObjectReader spec, VpcSpec* vpc) {
  vpc->cidrs = read_ranges(&spec, "cidrs", true, 16, 28);
  if (vpc->cidrs.empty()) spec.complain("cidrs", "", "at least one range like 10.0.0.0/16 is expected");
  const std::vector<Cidr> ipv6 = read_ranges(&spec, "ipv6Cidrs", false, 44, 60);
  std::vector<ObjectReader> items = spec.list("subnets");
  if (items.empty()) spec.complain("subnets", "", "at least one subnet {name, zone, cidr} is expected");
  if (items.size() > kMaxVpcSubnets) {
    spec.complain("subnets", std::to_string(items.size()), fmt::format("at most {} are expected", kMaxVpcSubnets));
    items.clear();
  }
  Seen v4, v6;
  for (ObjectReader& item : items) vpc->subnets.push_back(read_subnet(&item, *vpc, ipv6, &v4, &v6));
  ObjectReader quotas = spec.object("quotas");
  vpc->quota_multiplier = quotas.number("multiplier", 0.001, 1e6, 1);
  vpc->max_interfaces = quotas.integer("interfaces", 1, 100000000, 5000, true);
  vpc->max_address_units = quotas.integer("addressUnits", 1, 1000000000, 64000, true);
  quotas.finish();
  read_latencies(spec.object("latency"), &vpc->latencies);
  vpc->prefixes_at_launch = static_cast<int>(spec.integer("prefixesAtLaunch", 0, 49, 0));
  vpc->seed = static_cast<uint64_t>(spec.integer("seed", 0, INT64_MAX, 1));
  const std::string config_subnet = read_ipam(spec.object("ipam"), &vpc->ipam);
  if (!config_subnet.empty()) {
    const auto named = [&config_subnet](const VpcSubnet& s) { return s.name == config_subnet; };
    const auto it = std::find_if(vpc->subnets.begin(), vpc->subnets.end(), named);
    if (it == vpc->subnets.end())
      spec.complain("ipam.eniConfig.subnet", quoted(config_subnet), "the name of one of the subnets is expected");
    vpc->ipam.eni_config_subnet = static_cast<uint16_t>(it - vpc->subnets.begin());
  }
  if (vpc->prefixes_at_launch > 0 && !vpc->ipam.prefix_delegation)
    spec.complain("prefixesAtLaunch", std::to_string(vpc->prefixes_at_launch),
                  "needs ipam.enablePrefixDelegation: true");
  check_prefixes(items, *vpc);
  check_ipv6(items, *vpc);
  spec.finish();
}

std::string label_of(const Profile& p, std::string_view key) {
  for (const auto& [k, v] : p.labels) {
    if (k == key) return v;
  }
  return {};
}

}  // namespace

Result<VpcSpec> parse_vpc_file(std::string_view text, std::string file) {
  if (text.size() > kMaxVpcFile)
    return invalid_argument(fmt::format("{}: {} bytes: at most {} are expected", file, text.size(), kMaxVpcFile));
  auto document = Document::parse(text, std::move(file));
  if (!document.ok()) return document.error();
  ObjectReader root(&*document, &document->root(), "");
  root.one_of("apiVersion", {"ghostfleet.dev/v1alpha1"}, "");
  root.one_of("kind", {"VPC"}, "");
  GF_RETURN_IF_ERROR(document->status());  // another kind of file: its fields
                                           // would all be complained of
  VpcSpec vpc;
  ObjectReader metadata = root.object("metadata");
  vpc.name = metadata.required_text("name");
  if (!vpc.name.empty() && !kube::check_dns1123_label(vpc.name).empty())
    metadata.complain("name", quoted(vpc.name), "a DNS label is expected: lower-case letters, digits and -");
  metadata.finish();
  read_spec(root.object("spec"), &vpc);
  root.finish();
  GF_RETURN_IF_ERROR(document->status());
  return vpc;
}

agent::InstanceLimits instance_limits(const Profile& p) {
  agent::InstanceLimits l;
  l.type = p.name;
  l.cards = static_cast<int>(p.network_cards);
  l.interfaces_per_card = static_cast<int>(p.interfaces_per_card);
  l.ipv4_per_interface = static_cast<int>(p.ipv4_per_interface);
  l.efa_interfaces = static_cast<int>(p.efa_interfaces);
  l.cpu = static_cast<int>(p.cpu);
  const std::string hypervisor = label_of(p, "karpenter.k8s.aws/instance-hypervisor");
  l.nitro = hypervisor.empty() || hypervisor == "nitro";
  return l;
}

Result<agent::IpamConfig> ipam_config_of(const VpcSpec& vpc, const Profile& profile, int64_t max_pods) {
  if (profile.interfaces_per_card < 1 || profile.ipv4_per_interface < 2) {
    return invalid_argument(
        fmt::format("profile {}: network: interfacesPerCard and "
                    "ipv4PerInterface (2 or more) are "
                    "expected: without them no pod gets an address",
                    profile.name));
  }
  agent::IpamConfig c = vpc.ipam;
  c.limits = instance_limits(profile);
  c.max_pods = static_cast<int>(max_pods > 0 ? max_pods : profile.max_pods);
  if (const Status bad = agent::check_ipam_config(c); !bad.ok()) return bad.with_context("profile " + profile.name);
  return c;
}

}  // namespace ghostfleet::emulator
