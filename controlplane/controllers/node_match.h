// Whether a node satisfies a node selector or required node affinity, read from decoded pods: for controllers that
// decide for one pod at a time. (The scheduler has its own, compiled form.)
//
// Pure functions.
#pragma once

#include "controlplane/controllers/node_cache.h"

namespace ghostfleet::controlplane::controllers {

bool matches_node_selector(const kube::Json& pod, const NodeInfo& node);      // spec.nodeSelector
bool matches_required_affinity(const kube::Json& pod, const NodeInfo& node);  // requiredDuringScheduling...

}  // namespace ghostfleet::controlplane::controllers
