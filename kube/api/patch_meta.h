// How a field merges under a strategic merge patch. Internal to kube/api.
#pragma once

#include <string_view>

#include "kube/api/field_table.h"
#include "kube/api/json.h"

namespace ghostfleet::kube {

inline constexpr std::string_view kPatchDirective = "$patch";
inline constexpr std::string_view kRetainKeys = "$retainKeys";
inline constexpr std::string_view kDeleteFromPrimitiveList = "$deleteFromPrimitiveList";
inline constexpr std::string_view kSetElementOrder = "$setElementOrder";

struct PatchMeta {
  bool known = false;    // the field exists
  bool merge = false;    // lists: element by element
  bool replace = false;  // maps: as one value
  bool retain_keys = false;
  std::string_view merge_key;
  const TypeInfo* element = nullptr;  // of the struct, the list's elements or the map's values; null: none
};

// `type` may be null (values of maps, free JSON): then nothing is known and maps merge, lists are replaced.
PatchMeta patch_meta(const TypeInfo* type, std::string_view key);

// Two scalars that Go would call equal as interface values.
bool same_scalar(const Json& a, const Json& b);
// The text Go sorts by (%v).
std::string scalar_text(const Json& value);

}  // namespace ghostfleet::kube
