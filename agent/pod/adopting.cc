// Pods that ran before this agent did, and what others write into the status of a running one.
#include <algorithm>

#include "agent/pod/manager.h"
#include "base/hash.h"

namespace ghostfleet::agent {

using kube::get_array;
using kube::get_bool;
using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;

namespace {

WallTime read_time(const Json& json, std::string_view path) {
  WallTime t;
  parse_time(get_string(json, path), &t);
  return t;
}

const Json* find_status(const Json& pod, const ContainerSpec& spec) {
  const JsonArray* list = get_array(pod, spec.init        ? "status.initContainerStatuses"
                                         : spec.ephemeral ? "status.ephemeralContainerStatuses"
                                                          : "status.containerStatuses");
  if (list == nullptr) return nullptr;
  for (const Json& status : *list) {
    if (get_string(status, "name") == spec.name) return &status;
  }
  return nullptr;
}

Ended read_end(const Json& terminated, uint32_t attempt) {
  Ended end;
  end.known = true;
  end.started = read_time(terminated, "startedAt");
  end.finished = read_time(terminated, "finishedAt");
  end.code = static_cast<int32_t>(std::clamp<int64_t>(get_int(terminated, "exitCode"), INT32_MIN, INT32_MAX));
  end.located = !get_string(terminated, "containerID").empty();
  end.reset = get_string(terminated, "reason") == kResetReason;
  end.at_boot = get_string(terminated, "reason") == kBootReason;
  end.attempt = attempt;
  return end;
}

const Json* find_condition(const Json& pod, std::string_view type) {
  const JsonArray* list = get_array(pod, "status.conditions");
  if (list == nullptr) return nullptr;
  for (const Json& c : *list) {
    if (get_string(c, "type") == type) return &c;
  }
  return nullptr;
}

}  // namespace

void Manager::read_conditions(Pod& pod, const Json& json) {
  const Json* scheduled = find_condition(json, "PodScheduled");
  if (scheduled != nullptr && pod.start_time == 0) pod.scheduled_by_other = true;
  pod.gates_true = pod.gates_known = pod.gates_unknown = 0;
  for (size_t i = 0; i < pod.spec->readiness_gates.size(); ++i) {
    const Json* gate = find_condition(json, pod.spec->readiness_gates[i]);
    if (gate == nullptr) continue;
    pod.gates_known |= 1U << i;
    if (get_string(*gate, "status") == "True") pod.gates_true |= 1U << i;
    if (get_string(*gate, "status") == "Unknown") pod.gates_unknown |= 1U << i;
  }
}

void Manager::adopt_finished(Pod& pod, Phase phase) {
  pod.stage = Stage::kFinished;
  pod.shown = pod.acked = phase;
  ++finished_;
  pod.terminal_acked = true;
  pod.runs.clear();
  pod.runs.shrink_to_fit();
}

void Manager::adopt_address(Pod& pod, const Json& json) {
  const std::string_view ip = get_string(json, "status.podIP");
  if (needs_network(pod)) {
    // A sandbox whose address nobody was told of is made anew.
    pod.sandbox &= adopt_from_network(pod, ip);
    return;
  }
  if (ip.empty() || pod.spec->host_network || !node_.pod_ip) return;
  // Most often one of the first: then it needs no memory of its own.
  for (uint32_t n = 0; n < count_ + 16; ++n) {
    if (n < ips_.size() && ips_[n]) continue;
    if (node_.pod_ip(n) != ip) continue;
    if (n >= ips_.size()) ips_.resize(n + 1);
    ips_[n] = true;
    pod.ip_index = n;
    return;
  }
  pod.more().ip = ip;
  const JsonArray* all = get_array(json, "status.podIPs");
  if (all != nullptr && all->size() > 1) pod.more().second_ip = get_string((*all)[1], "ip");
}

// A runtime that finds a container without its process has lost its exit code.
void Manager::end_at_boot(ContainerRun& run) const {
  const Ended end{.started = run.now.started_at,
                  .finished = host_.wall_now(),
                  .code = 255,
                  .known = true,
                  .at_boot = true,
                  .attempt = run.now.attempt};
  run.now.state = RunState::kExited;
  run.now.started = run.now.ready = false;
  run.now.end = end;
  run.ended_at = host_.now();
}

void Manager::adopt_container(Pod& pod, size_t index, const Json& status) {
  adopt_run(pod, index, status);
  adopt_devices(pod, index, status);
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  if (run.now.state != RunState::kAbsent) images_.adopt(spec.image, host_.now());
  // Its tag may have moved since.
  if (images_.real()) pod.more().set_image_id(static_cast<uint32_t>(index), std::string(get_string(status, "imageID")));
  run.image_hash = static_cast<uint32_t>(hash_text(spec.image));
  run.ended_at = host_.now() - (host_.wall_now() - run.now.end.finished);
  const std::string id(get_string(status, "containerID"));
  if (!id.empty() && id != container_id(pod, index, run.now.attempt, options_->runtime_name)) {
    pod.more().container_ids.resize(pod.runs.size());
    pod.more().container_ids[index] = {run.now.attempt, id};
  }
}

void Manager::adopt_run(Pod& pod, size_t index, const Json& status) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  run.now.attempt = static_cast<uint32_t>(std::clamp<int64_t>(get_int(status, "restartCount"), 0, 1000000000));
  if (const Json* last = kube::find_path(status, "lastState.terminated")) {
    run.now.last = read_end(*last, run.now.attempt > 0 ? run.now.attempt - 1 : 0);
  }
  if (const Json* running = kube::find_path(status, "state.running")) {
    run.now.state = RunState::kRunning;
    run.now.started_at = read_time(*running, "startedAt");
    run.now.started = get_bool(status, "started");
    run.now.ready = get_bool(status, "ready");
    pod.ever_started |= !spec.init && !spec.ephemeral;
    if (node_.rebooted) {
      end_at_boot(run);
      return;
    }
    const Duration age = host_.wall_now() - run.now.started_at;
    draw_script(pod, index);
    const Script& script = script_of(pod, index);
    if (!script.exits.empty() && script.exit_of(run.now.attempt) != kRunsOn) {
      run.exit_code = script.exit_of(run.now.attempt);
      run.exit_due = host_.now() + std::max(script.after_of(run.now.attempt) - age, Duration(0));
    }
    begin_reading(pod, index, age);
  } else if (const Json* terminated = kube::find_path(status, "state.terminated")) {
    run.now.state = RunState::kExited;
    run.now.end = read_end(*terminated, run.now.attempt);
    pod.ever_started |= !spec.init && !spec.ephemeral;
  } else if (run.now.last.known && !run.now.last.reset) {
    // It waits for its next attempt: what the status calls the last state is the newest that ended.
    run.now.state = RunState::kExited;
    run.now.end = run.now.last;
    run.now.end.attempt = run.now.attempt;
    run.now.last = {};
    pod.ever_started |= !spec.init && !spec.ephemeral;
  }
}

