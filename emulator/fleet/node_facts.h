// What admission needs of a Node, cut out of its bytes; and whether a node differs from what its template says, so that
// the template alone will not do.
//
// Thread rule: pure functions.
#pragma once

#include <memory>
#include <string_view>

#include "agent/node/node_class.h"
#include "kube/api/json.h"

namespace ghostfleet::emulator {

// Labels, taints, unschedulable and allocatable; null when the bytes are no Node.
std::shared_ptr<const kube::Json> node_facts_object(std::string_view node_json);

// Somebody added or removed labels or taints, or changed allocatable. (A changed value of a label that is there is not
// seen.)
bool node_deviates(std::string_view node_json, const agent::NodeClass& node_class);

}  // namespace ghostfleet::emulator
