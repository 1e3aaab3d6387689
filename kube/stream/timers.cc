#include "kube/stream/timers.h"

namespace ghostfleet::kube::stream {
namespace {

class LoopTimers final : public Timers {
 public:
  explicit LoopTimers(EventLoop& loop) : loop_(loop) {}
  TimePoint now() const override { return loop_.now(); }
  Id run_after(Duration delay, std::function<void()> task) override { return loop_.run_after(delay, std::move(task)); }
  void cancel(Id id) override { loop_.cancel(id); }

 private:
  EventLoop& loop_;
};

}  // namespace

std::shared_ptr<Timers> loop_timers(EventLoop& loop) { return std::make_shared<LoopTimers>(loop); }

}  // namespace ghostfleet::kube::stream
