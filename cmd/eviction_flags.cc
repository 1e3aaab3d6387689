#include "cmd/eviction_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace ghostfleet::cmd {

void add_eviction_flags(CLI::App& command, EvictionFlags* flags) {
  command.add_option("--eviction-hard", flags->hard,
                     "when pods are evicted at once: SIGNAL<VALUE,... of memory.available, nodefs.available, "
                     "nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available (default "
                     "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,"
                     "imagefs.inodesFree<5%)");
  command.add_option("--eviction-soft", flags->soft, "the same, with a grace period before anything is evicted");
  command.add_option("--eviction-soft-grace-period", flags->soft_grace, "of each soft threshold: SIGNAL=1m30s,...");
  command.add_option("--eviction-minimum-reclaim", flags->minimum_reclaim,
                     "how much more than its threshold must be free again before eviction ends: SIGNAL=VALUE,... like "
                     "memory.available=500Mi,nodefs.available=5%");
  command.add_option("--eviction-max-pod-grace-period", flags->max_pod_grace,
                     "seconds a pod is given at most that a soft threshold evicts (default 0)");
  command.add_option("--eviction-pressure-transition-period", flags->transition,
                     "how long a pressure condition lasts after its signal is good again (default 5m)");
}

Result<agent::EvictionRules> eviction_rules(const EvictionFlags& flags) {
  agent::EvictionRules rules;
  if (!flags.hard.empty()) {
    auto hard = agent::parse_thresholds(flags.hard);
    if (!hard.ok()) return hard.error().with_context("--eviction-hard");
    rules.thresholds = std::move(hard).value();
  }
  auto soft = agent::parse_thresholds(flags.soft);
  if (!soft.ok()) return soft.error().with_context("--eviction-soft");
  if (Status bad = agent::parse_soft_grace(flags.soft_grace, &*soft); !bad.ok()) {
    return bad.with_context("--eviction-soft-grace-period");
  }
  for (agent::EvictionThreshold& t : *soft) rules.thresholds.push_back(std::move(t));
  if (Status bad = agent::parse_minimum_reclaim(flags.minimum_reclaim, &rules.thresholds); !bad.ok())
    return bad.with_context("--eviction-minimum-reclaim");
  if (flags.max_pod_grace < 0 || flags.max_pod_grace > 1000000000) {
    return invalid_argument(
        fmt::format("--eviction-max-pod-grace-period {}: 0 to 1000000000 seconds are expected", flags.max_pod_grace));
  }
  rules.max_pod_grace_seconds = flags.max_pod_grace;
  if (!flags.transition.empty() &&
      (!parse_duration(flags.transition, &rules.transition) || rules.transition < Duration(0))) {
    return invalid_argument(
        fmt::format("--eviction-pressure-transition-period {}: a duration like 5m is expected", flags.transition));
  }
  return rules;
}

}  // namespace ghostfleet::cmd
