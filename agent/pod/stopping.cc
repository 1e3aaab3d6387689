// Bringing a pod to its end: containers stop within their grace, then the last status is known.
#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {
constexpr Duration kLeastGrace = std::chrono::seconds(2);  // what a runtime is given at least
}

// When the container will have stopped: after its preStop hook, its turn (`turn`: when those before it have stopped)
// and what it takes to stop. One that ends by itself before that does so.
TimePoint Manager::stop_one(Pod& pod, size_t index, TimePoint from, int64_t grace_seconds, TimePoint turn) {
  const Script& script = script_of(pod, index);
  ContainerRun& run = pod.runs[index];
  const auto whole_seconds = [](Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); };
  const Duration hook = pre_stop(pod, index, grace_seconds);
  int64_t left = grace_seconds - whole_seconds(hook);
  TimePoint begin = from + hook;
  if (turn > begin && left > 0) {
    const Duration wait = std::min<Duration>(turn - begin, std::chrono::seconds(left));
    left -= whole_seconds(wait);
    begin = begin + wait;
  }
  const Duration grace = std::max<Duration>(std::chrono::seconds(left), kLeastGrace);
  Duration wait = std::max(script.stop_after.value_or(options_->stop_after_default), Duration(0));
  int code = script.stop;
  if (wait > grace) {
    wait = grace;
    code = 137;
  }
  if (begin + wait < run.exit_due) {
    run.exit_due = begin + wait;
    run.exit_code = code;
  }
  return run.exit_due;
}

// All together, but a sidecar after the regular containers and the sidecars behind it.
TimePoint Manager::stop_containers(Pod& pod, int64_t grace_seconds) {
  const TimePoint now = host_.now();
  TimePoint until = now;
  const auto running = [&](size_t i) { return pod.runs[i].now.state == RunState::kRunning; };
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (running(i)) {
      tell(pod, false, "Killing", "Stopping container " + pod.spec->containers[i].name, static_cast<int>(i));
    }
  }
  TimePoint turn = now;
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (!running(i) || pod.spec->containers[i].sidecar) continue;
    const TimePoint end = stop_one(pod, i, now, grace_seconds, now);
    until = std::max(until, end);
    const bool regular = i >= pod.spec->init_count && i < pod.spec->regular_end();
    if (regular) turn = std::max(turn, end);
  }
  for (size_t i = pod.spec->init_count; i-- > 0;) {
    if (!running(i) || !pod.spec->containers[i].sidecar) continue;
    turn = std::max(turn, stop_one(pod, i, now, grace_seconds, turn));
  }
  return std::max(until, turn);
}

void Manager::terminate(Pod& pod, Cause cause) {
  if (pod.stage != Stage::kActive) return;
  pod.stage = Stage::kTerminating;
  pod.cause = cause;
  pod.sync_due = pod.deadline_due = pod.token_due = kNever;
  pod.stop_pending = pod.sync_pending = false;
  if (pod.extras != nullptr) {
    pod.extras->mounting.reset();
    pod.extras->next.reset();
    pod.extras->victims.clear();
  }
  // Readiness is asked until the containers stop.
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    end_tally(pod, i, ProbeKind::kStartup, host_.now());
    end_tally(pod, i, ProbeKind::kLiveness, host_.now());
  }
  pod.was_initialized = has_initialized(pod);
  if (cause != Cause::kCompleted) compute_status(pod, host_.wall_now());
  if (pod.deadline_hit) tell(pod, false, "DeadlineExceeded", std::string(kDeadlineMessage));
  int64_t grace = cause == Cause::kDeleted ? pod.deletion_grace : pod.spec->grace_seconds;
  if (pod.extras != nullptr && pod.extras->grace_override >= 0) grace = pod.extras->grace_override;
  TimePoint until = stop_containers(pod, grace);
  if (cause == Cause::kCompleted && full()) {
    // The sandbox is stopped, and that is seen a look later; two when it was gone before.
    until = tick_after(std::max(until, host_.now() + std::chrono::milliseconds(500)));
    if (pod.kill_all) until = until + std::chrono::seconds(1);
  }
  pod.work = Work::kKilling;
  pod.work_due = until;
}

// As the status told it: its last init container has succeeded, or a regular one has run.
bool Manager::has_initialized(const Pod& pod) {
  const size_t inits = pod.spec->init_count;
  if (inits == 0) return true;
  for (size_t i = inits; i < pod.spec->regular_end(); ++i) {
    if (pod.runs[i].shown.state != RunState::kAbsent || pod.runs[i].shown.last.known) return true;
  }
  const Look& last = pod.runs[inits - 1].shown;
  if (pod.spec->containers[inits - 1].sidecar) return last.state == RunState::kRunning && last.started;
  return (last.state == RunState::kExited && last.end.code == 0) || (last.last.known && last.last.code == 0);
}

// Containers that are not seen to have ended count as lost, once the pod was initialized: those that never ran, and
// those that wait to be started again (a pod that is deleted starts nothing again).
void Manager::mark_lost(Pod& pod) {
  const auto lose = [](ContainerRun& run) {
    const bool exited = run.now.state == RunState::kExited;
    if (exited && run.shown.why == Why::kNone) return;
    run.reason = Why::kNone;
    const Ended last = exited ? run.now.end : run.now.last;
    run.now = Look{.state = RunState::kExited, .attempt = run.now.attempt, .last = last};
    run.now.end = Ended{.code = 137, .known = true, .located = false};
    run.probing.reset();
    run.exit_due = kNever;
  };
  const size_t inits = pod.spec->init_count;
  size_t tried = std::min<size_t>(inits, 1);
  for (size_t i = 0; i < inits; ++i) {
    if (pod.runs[i].now.state != RunState::kAbsent || pod.runs[i].now.last.known) tried = i + 1;
  }
  for (size_t i = 0; i < tried; ++i) lose(pod.runs[i]);
  if (!pod.was_initialized && !pod.ever_started) return;
  for (size_t i = inits; i < pod.spec->regular_end(); ++i) lose(pod.runs[i]);
}

void Manager::finish(Pod& pod) {
  if (!unclaim(pod)) return;
  pod.work = Work::kNone;
  pod.sandbox = false;
  disconnect(pod);
  compute_status(pod, host_.wall_now());
  const bool never_ran = compute_phase(pod) == Phase::kPending;
  pod.stage = Stage::kFinished;
  // What was never granted it never had.
  if (pod.extras != nullptr && pod.extras->resizing != nullptr) {
    Resizing& r = *pod.extras->resizing;
    r.in_force.reset();
    r.pending = r.progress = {};
  }
  for (ContainerRun& run : pod.runs) {
    run.probing.reset();
    run.reading.reset();
    run.exit_due = kNever;
  }
  // Whom the node itself has ended shows what is lost a look later.
  const bool in_two_steps = full() && pod.cause == Cause::kEnded;
  if (!in_two_steps) mark_lost(pod);
  if (never_ran) {
    show_end(pod);
  } else {
    compute_status(pod, host_.wall_now());
  }
  if (pod.deadline_hit) tell(pod, false, "DeadlineExceeded", std::string(kDeadlineMessage));
  if (in_two_steps || pod.deadline_hit) request_sync(pod, tick_after(host_.now() + std::chrono::milliseconds(1)));
  give_back_devices(pod);
  room_was_made();
}

}  // namespace ghostfleet::agent
