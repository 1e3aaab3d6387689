// The arithmetic of a Deployment's roll-out: pure functions over replica counts, and the name hash of a pod template.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kube/api/json.h"

namespace ghostfleet::controlplane::controllers {

struct RollingLimits {
  int64_t max_surge = 0;
  int64_t max_unavailable = 0;
};
// From spec.strategy.rollingUpdate: percents of surge are rounded up, of unavailable down; both zero would never move,
// then one may be unavailable.
RollingLimits rolling_limits(const kube::Json& deployment);

// A ReplicaSet as the arithmetic sees it.
struct SetSize {
  int64_t wanted = 0;     // spec.replicas
  int64_t available = 0;  // status.availableReplicas
};

// What the new set may have now, given all sets' wanted replicas together.
int64_t next_new_size(int64_t replicas, const RollingLimits& limits, int64_t new_wanted, int64_t total_wanted);

// The old sets' next sizes (oldest first in `old_sets`): unhealthy replicas go first, then ready ones as far as
// availability allows.
std::vector<int64_t> next_old_sizes(int64_t replicas, const RollingLimits& limits, const SetSize& new_set,
                                    const std::vector<SetSize>& old_sets);

// Distributes a change of spec.replicas over the active sets in proportion to their size. `sets` in order of
// precedence for the remainder (largest first); `annotated` is each set's max-replicas annotation (0: none).
std::vector<int64_t> proportional_sizes(const std::vector<int64_t>& sizes, const std::vector<int64_t>& annotated,
                                        int64_t allowed_total, int64_t max_replicas);

// The pod-template-hash: stable for equal templates, other for another collision count. Only letters and digits that
// cannot spell words.
std::string template_hash(const kube::Json& pod_template, int64_t collision_count);
// Equal but for the label pod-template-hash.
bool same_template(const kube::Json& a, const kube::Json& b);

}  // namespace ghostfleet::controlplane::controllers
