// Structural schemas of custom resources: pruning, defaults, validation. Validation rules in CEL
// (x-kubernetes-validations) are not evaluated.
//
// Thread rule: pure functions.
#pragma once

#include "base/clock.h"
#include "controlplane/apiserver/strategies/validation.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// Drops unknown fields (unless the schema preserves them) and nulls of fields that are not nullable. The root keeps
// apiVersion, kind and metadata. Answers the paths of the unknown fields, sorted; a null that goes is none.
std::vector<std::string> prune_by_schema(kube::Json& object, const kube::Json& schema);
void default_by_schema(kube::Json& object, const kube::Json& schema);
void check_by_schema(const kube::Json& object, const kube::Json& schema, Findings& out);

// What holds a deleted definition until its objects are gone.
inline constexpr std::string_view kCustomCleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io";
// Sets a condition in the status of a CustomResourceDefinition.
void set_definition_condition(kube::Json& definition, std::string_view type, bool status, std::string_view reason,
                              std::string_view message, WallTime now);

// Findings about a schema itself: types given and known.
void check_schema(const kube::Json& schema, const Path& path, Findings& out);

}  // namespace ghostfleet::controlplane
