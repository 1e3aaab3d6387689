// What admission needs of a Node, cut out of its bytes; and whether a node differs from what its template says, so that
// the template alone will not do.
//
// Thread rule: pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "agent/node/node_class.h"
#include "kube/api/json.h"

namespace ghostfleet::emulator {

// What is wrong with the devices of its DRA driver, "gpu-0=xid:79; driver=down" (agent::parse_faults).
inline constexpr std::string_view kDriverFaults = "dra.ghostfleet.dev/faults";

// An annotation of a Node under devices. or dra.ghostfleet.dev that nothing reads: a typing error. Empty: none.
std::string_view unknown_annotation(std::string_view node_json);

// The text of an annotation; empty: it is not there.
std::string_view node_annotation(std::string_view node_json, std::string_view key);

// Labels, taints, unschedulable, allocatable and capacity; null when the bytes are no Node.
std::shared_ptr<const kube::Json> node_facts_object(std::string_view node_json);

// Somebody added or removed labels or taints, changed allocatable, or called devices unhealthy. (A changed value of a
// label that is there is not seen.)
bool node_deviates(std::string_view node_json, const agent::NodeClass& node_class);

// How an existing node of the fleet differs from what its group asks for now: "instance type m5.large there,
// p5.48xlarge asked for"; empty when instance type and capacity are the same.
std::string setting_difference(std::string_view node_json, const agent::NodeTemplate& wanted);

}  // namespace ghostfleet::emulator
