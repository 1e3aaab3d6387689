// Server-side apply: ownership of fields, conflicts, merging (apiserver.md 2.11).
//
// Ownership is kept only for objects touched by an Apply, except where a real server's clients read it: `track`
// decides. Thread rule: pure functions on decoded objects.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "kube/api/api_error.h"
#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::kube {

// What decides the shape of an object for apply: the field table's type, or a custom resource's structural schema (JSON
// of openAPIV3Schema), or neither (maps granular, lists atomic).
struct ApplySchema {
  const TypeInfo* type = nullptr;
  const Json* structural = nullptr;
};

struct ApplyOptions {
  std::string manager;
  std::string api_version;  // of the request
  std::string subresource;  // "status" or empty
  bool force = false;
  WallTime now;
};

// Applies `config` (the manager's whole intent, decoded but not defaulted) to `live` (null Json when the object does
// not exist). Answers the merged object with its managedFields; the caller defaults, validates and stores it.
// Conflicts: 409.
ApiResult<Json> server_side_apply(const Json& live, const Json& config, const KindInfo& kind, const ApplySchema& schema,
                                  const ApplyOptions& options);

// After an Update/Patch/Create by `manager`: moves ownership of changed fields to its Update entry. `before` is null
// for a create.
void record_update(const Json& before, Json* after, const ApplySchema& schema, const ApplyOptions& options);

}  // namespace ghostfleet::kube
