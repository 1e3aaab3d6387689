// Bringing a pod to its end: containers stop within their grace, then the last status is known.
#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {
constexpr Duration kLeastGrace = std::chrono::seconds(2);  // what a runtime is given at least
}

// When the container will have stopped. One that ends by itself before that does so.
TimePoint Manager::stop_one(Pod& pod, size_t index, TimePoint from, Duration grace) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  Duration wait = std::max(spec.script.stop_after.value_or(options_->stop_after_default), Duration(0));
  wait += spec.pre_stop_sleep;
  int code = spec.script.stop;
  grace = std::max(grace, kLeastGrace);
  if (wait > grace) {
    wait = grace;
    code = 137;
  }
  if (from + wait < run.exit_due) {
    run.exit_due = from + wait;
    run.exit_code = code;
  }
  return run.exit_due;
}

// Regular containers together, then the sidecars, the last one first.
TimePoint Manager::stop_containers(Pod& pod, int64_t grace_seconds) {
  const TimePoint now = host_.now();
  const Duration grace = std::chrono::seconds(grace_seconds);
  TimePoint until = now;
  const auto running = [&](size_t i) { return pod.runs[i].now.state == RunState::kRunning; };
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (running(i)) {
      tell(pod, false, "Killing", "Stopping container " + pod.spec->containers[i].name, static_cast<int>(i));
    }
  }
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (running(i) && !pod.spec->containers[i].sidecar) until = std::max(until, stop_one(pod, i, now, grace));
  }
  for (size_t i = pod.spec->init_count; i-- > 0;) {
    if (!running(i) || !pod.spec->containers[i].sidecar) continue;
    until = std::max(until, stop_one(pod, i, until, grace - (until - now)));
  }
  return until;
}

void Manager::terminate(Pod& pod, Cause cause) {
  if (pod.stage != Stage::kActive) return;
  pod.stage = Stage::kTerminating;
  pod.cause = cause;
  pod.sync_due = pod.deadline_due = pod.token_due = kNever;
  pod.stop_pending = pod.sync_pending = false;
  if (pod.extras != nullptr) pod.extras->mounting.reset();
  if (cause != Cause::kCompleted) compute_status(pod, host_.wall_now());
  if (pod.deadline_hit) tell(pod, false, "DeadlineExceeded", std::string(kDeadlineMessage));
  const int64_t grace = cause == Cause::kDeleted ? pod.deletion_grace : pod.spec->grace_seconds;
  TimePoint until = stop_containers(pod, grace);
  if (cause == Cause::kCompleted && full()) {
    // The sandbox is stopped, and that is seen a look later; two when it was gone before.
    until = tick_after(std::max(until, host_.now() + std::chrono::milliseconds(500)));
    if (pod.kill_all) until = until + std::chrono::seconds(1);
  }
  pod.work = Work::kKilling;
  pod.work_due = until;
}

// Containers of which nothing was seen count as lost, once the pod was initialized.
void Manager::mark_lost(Pod& pod) {
  const auto lose = [](ContainerRun& run) {
    if (run.now.state == RunState::kExited) return;
    run.now = Look{.state = RunState::kExited, .attempt = run.now.attempt, .last = run.now.last};
    run.now.end = Ended{.code = 137, .known = true, .located = false};
    run.probing.reset();
    run.exit_due = kNever;
  };
  const size_t inits = pod.spec->init_count;
  size_t tried = std::min<size_t>(inits, 1);
  bool initialized = true;
  for (size_t i = 0; i < inits; ++i) {
    const ContainerRun& run = pod.runs[i];
    if (run.now.state != RunState::kAbsent) tried = i + 1;
    const bool sidecar = pod.spec->containers[i].sidecar;
    initialized &= run.now.state == RunState::kExited && (sidecar || run.now.end.code == 0);
  }
  for (size_t i = 0; i < tried; ++i) lose(pod.runs[i]);
  if (!initialized && !pod.ever_started) return;
  for (size_t i = inits; i < pod.runs.size(); ++i) lose(pod.runs[i]);
}

void Manager::finish(Pod& pod) {
  pod.work = Work::kNone;
  pod.stage = Stage::kFinished;
  pod.sandbox = false;
  mark_lost(pod);
  for (ContainerRun& run : pod.runs) {
    run.probing.reset();
    run.exit_due = kNever;
  }
  compute_status(pod, host_.wall_now());
  if (pod.deadline_hit) {
    tell(pod, false, "DeadlineExceeded", std::string(kDeadlineMessage));
    request_sync(pod, tick_after(host_.now() + std::chrono::milliseconds(1)));
  }
}

}  // namespace ghostfleet::agent
