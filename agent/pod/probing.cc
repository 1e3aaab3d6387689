// Probes, as far as the words of a container's script tell their results: a probe is asked only while its result can
// still change, so that a pod whose probes pass costs nothing.
#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {

// The age of the container from which on the probe passes, and from which on it fails (0: never).
Duration passes_from(const Script& script, ProbeWord word) {
  if (word == ProbeWord::kReady) return script.ready;
  return word == ProbeWord::kStarted ? script.started : Duration(0);
}
Duration fails_from(const Script& script, ProbeWord word) {
  return word == ProbeWord::kLive ? script.live : Duration(0);
}

bool passes(const Script& script, ProbeWord word, Duration age) {
  const Duration fail = fails_from(script, word);
  return age >= passes_from(script, word) && (fail == Duration(0) || age < fail);
}

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

}  // namespace

// Probes come at the pod's own beat, one a period, whenever its containers start.
TimePoint Manager::probe_tick(const Pod& pod, const ProbeSpec& probe, TimePoint after) const {
  const int64_t past = std::max<int64_t>((after - pod.probe_base).count(), 0);
  const int64_t period = probe.period.count();
  return pod.probe_base + Duration((past / period + 1) * period);
}

void Manager::begin_probing(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  run.probing.reset();
  const auto has = [&](ProbeKind kind) { return spec.probes[static_cast<int>(kind)].present; };
  // In light fidelity a probe that passes at once is part of the start.
  const auto passes_now = [&](ProbeKind kind) {
    const ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
    return !full() && probe.initial_delay == Duration(0) && probe.success_threshold == 1 &&
           passes(spec.script, probe.word, Duration(0));
  };
  if (!has(ProbeKind::kStartup) || passes_now(ProbeKind::kStartup)) run.now.started = true;
  if (run.now.started) {
    if (!has(ProbeKind::kReadiness) || passes_now(ProbeKind::kReadiness)) run.now.ready = !spec.init || spec.sidecar;
    if (has(ProbeKind::kReadiness) && !run.now.ready) begin_probe(pod, index, ProbeKind::kReadiness);
    if (has(ProbeKind::kLiveness)) begin_probe(pod, index, ProbeKind::kLiveness);
  } else {
    begin_probe(pod, index, ProbeKind::kStartup);
  }
}

void Manager::begin_probe(Pod& pod, size_t index, ProbeKind kind) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
  ContainerRun& run = pod.runs[index];
  const TimePoint now = host_.now();
  TimePoint due = kNever;
  if (kind == ProbeKind::kLiveness) {
    const Duration fail = fails_from(spec.script, probe.word);
    const bool fails_now = passes_from(spec.script, probe.word) > Duration(0);
    if (fail == Duration(0) && !fails_now) return;
    due = probe_tick(pod, probe, now);
  } else if (kind == ProbeKind::kReadiness) {
    // Asked at once, beside its beat.
    due = now + std::chrono::milliseconds(10);
  } else {
    due = probe_tick(pod, probe, now);
  }
  if (run.probing == nullptr) run.probing = std::make_unique<Probing>();
  run.probing->due[static_cast<int>(kind)] = due;
}

void Manager::probe(Pod& pod, size_t index, ProbeKind kind) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
  ContainerRun& run = pod.runs[index];
  const int k = static_cast<int>(kind);
  const TimePoint due = run.probing->due[k];
  run.probing->due[k] = kNever;
  // Liveness and startup end when the pod begins to stop.
  if (run.now.state != RunState::kRunning || run.unhealthy) return;
  if (pod.stage != Stage::kActive && kind != ProbeKind::kReadiness) return;
  const Duration age = host_.wall_now() - run.now.started_at;
  run.probing->due[k] = probe_tick(pod, probe, due);
  if (age < probe.initial_delay) return;
  if (passes(spec.script, probe.word, age)) {
    probe_passed(pod, index, kind);
  } else {
    probe_failed(pod, index, kind);
  }
}

void Manager::probe_passed(Pod& pod, size_t index, ProbeKind kind) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const ProbeSpec& probe = spec.probes[static_cast<int>(kind)];
  ContainerRun& run = pod.runs[index];
  const int k = static_cast<int>(kind);
  run.probing->bad[k] = 0;
  if (kind == ProbeKind::kLiveness) {
    // Nothing to see until it begins to fail.
    const Duration fail = fails_from(spec.script, probe.word);
    const Duration age = host_.wall_now() - run.now.started_at;
    const TimePoint when = host_.now() + (fail - age);
    run.probing->due[k] = fail == Duration(0) ? kNever : probe_tick(pod, probe, when - Duration(1));
    return;
  }
  if (++run.probing->good[k] < probe.success_threshold) return;
  run.probing->due[k] = kNever;
  if (kind == ProbeKind::kReadiness) {
    run.now.ready = true;
  } else {
    run.now.started = true;
    begin_probing(pod, index);
  }
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
  if (kind == ProbeKind::kReadiness || run.probing->bad[k] < probe.failure_threshold) return;
  run.unhealthy = true;
  run.failed_probe = kind;
  run.probing->due = {kNever, kNever, kNever};
  request_sync(pod, host_.now());
}

}  // namespace ghostfleet::agent
