// Probes, as far as the words of a container's script tell their results: a probe is asked only while its result can
// still change, so that a pod whose probes pass costs nothing.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"
#include "agent/pod/probe_tally.h"

namespace ghostfleet::agent {

namespace {

constexpr Duration kFirstRun = std::chrono::milliseconds(10);
constexpr Duration kStartTakes = std::chrono::milliseconds(20);

std::string_view probe_name(ProbeKind kind) {
  return kind == ProbeKind::kStartup ? "Startup" : kind == ProbeKind::kReadiness ? "Readiness" : "Liveness";
}

std::string_view failure_text(ProbeHandler handler) {
  switch (handler) {
    case ProbeHandler::kHttp: return "HTTP probe failed with statuscode: 503";
    case ProbeHandler::kTcp: return "dial tcp: connect: connection refused";
    case ProbeHandler::kGrpc: return "service unhealthy (responded with \"NOT_SERVING\")";
    case ProbeHandler::kExec: break;
  }
  return "not yet\n";
}

std::string probe_error(ProbeKind kind, const ProbeSpec& probe) {
  return fmt::format("{} probe errored and resulted in unknown state: strconv.Atoi: parsing \"{}\": invalid syntax",
                     probe_name(kind), probe.unknown_port);
}

}  // namespace

bool Manager::passes(const Script& script, const ProbeSpec& probe, Duration age) {
  if (!probe.unknown_port.empty()) return false;
  const Duration fail = probe_fails_from(script, probe);
  return age >= probe_passes_from(script, probe) && (fail == Duration(0) || age < fail);
}

// Probes come at the pod's own beat, one a period, whenever its containers start; a readiness probe that was asked for
// beside it goes on from there.
TimePoint Manager::probe_tick(const Pod& pod, size_t index, ProbeKind kind, TimePoint after) const {
  const ProbeSpec& probe = pod.spec->containers[index].probes[static_cast<int>(kind)];
  const TimePoint base = beat_base(pod, index, kind);
  const int64_t past = std::max<int64_t>((after - base).count(), 0);
  const int64_t period = probe.period.count();
  return base + Duration((past / period + 1) * period);
}

// A container was made: what has no probe is known at once, the rest begins when a status has shown it.
void Manager::prepare_probes(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  run.probing.reset();
  run.fresh = false;
  if (spec.ephemeral) return;
  const auto has = [&](ProbeKind kind) { return spec.probes[static_cast<int>(kind)].present; };
  // In light fidelity a probe that passes at once is part of the start.
  const auto passes_now = [&](ProbeKind kind) {
    const ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
    return !full() && probe.initial_delay == Duration(0) && probe.success_threshold == 1 &&
           passes(script_of(pod, index), probe, Duration(0));
  };
  run.now.started = !has(ProbeKind::kStartup) || passes_now(ProbeKind::kStartup);
  // One that replaces a running container counts as started until its startup probe has its turn.
  run.stale_started = !run.now.started && run.shown.state == RunState::kRunning && run.shown.started;
  run.now.started |= run.stale_started;
  const bool passes_ready = !has(ProbeKind::kReadiness) || passes_now(ProbeKind::kReadiness);
  run.now.ready = run.now.started && passes_ready && (!spec.init || spec.sidecar);
  run.fresh = has_probes(spec);
  run.passed_at_start = run.fresh && run.now.started && !run.stale_started;
}

// A probe that was part of the start: a worker has asked it once.
void Manager::count_part_of_start(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  if (full() || !std::exchange(run.passed_at_start, false)) return;
  if (run.tallied == nullptr) run.tallied = std::make_unique<ProbeTallies>();
  for (const ProbeKind kind : {ProbeKind::kStartup, ProbeKind::kReadiness}) {
    const int k = static_cast<int>(kind);
    if (!spec.probes[k].present || (kind == ProbeKind::kReadiness && !run.now.ready)) continue;
    ++(*run.tallied)[k].successful;
    if (kind == ProbeKind::kStartup) continue;
    if (run.probing == nullptr) run.probing = std::make_unique<Probing>();
    run.probing->ready_base = host_.now();
  }
}

void Manager::begin_fresh_probes(Pod& pod) {
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (!pod.runs[i].fresh) continue;
    pod.runs[i].fresh = false;
    if (pod.runs[i].now.state == RunState::kRunning) begin_probing(pod, i);
  }
}

