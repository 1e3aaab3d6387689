// The frame: timers, calls and their repeats, the loop, pods.
#include "agent/network/ipam_node.h"

#include <algorithm>

#include "agent/network/ipam_job.h"
#include "agent/network/pool_decisions.h"

namespace ghostfleet::agent {
namespace {

// The standard retryer of the AWS SDK.
constexpr int kMostRepeats = 10;
constexpr double kLongestRepeatSeconds = 20;

Duration repeat_delay(int attempt, Rng& rng) {
  const double most = std::min(static_cast<double>(uint64_t{1} << attempt), kLongestRepeatSeconds);
  return Duration(static_cast<int64_t>(rng.uniform() * most * 1e9));
}

}  // namespace

IpamNode::IpamNode(std::shared_ptr<const IpamConfig> config)
    : config_(std::move(config)),
      next_look_(kIpamNever),
      next_reconcile_(kIpamNever),
      next_sweep_(kIpamNever),
      again_(kIpamNever) {}
IpamNode::IpamNode(IpamNode&&) noexcept = default;
IpamNode& IpamNode::operator=(IpamNode&&) noexcept = default;
IpamNode::~IpamNode() = default;

void IpamNode::begin(IpamHost&, Step step, int card) {
  if (!job_) job_ = std::make_unique<Job>();
  job_->step = step;
  job_->card = card;
}

void IpamNode::issue(IpamHost& host, Ec2Call call) {
  job_->call = std::move(call);
  job_->repeats = 0;
  issue_again(host);
}

void IpamNode::issue_again(IpamHost& host) {
  job_->waiting = false;
  ++counters_.calls[static_cast<size_t>(job_->call.action)];
  arm(host);
  host.call(job_->call);
}

void IpamNode::wait(IpamHost& host, Duration delay) {
  job_->waiting = true;
  job_->due = host.now() + delay;
  arm(host);
}

bool IpamNode::repeat(IpamHost& host, const Ec2Answer& answer) {
  if (!worth_repeating(answer.error) || job_->repeats >= kMostRepeats) return false;
  ++job_->repeats;
  wait(host, repeat_delay(job_->repeats, host.rng()));
  return true;
}

void IpamNode::on_answer(IpamHost& host, const Ec2Answer& answer) {
  if (!job_ || job_->waiting) return;  // of a job that was given up
  const auto action = static_cast<size_t>(job_->call.action);
  counters_.milliseconds[action] += static_cast<float>(static_cast<double>(answer.took.count()) / 1e6);
  if (!answer.ok()) ++counters_.errors[action];
  if (answer.error == Ec2Error::kRequestLimitExceeded) ++counters_.throttled[action];
  if (!repeat(host, answer)) dispatch(host, answer);
}

void IpamNode::dispatch(IpamHost& host, const Ec2Answer& answer) {
  switch (job_->step) {
    case Step::kDescribe: take_description(host, answer); return;
    case Step::kCleanUp:
    case Step::kUnassign: unassign_next(host); return;
    case Step::kAssignV6:
    case Step::kAssign:
    case Step::kAssignOne: assigned(host, answer); return;
    case Step::kReread: reread(host, answer); return;
    case Step::kSubnets:
      job_->subnets = answer.ok() ? answer.subnets : std::vector<SubnetIndex>();
      if (job_->subnets.empty()) job_->subnets = {kPrimarySubnet};
      create_in_next_subnet(host);
      return;
    case Step::kCreate: created(host, answer); return;
    case Step::kAttach: attached(host, answer); return;
    case Step::kModify: modified(host, answer); return;
    case Step::kAwaitMetadata: seen_in_metadata(host, answer); return;
    case Step::kUndoDetach: undo_eni(host, false); return;
    case Step::kUndoDelete: job_done(host); return;
    case Step::kDetach: detached(host, answer); return;
    case Step::kDelete: deleted(host, answer); return;
    case Step::kMetadata:
    case Step::kReconcile: take_truth(host, answer); return;
    case Step::kFindLeaked:
      for (const EniView& view : answer.enis) job_->leaked.push_back(view.id);
      job_->step = Step::kDeleteLeaked;
      delete_next_leaked(host);
      return;
    case Step::kDeleteLeaked: delete_next_leaked(host); return;
  }
}

void IpamNode::job_done(IpamHost& host) {
  const bool failed = job_->failed;
  const Step step = job_->step;
  job_.reset();
  if (state_ == State::kStarting) {
    if (step == Step::kCleanUp) return fill(host);
    const bool empty = config_->custom_networking && stats(host.now()).total == 0;
    return failed || empty ? crash(host) : started(host);
  }
  if (looping_) {
    worked_ = true;
    return run_loop(host);
  }
  if (changed_) changed(host);
  arm(host);
}

void IpamNode::on_timer(IpamHost& host) {
  const TimePoint now = host.now();
  if (state_ == State::kCrashed && restart_at_ <= now) {
    start(host, recovering_ ? std::move(*recovering_) : IpamCheckpoint());
    return;
  }
  if (job_) {
    if (job_->waiting && job_->due <= now) return issue_again(host);
    return arm(host);
  }
  if (state_ != State::kReady) return arm(host);
  if (next_look_ <= now) {
    next_look_ = again_ = kIpamNever;
    cursor_ = 0;
    looping_ = true;
    worked_ = changed_ = false;
    return run_loop(host);
  }
  if (next_reconcile_ <= now) return reconcile(host);
  if (next_sweep_ <= now) return sweep(host);
  arm(host);
}

void IpamNode::run_loop(IpamHost& host) {
  while (!job_) {
    const int card = cursor_ / 2;
    if (card >= static_cast<int>(pools_.size())) return end_loop(host);
    const bool interfaces = cursor_ % 2 == 1;
    ++cursor_;
    if (interfaces) {
      free_eni(host, card);
    } else {
      size_pool(host, card);
    }
  }
}

void IpamNode::end_loop(IpamHost& host) {
  looping_ = false;
  const TimePoint now = host.now();
  if (worked_) origin_ = now;
  if (changed_) again_ = now;
  changed_ = false;
  if (again_ != kIpamNever) next_look_ = beat_after(std::max(again_, now));
  arm(host);
}

// The first beat that is not before `t`, and later than the one just played.
TimePoint IpamNode::beat_after(TimePoint t) const {
  const int64_t beat = config_->loop.count();
  const int64_t since = std::max<int64_t>((t - origin_).count(), 1);
  return origin_ + Duration((since + beat - 1) / beat * beat);
}

void IpamNode::changed(IpamHost& host) {
  if (state_ != State::kReady || config_->ipv6) return;
  if (looping_ || job_) {
    changed_ = true;
    return;
  }
  changed_ = false;
  const TimePoint look = beat_after(host.now());
  if (look >= next_look_) return;
  next_look_ = look;
  arm(host);
}

void IpamNode::arm(IpamHost& host) {
  TimePoint at = kIpamNever;
  if (state_ == State::kCrashed) {
    at = restart_at_;
  } else if (job_) {
    if (job_->waiting) at = job_->due;
  } else if (state_ == State::kReady) {
    at = std::min({next_look_, next_reconcile_, next_sweep_});
  }
  if (at == kIpamNever) {
    host.disarm();
  } else {
    host.arm(at);
  }
}

AddResult IpamNode::add(IpamHost& host, const IpamHolder& holder, bool all_cards) {
  AddResult result;
  if (!ready()) return result;
  ++counters_.add_requests;
  const size_t cards = all_cards ? pools_.size() : 1;
  std::vector<size_t> fresh;
  IpamHolder own = holder;
  own.interfaces = static_cast<int>(cards);
  own.assigned = host.wall_now();
  result.outcome = AddOutcome::kOk;
  for (size_t card = 0; card < cards && result.outcome == AddOutcome::kOk; ++card) {
    if (auto had = pools_[card].find(own.key)) {
      result.addresses.push_back(*had);
    } else if (auto given = pools_[card].assign(own, host.now())) {
      result.addresses.push_back(*given);
      fresh.push_back(card);
    } else {
      result.outcome = AddOutcome::kNoAddress;
      ++counters_.no_available;
    }
  }
  if (result.outcome == AddOutcome::kOk && !fresh.empty() && !host.save()) result.outcome = AddOutcome::kNotSaved;
  if (result.outcome != AddOutcome::kOk) {
    for (const size_t card : fresh) pools_[card].forget(own.key);
    result.addresses.clear();
  }
  if (!fresh.empty()) changed(host);
  return result;
}

bool IpamNode::remove(IpamHost& host, const IpamKey& key) {
  ++counters_.del_requests;
  bool any = false;
  // While the daemon starts, its pods' addresses are still in the checkpoint.
  if (recovering_)
    any = std::erase_if(recovering_->allocations, [&key](const IpamAllocation& a) { return a.holder.key == key; }) > 0;
  for (AddressPool& pool : pools_) {
    Ip ip;
    std::unique_ptr<IpamHolder> holder = pool.release(key, host.now(), &ip);
    if (!holder) continue;
    any = true;
    if (!host.save()) {
      pool.put_back(ip, std::move(holder));
      return false;
    }
  }
  if (any) changed(host);
  return any;
}

void IpamNode::set_schedulable(IpamHost& host, bool schedulable) {
  if (schedulable_ == schedulable) return;
  schedulable_ = schedulable;
  changed(host);
}

PoolStats IpamNode::stats(TimePoint now, int card) const {
  return static_cast<size_t>(card) < pools_.size() ? pools_[static_cast<size_t>(card)].stats(now) : PoolStats();
}

int IpamNode::unmanaged(int card) const {
  return static_cast<size_t>(card) < unmanaged_.size() ? unmanaged_[static_cast<size_t>(card)] : 0;
}

IpamCheckpoint IpamNode::checkpoint() const {
  if (!ready() && recovering_) return *recovering_;
  IpamCheckpoint c;
  for (const AddressPool& pool : pools_) {
    pool.for_each_holder([&c](const PoolEni&, const PoolRange& range, const PoolAddress& address) {
      c.allocations.push_back({*address.holder, range.cidr.base.plus(address.offset)});
    });
  }
  return c;
}

}  // namespace ghostfleet::agent
