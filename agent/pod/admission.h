// Admission: whether a node takes a pod that was bound to it, with the reasons and texts of a kubelet
// (kubelet.md 4.3.O).
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/pod/pod_template.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

struct Rejection {
  std::string reason;   // OutOfcpu, NodeAffinity, ...
  std::string message;  // as in the event; the status puts "Pod was rejected: " before it
};

// `node`: the node as last seen (null: nothing is known of it, every pod is taken). `running`: templates of the pods
// that hold resources of the node now.
std::optional<Rejection> admit(const kube::Json& pod, const PodTemplate& wanted, const kube::Json* node,
                               std::string_view node_name, const std::vector<const PodTemplate*>& running);

// Whether the pod's nodeSelector and required node affinity match.
bool matches_node(const kube::Json& pod, const kube::Json& node, std::string_view node_name);

}  // namespace ghostfleet::agent