void Manager::begin_probing(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const ContainerRun& run = pod.runs[index];
  const auto has = [&](ProbeKind kind) { return spec.probes[static_cast<int>(kind)].present; };
  if (run.stale_started || !run.now.started) {
    if (has(ProbeKind::kStartup)) begin_probe(pod, index, ProbeKind::kStartup);
    // While it counts as started the other probes ask it too.
    if (!run.stale_started) return;
  }
  count_part_of_start(pod, index);
  if (has(ProbeKind::kReadiness)) begin_probe(pod, index, ProbeKind::kReadiness);
  if (has(ProbeKind::kLiveness)) begin_probe(pod, index, ProbeKind::kLiveness);
}

void Manager::begin_probe(Pod& pod, size_t index, ProbeKind kind) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
  ContainerRun& run = pod.runs[index];
  const TimePoint now = host_.now();
  const Script& script = script_of(pod, index);
  const bool may_fail = probe_fails_from(script, probe) > Duration(0) || !probe.unknown_port.empty();
  if (run.probing == nullptr) run.probing = std::make_unique<Probing>();
  TimePoint& due = run.probing->due[static_cast<int>(kind)];
  if (kind == ProbeKind::kReadiness && !run.now.ready) {
    move_readiness_beat(pod, index, now + kFirstRun);
    return;
  }
  // A worker does not ask a startup probe that it takes for passed.
  if (kind != ProbeKind::kStartup || !run.stale_started) begin_tally(pod, index, kind, now);
  if (kind == ProbeKind::kLiveness && !may_fail && probe_passes_from(script, probe) == Duration(0)) return;
  if (kind == ProbeKind::kReadiness && !may_fail) return;
  due = probe_tick(pod, index, kind, now);
}

// Each status of a container that is not ready asks its probe at once, and moves its beat.
void Manager::ask_readiness(Pod& pod) {
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    ContainerRun& run = pod.runs[i];
    constexpr int kKind = static_cast<int>(ProbeKind::kReadiness);
    if (run.now.state != RunState::kRunning || run.now.ready || !run.now.started || run.unhealthy) continue;
    if (!pod.spec->containers[i].probes[kKind].present || run.probing == nullptr) continue;
    move_readiness_beat(pod, i, host_.now() + kFirstRun);
  }
}

// The next run is at `first`, the others go on from there.
void Manager::move_readiness_beat(Pod& pod, size_t index, TimePoint first) {
  Probing& probing = *pod.runs[index].probing;
  end_tally(pod, index, ProbeKind::kReadiness, host_.now());
  probing.ready_base = first;
  probing.due[static_cast<int>(ProbeKind::kReadiness)] = first;
  begin_tally(pod, index, ProbeKind::kReadiness, host_.now());
}

// ---- what a kubelet's workers count

TimePoint Manager::started_time(const ContainerRun& run) const {
  return host_.now() - (host_.wall_now() - run.now.started_at);
}

TimePoint Manager::beat_base(const Pod& pod, size_t index, ProbeKind kind) const {
  const Probing* probing = pod.runs[index].probing.get();
  const bool own = kind == ProbeKind::kReadiness && probing != nullptr && probing->ready_base.ns != 0;
  return own ? probing->ready_base : pod.probe_base;
}

