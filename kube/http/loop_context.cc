#include "kube/http/loop_context.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace ghostfleet::kube::http {

std::shared_ptr<LoopContext> LoopContext::of(EventLoop& loop) {
  static std::mutex mutex;
  static std::map<EventLoop*, std::weak_ptr<LoopContext>> contexts;
  const std::lock_guard lock(mutex);
  std::weak_ptr<LoopContext>& known = contexts[&loop];
  std::shared_ptr<LoopContext> context = known.lock();
  if (context) return context;
  std::erase_if(contexts, [&](const auto& item) { return item.first != &loop && item.second.expired(); });
  context = std::make_shared<LoopContext>(loop);
  contexts[&loop] = context;
  return context;
}

LoopContext::LoopContext(EventLoop& loop)
    : loop_(loop), wheel_(loop.now(), kTick), read_buffer_(std::make_unique<char[]>(kReadBytes)) {}

LoopContext::TimerId LoopContext::acquire_timer(TimerTarget* target, uint64_t cookie) {
  if (free_timers_.empty()) {
    const auto old_size = static_cast<TimerId>(timers_.size());
    const TimerId size = std::max<TimerId>(64, old_size * 2);
    timers_.resize(size);
    wheel_.resize(size);
    for (TimerId id = size; id-- > old_size;) free_timers_.push_back(id);
  }
  const TimerId id = free_timers_.back();
  free_timers_.pop_back();
  timers_[id] = {target, cookie};
  return id;
}

void LoopContext::release_timer(TimerId id) {
  wheel_.cancel(id);
  timers_[id] = {};
  free_timers_.push_back(id);
}

void LoopContext::arm(TimerId id, TimePoint deadline) {
  // A wheel without timers stands still: it jumps to now instead of walking there later.
  if (wheel_.armed_count() == 0) wheel_.advance(now(), [](TimerWheel::Index) {});
  wheel_.arm(id, deadline);
  wake_at(deadline + kTick);  // the wheel rounds up to its tick
}

// The next tick comes at `at` or sooner.
void LoopContext::wake_at(TimePoint at) {
  if (tick_at_ != TimePoint{} && tick_at_ <= at) return;
  if (tick_at_ != TimePoint{}) loop_.cancel(tick_timer_);
  tick_at_ = at;
  tick_timer_ = loop_.run_after(std::max(at - now(), Duration(0)), [self = weak_from_this()] {
    if (const auto context = self.lock()) context->tick();
  });
}

void LoopContext::tick() {
  tick_at_ = now();  // what is armed below is planned for at the end
  wheel_.advance(tick_at_, [this](TimerWheel::Index id) {
    const Timer timer = timers_[id];
    if (timer.target) timer.target->on_timer(timer.cookie);
  });
  tick_at_ = TimePoint{};
  if (wheel_.armed_count() > 0) wake_at(std::max(wheel_.next_deadline_hint(now()), now() + kTick));
}

void LoopContext::schedule_flush(std::shared_ptr<Flushable> target) {
  std::shared_ptr<Batch> batch = batch_.lock();
  if (!batch) {
    batch = std::make_shared<Batch>();
    batch->targets.swap(spare_);
    batch_ = batch;
    loop_.post([self = shared_from_this(), batch] {
      self->batch_.reset();
      for (const std::shared_ptr<Flushable>& due : batch->targets) due->flush();
      batch->targets.clear();
      self->spare_.swap(batch->targets);
    });
  }
  batch->targets.push_back(std::move(target));
}

}  // namespace ghostfleet::kube::http
