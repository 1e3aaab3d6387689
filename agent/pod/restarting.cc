// Restarting all containers of a pod, as a rule of one of them asks: those that run are stopped without grace, then all
// are taken away, and the pod begins anew in its sandbox.
#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

// True: containers are stopped one after the other, regular ones first.
bool Manager::begin_reset(Pod& pod) {
  if (!pod.spec->restarts_all || !pod.conditions[kAllRestarting].status) return false;
  TimePoint until = host_.now();
  const auto stop = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (pod.runs[i].now.state != RunState::kRunning) continue;
      tell(pod, false, "Killing", "killing", static_cast<int>(i));
      until = stop_one(pod, i, until, 0, {});
    }
  };
  stop(pod.spec->init_count, pod.spec->regular_end());
  stop(0, pod.spec->init_count);
  pod.reset_all = true;
  pod.work = Work::kKilling;
  pod.work_due = until;
  return true;
}

void Manager::end_reset(Pod& pod) {
  pod.reset_all = false;
  pod.work = Work::kNone;
  pod.ever_started = false;
  for (size_t i = 0; i < pod.spec->regular_end(); ++i) {
    ContainerRun& run = pod.runs[i];
    if (run.now.state == RunState::kAbsent) continue;
    const uint32_t attempt = run.now.attempt + 1;
    const bool was_ready = run.shown.ready;  // of an init container that was done
    run.now =
        Look{.ready = was_ready && i < pod.spec->init_count && !pod.spec->containers[i].sidecar, .attempt = attempt};
    run.now.last = Ended{.code = 137, .known = true, .located = false, .reset = true};
    run.script_from = attempt;
    run.reason = Why::kRestartingAll;
    run.probing.reset();
    run.reading.reset();
    run.fresh = run.unhealthy = false;
    run.exit_due = kNever;
    run.backoff = {};
  }
  sync(pod);
}

}  // namespace ghostfleet::agent
