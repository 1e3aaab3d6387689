// Starting: what is attached, what an earlier run gave out, and the first filling of the pool.
#include <algorithm>

#include "agent/network/ipam_job.h"
#include "agent/network/pool_decisions.h"

namespace ghostfleet::agent {
namespace {

// The kubelet's back-off for a container that ends.
constexpr Duration kFirstRestart = std::chrono::seconds(10), kLongestRestart = std::chrono::seconds(300);

}  // namespace

void IpamNode::start(IpamHost& host, IpamCheckpoint checkpoint) {
  state_ = State::kStarting;
  ++counters_.starts;
  job_.reset();
  dropped_.clear();
  looping_ = changed_ = worked_ = ever_shrunk_ = false;
  next_look_ = next_reconcile_ = next_sweep_ = again_ = kIpamNever;
  paused_until_ = {};
  recovering_ = checkpoint.allocations.empty() ? nullptr : std::make_unique<IpamCheckpoint>(std::move(checkpoint));
  begin(host, Step::kDescribe, 0);
  Ec2Call describe;
  describe.action = Ec2Action::kDescribeNetworkInterfaces;
  issue(host, describe);
}

void IpamNode::take_description(IpamHost& host, const Ec2Answer& answer) {
  if (!answer.ok() || answer.enis.empty()) return crash(host);
  pools_.clear();
  unmanaged_.clear();
  for (int card = 0; card < config_->managed_cards(); ++card) {
    pools_.emplace_back(static_cast<uint8_t>(card), config_->prefixes(card), config_->ip_cooldown);
  }
  // How old an interface is cannot be seen from here: as old as the daemon.
  for (const EniView& view : answer.enis) take_eni(view, host.now());
  recover(host);
  clean_up(host);
}

void IpamNode::take_eni(const EniView& view, TimePoint created) {
  if (view.card >= pools_.size()) return;
  if (view.efa_only || view.no_manage) {
    unmanaged_.resize(pools_.size());
    ++unmanaged_[view.card];
    return;
  }
  PoolEni eni;
  eni.id = view.id;
  eni.created = created;
  eni.device = view.device;
  eni.primary = view.primary;
  eni.trunk = view.trunk;
  eni.efa = view.efa;
  eni.excluded = view.excluded || (view.primary && config_->custom_networking);
  eni.subnet = view.subnet;
  eni.primary_ip = view.primary_ip;
  eni.ranges.reserve(view.cidrs.size());
  for (const Cidr& cidr : view.cidrs) eni.ranges.push_back({cidr, {}});
  pool(view.card).add_eni(std::move(eni));
}

void IpamNode::recover(IpamHost& host) {
  if (!recovering_) return;
  for (const IpamAllocation& a : recovering_->allocations) {
    const auto takes = [&a](AddressPool& p) { return p.restore(a.ip, a.holder); };
    if (std::none_of(pools_.begin(), pools_.end(), takes)) ++counters_.lost_entries;
  }
  (void)host.save();  // a failure repeats itself at the next pod
}

// The mode was changed: unused ranges of the other kind are given back, used ones stay where they are.
void IpamNode::clean_up(IpamHost& host) {
  job_.reset();
  if (config_->disable_provisioning || config_->ipv6) return fill(host);
  begin(host, Step::kCleanUp, 0);
  for (AddressPool& p : pools_) {
    for (const PoolEni& eni : p.enis()) {
      std::vector<Cidr> unused;
      for (const PoolRange& range : eni.ranges) {
        if (range.is_prefix() != config_->prefixes(p.card()) && range.assigned() == 0) unused.push_back(range.cidr);
      }
      if (!unused.empty()) job_->drop.emplace_back(eni.id, std::move(unused));
    }
    for (const auto& [id, cidrs] : job_->drop) {
      for (const Cidr& cidr : cidrs) p.remove_range(id, cidr, false, nullptr);
    }
  }
  unassign_next(host);
}

void IpamNode::fill(IpamHost& host) {
  if (config_->disable_provisioning) return started(host);
  if (!config_->ipv6) {
    if (may_change() && pool_too_low(*config_, 0, stats(host.now()))) return grow(host, 0);
    if (config_->custom_networking && stats(host.now()).total == 0) return crash(host);
    return started(host);
  }
  const std::vector<PoolEni>& enis = pool(0).enis();
  const auto primary = std::find_if(enis.begin(), enis.end(), [](const PoolEni& e) { return e.primary; });
  if (primary == enis.end()) return crash(host);
  for (const PoolRange& range : primary->ranges) {
    if (!range.cidr.base.is_v4()) return started(host);
  }
  begin(host, Step::kAssignV6, 0);
  Ec2Call call;
  call.action = Ec2Action::kAssignIpv6Addresses;
  call.prefixes = true;
  call.count = 1;
  call.eni = job_->eni = primary->id;
  issue(host, call);
}

void IpamNode::started(IpamHost& host) {
  state_ = State::kReady;
  job_.reset();
  recovering_.reset();
  crashes_ = 0;
  const TimePoint now = host.now();
  origin_ = now - config_->loop / 2;
  last_action_ = now;
  if (!config_->ipv6) {
    next_look_ = beat_after(now);
    next_reconcile_ = now + config_->reconcile_interval;
    if (config_->leak_sweep > Duration(0) && !config_->disable_provisioning)
      next_sweep_ = now + host.rng().between(Duration(0), config_->leak_sweep_jitter + Duration(1));
  }
  arm(host);
}

void IpamNode::crash(IpamHost& host) {
  job_.reset();
  state_ = State::kCrashed;
  ++counters_.failed_starts;
  restart_at_ = host.now() + std::min(kFirstRestart * (1 << std::min<int>(crashes_, 5)), kLongestRestart);
  if (crashes_ < 255) ++crashes_;
  arm(host);
}

}  // namespace ghostfleet::agent
