// Growing: more addresses on an interface that has room, else a new interface.
#include <algorithm>

#include "agent/network/ipam_job.h"
#include "agent/network/pool_decisions.h"

namespace ghostfleet::agent {
namespace {

constexpr int kMetadataTries = 12;
constexpr Duration kFirstMetadataWait = std::chrono::milliseconds(100), kLongestMetadataWait = std::chrono::seconds(60);

}  // namespace

void IpamNode::size_pool(IpamHost& host, int card) {
  if (config_->disable_provisioning || !may_change()) return;
  const PoolStats s = stats(host.now(), card);
  if (pool_too_low(*config_, card, s)) {
    grow(host, card);
  } else if (pool_too_high(*config_, card, s)) {
    shrink(host, card);
  }
}

void IpamNode::grow(IpamHost& host, int card) {
  if (host.now() < paused_until_) return look_again(paused_until_);
  begin(host, Step::kAssign, card);
  grow_next_eni(host);
}

void IpamNode::grow_next_eni(IpamHost& host) {
  const int card = job_->card;
  const std::vector<PoolEni>& enis = pool(card).enis();
  const int wanted = grow_amount(*config_, card, stats(host.now(), card));
  for (; job_->eni_cursor < enis.size(); ++job_->eni_cursor) {
    const PoolEni& eni = enis[job_->eni_cursor];
    const int room = config_->slots() - static_cast<int>(eni.ranges.size());
    if (eni.trunk || eni.excluded || room <= 0 || (eni.primary && config_->custom_networking)) continue;
    job_->step = Step::kAssign;
    Ec2Call call;
    call.action = Ec2Action::kAssignPrivateIpAddresses;
    call.prefixes = config_->prefixes(card);
    call.count = static_cast<uint16_t>(std::min(room, wanted));
    call.eni = job_->eni = eni.id;
    return issue(host, call);
  }
  if (room_for_eni(card)) return new_eni(host);
  // A full subnet is asked again at the next beat; a full instance is not until something changes.
  if (job_->full) look_again(host.now());
  job_done(host);
}

void IpamNode::assigned(IpamHost& host, const Ec2Answer& answer) {
  if (answer.ok()) {
    AddressPool& p = pool(job_->card);
    if (PoolEni* eni = p.find_eni(job_->eni)) eni->ranges.reserve(eni->ranges.size() + answer.cidrs.size());
    for (const Cidr& cidr : answer.cidrs) p.add_range(job_->eni, cidr);
    return grown(host);
  }
  ++counters_.grow_failures;
  if (job_->step == Step::kAssignV6) {
    job_->failed = true;
    return job_done(host);
  }
  if (answer.error == Ec2Error::kPrivateIpAddressLimitExceeded) {
    job_->step = Step::kReread;
    Ec2Call call;
    call.action = Ec2Action::kDescribeNetworkInterfaces;
    call.eni = job_->eni;
    return issue(host, call);
  }
  if (job_->step == Step::kAssign) {
    job_->step = Step::kAssignOne;
    Ec2Call call = job_->call;
    call.count = 1;
    return issue(host, call);
  }
  if (!out_of_space(answer.error)) {
    job_->failed = true;
    look_again(host.now());
    return job_done(host);
  }
  job_->full = true;
  if (config_->subnet_discovery) {
    ++job_->eni_cursor;
    return grow_next_eni(host);
  }
  pause(host);
  job_done(host);
}

void IpamNode::reread(IpamHost& host, const Ec2Answer& answer) {
  if (!answer.ok()) {
    job_->failed = true;
    look_again(host.now());
    return job_done(host);
  }
  for (const EniView& view : answer.enis) {
    if (view.id != job_->eni) continue;
    for (const Cidr& cidr : view.cidrs) pool(job_->card).add_range(view.id, cidr);
  }
  grown(host);
}

// A trunk interface that is still to come gets a place.
bool IpamNode::room_for_eni(int card) const {
  const std::vector<PoolEni>& enis = pools_[static_cast<size_t>(card)].enis();
  const int reserved = card == 0 && config_->pod_eni && !pools_[0].has_trunk() ? 1 : 0;
  return static_cast<int>(enis.size()) < config_->enis() - unmanaged(card) - reserved;
}

void IpamNode::new_eni(IpamHost& host) {
  if (grow_amount_of_new_eni(*config_, job_->card, stats(host.now(), job_->card)) <= 0) return job_done(host);
  job_->subnets = {config_->custom_networking ? config_->eni_config_subnet : kPrimarySubnet};
  job_->subnet_cursor = 0;
  if (config_->custom_networking || !config_->subnet_discovery) return create_in_next_subnet(host);
  job_->step = Step::kSubnets;
  Ec2Call call;
  call.action = Ec2Action::kDescribeSubnets;
  issue(host, call);
}

void IpamNode::create_in_next_subnet(IpamHost& host) {
  if (job_->subnet_cursor == job_->subnets.size()) {
    if (job_->full) pause(host);
    look_again(job_->full ? paused_until_ : host.now());
    return job_done(host);
  }
  job_->step = Step::kCreate;
  Ec2Call call;
  call.action = Ec2Action::kCreateNetworkInterface;
  call.prefixes = config_->prefixes(job_->card);
  call.card = static_cast<uint8_t>(job_->card);
  call.count = static_cast<uint16_t>(grow_amount_of_new_eni(*config_, job_->card, stats(host.now(), job_->card)));
  call.subnet = job_->subnets[job_->subnet_cursor++];
  issue(host, call);
}

void IpamNode::created(IpamHost& host, const Ec2Answer& answer) {
  if (!answer.ok()) {
    ++counters_.eni_failures;
    job_->full |= out_of_space(answer.error);
    // Another subnet does not help against anything else.
    if (!out_of_space(answer.error)) job_->subnet_cursor = job_->subnets.size();
    return create_in_next_subnet(host);
  }
  job_->eni = answer.eni;
  job_->step = Step::kAttach;
  Ec2Call call;
  call.action = Ec2Action::kAttachNetworkInterface;
  call.eni = answer.eni;
  call.card = static_cast<uint8_t>(job_->card);
  issue(host, call);
}

void IpamNode::attached(IpamHost& host, const Ec2Answer& answer) {
  if (!answer.ok()) {
    ++counters_.eni_failures;
    return undo_eni(host, false);
  }
  job_->step = Step::kModify;
  Ec2Call call;
  call.action = Ec2Action::kModifyNetworkInterfaceAttribute;
  call.eni = job_->eni;
  issue(host, call);
}

void IpamNode::modified(IpamHost& host, const Ec2Answer& answer) {
  if (!answer.ok()) {
    ++counters_.eni_failures;
    return undo_eni(host, true);
  }
  job_->step = Step::kAwaitMetadata;
  job_->tries = 0;
  job_->call = Ec2Call();
  job_->call.action = Ec2Action::kReadMetadata;
  wait(host, kFirstMetadataWait);
}

void IpamNode::seen_in_metadata(IpamHost& host, const Ec2Answer& answer) {
  for (const EniView& view : answer.enis) {
    if (view.id != job_->eni) continue;
    take_eni(view, host.now());
    return grown(host);
  }
  if (++job_->tries < kMetadataTries)
    return wait(host, std::min(kFirstMetadataWait * (1 << job_->tries), kLongestMetadataWait));
  ++counters_.eni_failures;  // reconciling will find it
  look_again(host.now());
  job_done(host);
}

void IpamNode::undo_eni(IpamHost& host, bool detach) {
  job_->step = detach ? Step::kUndoDetach : Step::kUndoDelete;
  look_again(host.now());
  Ec2Call call;
  call.action = detach ? Ec2Action::kDetachNetworkInterface : Ec2Action::kDeleteNetworkInterface;
  call.eni = job_->eni;
  issue(host, call);
}

void IpamNode::pause(IpamHost& host) {
  paused_until_ = host.now() + config_->space_pause;
  look_again(paused_until_);
}

void IpamNode::grown(IpamHost& host) {
  last_action_ = host.now();
  look_again(last_action_);
  job_done(host);
}

}  // namespace ghostfleet::agent
