// The hooks of containers. None is executed: an exec hook fails while a probe of the word that begins its command
// would, one that asks over HTTP passes, one that sleeps takes its time.
#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

bool Manager::hook_fails(const Pod& pod, size_t index, const Hook& hook) const {
  if (hook.kind != HookKind::kExec) return false;
  ProbeSpec like;
  like.word = hook.word;
  return !passes(script_of(pod, index), like, host_.wall_now() - pod.runs[index].now.started_at);
}

// True: the pod's worker waits for it.
bool Manager::begin_post_start(Pod& pod, size_t index) {
  const Hook& hook = pod.spec->containers[index].post_start;
  if (hook.kind == HookKind::kNone) return false;
  if (hook_fails(pod, index, hook)) {
    post_start_failed(pod, index);
    return true;
  }
  if (hook.sleep == Duration(0)) return false;
  pod.busy_with = static_cast<uint32_t>(index);
  pod.work = Work::kHook;
  pod.work_due = host_.now() + hook.sleep;
  return true;
}

void Manager::post_start_failed(Pod& pod, size_t index) {
  tell(pod, true, "FailedPostStartHook", "PostStartHook failed", static_cast<int>(index));
  tell(pod, false, "Killing", "FailedPostStartHook", static_cast<int>(index));
  pod.busy_with = static_cast<uint32_t>(index);
  pod.work = Work::kHookStop;
  pod.work_due = stop_one(pod, index, host_.now(), pod.spec->grace_seconds, {});
}

void Manager::hook_stopped(Pod& pod) {
  pod.runs[pod.busy_with].tried = true;
  fail(pod, pod.busy_with, Why::kPostStartHook, error_delay());
  run_pass(pod);
}

// How long the container's preStop hook takes of its grace period.
Duration Manager::pre_stop(Pod& pod, size_t index, int64_t grace_seconds) {
  const Hook& hook = pod.spec->containers[index].pre_stop;
  if (hook.kind == HookKind::kNone || grace_seconds <= 0) return Duration(0);
  if (hook_fails(pod, index, hook)) {
    tell(pod, true, "FailedPreStopHook", "PreStopHook failed", static_cast<int>(index));
  }
  return std::min<Duration>(hook.sleep, std::chrono::seconds(grace_seconds));
}

}  // namespace ghostfleet::agent
