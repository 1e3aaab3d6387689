// Admission: whether a node takes a pod that was bound to it, with the reasons and texts of a kubelet
// 1.36.
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/pod/pod_template.h"
#include "agent/pod/pressure.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

// A resource of which the node has not enough, and how much is missing.
struct Shortage {
  std::string resource;
  int64_t missing = 0;
};

struct Rejection {
  std::string reason;   // OutOfcpu, NodeAffinity, ...
  std::string message;  // as in the event; the status puts "Pod was rejected: "
                        // before it
  // Nothing but these stands in the way: a critical pod may have others removed.
  std::vector<Shortage> shortages = {};
};

// Pods with such a priority are admitted at others' expense.
inline constexpr int64_t kCriticalPriority = 2000000000;

// `node`: the node as last seen (null: nothing is known of it, every pod is taken). `running`: templates of the pods
// that hold resources of the node now. `pressure`: what the node is short of (PressureBit), as its own look at it says.
std::optional<Rejection> admit(const kube::Json& pod, const PodTemplate& wanted, const kube::Json* node,
                               std::string_view node_name, const std::vector<const PodTemplate*>& running,
                               unsigned pressure = 0);

// What of the pod's requests the node has not (the first one said as a rejection).
std::optional<Rejection> check_resources(const PodTemplate& wanted, const kube::Json& node,
                                         const std::vector<const PodTemplate*>& running);

// Whether the pod's nodeSelector and required node affinity match.
bool matches_node(const kube::Json& pod, const kube::Json& node, std::string_view node_name);

}  // namespace ghostfleet::agent
