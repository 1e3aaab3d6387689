// The worker of a pod: each sync first computes the status from what is there, then acts on it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "agent/pod/manager.h"
#include "base/hash.h"

namespace ghostfleet::agent {

namespace {

constexpr Duration kResync = std::chrono::minutes(1);  // a pod to which nothing happens is looked at again
constexpr Duration kLookTakes = std::chrono::milliseconds(8);
constexpr Duration kRuntimeLag = std::chrono::milliseconds(15);  // sandbox to first container, as recorded

// `"cpu":"..."` of the ready-made JSON: of the limits, then of the requests.
std::vector<std::string_view> amounts(std::string_view json, std::string_view resource) {
  std::vector<std::string_view> out;
  const std::string key = "\"" + std::string(resource) + "\":";
  for (size_t at = json.find(key); at != std::string_view::npos; at = json.find(key, at + 1)) {
    out.push_back(json.substr(at, json.find_first_of(",}", at) - at));
  }
  return out;
}

bool resource_differs(const ContainerSpec& a, const ContainerSpec& b, std::string_view resource) {
  return amounts(a.resources, resource) != amounts(b.resources, resource);
}

// A status that says what the last one said is not sent again (in light fidelity its pieces are compared).
void compute_and_compare(Pod& pod, WallTime now, bool full, const StatusContext& context) {
  const bool dirty = pod.dirty;
  compute_status(pod, now);
  if (!full) return;
  const uint32_t hash = static_cast<uint32_t>(hash_text(render_status(pod, context)));
  if (hash == pod.sent[0]) pod.dirty = dirty;
  pod.sent[0] = hash;
}

}  // namespace

void Manager::request_sync(Pod& pod, TimePoint at) { pod.sync_due = std::min(pod.sync_due, at); }

void Manager::container_exits(Pod& pod, size_t index) {
  ContainerRun& run = pod.runs[index];
  const TimePoint due = run.exit_due;
  run.exit_due = kNever;
  run.reading.reset();
  if (run.now.state != RunState::kRunning) return;
  const TimePoint beat = run.probing != nullptr ? run.probing->ready_base : TimePoint();
  end_probing(pod, index, due);
  await_failed_probes(pod, index, beat);
  run.ended_at = due;
  run.now.state = RunState::kExited;
  run.now.ready = run.now.started = false;
  // A timer may come late; the container ended when it should.
  const WallTime at = host_.wall_now() - (host_.now() - due);
  run.now.end = Ended{.started = run.now.started_at,
                      .finished = std::max(at, run.now.started_at),
                      .code = run.exit_code,
                      .known = true,
                      .attempt = run.now.attempt};
  // An end at the very moment of a look is seen by the next one.
  if (pod.stage == Stage::kActive && pod.work != Work::kKilling) request_sync(pod, tick_after(due + kLookTakes));
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
  // A worker that is busy looks at the deadline when it is done.
  if (pod.work != Work::kNone) {
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
    if (pod.cause != Cause::kEnded || pod.rejected || pod.was_refused) return;
    mark_lost(pod);
    compute_and_compare(pod, host_.wall_now(), full(), context());
    return;
  }
  if (pod.stage == Stage::kTerminating) return;
  if (pod.work != Work::kNone) {
    pod.sync_pending = true;
    return;
  }
  take_next_spec(pod);
  const bool first = pod.start_time == 0;
  finish_resize(pod);
  compute_and_compare(pod, host_.wall_now(), full(), context());
  begin_fresh_probes(pod);
  ask_readiness(pod);
  if (first || pod.deadline_due == kNever) check_deadline(pod);
  if (pod.stage != Stage::kActive) return;
  if (is_terminal(compute_phase(pod))) {
    terminate(pod, Cause::kCompleted);
    return;
  }
  pod.pass_changed = pod.pass_failed = false;
  pod.pass_delay = Duration(0);
  pod.pass_made = 0;
  for (ContainerRun& run : pod.runs) {
    run.tried = run.killed_in_pass = run.must_restart = run.image_ready = run.objects_ready = false;
  }
  if (!pod.mounted) {
    begin_mounting(pod);
  } else {
    enter_runtime(pod);
  }
}

// A pod has at most three name servers; who has more is told each time its containers are looked after.
void Manager::check_nameservers(Pod& pod) {
  constexpr size_t kMost = 3;
  if (pod.spec->nameservers.size() < kMost) return;
  std::vector<std::string> all{options_->cluster_dns};
  for (const std::string& server : pod.spec->nameservers) {
    if (std::find(all.begin(), all.end(), server) == all.end()) all.push_back(server);
  }
  if (all.size() <= kMost) return;
  all.resize(kMost);
  tell(pod, true, "DNSConfigForming",
       fmt::format(
           "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
           fmt::join(all, " ")));
}

void Manager::enter_runtime(Pod& pod) {
  if (full()) look_for_pull_secrets(pod);
  check_nameservers(pod);
  run_pass(pod);
}

// Goes on where a wait within the pass ended: what is done already is not done again.
void Manager::run_pass(Pod& pod) {
  pod.work = Work::kNone;
  if (!pod.sandbox && !pod.kill_all) {
    if (!claim(pod)) return;
    if (!connect(pod)) return finish_pass(pod);
    pod.sandbox = pod.pass_changed = true;
    check_nameservers(pod);
    pod.probe_base = host_.now();
    show_sandbox(pod, host_.wall_now());
    if (full()) {
      pod.work = Work::kStarting;
      pod.work_due = host_.now() + kRuntimeLag;
      return;
    }
  }
  if (begin_reset(pod) || kill_what_must(pod)) return;
  if (!run_ephemerals(pod)) return;
  if (!pod.kill_all && run_inits(pod)) {
    // The new resources are seen by a look of their own.
    if (actuate_resize(pod)) request_sync(pod, host_.now() + kRuntimeLag);
    run_regulars(pod);
  }
  if (pod.work == Work::kNone) finish_pass(pod);
}

// False: the pass waits.
bool Manager::run_ephemerals(Pod& pod) {
  for (size_t i = pod.spec->regular_end(); i < pod.runs.size(); ++i) {
    if (pod.runs[i].now.state == RunState::kAbsent && start(pod, i) == Start::kBusy) return false;
  }
  return true;
}

// Whether no regular container is to be kept or started: then all of the pod goes.
bool Manager::nothing_left(const Pod& pod) {
  bool any = false;
  for (size_t i = 0; i < pod.spec->regular_end(); ++i) {
    const ContainerSpec& spec = pod.spec->containers[i];
    const Look& look = pod.runs[i].now;
    any |= look.state == RunState::kRunning;
    if (spec.init) continue;
    if (look.state == RunState::kAbsent) return false;
    if (look.state == RunState::kExited && will_restart(spec, look.end.code)) return false;
    if (look.state != RunState::kRunning) continue;
    const StopReason why = why_stop(pod, i);
    if (why.text.empty() || why.again) return false;
  }
  return any;
}

// Why a running container must be stopped; no text: it need not.
Manager::StopReason Manager::why_stop(const Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const ContainerRun& run = pod.runs[index];
  if (run.now.state != RunState::kRunning || spec.ephemeral) return {};
  const std::string who = (spec.init ? "Init container " : "Container ") + spec.name;
  const bool again = !spec.init && spec.restart_policy != RestartPolicy::kNever;
  const int64_t grace = pod.spec->grace_seconds;
  if (run.image_hash != static_cast<uint32_t>(hash_text(spec.image)) && (!spec.init || spec.sidecar)) {
    return {who + " definition changed" + (spec.init ? "" : ", will be restarted"), grace, true};
  }
  if (run.unhealthy) {
    const int64_t own = spec.probes[static_cast<int>(run.failed_probe)].grace_seconds;
    return {who + " failed " + (run.failed_probe == ProbeKind::kStartup ? "startup" : "liveness") + " probe" +
                (again ? ", will be restarted" : ""),
            own >= 0 ? own : grace, again};
  }
  const ContainerSpec& has = pod.in_force().containers[index];
  const ContainerSpec& gets = pod.granted().containers[index];
  if (has.resources == gets.resources) return {};
  const bool restarts = (spec.cpu_restarts && resource_differs(has, gets, "cpu")) ||
                        (spec.memory_restarts && resource_differs(has, gets, "memory"));
  if (!restarts) return {};
  return {"Container " + spec.name + " resize requires restart", grace, true};
}

// True: containers are being stopped, and the pass waits for it.
bool Manager::kill_what_must(Pod& pod) {
  TimePoint until = host_.now();
  bool any = false;
  if (!pod.kill_all && nothing_left(pod)) {
    pod.kill_all = any = true;
    until = stop_containers(pod, pod.spec->grace_seconds);
  }
  for (size_t i = 0; i < pod.runs.size() && !pod.kill_all; ++i) {
    ContainerRun& run = pod.runs[i];
    const StopReason why = why_stop(pod, i);
    if (why.text.empty() || run.killed_in_pass) continue;
    tell(pod, false, "Killing", why.text, static_cast<int>(i));
    until = std::max(until, stop_one(pod, i, host_.now(), why.grace_seconds, {}));
    run.killed_in_pass = any = true;
    run.must_restart = why.again;
  }
  if (!any) return false;
  pod.pass_changed = true;
  pod.work = Work::kKilling;
  pod.work_due = until;
  return true;
}

// Whether an init container has done its part, so that the next one may begin.
bool Manager::init_is_done(const Pod& pod, size_t index) {
  const Look& look = pod.runs[index].now;
  if (pod.spec->containers[index].sidecar) return look.state == RunState::kRunning && look.started;
  return look.state == RunState::kExited && look.end.code == 0;
}

// True: the regular containers may run.
//
// As in a kubelet, the furthest init container that was begun tells how far the pod is; of those before it only
// sidecars are kept running, and none of them holds the rest back. A pod one of whose regular containers runs is
// initialized.
bool Manager::run_inits(Pod& pod) {
  const size_t count = pod.spec->init_count;
  const auto runs = [&](size_t i) { return pod.runs[i].now.state == RunState::kRunning; };
  const auto begun = [&](size_t i) { return pod.runs[i].now.state != RunState::kAbsent; };
  bool initialized = count == 0;
  for (size_t i = count; i < pod.spec->regular_end(); ++i) initialized |= runs(i);
  size_t furthest = initialized ? count : 0;
  for (size_t i = 0; i < count && !initialized; ++i) furthest = begun(i) ? i : furthest;
  for (size_t i = 0; i < furthest; ++i) {
    const bool lacks = pod.spec->containers[i].sidecar && !runs(i);
    if (lacks && start(pod, i) == Start::kBusy) return false;
  }
  for (size_t i = furthest; i < count; ++i) {
    const bool regular = !pod.spec->containers[i].sidecar;
    if (!init_is_done(pod, i) && !runs(i)) {
      if (regular && begun(i) && !will_restart(pod.spec->containers[i], pod.runs[i].now.end.code)) return false;
      if (start(pod, i) != Start::kStarted) return false;
    }
    if (!init_is_done(pod, i)) return false;
  }
  return true;
}

void Manager::run_regulars(Pod& pod) {
  for (size_t i = pod.spec->init_count; i < pod.spec->regular_end(); ++i) {
    const Look& look = pod.runs[i].now;
    if (look.state == RunState::kRunning) continue;
    // What was stopped to be started again is, whatever its code.
    if (look.state == RunState::kExited && !pod.runs[i].must_restart &&
        !will_restart(pod.spec->containers[i], look.end.code))
      continue;
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
  take_next_spec(pod);
  if (pod.pass_failed) {
    request_sync(pod, tick_after(now + pod.pass_delay));
    if (changed) request_sync(pod, tick_after(now));
  } else if (changed || pod.sync_pending) {
    // The runtime is looked at once more after a pass that went well: what ended at once is seen.
    pod.sync_pending = false;
    for (size_t i = 0; i < pod.runs.size(); ++i) {
      if (pod.runs[i].exit_due <= now) container_exits(pod, i);
    }
    // A regular look sees what was started once more.
    if (changed && full()) request_sync(pod, tick_after(now + kLookTakes));
    sync(pod);
    return;
  }
  if (pod.sync_pending) {
    pod.sync_pending = false;
    request_sync(pod, tick_after(now));
  }
  if (full()) request_sync(pod, now + host_.rng().between(kResync, kResync * 3 / 2));
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
      if (pod.reset_all) {
        end_reset(pod);
        return;
      }
      if (pod.kill_all) {
        pod.sandbox = false;
        disconnect(pod);
      }
      if (pod.kill_all && !pod.stop_pending) {
        pod.work = Work::kNone;
        request_sync(pod, tick_after(host_.now()));
        return;
      }
      run_pass(pod);
      return;
    case Work::kStarting:
    case Work::kHook: run_pass(pod); return;
    case Work::kHookStop: hook_stopped(pod); return;
    case Work::kAdmitting: admission_goes_on(pod); return;
    case Work::kClaiming:
    case Work::kReleasing:
    case Work::kFetching:
    case Work::kPreparing:
    case Work::kNone: return;
  }
}

}  // namespace ghostfleet::agent