// The answers since they were counted last.
ProbeTally Manager::uncounted(const Pod& pod, size_t index, ProbeKind kind, TimePoint until) const {
  const ContainerRun& run = pod.runs[index];
  const int k = static_cast<int>(kind);
  if (run.probing == nullptr || run.probing->counted[k] == kNever) return {};
  const ProbeSpec& probe = pod.spec->containers[index].probes[k];
  if (!probe.unknown_port.empty()) return {};
  const TimePoint started = started_time(run);
  // The initial delay counts from the second in which the container started.
  const Duration into_second{run.now.started_at.ns % 1000000000};
  const TimePoint first = started - into_second + probe.initial_delay - Duration(1);
  return tally_beats(script_of(pod, index), probe, beat_base(pod, index, kind), started + kStartTakes,
                     std::max(run.probing->counted[k], first), until);
}

ProbeTallies Manager::tallies_of(const Pod& pod, size_t index) const {
  ProbeTallies tallies;
  if (pod.runs[index].tallied != nullptr) tallies = *pod.runs[index].tallied;
  for (int k = 0; k < kProbeKinds; ++k)
    add_tally(&tallies[static_cast<size_t>(k)], uncounted(pod, index, static_cast<ProbeKind>(k), host_.now()));
  return tallies;
}

void Manager::begin_tally(Pod& pod, size_t index, ProbeKind kind, TimePoint from) {
  pod.runs[index].probing->counted[static_cast<size_t>(kind)] = from;
}

void Manager::end_tally(Pod& pod, size_t index, ProbeKind kind, TimePoint until) {
  ContainerRun& run = pod.runs[index];
  const auto k = static_cast<size_t>(kind);
  if (run.probing == nullptr || run.probing->counted[k] == kNever) return;
  const ProbeTally more = uncounted(pod, index, kind, until);
  run.probing->counted[k] = kNever;
  if (more.successful == 0 && more.failed == 0) return;
  if (run.tallied == nullptr) run.tallied = std::make_unique<ProbeTallies>();
  add_tally(&(*run.tallied)[k], more);
}

void Manager::end_probing(Pod& pod, size_t index, TimePoint at) {
  for (const ProbeKind kind : {ProbeKind::kStartup, ProbeKind::kReadiness, ProbeKind::kLiveness})
    end_tally(pod, index, kind, at);
  pod.runs[index].probing.reset();
}

// Whole seconds since the second in which the container started.
int64_t Manager::seconds_up(const ContainerRun& run) const {
  return host_.wall_now().seconds() - run.now.started_at.seconds();
}

// As a probe sees it: who was started at the beat of its probes is a little younger than a whole number of periods.
Duration Manager::age_of(const ContainerRun& run) const {
  return std::max(host_.wall_now() - run.now.started_at - kStartTakes, Duration(0));
}

void Manager::probe(Pod& pod, size_t index, ProbeKind kind) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
  ContainerRun& run = pod.runs[index];
  const int k = static_cast<int>(kind);
  const TimePoint due = run.probing->due[k];
  run.probing->due[k] = kNever;
  if (run.now.state == RunState::kExited) {
    // Once its end was told.
    if (run.shown.state == RunState::kExited) {
      request_sync(pod, host_.now());
    } else {
      run.probing->due[k] = probe_tick(pod, index, kind, due);
    }
    return;
  }
  // Liveness and startup end when the pod begins to stop.
  if (run.now.state != RunState::kRunning || run.unhealthy) return;
  if (pod.stage != Stage::kActive && kind != ProbeKind::kReadiness) return;
  run.probing->due[k] = probe_tick(pod, index, kind, due);
  if (kind == ProbeKind::kStartup && run.stale_started) {
    run.now.started = run.stale_started = run.now.ready = false;
    begin_tally(pod, index, kind, due);
    show_probed(pod, index, host_.wall_now());
    request_sync(pod, host_.now());
    return;
  }
  if (std::chrono::seconds(seconds_up(run)) < probe.initial_delay) return;
  // The others wait until the container has started.
  if (kind != ProbeKind::kStartup && !run.now.started) return;
  // A question that cannot be asked has no answer: nothing changes.
  if (!probe.unknown_port.empty()) {
    tell(pod, true, "Unhealthy", probe_error(kind, probe), static_cast<int>(index));
    return;
  }
  if (passes(script_of(pod, index), probe, age_of(run))) {
    probe_passed(pod, index, kind);
  } else {
    probe_failed(pod, index, kind);
  }
}

