// The network: subnets, instances, who holds what.
#include "emulator/vpc/vpc.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::emulator {

using agent::Cidr;
using agent::Ec2Action;
using agent::Ec2Error;
using agent::EniId;
using agent::Ip;
using agent::SubnetIndex;

namespace {

constexpr uint32_t kPrefixes6 = 65536, kPrefixes6Chunk = 1024;
constexpr int kChunk6Bits = 70;

// Spreads consecutive numbers so that ids look like EC2's; a bijection.
uint64_t scramble(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t VpcFigures::all_calls() const {
  uint64_t n = 0;
  for (size_t i = 0; i < calls.size(); ++i) n += i == static_cast<size_t>(Ec2Action::kReadMetadata) ? 0 : calls[i];
  return n;
}

uint64_t VpcFigures::all_throttled() const {
  uint64_t n = 0;
  for (const uint64_t t : throttled) n += t;
  return n;
}

Vpc::Vpc(VpcSpec spec, Claims* claims)
    : spec_(std::move(spec)), claims_(claims), rng_(spec_.seed), throttle_(spec_.quota_multiplier) {}

Result<std::unique_ptr<Vpc>> Vpc::create(VpcSpec spec, Claims* claims) {
  std::unique_ptr<Vpc> vpc(new Vpc(std::move(spec), claims));
  GF_RETURN_IF_ERROR(vpc->prepare());
  return vpc;
}

Status Vpc::prepare() {
  if (spec_.subnets.empty()) return invalid_argument("a VPC needs at least one subnet");
  if (spec_.subnets.size() >= agent::kPrimarySubnet) return invalid_argument("a VPC has at most 65,534 subnets");
  prefixes6_.resize(spec_.subnets.size());
  subnets_.reserve(spec_.subnets.size());
  for (const VpcSubnet& s : spec_.subnets) {
    if (!s.cidr.base.is_v4() || s.cidr.bits < Subnet::kFewestBits || s.cidr.bits > Subnet::kMostBits) {
      return invalid_argument(fmt::format("subnet {}: {}: an IPv4 range from /{} to /{} is expected", s.name,
                                          format_cidr(s.cidr), Subnet::kFewestBits, Subnet::kMostBits));
    }
    Subnet& subnet = subnets_.emplace_back(s.cidr, s.placement);
    for (const VpcReservation& r : s.reservations) {
      if (const Status bad = subnet.reserve(r.cidr, r.kind); !bad.ok()) return bad.with_context("subnet " + s.name);
    }
    for (const Ip& ip : s.occupied) subnet.occupy(ip);
    const auto others = static_cast<uint64_t>(s.occupied_share * static_cast<double>(s.cidr.size()));
    Ip taken;
    for (uint64_t i = 0; i < others && subnet.take_address(rng_, &taken) == Ec2Error::kNone; ++i) {
    }
    if (claims_ != nullptr) subnet.share([claims = claims_](const Cidr& part) { return claims->claim(part); });
  }
  return Status();
}

SubnetIndex Vpc::find_subnet(std::string_view name) const {
  for (size_t i = 0; i < spec_.subnets.size(); ++i) {
    if (spec_.subnets[i].name == name) return static_cast<SubnetIndex>(i);
  }
  return agent::kPrimarySubnet;
}

SubnetIndex Vpc::pick_subnet(std::string_view zone) const {
  SubnetIndex best = agent::kPrimarySubnet;
  for (size_t i = 0; i < subnets_.size(); ++i) {
    if (!zone.empty() && spec_.subnets[i].zone != zone) continue;
    if (best == agent::kPrimarySubnet || subnets_[i].room() > subnets_[best].room()) best = static_cast<SubnetIndex>(i);
  }
  return best;
}

SubnetIndex Vpc::subnet_of(const Ip& ip) const {
  for (size_t i = 0; i < spec_.subnets.size(); ++i) {
    const VpcSubnet& s = spec_.subnets[i];
    if (s.cidr.contains(ip) || (s.ipv6 && s.ipv6->contains(ip))) return static_cast<SubnetIndex>(i);
  }
  return agent::kPrimarySubnet;
}

uint16_t Vpc::type_of(const agent::InstanceLimits& limits) {
  for (size_t i = 0; i < types_.size(); ++i) {
    const agent::InstanceLimits& t = types_[i];
    if (t.type == limits.type && t.cards == limits.cards && t.interfaces_per_card == limits.interfaces_per_card &&
        t.ipv4_per_interface == limits.ipv4_per_interface) {
      return static_cast<uint16_t>(i);
    }
  }
  types_.push_back(limits);
  return static_cast<uint16_t>(types_.size() - 1);
}

uint16_t Vpc::zone_of(const std::string& zone) {
  const auto it = std::find(zones_.begin(), zones_.end(), zone);
  if (it == zones_.end()) zones_.push_back(zone);
  return static_cast<uint16_t>(std::find(zones_.begin(), zones_.end(), zone) - zones_.begin());
}

EniId Vpc::new_id() { return scramble(++ids_ + (spec_.seed << 40)); }

Vpc::Instance* Vpc::find(InstanceId id) {
  return id < instances_.size() && instances_[id].alive ? &instances_[id] : nullptr;
}

Vpc::Eni* Vpc::find_eni(Instance& instance, EniId id) {
  const auto it = std::find_if(instance.enis.begin(), instance.enis.end(), [id](const Eni& e) { return e.id == id; });
  return it == instance.enis.end() ? nullptr : &*it;
}

bool Vpc::admit_launch(TimePoint now, uint32_t instances) {
  const std::lock_guard lock(mutex_);
  constexpr auto kRun = static_cast<size_t>(Ec2Action::kRunInstances);
  ++figures_.calls[kRun];
  if (throttle_.admit(Ec2Action::kRunInstances, now, instances)) return true;
  ++figures_.throttled[kRun];
  return false;
}

Launch Vpc::launch(const LaunchRequest& request) {
  const std::lock_guard lock(mutex_);
  Launch out;
  SubnetIndex where = agent::kPrimarySubnet;
  if (request.address) where = subnet_of(*request.address);
  if (where == agent::kPrimarySubnet && !request.in_use.empty()) where = subnet_of(request.in_use.front());
  if (where == agent::kPrimarySubnet) where = pick_subnet(request.zone);
  if (where == agent::kPrimarySubnet) {
    out.error = Ec2Error::kInvalidParameterValue;
    return out;
  }
  if (figures_.interfaces + 1 + static_cast<uint64_t>(request.efa_only) > static_cast<uint64_t>(spec_.max_interfaces)) {
    out.error = Ec2Error::kNetworkInterfaceLimitExceeded;
    return out;
  }
  Eni first;
  first.id = new_id();
  first.primary = true;
  first.subnet = where;
  if (request.address && subnets_[where].occupy(*request.address)) {
    first.address = request.address->v4_value();
  } else {
    Ip ip;
    out.error = subnets_[where].take_address(rng_, &ip);
    if (out.error != Ec2Error::kNone) return out;
    first.address = ip.v4_value();
  }
  ++figures_.address_units;
  out.address = Ip::v4(first.address);
  std::vector<Eni> enis;
  enis.push_back(std::move(first));
  for (const Ip& ip : request.in_use) {
    if (!take_over(enis, ip, request)) out.conflicts.push_back(ip);
  }
  const int missing = request.at_launch - static_cast<int>(enis.front().held.size());
  if (missing > 0) out.error = hold(enis.front(), missing, request.prefixes, nullptr);
  if (out.error != Ec2Error::kNone) {
    for (Eni& eni : enis) dissolve(eni);
    return out;
  }
  out.subnet = spec_.subnets[where].name;
  if (free_instances_.empty()) {
    out.id = static_cast<InstanceId>(instances_.size());
    instances_.emplace_back();
  } else {
    out.id = free_instances_.back();
    free_instances_.pop_back();
  }
  Instance& instance = instances_[out.id];
  instance.alive = true;
  instance.type = type_of(request.limits);
  instance.zone = zone_of(spec_.subnets[where].zone);
  instance.enis = std::move(enis);
  instance.enis.reserve(instance.enis.size() + static_cast<size_t>(request.efa_only));
  for (int i = 0; i < request.efa_only; ++i) {
    Eni eni;
    eni.id = new_id();
    eni.efa = eni.efa_only = true;
    eni.subnet = where;
    eni.card = static_cast<uint8_t>(i % std::max(request.limits.cards, 1));
    eni.device = free_device(instance, eni.card, 255);
    instance.enis.push_back(std::move(eni));
  }
  figures_.interfaces += instance.enis.size();
  ++figures_.instances;
  return out;
}

void Vpc::terminate(InstanceId id) {
  const std::lock_guard lock(mutex_);
  Instance* instance = find(id);
  if (instance == nullptr) return;
  for (Eni& eni : instance->enis) dissolve(eni);
  figures_.interfaces -= instance->enis.size();
  --figures_.instances;
  *instance = Instance();
  free_instances_.push_back(id);
}

// The address of a pod that has run before, or the prefix around it. False: somebody else has it, no subnet does, or no
// interface has room.
bool Vpc::take_over(std::vector<Eni>& enis, const Ip& ip, const LaunchRequest& request) {
  const SubnetIndex where = subnet_of(ip);
  if (where == agent::kPrimarySubnet) return false;
  if (!ip.is_v4()) return take_over6(enis.front(), ip);
  for (const Eni& eni : enis) {
    const auto holds = [&ip](const Held& held) { return Cidr{Ip::v4(held.base), held.bits}.contains(ip); };
    if (std::any_of(eni.held.begin(), eni.held.end(), holds)) return true;
  }
  const Cidr wanted = agent::cidr_around(ip, request.prefixes ? agent::kPrefixBits : 32);
  if (promised_.erase(wanted) == 0 && !keep(wanted, where)) return false;
  Eni* eni = eni_for(enis, where, request);
  if (eni == nullptr) {
    request.prefixes ? subnets_[where].give_back_prefix(wanted.base) : subnets_[where].give_back(ip);
    return false;
  }
  eni->held.push_back({wanted.base.v4_value(), wanted.bits});
  ++figures_.address_units;
  return true;
}

// One of card 0 in that subnet that holds addresses of pods and has room, a new one if need be; null: there can be
// none.
Vpc::Eni* Vpc::eni_for(std::vector<Eni>& enis, SubnetIndex subnet, const LaunchRequest& request) {
  const auto slots = static_cast<size_t>(std::max(request.limits.ipv4_per_interface - 1, 0));
  for (Eni& eni : enis) {
    const bool fits = eni.subnet == subnet && eni.held.size() < slots;
    if (fits && !(eni.primary && request.custom_networking)) return &eni;
  }
  const auto most = static_cast<uint64_t>(spec_.max_interfaces);
  if (static_cast<int>(enis.size()) >= request.limits.interfaces_per_card ||
      figures_.interfaces + enis.size() + static_cast<uint64_t>(request.efa_only) >= most) {
    return nullptr;
  }
  Ip address;
  if (subnets_[subnet].take_address(rng_, &address) != Ec2Error::kNone) return nullptr;
  Eni& eni = enis.emplace_back();
  eni.id = new_id();
  eni.address = address.v4_value();
  eni.subnet = subnet;
  eni.device = static_cast<uint8_t>(enis.size() - 1);
  ++figures_.address_units;
  return &eni;
}

// The /80 around an address: false when another interface has it, or this one has another.
bool Vpc::take_over6(Eni& eni, const Ip& ip) {
  const std::optional<Cidr>& range = spec_.subnets[eni.subnet].ipv6;
  if (!range || !range->contains(ip)) return false;
  const auto number = static_cast<uint32_t>(ip.low >> 48);
  if (eni.prefix6 != 0 || number == 0) return eni.prefix6 == number && number != 0;
  if (promised_.erase(prefix6(eni.subnet, number)) == 0 && !keep6(eni.subnet, number)) return false;
  eni.prefix6 = number;
  ++figures_.address_units;
  return true;
}

bool Vpc::keep(const Cidr& wanted, SubnetIndex subnet) {
  return wanted.bits == 32 ? subnets_[subnet].occupy(wanted.base) : subnets_[subnet].occupy_prefix(wanted.base);
}

bool Vpc::keep6(SubnetIndex subnet, uint32_t number) {
  Prefixes6& p = prefixes6_[subnet];
  const Cidr chunk = agent::cidr_around(prefix6(subnet, number).base, kChunk6Bits);
  if (number < p.next || p.taken_over.count(number) != 0 || (claims_ != nullptr && !claims_->claim(chunk)))
    return false;
  p.taken_over.insert(number);
  return true;
}

void Vpc::promise(const std::vector<Ip>& in_use, bool prefixes) {
  const std::lock_guard lock(mutex_);
  for (const Ip& ip : in_use) {
    const SubnetIndex subnet = subnet_of(ip);
    if (subnet == agent::kPrimarySubnet) continue;
    const int bits = !ip.is_v4() ? agent::kPrefix6Bits : prefixes ? agent::kPrefixBits : 32;
    const Cidr wanted = agent::cidr_around(ip, bits);
    if (promised_.count(wanted) != 0) continue;
    const auto number = static_cast<uint32_t>(ip.low >> 48);
    if (ip.is_v4() ? keep(wanted, subnet) : number != 0 && keep6(subnet, number)) promised_.insert(wanted);
  }
}

// All or nothing, as EC2 does it.
Ec2Error Vpc::hold(Eni& eni, int count, bool prefixes, std::vector<Cidr>* given) {
  const size_t before = eni.held.size();
  eni.held.reserve(before + static_cast<size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) {
    Ip ip;
    Subnet& subnet = subnets_[eni.subnet];
    const Ec2Error error = prefixes ? subnet.take_prefix(rng_, &ip) : subnet.take_address(rng_, &ip);
    if (error != Ec2Error::kNone) {
      while (eni.held.size() > before) {
        let_go(eni, eni.held.back());
        eni.held.pop_back();
      }
      return error;
    }
    eni.held.push_back({ip.v4_value(), static_cast<uint8_t>(prefixes ? agent::kPrefixBits : 32)});
    ++figures_.address_units;
  }
  for (size_t i = before; given != nullptr && i < eni.held.size(); ++i)
    given->push_back({Ip::v4(eni.held[i].base), eni.held[i].bits});
  return Ec2Error::kNone;
}

void Vpc::let_go(Eni& eni, const Held& held) {
  const Ip base = Ip::v4(held.base);
  if (held.bits == 32) {
    subnets_[eni.subnet].give_back(base);
  } else {
    subnets_[eni.subnet].give_back_prefix(base);
  }
  --figures_.address_units;
}

void Vpc::dissolve(Eni& eni) {
  for (const Held& held : eni.held) let_go(eni, held);
  eni.held.clear();
  if (eni.address != 0) {
    subnets_[eni.subnet].give_back(Ip::v4(eni.address));
    --figures_.address_units;
  }
  if (eni.prefix6 != 0) {
    prefixes6_[eni.subnet].returned.push_back(eni.prefix6);
    --figures_.address_units;
  }
  eni.address = eni.prefix6 = 0;
}

Ec2Error Vpc::take_prefix6(SubnetIndex subnet, uint32_t* number) {
  Prefixes6& p = prefixes6_[subnet];
  if (!spec_.subnets[subnet].ipv6) return Ec2Error::kInvalidParameterValue;
  if (!p.returned.empty()) {
    *number = p.returned.back();
    p.returned.pop_back();
    return Ec2Error::kNone;
  }
  while (p.next < kPrefixes6) {
    const bool begins = p.next % kPrefixes6Chunk == 0 || p.next == 1;
    const Cidr chunk = agent::cidr_around(prefix6(subnet, p.next).base, kChunk6Bits);
    if (begins && claims_ != nullptr && !claims_->claim(chunk)) {
      p.next = (p.next / kPrefixes6Chunk + 1) * kPrefixes6Chunk;
      continue;
    }
    *number = p.next++;
    if (p.taken_over.erase(*number) != 0) continue;
    return Ec2Error::kNone;
  }
  return Ec2Error::kInsufficientCidrBlocks;
}

Cidr Vpc::prefix6(SubnetIndex subnet, uint32_t number) const {
  const Ip base = spec_.subnets[subnet].ipv6->base;
  return {{base.high, base.low | static_cast<uint64_t>(number) << 48}, agent::kPrefix6Bits};
}

bool Vpc::occupy(const Ip& ip) {
  const std::lock_guard lock(mutex_);
  return std::any_of(subnets_.begin(), subnets_.end(), [&ip](Subnet& s) { return s.occupy(ip); });
}

void Vpc::vacate(const Ip& ip) {
  const std::lock_guard lock(mutex_);
  for (Subnet& subnet : subnets_) {
    if (subnet.taken(ip)) subnet.give_back(ip);
  }
}

EniId Vpc::attach_foreign(InstanceId id, uint8_t card, bool no_manage, bool trunk) {
  const std::lock_guard lock(mutex_);
  Instance* instance = find(id);
  if (instance == nullptr) return 0;
  const uint8_t device = free_device(*instance, card, limits_of(*instance).interfaces_per_card);
  Ip ip;
  const SubnetIndex where = instance->enis.front().subnet;
  if (device == UINT8_MAX || subnets_[where].take_address(rng_, &ip) != Ec2Error::kNone) return 0;
  Eni eni;
  eni.id = new_id();
  eni.address = ip.v4_value();
  eni.subnet = where;
  eni.card = card;
  eni.device = device;
  eni.no_manage = no_manage;
  eni.trunk = trunk;
  instance->enis.push_back(std::move(eni));
  ++figures_.interfaces;
  ++figures_.address_units;
  return instance->enis.back().id;
}

void Vpc::detach_foreign(InstanceId id, EniId eni) {
  const std::lock_guard lock(mutex_);
  Instance* instance = find(id);
  Eni* there = instance == nullptr ? nullptr : find_eni(*instance, eni);
  if (there == nullptr) return;
  dissolve(*there);
  std::erase_if(instance->enis, [eni](const Eni& e) { return e.id == eni; });
  --figures_.interfaces;
}

VpcFigures Vpc::figures() const {
  const std::lock_guard lock(mutex_);
  VpcFigures f = figures_;
  for (size_t i = 0; i < subnets_.size(); ++i)
    f.subnets.push_back({spec_.subnets[i].name, static_cast<uint32_t>(subnets_[i].room()), subnets_[i].prefix_room()});
  return f;
}

std::string Vpc::render_metrics() const {
  const VpcFigures f = figures();
  std::string out;
  const auto family = [&out](std::string_view name, std::string_view type, std::string_view help) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  };
  family("ghostfleet_vpc_subnet_free_addresses", "gauge", "Addresses that can be given out");
  for (const SubnetFigures& s : f.subnets)
    out += fmt::format("ghostfleet_vpc_subnet_free_addresses{{subnet=\"{}\"}} {}\n", s.name, s.free_addresses);
  family("ghostfleet_vpc_subnet_free_prefixes", "gauge", "Aligned blocks of 16 addresses that can be given out");
  for (const SubnetFigures& s : f.subnets)
    out += fmt::format("ghostfleet_vpc_subnet_free_prefixes{{subnet=\"{}\"}} {}\n", s.name, s.free_prefixes);
  family("ghostfleet_vpc_interfaces", "gauge", "Network interfaces");
  out += fmt::format("ghostfleet_vpc_interfaces {}\n", f.interfaces);
  family("ghostfleet_vpc_address_units", "gauge", "Network address usage: addresses and prefixes");
  out += fmt::format("ghostfleet_vpc_address_units {}\n", f.address_units);
  family("ghostfleet_vpc_ec2_calls_total", "counter", "Calls of EC2, refused ones among them");
  for (size_t i = 0; i < f.calls.size(); ++i) {
    const auto action = static_cast<Ec2Action>(i);
    if (f.calls[i] == 0 || action == Ec2Action::kDescribeLeaked) continue;
    uint64_t n = f.calls[i];
    if (action == Ec2Action::kDescribeNetworkInterfaces) n += f.calls[static_cast<size_t>(Ec2Action::kDescribeLeaked)];
    out += fmt::format("ghostfleet_vpc_ec2_calls_total{{action=\"{}\"}} {}\n", ec2_action_name(action), n);
  }
  family("ghostfleet_vpc_ec2_throttled_total", "counter", "Calls of EC2 refused with RequestLimitExceeded");
  for (size_t i = 0; i < f.throttled.size(); ++i) {
    if (f.throttled[i] > 0 && static_cast<Ec2Action>(i) != Ec2Action::kDescribeLeaked)
      out += fmt::format("ghostfleet_vpc_ec2_throttled_total{{action=\"{}\"}} {}\n",
                         ec2_action_name(static_cast<Ec2Action>(i)), f.throttled[i]);
  }
  return out;
}

}  // namespace ghostfleet::emulator
