// What the controller of ResourceClaims and the scheduler both know of a claim.
//
// Thread rule: pure functions. Source: resource.k8s.io/v1.
#pragma once

#include <cstddef>

#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// Of an allocated claim: it stays until its devices are free.
inline constexpr const char* kClaimFinalizer = "resource.kubernetes.io/delete-protection";
inline constexpr size_t kMostReserved = 256;  // users of a claim

inline bool is_allocated(const kube::Json& claim) { return kube::find_path(claim, "status.allocation") != nullptr; }

}  // namespace ghostfleet::controlplane
