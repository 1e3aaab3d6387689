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
  if (!ticking_) {
    // The wheel stood still: it must not take a deadline for a tick it has not walked to.
    wheel_.advance(now(), [](TimerWheel::Index) {});
    ticking_ = true;
    loop_.run_after(kTick, [self = weak_from_this()] {
      if (const auto context = self.lock()) context->tick();
    });
  }
  wheel_.arm(id, deadline);
}

void LoopContext::tick() {
  wheel_.advance(now(), [this](TimerWheel::Index id) {
    const Timer timer = timers_[id];
    if (timer.target) timer.target->on_timer(timer.cookie);
  });
  ticking_ = wheel_.armed_count() > 0;
  if (!ticking_) return;
  loop_.run_after(kTick, [self = weak_from_this()] {
    if (const auto context = self.lock()) context->tick();
  });
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
