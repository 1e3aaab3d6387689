#include "agent/pod/status.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/images.h"
#include "base/hash.h"

namespace ghostfleet::agent {

std::string_view phase_name(Phase phase) {
  static constexpr std::string_view kNames[] = {"Pending", "Running", "Succeeded", "Failed"};
  return kNames[static_cast<int>(phase)];
}

std::string_view condition_name(int type) {
  static constexpr std::string_view kNames[] = {"PodReadyToStartContainers", "Initialized",  "Ready",
                                                "ContainersReady",           "PodScheduled", "AllContainersRestarting"};
  return kNames[type];
}

std::string_view condition_reason(ConditionReason reason) {
  static constexpr std::string_view kNames[] = {
      "",          "ContainersNotReady",         "ContainersNotInitialized", "ReadinessGatesNotReady", "PodCompleted",
      "PodFailed", "RestartAllContainersStarted"};
  return kNames[static_cast<int>(reason)];
}

namespace {

const RestartRule* matching_rule(const ContainerSpec& spec, int32_t exit_code) {
  for (const RestartRule& rule : spec.restart_rules) {
    const bool listed = std::find(rule.codes.begin(), rule.codes.end(), exit_code) != rule.codes.end();
    if (listed == rule.in) return &rule;
  }
  return nullptr;
}

}  // namespace

bool will_restart(const ContainerSpec& spec, int32_t exit_code) {
  if (matching_rule(spec, exit_code) != nullptr) return true;
  if (spec.restart_policy == RestartPolicy::kAlways) return true;
  return spec.restart_policy == RestartPolicy::kOnFailure && exit_code != 0;
}

bool should_restart_all(const Pod& pod) {
  if (!pod.spec->restarts_all) return false;
  if (pod.conditions[kAllRestarting].status) return true;
  for (size_t i = 0; i < pod.spec->regular_end(); ++i) {
    if (pod.runs[i].now.state != RunState::kExited) continue;
    const RestartRule* rule = matching_rule(pod.spec->containers[i], pod.runs[i].now.end.code);
    if (rule != nullptr && rule->all) return true;
  }
  return false;
}

namespace {

bool stopped(const Look& look) { return look.state == RunState::kExited; }

struct Counts {
  int waiting = 0, running = 0, stopped = 0, succeeded = 0, restarting = 0;
};

// A static pod whose manifest is gone stops like others, but its phase is not brought to an end.
bool ends_openly(const Pod& pod) {
  return pod.extras != nullptr && pod.extras->mirror != nullptr && pod.extras->mirror->withdrawn;
}

Counts count_regular(const Pod& pod) {
  Counts n;
  for (size_t i = pod.spec->init_count; i < pod.spec->regular_end(); ++i) {
    const Look& look = pod.runs[i].shown;
    if (look.state == RunState::kRunning) ++n.running;
    if (look.state == RunState::kRunning) continue;
    const Ended& end = stopped(look) ? look.end : look.last;
    if (!end.known) {
      ++n.waiting;
      continue;
    }
    ++n.stopped;
    const bool again = stopped(look) ? look.why != Why::kNone || will_restart(pod.spec->containers[i], end.code)
                                     : end.reset || will_restart(pod.spec->containers[i], end.code);
    if ((pod.stage == Stage::kActive || ends_openly(pod)) && again) {
      ++n.restarting;
    } else if (end.code == 0) {
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
      continue;
    }
    const Ended& end = stopped(look) ? look.end : look.last;
    const bool ended = end.known && look.state != RunState::kRunning;
    if (ended && end.code == 0 && stopped(look)) continue;
    const bool final = ended && end.code != 0 && !end.reset && !will_restart(spec, end.code);
    v.failed |= final;
    // One that failed and will be tried again does not hold the phase back; what has not run yet does.
    v.pending |= !final && !pod.ever_started && !(ended && end.reset);
  }
  return v;
}

}  // namespace

namespace {

// What the containers alone add up to.
Phase containers_phase(const Pod& pod) {
  const InitView init = look_at_inits(pod);
  const Counts n = count_regular(pod);
  if (pod.stage == Stage::kFinished && !ends_openly(pod)) {
    const bool good = !init.failed && !init.pending && n.stopped == static_cast<int>(pod.spec->regular_count()) &&
                      n.succeeded == n.stopped;
    return good ? Phase::kSucceeded : Phase::kFailed;
  }
  if (init.failed) return Phase::kFailed;
  if (init.pending || n.waiting > 0) return Phase::kPending;
  if (n.running > 0 || n.restarting > 0 || init.sidecar_running) return Phase::kRunning;
  return n.succeeded == n.stopped ? Phase::kSucceeded : Phase::kFailed;
}

}  // namespace

Phase compute_phase(const Pod& pod) {
  if (pod.ended_by_other) return pod.shown;
  if (pod.rejected || pod.was_refused || pod.deadline_hit) return Phase::kFailed;
  const Phase phase = containers_phase(pod);
  // Containers that end well when their pod is evicted make it Succeeded in a kubelet too.
  return pod.evicted && !is_terminal(phase) ? Phase::kFailed : phase;
}

namespace {

void take_looks(Pod& pod) {
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    ContainerRun& run = pod.runs[i];
    // Where only the newest attempt is kept (of init containers always), what was told as the last state stays so.
    const bool waited = run.now.state == RunState::kExited && run.shown.why != Why::kNone;
    const bool single = pod.spec->containers[i].init || !run.now.last.known;
    if (pod.deleting && waited && single) run.now.last = run.now.end;
    run.shown = run.now;
    const bool waits = run.now.state == RunState::kAbsent ||
                       (run.now.state == RunState::kExited && will_restart(pod.spec->containers[i], run.now.end.code));
    // An init container that ended well is shown so, also a sidecar that will run again.
    const bool done = pod.spec->containers[i].init && run.now.state == RunState::kExited && run.now.end.code == 0;
    if (!pod.deleting && waits && !done && run.reason != Why::kNone) {
      run.shown.why = run.reason;
      run.shown.detail = run.reason_detail;
      run.shown.backoff_seconds = static_cast<uint32_t>(run.backoff.current() / std::chrono::seconds(1));
    }
    // Told once, by the status that follows the removal.
    if (run.reason == Why::kRestartingAll) run.reason = Why::kNone;
    if (run.now.state != RunState::kRunning) {
      run.shown.started = false;
      const bool reset = run.shown.why == Why::kRestartingAll && run.now.ready;
      run.shown.ready = (done && !pod.spec->containers[i].sidecar) || reset;
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
  return (!spec.init || spec.sidecar) && !spec.ephemeral && !pod.runs[i].shown.ready;
}

bool uninitialized(const Pod& pod, size_t i) {
  const Look& look = pod.runs[i].shown;
  return pod.spec->containers[i].sidecar ? !look.started : !look.ready;
}

bool initialized(const Pod& pod) {
  // Once it is, it stays so.
  if (pod.ever_started || pod.conditions[kInitialized].status) return true;
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

namespace {

void set_all_restarting(Pod& pod, Phase computed, bool restarting, WallTime now) {
  if (!pod.spec->restarts_all) return;
  if (is_terminal(computed)) {
    const bool good = computed == Phase::kSucceeded;
    set_condition(pod, kAllRestarting, false, good ? ConditionReason::kPodCompleted : ConditionReason::kPodFailed, now);
    return;
  }
  const auto removed = [&](const ContainerRun& run) { return run.now.state == RunState::kAbsent; };
  const bool clean = std::all_of(pod.runs.begin(), pod.runs.end(), removed);
  restarting &= !clean;
  set_condition(pod, kAllRestarting, restarting,
                restarting ? ConditionReason::kRestartAllStarted : ConditionReason::kNone, now);
}

}  // namespace

void show_sandbox(Pod& pod, WallTime now) {
  set_condition(pod, kReadyToStart, pod.sandbox, ConditionReason::kNone, now);
  pod.dirty = true;
}

void show_probed(Pod& pod, size_t index, WallTime now) {
  Look& shown = pod.runs[index].shown;
  const Look& truth = pod.runs[index].now;
  if (shown.state != RunState::kRunning || shown.attempt != truth.attempt) return;
  if (shown.ready == truth.ready && shown.started == truth.started) return;
  shown.ready = truth.ready;
  shown.started = truth.started;
  pod.dirty = true;
  set_ready(pod, pod.shown, now);
}

void show_end(Pod& pod) {
  pod.dirty = true;
  take_looks(pod);
  pod.shown = Phase::kFailed;
}

void compute_status(Pod& pod, WallTime now) {
  if (pod.start_time == 0) pod.start_time = now.seconds();
  pod.dirty = true;
  take_looks(pod);
  pod.ip_shown |= pod.sandbox;
  const Phase whole = compute_phase(pod);
  if (!is_terminal(whole) || pod.stage == Stage::kFinished) pod.shown = whole;
  // The conditions of an evicted pod tell how its containers ended.
  const Phase computed = pod.evicted && !pod.ended_by_other ? containers_phase(pod) : whole;
  set_condition(pod, kReadyToStart, pod.sandbox, ConditionReason::kNone, now);
  const bool init = initialized(pod);
  const ConditionReason why = !init                           ? ConditionReason::kContainersNotInitialized
                              : computed == Phase::kSucceeded ? ConditionReason::kPodCompleted
                                                              : ConditionReason::kNone;
  set_condition(pod, kInitialized, init, why, now);
  set_ready(pod, computed, now);
  set_condition(pod, kScheduled, true, ConditionReason::kNone, now);
  set_all_restarting(pod, computed, should_restart_all(pod), now);
}

namespace {

std::string gates_message(const Pod& pod) {
  std::string out;
  for (size_t i = 0; i < pod.spec->readiness_gates.size(); ++i) {
    if ((pod.gates_true >> i & 1) != 0) continue;
    const std::string& gate = pod.spec->readiness_gates[i];
    if (!out.empty()) out += ", ";
    if ((pod.gates_known >> i & 1) == 0) {
      out += fmt::format("corresponding condition of pod readiness gate \"{}\" does not exist.", gate);
    } else {
      out += fmt::format("the status of pod readiness gate \"{}\" is not \"True\", but {}", gate,
                         (pod.gates_unknown >> i & 1) != 0 ? "Unknown" : "False");
    }
  }
  return out;
}

}  // namespace

std::string condition_message(const Pod& pod, int type) {
  const Condition& c = pod.conditions[type];
  if (c.reason == ConditionReason::kReadinessGatesNotReady) return gates_message(pod);
  if (c.reason == ConditionReason::kRestartAllStarted) return "container exited with restart policy rule";
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
    case Why::kInvalidImageName: return "InvalidImageName";
    case Why::kConfigError:
    case Why::kNoKey:
    case Why::kNotPrepared:
    case Why::kBadSpec:
    case Why::kNotRoot: return "CreateContainerConfigError";
    case Why::kPostStartHook: return "PostStartHookError";
    case Why::kCrashLoop: return "CrashLoopBackOff";
    case Why::kRestartingAll: return std::string(kResetReason);
    case Why::kNone: break;
  }
  return {};
}

std::string missing_object(const ObjectRef& ref) {
  constexpr std::string_view kWords[] = {"configmap", "secret", "persistentvolumeclaims"};
  return fmt::format("{} \"{}\" not found", kWords[static_cast<int>(ref.kind)], ref.name);
}

std::string missing_key(const ObjectRef& ref, std::string_view ns) {
  return fmt::format("couldn't find key {} in {} {}/{}", ref.keys.empty() ? "" : ref.keys[0],
                     ref.kind == ObjectKind::kSecret ? "Secret" : "ConfigMap", ns, ref.name);
}

std::string post_start_failure(const Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  return fmt::format(
      "Exec lifecycle hook ({}) for Container \"{}\" in Pod \"{}_{}({})\" "
      "failed - error: exit status 1, message: \"not "
      "yet\\n\"",
      spec.post_start.command, spec.name, pod.name(), pod.ns(), pod.uid());
}

std::string bad_image_name(std::string_view image) {
  const std::string upper = upper_repository(image);
  return fmt::format(
      "Failed to apply default image tag \"{}\": couldn't parse image name \"{}\": invalid reference format{}", image,
      image, upper.empty() ? "" : ": repository name (" + upper + ") must be lowercase");
}

std::string not_root_failure(const Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  return fmt::format("{} (pod: \"{}_{}({})\", container: {})",
                     spec.root_by_spec ? "container's runAsUser breaks non-root policy"
                                       : "container has runAsNonRoot and image will run as root",
                     pod.name(), pod.ns(), pod.uid(), spec.name);
}

std::string waiting_message(const Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const Look& look = pod.runs[index].shown;
  if (look.why == Why::kErrImagePull || look.why == Why::kImagePullBackOff) {
    const std::string error = pod.extras != nullptr ? pod.extras->pull_error(index) : std::string();
    if (look.why == Why::kErrImagePull) return error;
    return fmt::format("Back-off pulling image \"{}\": ErrImagePull: {}", spec.image, error);
  }
  if (look.why == Why::kErrImageNeverPull) {
    return fmt::format("Container image \"{}\" is not present with pull policy of Never", spec.image);
  }
  if (look.why == Why::kConfigError && look.detail < spec.variables.size()) {
    return missing_object(spec.variables[look.detail]);
  }
  if (look.why == Why::kNoKey && look.detail < spec.variables.size()) {
    return missing_key(spec.variables[look.detail], pod.ns());
  }
  if (look.why == Why::kBadSpec) return spec.config_error;
  if (look.why == Why::kInvalidImageName) return bad_image_name(spec.image);
  if (look.why == Why::kNotRoot) return not_root_failure(pod, index);
  if (look.why == Why::kNotPrepared) return pod.extras != nullptr ? pod.extras->pull_error(index) : std::string();
  if (look.why == Why::kPostStartHook) return post_start_failure(pod, index);
  if (look.why == Why::kRestartingAll) return std::string(kResetMessage);
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
