#include "agent/pod/status.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/hash.h"
#include "agent/pod/images.h"

namespace ghostfleet::agent {

std::string_view phase_name(Phase phase) {
  static constexpr std::string_view kNames[] = {"Pending", "Running", "Succeeded", "Failed"};
  return kNames[static_cast<int>(phase)];
}

std::string_view condition_name(int type) {
  static constexpr std::string_view kNames[] = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady",
                                                "PodScheduled"};
  return kNames[type];
}

std::string_view condition_reason(ConditionReason reason) {
  static constexpr std::string_view kNames[] = {
      "", "ContainersNotReady", "ContainersNotInitialized", "ReadinessGatesNotReady", "PodCompleted", "PodFailed"};
  return kNames[static_cast<int>(reason)];
}

bool will_restart(const ContainerSpec& spec, int32_t exit_code) {
  for (const RestartRule& rule : spec.restart_rules) {
    const bool listed = std::find(rule.codes.begin(), rule.codes.end(), exit_code) != rule.codes.end();
    if (listed == rule.in) return true;
  }
  if (spec.restart_policy == RestartPolicy::kAlways) return true;
  return spec.restart_policy == RestartPolicy::kOnFailure && exit_code != 0;
}

namespace {

bool stopped(const Look& look) { return look.state == RunState::kExited; }

struct Counts {
  int waiting = 0, running = 0, stopped = 0, succeeded = 0, restarting = 0;
};

Counts count_regular(const Pod& pod) {
  Counts n;
  for (size_t i = pod.spec->init_count; i < pod.runs.size(); ++i) {
    const Look& look = pod.runs[i].shown;
    if (look.state == RunState::kRunning) ++n.running;
    if (look.state == RunState::kAbsent) ++n.waiting;
    if (look.state != RunState::kExited) continue;
    ++n.stopped;
    if (look.why != Why::kNone ||
        (pod.stage == Stage::kActive && will_restart(pod.spec->containers[i], look.end.code))) {
      ++n.restarting;
    } else if (look.end.code == 0) {
      ++n.succeeded;
    }
  }
  return n;
}

struct InitView {
  bool failed = false, pending = false, sidecar_running = false;
};

InitView look_at_inits(const Pod& pod) {
  InitView v;
  for (size_t i = 0; i < pod.spec->init_count; ++i) {
    const ContainerSpec& spec = pod.spec->containers[i];
    const Look& look = pod.runs[i].shown;
    if (spec.sidecar) {
      v.sidecar_running |= look.state == RunState::kRunning;
      v.pending |= !pod.ever_started && !look.started;
    } else if (!(stopped(look) && look.end.code == 0)) {
      const bool final = stopped(look) && !will_restart(spec, look.end.code);
      v.failed |= final;
      v.pending |= !final && !pod.ever_started;
    }
  }
  return v;
}

}  // namespace

Phase compute_phase(const Pod& pod) {
  if (pod.ended_by_other) return pod.shown;
  if (pod.rejected || pod.deadline_hit) return Phase::kFailed;
  const InitView init = look_at_inits(pod);
  const Counts n = count_regular(pod);
  if (pod.stage == Stage::kFinished) {
    const bool good = !init.failed && !init.pending && n.stopped == static_cast<int>(pod.spec->regular_count()) &&
                      n.succeeded == n.stopped;
    return good ? Phase::kSucceeded : Phase::kFailed;
  }
  if (init.failed) return Phase::kFailed;
  if (init.pending || n.waiting > 0) return Phase::kPending;
  if (n.running > 0 || n.restarting > 0 || init.sidecar_running) return Phase::kRunning;
  return n.succeeded == n.stopped ? Phase::kSucceeded : Phase::kFailed;
}

namespace {

void take_looks(Pod& pod) {
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    ContainerRun& run = pod.runs[i];
    run.shown = run.now;
    const bool waits = run.now.state == RunState::kAbsent ||
                       (run.now.state == RunState::kExited && will_restart(pod.spec->containers[i], run.now.end.code));
    if (pod.stage == Stage::kActive && waits && run.reason != Why::kNone) {
      run.shown.why = run.reason;
      run.shown.detail = run.reason_detail;
      run.shown.backoff_seconds = static_cast<uint32_t>(run.backoff.current() / std::chrono::seconds(1));
    }
    if (run.now.state != RunState::kRunning) {
      run.shown.started = false;
      const bool done_init =
          pod.spec->containers[i].init && !pod.spec->containers[i].sidecar && stopped(run.now) && run.now.end.code == 0;
      run.shown.ready = done_init;
    }
  }
}

void set_condition(Pod& pod, int type, bool status, ConditionReason reason, WallTime now) {
  Condition& c = pod.conditions[type];
  if (!c.set || c.status != status) c.since = now.seconds();
  c.set = true;
  c.status = status;
  c.reason = reason;
}

// Whether a container holds Ready back.
bool unready(const Pod& pod, size_t i) {
  const ContainerSpec& spec = pod.spec->containers[i];
  return (!spec.init || spec.sidecar) && !pod.runs[i].shown.ready;
}

bool uninitialized(const Pod& pod, size_t i) {
  const Look& look = pod.runs[i].shown;
  return pod.spec->containers[i].sidecar ? !look.started : !look.ready;
}

bool initialized(const Pod& pod) {
  if (pod.ever_started) return true;
  for (size_t i = 0; i < pod.spec->init_count; ++i) {
    if (uninitialized(pod, i)) return false;
  }
  return true;
}

bool gates_open(const Pod& pod) {
  const size_t n = pod.spec->readiness_gates.size();
  return n == 0 || pod.gates_true == (n >= 32 ? UINT32_MAX : (1U << n) - 1);
}

