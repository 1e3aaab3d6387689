// Shrinking: ranges without a pod are given back, then interfaces without a pod.
#include <algorithm>

#include "agent/network/ipam_job.h"
#include "agent/network/pool_decisions.h"

namespace ghostfleet::agent {
namespace {

constexpr int kMostTries = 12;
constexpr Duration kFirstDetachWait = std::chrono::milliseconds(200), kFirstDeleteWait = std::chrono::milliseconds(500);

}  // namespace

// The newest go first. Whether their addresses cool is not asked: the real daemon does not either.
void IpamNode::shrink(IpamHost& host, int card) {
  const TimePoint now = host.now();
  if (ever_shrunk_ && now - last_shrink_ <= config_->shrink_interval)
    return look_again(last_shrink_ + config_->shrink_interval + Duration(1));
  ever_shrunk_ = true;
  last_shrink_ = last_action_ = now;
  auto over = static_cast<size_t>(shrink_amount(*config_, card, stats(now, card)));
  begin(host, Step::kUnassign, card);
  const std::vector<PoolEni>& enis = pool(card).enis();
  for (auto eni = enis.rbegin(); eni != enis.rend(); ++eni) {
    std::vector<Cidr> unused;
    for (auto range = eni->ranges.rbegin(); range != eni->ranges.rend(); ++range) {
      if (unused.size() < over && range->assigned() == 0) unused.push_back(range->cidr);
    }
    over -= unused.size();
    if (!unused.empty()) job_->drop.emplace_back(eni->id, std::move(unused));
  }
  for (const auto& [id, cidrs] : job_->drop) {
    for (const Cidr& cidr : cidrs) {
      pool(card).remove_range(id, cidr, false, nullptr);
      note_dropped(cidr, now);
    }
  }
  look_again(now);
  unassign_next(host);
}

// What EC2 does not take back is learned again by reconciling.
void IpamNode::unassign_next(IpamHost& host) {
  if (job_->drop_cursor == job_->drop.size()) return job_done(host);
  auto& [id, cidrs] = job_->drop[job_->drop_cursor++];
  Ec2Call call;
  call.action = Ec2Action::kUnassignPrivateIpAddresses;
  call.prefixes = cidrs.front().host_bits() > 0;
  call.eni = id;
  call.cidrs = std::move(cidrs);
  issue(host, call);
}

void IpamNode::free_eni(IpamHost& host, int card) {
  if (config_->disable_provisioning || !may_change()) return;
  const TimePoint now = host.now();
  if (!may_remove_eni(*config_, card, stats(now, card), pool(card).has_unused_eni())) return;
  const KeepWarm keep{config_->warm_ips(card), config_->minimum_ips(card),
                      config_->prefixes(card) ? config_->warm_prefix_target : 0};
  TimePoint later = kIpamNever;
  const PoolEni* eni = pool(card).deletable(keep, config_->min_eni_age, now, &later);
  if (eni == nullptr) return look_again(later);
  begin(host, Step::kDetach, card);
  Ec2Call call;
  call.action = Ec2Action::kDetachNetworkInterface;
  call.eni = job_->eni = eni->id;
  pool(card).remove_eni(eni->id, nullptr);
  look_again(now);
  issue(host, call);
}

void IpamNode::detached(IpamHost& host, const Ec2Answer& answer) {
  if (!answer.ok() && answer.error != Ec2Error::kInvalidNetworkInterfaceNotFound) {
    if (++job_->tries < kMostTries) return wait(host, kFirstDetachWait * (1 << (job_->tries - 1)));
    ++counters_.eni_failures;
    return job_done(host);
  }
  job_->step = Step::kDelete;
  job_->tries = 0;
  Ec2Call call;
  call.action = Ec2Action::kDeleteNetworkInterface;
  call.eni = job_->eni;
  issue(host, call);
}

void IpamNode::deleted(IpamHost& host, const Ec2Answer& answer) {
  if (!answer.ok() && answer.error != Ec2Error::kInvalidNetworkInterfaceNotFound) {
    if (++job_->tries < kMostTries) return wait(host, kFirstDeleteWait * (1 << (job_->tries - 1)));
    ++counters_.eni_failures;
    return job_done(host);
  }
  last_action_ = host.now();
  job_done(host);
}

}  // namespace ghostfleet::agent
