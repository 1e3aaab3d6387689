// The EC2 API: what each call does to an instance's interfaces.
#include <algorithm>

#include "emulator/vpc/vpc.h"

namespace ghostfleet::emulator {

using agent::Cidr;
using agent::Ec2Action;
using agent::Ec2Answer;
using agent::Ec2Call;
using agent::Ec2Error;
using agent::EniId;
using agent::EniView;
using agent::Ip;
using agent::SubnetIndex;

namespace {

// An interface that is younger may still be on its way to its instance.
constexpr Duration kLeakAge = std::chrono::minutes(5);

}  // namespace

Ec2Ticket Vpc::begin(Ec2Action action, TimePoint now) {
  const std::lock_guard lock(mutex_);
  ++figures_.calls[static_cast<size_t>(action)];
  Ec2Ticket t;
  t.refused = !throttle_.admit(action, now);
  if (t.refused) ++figures_.throttled[static_cast<size_t>(action)];
  t.took = t.refused ? spec_.latencies.refusal : Ec2Throttle::latency(spec_.latencies, action, rng_);
  t.due = now + t.took;
  return t;
}

Ec2Answer Vpc::finish(InstanceId id, const Ec2Call& call, const Ec2Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  Ec2Answer out;
  out.took = ticket.took;
  Instance* instance = find(id);
  if (ticket.refused) {
    out.error = Ec2Error::kRequestLimitExceeded;
  } else if (instance == nullptr) {
    out.error = Ec2Error::kInvalidNetworkInterfaceNotFound;
  } else {
    carry_out(id, *instance, call, ticket.due, &out);
  }
  return out;
}

void Vpc::carry_out(InstanceId id, Instance& instance, const Ec2Call& call, TimePoint now, Ec2Answer* out) {
  switch (call.action) {
    case Ec2Action::kAssignPrivateIpAddresses: return assign(instance, call, out);
    case Ec2Action::kAssignIpv6Addresses: return assign6(instance, call, out);
    case Ec2Action::kUnassignPrivateIpAddresses: return unassign(instance, call, out);
    case Ec2Action::kCreateNetworkInterface: return create_eni(id, instance, call, now, out);
    case Ec2Action::kAttachNetworkInterface: return attach(instance, call, out);
    case Ec2Action::kDetachNetworkInterface: return detach(id, instance, call, now, out);
    case Ec2Action::kDeleteNetworkInterface: return remove(call, out);
    case Ec2Action::kModifyNetworkInterfaceAttribute:
      if (find_eni(instance, call.eni) == nullptr) out->error = Ec2Error::kInvalidNetworkInterfaceNotFound;
      return;
    case Ec2Action::kDescribeNetworkInterfaces:
    case Ec2Action::kReadMetadata: return describe(instance, call, out);
    case Ec2Action::kDescribeLeaked: return describe_leaked(id, now, out);
    case Ec2Action::kDescribeSubnets: return describe_subnets(instance, out);
    case Ec2Action::kRunInstances:
    case Ec2Action::kCount: out->error = Ec2Error::kInvalidParameterValue; return;
  }
}

void Vpc::assign(Instance& instance, const Ec2Call& call, Ec2Answer* out) {
  Eni* eni = find_eni(instance, call.eni);
  if (eni == nullptr || eni->efa_only) {
    out->error = Ec2Error::kInvalidNetworkInterfaceNotFound;
    return;
  }
  if (call.prefixes && !limits_of(instance).nitro) {
    out->error = Ec2Error::kInvalidParameterValue;
    return;
  }
  if (static_cast<int>(eni->held.size()) + call.count > limits_of(instance).ipv4_per_interface - 1) {
    out->error = Ec2Error::kPrivateIpAddressLimitExceeded;
    return;
  }
  out->error = hold(*eni, call.count, call.prefixes, &out->cidrs);
}

void Vpc::assign6(Instance& instance, const Ec2Call& call, Ec2Answer* out) {
  Eni* eni = find_eni(instance, call.eni);
  if (eni == nullptr) {
    out->error = Ec2Error::kInvalidNetworkInterfaceNotFound;
    return;
  }
  if (eni->prefix6 == 0) {
    out->error = take_prefix6(eni->subnet, &eni->prefix6);
    if (!out->ok()) return;
    ++figures_.address_units;
  }
  out->cidrs.push_back(prefix6(eni->subnet, eni->prefix6));
}

void Vpc::unassign(Instance& instance, const Ec2Call& call, Ec2Answer* out) {
  Eni* eni = find_eni(instance, call.eni);
  if (eni == nullptr) {
    out->error = Ec2Error::kInvalidNetworkInterfaceNotFound;
    return;
  }
  const auto named = [&call](const Held& held) {
    const Cidr cidr{Ip::v4(held.base), held.bits};
    return std::find(call.cidrs.begin(), call.cidrs.end(), cidr) != call.cidrs.end();
  };
  for (const Held& held : eni->held) {
    if (named(held)) let_go(*eni, held);
  }
  std::erase_if(eni->held, named);
}

void Vpc::create_eni(InstanceId id, Instance& instance, const Ec2Call& call, TimePoint now, Ec2Answer* out) {
  if (figures_.interfaces >= static_cast<uint64_t>(spec_.max_interfaces)) {
    out->error = Ec2Error::kNetworkInterfaceLimitExceeded;
    return;
  }
  Eni eni;
  eni.subnet = call.subnet == agent::kPrimarySubnet ? instance.enis.front().subnet : call.subnet;
  if (eni.subnet >= subnets_.size() || spec_.subnets[eni.subnet].zone != zones_[instance.zone]) {
    out->error = Ec2Error::kInvalidParameterValue;
    return;
  }
  Ip ip;
  out->error = subnets_[eni.subnet].take_address(rng_, &ip);
  if (!out->ok()) return;
  eni.address = ip.v4_value();
  ++figures_.address_units;
  out->error = hold(eni, call.count, call.prefixes, &out->cidrs);
  if (!out->ok()) return dissolve(eni);
  out->eni = eni.id = new_id();
  ++figures_.interfaces;
  loose_[eni.id] = {std::move(eni), id, now};
}

uint8_t Vpc::free_device(const Instance& instance, uint8_t card, int most) {
  for (int device = 0; device < most; ++device) {
    const auto used = [&](const Eni& e) { return e.card == card && e.device == device; };
    if (std::none_of(instance.enis.begin(), instance.enis.end(), used)) return static_cast<uint8_t>(device);
  }
  return UINT8_MAX;
}

void Vpc::attach(Instance& instance, const Ec2Call& call, Ec2Answer* out) {
  const auto it = loose_.find(call.eni);
  if (it == loose_.end()) {
    out->error = Ec2Error::kInvalidNetworkInterfaceNotFound;
    return;
  }
  const agent::InstanceLimits& limits = limits_of(instance);
  const uint8_t device = call.card < limits.cards ? free_device(instance, call.card, limits.interfaces_per_card) : 255;
  if (device == UINT8_MAX) {
    out->error = Ec2Error::kAttachmentLimitExceeded;
    return;
  }
  Eni eni = std::move(it->second.eni);
  loose_.erase(it);
  eni.card = call.card;
  eni.device = device;
  instance.enis.push_back(std::move(eni));
}

void Vpc::detach(InstanceId id, Instance& instance, const Ec2Call& call, TimePoint now, Ec2Answer* out) {
  Eni* eni = find_eni(instance, call.eni);
  if (eni == nullptr || eni->primary) {
    out->error = Ec2Error::kInvalidNetworkInterfaceNotFound;
    return;
  }
  loose_[eni->id] = {std::move(*eni), id, now};
  instance.enis.erase(instance.enis.begin() + (eni - instance.enis.data()));
}

void Vpc::remove(const Ec2Call& call, Ec2Answer* out) {
  const auto it = loose_.find(call.eni);
  if (it == loose_.end()) {
    out->error = Ec2Error::kInvalidNetworkInterfaceNotFound;
    return;
  }
  dissolve(it->second.eni);
  loose_.erase(it);
  --figures_.interfaces;
}

EniView Vpc::view(const Eni& eni) const {
  EniView v;
  v.id = eni.id;
  v.card = eni.card;
  v.device = eni.device;
  v.primary = eni.primary;
  v.trunk = eni.trunk;
  v.efa = eni.efa;
  v.efa_only = eni.efa_only;
  v.no_manage = eni.no_manage;
  v.excluded = spec_.subnets[eni.subnet].excluded;
  v.subnet = eni.subnet;
  v.primary_ip = Ip::v4(eni.address);
  v.cidrs.reserve(eni.held.size() + (eni.prefix6 != 0 ? 1 : 0));
  for (const Held& held : eni.held) v.cidrs.push_back({Ip::v4(held.base), held.bits});
  if (eni.prefix6 != 0) v.cidrs.push_back(prefix6(eni.subnet, eni.prefix6));
  return v;
}

void Vpc::describe(const Instance& instance, const Ec2Call& call, Ec2Answer* out) const {
  out->enis.reserve(call.eni == 0 ? instance.enis.size() : 1);
  for (const Eni& eni : instance.enis) {
    if (call.eni == 0 || call.eni == eni.id) out->enis.push_back(view(eni));
  }
}

void Vpc::describe_leaked(InstanceId id, TimePoint now, Ec2Answer* out) const {
  for (const auto& [eni_id, loose] : loose_) {
    if (loose.owner == id && now - loose.since >= kLeakAge) out->enis.push_back(view(loose.eni));
  }
}

// The instance's own subnet and those of its zone that are tagged for pods; most free addresses first.
void Vpc::describe_subnets(const Instance& instance, Ec2Answer* out) const {
  const SubnetIndex own = instance.enis.front().subnet;
  for (size_t i = 0; i < spec_.subnets.size(); ++i) {
    const VpcSubnet& s = spec_.subnets[i];
    if (s.zone != zones_[instance.zone] || s.excluded || (i != own && !s.for_pods)) continue;
    out->subnets.push_back(static_cast<SubnetIndex>(i));
  }
  std::stable_sort(out->subnets.begin(), out->subnets.end(),
                   [this](SubnetIndex a, SubnetIndex b) { return subnets_[a].room() > subnets_[b].room(); });
}

}  // namespace ghostfleet::emulator
