#include "base/event_loop.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <unordered_map>

namespace ghostfleet {

namespace asio = boost::asio;

struct EventLoop::Impl {
  asio::io_context io{1};
  std::unordered_map<TimerId, asio::steady_timer> timers;
  TimerId next_timer = 1;
  std::atomic<std::thread::id> thread{};
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  impl_->thread = std::this_thread::get_id();
  const auto work = asio::make_work_guard(impl_->io);
  impl_->io.run();
  impl_->io.restart();
}

void EventLoop::run_for(Duration d) {
  impl_->thread = std::this_thread::get_id();
  const auto work = asio::make_work_guard(impl_->io);
  impl_->io.run_for(d);
  impl_->io.restart();
}

void EventLoop::stop() { impl_->io.stop(); }

bool EventLoop::in_loop_thread() const { return impl_->thread.load() == std::this_thread::get_id(); }

void EventLoop::post(Task task) { asio::post(impl_->io, std::move(task)); }

EventLoop::TimerId EventLoop::run_after(Duration delay, Task task) {
  const TimerId id = impl_->next_timer++;
  auto [it, inserted] = impl_->timers.try_emplace(id, impl_->io, delay);
  it->second.async_wait([this, id, task = std::move(task)](const boost::system::error_code& error) {
    if (error || impl_->timers.erase(id) == 0) return;
    task();
  });
  return id;
}

void EventLoop::cancel(TimerId id) { impl_->timers.erase(id); }

TimePoint EventLoop::now() const { return SystemClock::instance().now(); }

void* EventLoop::native() const { return &impl_->io; }

}  // namespace ghostfleet
