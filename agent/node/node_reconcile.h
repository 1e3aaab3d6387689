// What to change on a Node that exists already: the strategic merge patch that makes it ours, or brings its status to
// what our template says. Used when registering meets an existing node, when a fleet takes its nodes over, and when a
// watch shows a node that differs.
//
// What others wrote stays: conditions beyond the four of a kubelet, capacity and allocatable values that are already
// there (a user's hand-made resource survives a restart; a kubelet without its checkpoint would zero it, and so does
// `zero_devices`), labels, taints and spec.
// Thread rule: pure functions.
#pragma once

#include <string>

#include "agent/node/node_class.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

enum class Ownership : unsigned char {
  kOurs,       // carries our label, or no label is asked for
  kForeign,    // somebody else's: not touched
  kAdoptable,  // somebody else's, and the options say to take it
};
Ownership ownership_of(const kube::Json& node, const NodeOptions& options);

struct WantedStatus {
  bool ready = false;         // the Ready condition is wanted True, else it is left as it is
  bool zero_devices = false;  // all extended resources become 0
  // Plugins have started: what an earlier agent left low (a device that was unhealthy, a plugin that was awaited) is
  // theirs again, unless an annotation says that something is wrong.
  bool restore_devices = false;
  unsigned pressure = 0;    // bit = NodeCondition: True because the node is short of something
  std::string images = {};  // a JSON list; empty: those of the template
};

// The body of the PATCH of .../status, empty when nothing but heartbeat times would change.
std::string reconcile_patch(const kube::Json& existing, const NodeClass& node_class, const NodeIdentity& identity,
                            WallTime now, const WantedStatus& status);

}  // namespace ghostfleet::agent