void Manager::adopt(Pod& pod, const Json& json) {
  pod.start_time = read_time(json, "status.startTime").seconds();
  pod.api_conditions = true;
  bool created = false;
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    const Json* status = find_status(json, pod.spec->containers[i]);
    if (status == nullptr) continue;
    adopt_container(pod, i, *status);
    created |= pod.runs[i].now.state != RunState::kAbsent;
  }
  for (int type = 0; type < kConditions; ++type) {
    const Json* c = find_condition(json, condition_name(type));
    if (c == nullptr) continue;
    pod.conditions[type] = {get_string(*c, "status") == "True", true, ConditionReason::kNone,
                            read_time(*c, "lastTransitionTime").seconds()};
  }
  pod.scheduled_by_other = pod.conditions[kScheduled].set;
  if (get_string(json, "status.phase") == "Running") {
    pod.shown = pod.acked = Phase::kRunning;
    ++running_;
  }
  pod.probe_base = host_.now();
  if (node_.rebooted) return begin_again(pod, json);
  pod.sandbox = created || pod.conditions[kReadyToStart].status;
  pod.mounted = pod.sandbox;
  adopt_address(pod, json);
  if (pod.sandbox && !needs_network(pod)) take_number(pod);
  if (pod.sandbox) adopt_claims(pod, json);
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (pod.runs[i].now.state == RunState::kRunning) begin_probing(pod, i);
  }
  if (pod.deleting || kube::find_path(json, "metadata.deletionTimestamp") != nullptr) {
    compute_status(pod, host_.wall_now());
    return;
  }
  sync(pod);
  // What the API server has already is not sent again to everybody when a fleet starts.
  if (!full() && find_drift(pod, json) == 0 && pod.work == Work::kNone && devices_told(pod, json)) {
    assume_sent(pod, context());
    pod.dirty = false;
  }
}

// The machine was started anew: the pod is admitted as if it were new, and has to be made anew.
void Manager::begin_again(Pod& pod, const Json& json) {
  if (pod.deleting || kube::find_path(json, "metadata.deletionTimestamp") != nullptr) {
    compute_status(pod, host_.wall_now());
  } else {
    judge(pod, json, !full());
  }
}

uint8_t Manager::find_drift(const Pod& pod, const Json& json) const {
  uint8_t drift = 0;
  for (int type = 0; type < kConditions; ++type) {
    const Condition& mine = pod.conditions[type];
    if (!mine.set) continue;
    const Json* c = find_condition(json, condition_name(type));
    const bool same = c != nullptr && get_string(*c, "status") == (mine.status ? "True" : "False") &&
                      (type == kScheduled || get_string(*c, "reason") == condition_reason(mine.reason));
    if (!same) drift |= static_cast<uint8_t>(1U << type);
  }
  if (get_string(json, "status.phase") != phase_name(pod.shown)) drift |= 1U << kConditions;
  return drift;
}

void Manager::note_drift(Pod& pod, uint8_t drift) {
  // What we are about to write ourselves is no drift.
  pod.drift = pod.dirty || pod.sending || pod.rejected ? 0 : drift;
  if (pod.drift == 0) {
    pod.drift_due = kNever;
  } else if (pod.drift_due == kNever) {
    pod.drift_due = host_.now() + host_.rng().between(std::chrono::seconds(1), std::chrono::seconds(9));
  }
}

// Others overwrote what is the node's: it is written again, and what had changed changes once more.
void Manager::apply_drift(Pod& pod) {
  const int64_t now = host_.wall_now().seconds();
  for (int type = 0; type < kScheduled; ++type) {
    if ((pod.drift >> type & 1) != 0) pod.conditions[type].since = now;
  }
  pod.drift = 0;
  pod.sent = {};
  if (full()) pod.sent[0] = static_cast<uint32_t>(hash_text(render_status(pod, context())));
  pod.api_conditions = true;
  pod.dirty = true;
}

}  // namespace ghostfleet::agent
