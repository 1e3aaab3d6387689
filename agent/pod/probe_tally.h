// ProbeTally: how often a container's probes were asked and how they went, as a kubelet counts them
// (prober_probe_total). Worked out from the script when somebody wants to know it: a probe that changes nothing is not
// asked here at all.
//
// Thread rule: plain values, pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "agent/pod/pod_template.h"

namespace ghostfleet::agent {

struct ProbeTally {
  bool present = false;  // the container has this probe
  uint64_t successful = 0, failed = 0;
};
using ProbeTallies = std::array<ProbeTally, kProbeKinds>;  // by ProbeKind

// The age of a container from which on the probe passes, and from which on it fails (0: never).
Duration probe_passes_from(const Script& script, const ProbeSpec& probe);
Duration probe_fails_from(const Script& script, const ProbeSpec& probe);

bool has_probes(const ContainerSpec& spec);
// Of one attempt that is, or became, this old; `script`: of this attempt.
ProbeTallies tally_probes(const ContainerSpec& spec, const Script& script, Duration age);
void add_tallies(ProbeTallies* sum, const ProbeTallies& more);

}  // namespace ghostfleet::agent
