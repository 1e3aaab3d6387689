// The worker of a pod: each sync first computes the status from what is there, then acts on it.
#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {
constexpr Duration kRuntimeLag = std::chrono::milliseconds(15);  // sandbox to first container, as recorded
}

void Manager::request_sync(Pod& pod, TimePoint at) { pod.sync_due = std::min(pod.sync_due, at); }

void Manager::container_exits(Pod& pod, size_t index) {
  ContainerRun& run = pod.runs[index];
  const TimePoint due = run.exit_due;
  run.exit_due = kNever;
  if (run.now.state != RunState::kRunning) return;
  run.probing.reset();
  run.ended_at = due;
  run.now.state = RunState::kExited;
  run.now.ready = run.now.started = false;
  // A timer may come late; the container ended when it should.
  const WallTime at = host_.wall_now() - (host_.now() - due);
  run.now.end = {run.now.started_at, std::max(at, run.now.started_at), run.exit_code, true, true, run.now.attempt};
  if (pod.stage == Stage::kActive && pod.work != Work::kKilling) request_sync(pod, tick_after(due));
}

void Manager::check_deadline(Pod& pod) {
  pod.deadline_due = kNever;
  if (pod.stage != Stage::kActive || pod.spec->active_deadline_seconds == 0 || pod.start_time == 0) return;
  const Duration age = host_.wall_now() - WallTime{pod.start_time * 1000000000};
  const Duration left = std::chrono::seconds(pod.spec->active_deadline_seconds) - age;
  if (left > Duration(0)) {
    pod.deadline_due = tick_after(host_.now() + left);
    return;
  }
  if (pod.work == Work::kPulling || pod.work == Work::kKilling) {
    pod.deadline_due = host_.now() + std::chrono::seconds(1);
    return;
  }
  pod.deadline_hit = true;
  pod.more().reason = "DeadlineExceeded";
  pod.more().message = kDeadlineMessage;
  tell(pod, false, "DeadlineExceeded", std::string(kDeadlineMessage));
  terminate(pod, Cause::kEnded);
}

void Manager::sync(Pod& pod) {
  if (pod.stage == Stage::kFinished) {
    // Each look at a pod past its deadline says so again; the last is when its end has been seen.
    if (pod.deadline_hit) tell(pod, false, "DeadlineExceeded", std::string(kDeadlineMessage));
    return;
  }
  if (pod.stage == Stage::kTerminating) return;
  if (pod.work != Work::kNone) {
    pod.sync_pending = true;
    return;
  }
  const bool first = pod.start_time == 0;
  finish_resize(pod);
  compute_status(pod, host_.wall_now());
  if (first || pod.deadline_due == kNever) check_deadline(pod);
  if (pod.stage != Stage::kActive) return;
  if (is_terminal(compute_phase(pod))) {
    terminate(pod, Cause::kCompleted);
    return;
  }
  pod.pass_changed = pod.pass_failed = false;
  pod.pass_delay = Duration(0);
  for (ContainerRun& run : pod.runs) run.tried = run.killed_in_pass = run.image_ready = run.objects_ready = false;
  if (!pod.mounted) {
    begin_mounting(pod);
  } else {
    run_pass(pod);
  }
}

// Goes on where a wait within the pass ended: what is done already is not done again.
void Manager::run_pass(Pod& pod) {
  pod.work = Work::kNone;
  if (!pod.sandbox && !pod.kill_all) {
    pod.sandbox = pod.pass_changed = true;
    allocate_ip(pod);
    pod.probe_base = host_.now();
    show_sandbox(pod, host_.wall_now());
    if (full()) {
      pod.work = Work::kStarting;
      pod.work_due = host_.now() + kRuntimeLag;
      return;
    }
  }
  if (kill_what_must(pod)) return;
  if (!pod.kill_all && run_inits(pod)) run_regulars(pod);
  if (pod.work == Work::kNone) finish_pass(pod);
}

bool Manager::only_sidecars_left(const Pod& pod) const {
  bool sidecars = false;
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    const ContainerSpec& spec = pod.spec->containers[i];
    const Look& look = pod.runs[i].now;
    if (spec.sidecar) sidecars |= look.state == RunState::kRunning;
    if (spec.init) continue;
    if (look.state != RunState::kExited || will_restart(spec, look.end.code)) return false;
  }
  return sidecars;
}

