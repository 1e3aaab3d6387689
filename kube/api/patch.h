// Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch, and the two-way diff a kubelet
// sends.
//
// Thread rule: pure functions. Errors carry the code and words of a real API server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kube/api/api_error.h"
#include "kube/api/field_table.h"
#include "kube/api/json.h"

namespace ghostfleet::kube {

inline constexpr size_t kMaxJsonPatchOperations = 10000;
// Bytes that `copy` operations of one JSON patch may add in all.
inline constexpr size_t kMaxJsonPatchCopyBytes = 3 * 1024 * 1024;

ApiResult<Json> apply_json_patch(Json target, const Json& patch);
// `patch` is an object: check_patch_body() first.
Json apply_merge_patch(Json target, const Json& patch);
// `type` of the object being patched. Directives: $patch, $retainKeys, $deleteFromPrimitiveList/F, $setElementOrder/F.
ApiResult<Json> apply_strategic_merge_patch(Json target, const Json& patch, const TypeInfo& type);

// The strategic merge patch that turns `before` into `after` (metadata and status included, spec too when it differs),
// with $setElementOrder for merge lists, as client-go's two-way diff makes it; keys sorted, as Go marshals a map. An
// empty object when they are equal; but an unsorted list of scalars that did not change (finalizers) is told as
// $setElementOrder, as client-go does.
Json make_strategic_merge_patch(const Json& before, const Json& after, const TypeInfo& type);

// A merge or strategic patch must be an object: the 400 for anything else. `strategic` drops the words "error decoding
// patch: " and lets null pass (it changes nothing).
ApiResult<bool> check_patch_body(const Json& patch, bool strategic);
// Members of JSON patch operations nobody knows: "[0].colour"; for warnings ("json patch unknown field \"...\"").
std::vector<std::string> unknown_json_patch_fields(const Json& patch);

// The 422 of a patch whose result cannot be decoded: ` "" is invalid: patch: Invalid value: "SHOWN": DETAIL`. `shown`
// is the patched JSON text (JSON and merge patch) or go_text(patch) (strategic).
ApiError invalid_patch_result(std::string_view shown, std::string_view detail);
// A value as Go's %+v prints it: map[a:1 b:[x y]].
std::string go_text(const Json& value);
// What Go's converter says when a strategically merged object does not fit its type ("cannot restore slice from map");
// the empty text when it does.
std::string conversion_problem(const Json& merged, const TypeInfo& type);

}  // namespace ghostfleet::kube
