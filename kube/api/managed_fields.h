// Server-side apply and field ownership: who set which field, conflicts, merging.
//
// A real server keeps managedFields on EVERY object written through HTTP, and its clients see them: whole answers of
// the recorded conversations hold them (crud, patch, watch, delete, subresources, reviews ...). So record_update()
// belongs into every create, update and patch: on the object as the request made it and defaulting filled it in, BEFORE
// admission and the strategy's own settings (a real server owns defaulted fields, but not what admission, allocation or
// the strategy put in: serviceAccountName, tolerations by admission, clusterIP, status at creation). Exceptions:
//   - an object that has no managedFields although it exists is not tracked until somebody applies to it (record_update
//     does that by itself);
//   - deletion marks, pods/binding, namespaces/finalize and garbage collection do not touch managedFields;
//   - fields that endpoint resets (status at the main endpoint, spec at /status) must be equal in `before` and `after`.
// Thread rule: pure functions on decoded objects.
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

// More entries of updates than this are merged, oldest first, into "ancient-changes".
inline constexpr size_t kMaxUpdateManagers = 10;

// Applies `config` (the manager's whole intent, decoded but not defaulted nor pruned: an undeclared field is an error
// here, 500) to `live` (null Json when the object does not exist). Answers the merged object with its managedFields;
// the caller defaults, validates and stores it. Conflicts: 409.
ApiResult<Json> server_side_apply(const Json& live, const Json& config, const KindInfo& kind, const ApplySchema& schema,
                                  const ApplyOptions& options);

// After an Update/Patch/Create by `manager`: moves ownership of changed fields to its Update entry. `before` is null
// for a create. managedFields the request itself brought count when they are valid; an empty entry ([{}]) clears.
void record_update(const Json& before, Json* after, const ApplySchema& schema, const ApplyOptions& options);

}  // namespace ghostfleet::kube
