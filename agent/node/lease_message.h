// A Lease in protobuf, as a kubelet sends it: written, and its version read back, without building an object. A renewal
// costs both sides less than in JSON.
//
// Thread rule: pure functions. Formats: the k8s\0 envelope (runtime.Unknown), coordination.k8s.io/v1 Lease and meta/v1
// ObjectMeta by the field numbers of their published definitions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/node/node_uid.h"
#include "base/clock.h"

namespace ghostfleet::agent {

// A version of 0 leaves resourceVersion out (create).
std::string lease_message(std::string_view node, const NodeUid& uid, uint64_t version, int64_t duration_seconds,
                          WallTime renewed);
// metadata.resourceVersion of an object in its envelope; 0 when the bytes are no such thing.
uint64_t version_of_message(std::string_view envelope);

}  // namespace ghostfleet::agent
