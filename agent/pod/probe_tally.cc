#include "agent/pod/probe_tally.h"

#include <algorithm>

namespace ghostfleet::agent {

namespace {

const ProbeSpec& spec_of(const ContainerSpec& spec, ProbeKind kind) { return spec.probes[static_cast<int>(kind)]; }

// Probes come at `first`, first + period and so on: how many of them before this age.
uint64_t asked_before(Duration first, Duration period, Duration age) {
  if (age <= first) return 0;
  return static_cast<uint64_t>((age - first - Duration(1)) / period) + 1;
}

// The age at which the startup probe passes; nullopt: not yet.
std::optional<Duration> tally_startup(const Script& script, const ProbeSpec& probe, Duration age, ProbeTally* tally) {
  const Duration first = probe.initial_delay;
  const uint64_t early = asked_before(first, probe.period, std::min(probe_passes_from(script, probe), age));
  const Duration at = first + static_cast<int64_t>(early) * probe.period;
  const Duration fails = probe_fails_from(script, probe);
  const bool passed = at >= probe_passes_from(script, probe) && at < age && (fails == Duration(0) || at < fails);
  tally->successful = passed ? 1 : 0;
  tally->failed = passed ? early : asked_before(first, probe.period, age);
  return passed ? std::optional(at) : std::nullopt;
}

void tally_other(const Script& script, const ProbeSpec& probe, Duration started, Duration age, ProbeTally* tally) {
  const Duration first = std::max(probe.initial_delay, started);
  const Duration fails = probe_fails_from(script, probe);
  const Duration good_until = fails == Duration(0) ? age : std::min(age, fails);
  const Duration good_from = std::min(probe_passes_from(script, probe), good_until);
  tally->successful = asked_before(first, probe.period, good_until) - asked_before(first, probe.period, good_from);
  tally->failed = asked_before(first, probe.period, age) - tally->successful;
}

}  // namespace

Duration probe_passes_from(const Script& script, const ProbeSpec& probe) {
  if (probe.window) return probe.window->from;
  if (probe.word == ProbeWord::kReady) return script.ready;
  return probe.word == ProbeWord::kStarted ? script.started : Duration(0);
}

Duration probe_fails_from(const Script& script, const ProbeSpec& probe) {
  if (probe.window) return probe.window->until;
  return probe.word == ProbeWord::kLive ? script.live : Duration(0);
}

bool has_probes(const ContainerSpec& spec) {
  return std::any_of(std::begin(spec.probes), std::end(spec.probes), [](const ProbeSpec& p) { return p.present; });
}

ProbeTallies tally_probes(const ContainerSpec& spec, const Script& script, Duration age) {
  ProbeTallies tallies;
  for (int kind = 0; kind < kProbeKinds; ++kind) tallies[kind].present = spec.probes[kind].present;
  std::optional<Duration> started = Duration(0);
  if (const ProbeSpec& startup = spec_of(spec, ProbeKind::kStartup); startup.present)
    started = tally_startup(script, startup, age, &tallies[static_cast<int>(ProbeKind::kStartup)]);
  for (const ProbeKind kind : {ProbeKind::kReadiness, ProbeKind::kLiveness}) {
    const ProbeSpec& probe = spec_of(spec, kind);
    if (probe.present && started) tally_other(script, probe, *started, age, &tallies[static_cast<int>(kind)]);
  }
  return tallies;
}

void add_tallies(ProbeTallies* sum, const ProbeTallies& more) {
  for (int kind = 0; kind < kProbeKinds; ++kind) {
    (*sum)[kind].present |= more[kind].present;
    (*sum)[kind].successful += more[kind].successful;
    (*sum)[kind].failed += more[kind].failed;
  }
}

}  // namespace ghostfleet::agent
