// Reconciling with what is attached in truth, and looking for interfaces that were lost on the way.
#include <algorithm>

#include "agent/network/ipam_job.h"

namespace ghostfleet::agent {

void IpamNode::request_reconcile(IpamHost& host) {
  if (state_ != State::kReady || config_->ipv6) return;
  const TimePoint now = host.now();
  last_action_ = now - config_->reconcile_interval - Duration(1);
  next_reconcile_ = beat_after(now);
  arm(host);
}

void IpamNode::reconcile(IpamHost& host) {
  const TimePoint now = host.now();
  if (now - last_action_ <= config_->reconcile_interval && last_action_ + config_->reconcile_interval > now) {
    next_reconcile_ = last_action_ + config_->reconcile_interval;
    return arm(host);
  }
  next_reconcile_ = now + config_->reconcile_interval;
  begin(host, Step::kMetadata, 0);
  Ec2Call call;
  call.action = Ec2Action::kReadMetadata;
  issue(host, call);
}

bool IpamNode::differs(const Ec2Answer& answer) const {
  size_t known = 0, managed = 0, unmanaged_seen = 0, unmanaged_known = 0;
  for (const uint8_t n : unmanaged_) unmanaged_known += n;
  for (const AddressPool& p : pools_) known += p.enis().size();
  for (const EniView& view : answer.enis) {
    if (view.card >= pools_.size()) continue;
    if (view.efa_only || view.no_manage) {
      ++unmanaged_seen;
      continue;
    }
    ++managed;
    const std::vector<PoolEni>& enis = pools_[view.card].enis();
    const auto eni = std::find_if(enis.begin(), enis.end(), [&view](const PoolEni& e) { return e.id == view.id; });
    if (eni == enis.end() || eni->ranges.size() != view.cidrs.size()) return true;
    for (const PoolRange& range : eni->ranges) {
      if (std::find(view.cidrs.begin(), view.cidrs.end(), range.cidr) == view.cidrs.end()) return true;
    }
  }
  return managed != known || unmanaged_seen != unmanaged_known;
}

void IpamNode::take_truth(IpamHost& host, const Ec2Answer& answer) {
  const TimePoint now = host.now();
  std::erase_if(dropped_, [now](const Dropped& d) { return d.until <= now; });
  if (!answer.ok() || answer.enis.empty()) return job_done(host);
  if (job_->step == Step::kMetadata) {
    if (!differs(answer)) {
      last_action_ = now;
      return job_done(host);
    }
    job_->step = Step::kReconcile;
    Ec2Call call;
    call.action = Ec2Action::kDescribeNetworkInterfaces;
    return issue(host, call);
  }
  drop_detached(answer);
  unmanaged_.clear();
  for (const EniView& view : answer.enis) {
    if (view.card >= pools_.size()) continue;
    if (pool(view.card).find_eni(view.id) != nullptr && !view.efa_only && !view.no_manage) {
      match_ranges(host, view);
      continue;
    }
    const size_t before = pool(view.card).enis().size();
    take_eni(view, now);
    if (pool(view.card).enis().size() > before) ++counters_.reconcile_added;
  }
  last_action_ = now;
  changed_ = true;
  job_done(host);
}

void IpamNode::drop_detached(const Ec2Answer& answer) {
  for (AddressPool& p : pools_) {
    std::vector<EniId> gone;
    for (const PoolEni& eni : p.enis()) {
      const auto same = [&eni](const EniView& v) { return v.id == eni.id && !v.no_manage; };
      if (std::none_of(answer.enis.begin(), answer.enis.end(), same)) gone.push_back(eni.id);
    }
    for (const EniId id : gone) {
      int forced = 0;
      p.remove_eni(id, &forced);
      ++counters_.reconcile_deleted;
      if (forced > 0) ++counters_.forced_enis;
      counters_.forced_ips += static_cast<uint32_t>(forced);
    }
  }
}

void IpamNode::match_ranges(IpamHost& host, const EniView& view) {
  AddressPool& p = pool(view.card);
  for (const Cidr& cidr : view.cidrs) {
    if (!dropped_lately(cidr, host.now()) && p.add_range(view.id, cidr)) ++counters_.reconcile_added;
  }
  std::vector<Cidr> gone;
  for (const PoolRange& range : p.find_eni(view.id)->ranges) {
    if (std::find(view.cidrs.begin(), view.cidrs.end(), range.cidr) == view.cidrs.end()) gone.push_back(range.cidr);
  }
  for (const Cidr& cidr : gone) {
    int forced = 0;
    p.remove_range(view.id, cidr, true, &forced);
    ++counters_.reconcile_deleted;
    counters_.forced_ips += static_cast<uint32_t>(forced);
  }
}

void IpamNode::note_dropped(const Cidr& cidr, TimePoint now) {
  std::erase_if(dropped_, [now](const Dropped& d) { return d.until <= now; });
  dropped_.push_back({cidr, now + config_->reconcile_interval});
}

bool IpamNode::dropped_lately(const Cidr& cidr, TimePoint now) const {
  return std::any_of(dropped_.begin(), dropped_.end(),
                     [&](const Dropped& d) { return d.cidr == cidr && d.until > now; });
}

void IpamNode::sweep(IpamHost& host) {
  next_sweep_ = host.now() + config_->leak_sweep;
  begin(host, Step::kFindLeaked, 0);
  Ec2Call call;
  call.action = Ec2Action::kDescribeLeaked;
  issue(host, call);
}

void IpamNode::delete_next_leaked(IpamHost& host) {
  if (job_->leaked.empty()) return job_done(host);
  Ec2Call call;
  call.action = Ec2Action::kDeleteNetworkInterface;
  call.eni = job_->leaked.back();
  job_->leaked.pop_back();
  issue(host, call);
}

}  // namespace ghostfleet::agent