// Nothing is to be seen of a probe that passes until it begins to fail.
void Manager::rest_until_it_fails(Pod& pod, size_t index, ProbeKind kind) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const Duration fail = probe_fails_from(script_of(pod, index), spec.probes[static_cast<int>(kind)]);
  const Duration age = age_of(pod.runs[index]);
  TimePoint& due = pod.runs[index].probing->due[static_cast<int>(kind)];
  due = fail == Duration(0) ? kNever : probe_tick(pod, index, kind, host_.now() + (fail - age) - Duration(1));
}

// A probe that passed, or has not said anything yet, fails at its next turn after the container's end, and the pod is
// looked at once more for it.
void Manager::await_failed_probes(Pod& pod, size_t index, TimePoint readiness_beat) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  if (pod.stage != Stage::kActive || !has_probes(spec)) return;
  run.probing = std::make_unique<Probing>();
  run.probing->ready_base = readiness_beat;
  // A startup probe that passed is asked no more.
  const bool waits_to_start = !run.now.started || run.stale_started;
  const bool changes[kProbeKinds] = {waits_to_start, run.now.ready, run.now.started};
  for (int k = 0; k < kProbeKinds; ++k) {
    const bool failed = run.unhealthy && static_cast<int>(run.failed_probe) == k;
    const bool turns = spec.probes[k].present && changes[k] && !failed;
    run.probing->due[k] = turns ? probe_tick(pod, index, static_cast<ProbeKind>(k), host_.now()) : kNever;
  }
}

void Manager::probe_passed(Pod& pod, size_t index, ProbeKind kind) {
  const ProbeSpec& probe = pod.spec->containers[index].probes[static_cast<int>(kind)];
  ContainerRun& run = pod.runs[index];
  const int k = static_cast<int>(kind);
  run.probing->bad[k] = 0;
  if (kind == ProbeKind::kLiveness) {
    rest_until_it_fails(pod, index, kind);
    return;
  }
  if (run.probing->good[k] < UINT16_MAX) ++run.probing->good[k];
  if (run.probing->good[k] < probe.success_threshold) return;
  if (kind == ProbeKind::kReadiness) {
    rest_until_it_fails(pod, index, kind);
    run.now.ready = true;
  } else {
    run.probing->due[k] = kNever;
    end_tally(pod, index, kind, host_.now());
    run.now.started = true;
    const ContainerSpec& spec = pod.spec->containers[index];
    if (!spec.probes[static_cast<int>(ProbeKind::kReadiness)].present) run.now.ready = true;
    begin_probing(pod, index);
  }
  show_probed(pod, index, host_.wall_now());
  request_sync(pod, host_.now());
}

void Manager::probe_failed(Pod& pod, size_t index, ProbeKind kind) {
  const ProbeSpec& probe = pod.spec->containers[index].probes[static_cast<int>(kind)];
  ContainerRun& run = pod.runs[index];
  const int k = static_cast<int>(kind);
  run.probing->good[k] = 0;
  tell(pod, true, "Unhealthy",
       std::string(probe_name(kind)) + " probe failed: " + std::string(failure_text(probe.handler)),
       static_cast<int>(index));
  if (run.probing->bad[k] < UINT16_MAX) ++run.probing->bad[k];
  if (run.probing->bad[k] < probe.failure_threshold) return;
  if (kind == ProbeKind::kReadiness) {
    if (run.now.ready) request_sync(pod, host_.now());
    run.now.ready = false;
    show_probed(pod, index, host_.wall_now());
    return;
  }
  // This worker waits for another container; the others ask until it has stopped.
  end_tally(pod, index, kind, host_.now());
  run.unhealthy = true;
  run.failed_probe = kind;
  run.probing->due = {kNever, kNever, kNever};
  request_sync(pod, host_.now());
}

}  // namespace ghostfleet::agent
