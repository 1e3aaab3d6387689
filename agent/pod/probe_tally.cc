#include "agent/pod/probe_tally.h"

#include <algorithm>

namespace ghostfleet::agent {

namespace {

// Of beats that count from the base on: the last one that is not later.
int64_t beat_at(TimePoint base, Duration period, TimePoint at) {
  const int64_t past = (at - base).count();
  return past < 0 ? -1 : past / period.count();
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

uint64_t beats_between(TimePoint base, Duration period, TimePoint from, TimePoint until) {
  if (until <= from) return 0;
  return static_cast<uint64_t>(beat_at(base, period, until) - beat_at(base, period, from));
}

ProbeTally tally_beats(const Script& script, const ProbeSpec& probe, TimePoint base, TimePoint started, TimePoint from,
                       TimePoint until) {
  const Duration passes_from = probe_passes_from(script, probe);
  const TimePoint passes = passes_from == Duration(0) ? from : started + passes_from;
  const Duration fails = probe_fails_from(script, probe);
  // Ages from `passes` on pass, from `fails` on they do not.
  const TimePoint good_from = std::max(from, passes - Duration(1));
  const TimePoint good_until = fails == Duration(0) ? until : std::min(until, started + fails - Duration(1));
  ProbeTally tally;
  tally.successful = beats_between(base, probe.period, good_from, good_until);
  tally.failed = beats_between(base, probe.period, from, until) - tally.successful;
  return tally;
}

void add_tally(ProbeTally* sum, const ProbeTally& more) {
  sum->successful += more.successful;
  sum->failed += more.failed;
}

}  // namespace ghostfleet::agent
