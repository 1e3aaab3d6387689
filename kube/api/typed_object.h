// Building the decoded form of one struct, and the zero values in it. Shared by the readers of JSON and of protobuf.
//
// Thread rule: pure functions.
#pragma once

#include <vector>

#include "kube/api/field_table.h"
#include "kube/api/json.h"

namespace ghostfleet::kube {

// A value read for a field: the index is into TypeInfo::flat.
struct FieldSlot {
  int field;
  Json value;
};

// Takes the slots from `base` on and makes an object of them: in table order, empty values of omitempty fields left
// out, the values that are always written filled in.
void build_object(const TypeInfo& type, std::vector<FieldSlot>* slots, size_t base, Json* out);

// The value a field has when nothing was given, as it is written: "", 0, {}, null, ...
Json zero_value(const FieldInfo& field);
// The same for one element of a list or map of such values.
Json zero_element(const FieldInfo& field);
Json zero_struct(const TypeInfo& type);
// True when Go's omitempty leaves the value out.
bool is_empty_value(const FieldInfo& field, const Json& value);

}  // namespace ghostfleet::kube
