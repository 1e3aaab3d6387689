// ProbeTally: how often a container's probes were asked and how they went, as a kubelet's probe workers count them
// (prober_probe_total). A probe that changes nothing is not asked here at all; its answers are worked out from the
// script for the beats at which a worker would have asked.
//
// A worker asks once a period, at its own beat, whenever the containers start; a manual run moves the beat of
// readiness. Thread rule: plain values, pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "agent/pod/pod_template.h"

namespace ghostfleet::agent {

struct ProbeTally {
  uint64_t successful = 0, failed = 0;
};
using ProbeTallies = std::array<ProbeTally, kProbeKinds>;  // by ProbeKind

// The age of a container from which on the probe passes, and from which on it fails (0: never).
Duration probe_passes_from(const Script& script, const ProbeSpec& probe);
Duration probe_fails_from(const Script& script, const ProbeSpec& probe);

bool has_probes(const ContainerSpec& spec);

// The beats base, base + period, ... in (from, until].
uint64_t beats_between(TimePoint base, Duration period, TimePoint from, TimePoint until);
// The answers at these beats, of a container that started at `started`.
ProbeTally tally_beats(const Script& script, const ProbeSpec& probe, TimePoint base, TimePoint started, TimePoint from,
                       TimePoint until);
void add_tally(ProbeTally* sum, const ProbeTally& more);

}  // namespace ghostfleet::agent
