// Structural schemas of custom resources: pruning, defaults, validation. Validation rules in CEL
// (x-kubernetes-validations) are not evaluated.
//
// Thread rule: pure functions.
#pragma once

#include "controlplane/apiserver/strategies/validation.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// Drops unknown fields (unless the schema preserves them) and nulls of fields that are not nullable. The root keeps
// apiVersion, kind and metadata.
void prune_by_schema(kube::Json& object, const kube::Json& schema);
void default_by_schema(kube::Json& object, const kube::Json& schema);
void check_by_schema(const kube::Json& object, const kube::Json& schema, Findings& out);

// Findings about a schema itself: types given and known.
void check_schema(const kube::Json& schema, const Path& path, Findings& out);

}  // namespace ghostfleet::controlplane