// True: containers are being stopped, and the pass waits for it.
bool Manager::kill_what_must(Pod& pod) {
  TimePoint until = host_.now();
  bool any = false;
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    ContainerRun& run = pod.runs[i];
    if (!run.unhealthy) continue;
    run.unhealthy = false;
    if (run.now.state != RunState::kRunning) continue;
    const bool again = pod.spec->containers[i].restart_policy != RestartPolicy::kNever;
    tell(pod, false, "Killing",
         "Container " + pod.spec->containers[i].name + " failed " +
             (run.failed_probe == ProbeKind::kStartup ? "startup" : "liveness") + " probe" +
             (again ? ", will be restarted" : ""),
         static_cast<int>(i));
    until = std::max(until, stop_one(pod, i, host_.now(), std::chrono::seconds(pod.spec->grace_seconds)));
    run.killed_in_pass = any = true;
  }
  if (!any && !pod.kill_all && only_sidecars_left(pod)) {
    // The pod's work is done: its sidecars and its sandbox go.
    pod.kill_all = any = true;
    until = stop_containers(pod, pod.spec->grace_seconds);
  }
  if (!any) return false;
  pod.pass_changed = true;
  pod.work = Work::kKilling;
  pod.work_due = until;
  return true;
}

// True: the regular containers may run.
bool Manager::run_inits(Pod& pod) {
  for (size_t i = 0; i < pod.spec->init_count; ++i) {
    const ContainerSpec& spec = pod.spec->containers[i];
    const ContainerRun& run = pod.runs[i];
    const Look& look = run.now;
    if (look.state == RunState::kExited && !spec.sidecar) {
      if (look.end.code == 0 || pod.ever_started) continue;
      if (!will_restart(spec, look.end.code)) return false;
    }
    if (look.state != RunState::kRunning) {
      if (!spec.sidecar && pod.ever_started) continue;
      if (start(pod, i) != Start::kStarted) return false;
    }
    if (!spec.sidecar) return false;
    if (!run.now.started && !pod.ever_started) return false;
  }
  return true;
}

void Manager::run_regulars(Pod& pod) {
  for (size_t i = pod.spec->init_count; i < pod.runs.size(); ++i) {
    const Look& look = pod.runs[i].now;
    if (look.state == RunState::kRunning) continue;
    if (look.state == RunState::kExited && !will_restart(pod.spec->containers[i], look.end.code)) continue;
    if (start(pod, i) == Start::kBusy) return;
  }
}

void Manager::finish_pass(Pod& pod) {
  const TimePoint now = host_.now();
  const bool changed = pod.pass_changed;
  pod.pass_changed = false;
  if (pod.stop_pending) {
    pod.stop_pending = false;
    // What it has just started is seen for a moment.
    if (changed) compute_status(pod, host_.wall_now());
    terminate(pod, Cause::kDeleted);
    return;
  }
  if (pod.pass_failed) {
    request_sync(pod, tick_after(now + pod.pass_delay));
    if (changed) request_sync(pod, tick_after(now));
  } else if (changed || pod.sync_pending) {
    // The runtime is looked at once more after a pass that went well.
    pod.sync_pending = false;
    sync(pod);
    return;
  }
  if (pod.sync_pending) {
    pod.sync_pending = false;
    request_sync(pod, tick_after(now));
  }
}

// A wait is over.
void Manager::work_done(Pod& pod) {
  switch (pod.work) {
    case Work::kMounting: mount_step(pod); return;
    case Work::kPulling: pull_ends(pod); return;
    case Work::kKilling:
      if (pod.stage == Stage::kTerminating) {
        finish(pod);
        return;
      }
      if (pod.kill_all) pod.sandbox = false;
      if (pod.kill_all && !pod.stop_pending) {
        pod.work = Work::kNone;
        request_sync(pod, tick_after(host_.now()));
        return;
      }
      run_pass(pod);
      return;
    case Work::kStarting: run_pass(pod); return;
    case Work::kFetching:
    case Work::kNone: return;
  }
}

}  // namespace ghostfleet::agent
