// Kinds served in two versions over one storage: between the version of a request and the stored one.
//
// Thread rule: pure functions on decoded objects.
#pragma once

#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::controlplane {

// The built-in kind whose form is stored: `info` itself for most.
const kube::KindInfo& stored_kind(const kube::KindInfo& info);
kube::Json to_stored_version(const kube::KindInfo& info, kube::Json object);
kube::Json from_stored_version(const kube::KindInfo& info, kube::Json object);

}  // namespace ghostfleet::controlplane