void set_ready(Pod& pod, Phase computed, WallTime now) {
  if (is_terminal(computed)) {
    const ConditionReason why =
        computed == Phase::kSucceeded ? ConditionReason::kPodCompleted : ConditionReason::kPodFailed;
    set_condition(pod, kReady, false, why, now);
    set_condition(pod, kContainersReady, false, why, now);
    return;
  }
  bool all = true;
  for (size_t i = 0; i < pod.runs.size(); ++i) all &= !unready(pod, i);
  set_condition(pod, kContainersReady, all, all ? ConditionReason::kNone : ConditionReason::kContainersNotReady, now);
  const bool open = gates_open(pod);
  const ConditionReason why = !all    ? ConditionReason::kContainersNotReady
                              : !open ? ConditionReason::kReadinessGatesNotReady
                                      : ConditionReason::kNone;
  set_condition(pod, kReady, all && open, why, now);
}

}  // namespace

void show_sandbox(Pod& pod, WallTime now) {
  set_condition(pod, kReadyToStart, pod.sandbox, ConditionReason::kNone, now);
  pod.dirty = true;
}

void compute_status(Pod& pod, WallTime now) {
  if (pod.start_time == 0) pod.start_time = now.seconds();
  pod.dirty = true;
  take_looks(pod);
  pod.ip_shown |= pod.sandbox;
  const Phase computed = compute_phase(pod);
  if (!is_terminal(computed) || pod.stage == Stage::kFinished) pod.shown = computed;
  set_condition(pod, kReadyToStart, pod.sandbox, ConditionReason::kNone, now);
  const bool init = initialized(pod);
  const ConditionReason why = !init                           ? ConditionReason::kContainersNotInitialized
                              : computed == Phase::kSucceeded ? ConditionReason::kPodCompleted
                                                              : ConditionReason::kNone;
  set_condition(pod, kInitialized, init, why, now);
  set_ready(pod, computed, now);
  set_condition(pod, kScheduled, true, ConditionReason::kNone, now);
}

std::string condition_message(const Pod& pod, int type) {
  const Condition& c = pod.conditions[type];
  if (c.reason == ConditionReason::kReadinessGatesNotReady) {
    for (size_t i = 0; i < pod.spec->readiness_gates.size(); ++i) {
      if ((pod.gates_true >> i & 1) != 0) continue;
      if ((pod.gates_known >> i & 1) != 0) {
        return fmt::format("the status of pod readiness gate \"{}\" is not \"True\", but False",
                           pod.spec->readiness_gates[i]);
      }
      return fmt::format("corresponding condition of pod readiness gate \"{}\" does not exist.",
                         pod.spec->readiness_gates[i]);
    }
  }
  const bool init = c.reason == ConditionReason::kContainersNotInitialized;
  if (!init && c.reason != ConditionReason::kContainersNotReady) return {};
  std::string out = init ? "containers with incomplete status: [" : "containers with unready status: [";
  bool first = true;
  for (size_t i = 0; i < (init ? pod.spec->init_count : pod.runs.size()); ++i) {
    if (init ? !uninitialized(pod, i) : !unready(pod, i)) continue;
    if (!first) out += ' ';
    first = false;
    out += pod.spec->containers[i].name;
  }
  return out + "]";
}

std::string waiting_reason(Why why) {
  switch (why) {
    case Why::kErrImagePull: return "ErrImagePull";
    case Why::kImagePullBackOff: return "ImagePullBackOff";
    case Why::kErrImageNeverPull: return "ErrImageNeverPull";
    case Why::kConfigError: return "CreateContainerConfigError";
    case Why::kCrashLoop: return "CrashLoopBackOff";
    case Why::kNone: break;
  }
  return {};
}

std::string missing_object(const ObjectRef& ref) {
  return fmt::format("{} \"{}\" not found", ref.secret ? "secret" : "configmap", ref.name);
}

std::string waiting_message(const Pod& pod, size_t index, const PodOptions& options) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const Look& look = pod.runs[index].shown;
  if (look.why == Why::kErrImagePull || look.why == Why::kImagePullBackOff) {
    const ImageRule* rule = NodeImages(options).rule_of(spec.image);
    const std::string error = rule != nullptr ? NodeImages::pull_error(spec.image, *rule) : std::string();
    if (look.why == Why::kErrImagePull) return error;
    return fmt::format("Back-off pulling image \"{}\": ErrImagePull: {}", spec.image, error);
  }
  if (look.why == Why::kErrImageNeverPull) {
    return fmt::format("Container image \"{}\" is not present with pull policy of Never", spec.image);
  }
  if (look.why == Why::kConfigError && look.detail < spec.variables.size()) {
    const ObjectRef& ref = spec.variables[look.detail];
    return missing_object(ref);
  }
  if (look.why == Why::kCrashLoop) {
    return fmt::format("back-off {} restarting failed container={} pod={}_{}({})",
                       format_duration(std::chrono::seconds(look.backoff_seconds)), spec.name, pod.name(), pod.ns(),
                       pod.uid());
  }
  return {};
}

std::string container_id(const Pod& pod, size_t index, uint32_t attempt, std::string_view runtime) {
  if (pod.extras != nullptr && index < pod.extras->container_ids.size()) {
    const auto& [taken, id] = pod.extras->container_ids[index];
    if (taken == attempt && !id.empty()) return id;
  }
  const uint64_t seed = hash_mix(hash_text(pod.uid(), index), attempt);
  return std::string(runtime) + "://" + made_up_digest(hash_text(pod.spec->containers[index].name, seed));
}

}  // namespace ghostfleet::agent
