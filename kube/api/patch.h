// Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch, and the two-way diff a kubelet
// sends.
//
// Thread rule: pure functions. Errors carry the code and words of a real API server (apiserver.md 2.10 and 11).
#pragma once

#include <string_view>

#include "kube/api/api_error.h"
#include "kube/api/field_table.h"
#include "kube/api/json.h"

namespace ghostfleet::kube {

inline constexpr size_t kMaxJsonPatchOperations = 10000;

ApiResult<Json> apply_json_patch(Json target, const Json& patch);
Json apply_merge_patch(Json target, const Json& patch);
// `type` of the object being patched. Directives: $patch, $retainKeys, $deleteFromPrimitiveList/F, $setElementOrder/F.
ApiResult<Json> apply_strategic_merge_patch(Json target, const Json& patch, const TypeInfo& type);

// The strategic merge patch that turns `before` into `after` (metadata and status included, spec too when it differs),
// with $setElementOrder for merge lists, as client-go's two-way diff makes it. An empty object when they are equal.
Json make_strategic_merge_patch(const Json& before, const Json& after, const TypeInfo& type);

}  // namespace ghostfleet::kube
