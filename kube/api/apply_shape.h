// Shape: how a value is owned under server-side apply: as one leaf, key by key, or element by element; from the field
// table, a structural schema, or neither. Internal to kube/api.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/api/field_table.h"
#include "kube/api/json.h"
#include "kube/api/managed_fields.h"

namespace ghostfleet::kube {

struct Shape {
  enum class Kind : unsigned char { kLeaf, kMap, kSet, kKeyed };
  Kind kind = Kind::kLeaf;
  const TypeInfo* type = nullptr;    // the struct it is (or its elements are)
  const FieldInfo* field = nullptr;  // list or map of the table: describes the elements
  const Json* schema = nullptr;      // structural schema of the value (or of the list)
  bool free = false;                 // nothing known: maps by key, lists as one
  bool root = false;                 // of a custom resource: kind, apiVersion and metadata beside the schema
  std::vector<std::string> keys;     // of kKeyed

  bool fields_declared() const { return !free && kind == Kind::kMap && field == nullptr; }
};

Shape root_shape(const ApplySchema& schema);
// Of the member `key`; nothing when it is not declared.
std::optional<Shape> member_shape(const Shape& shape, std::string_view key);
// Is `key` a field of a struct (not the key of a map)?
bool is_named_field(const Shape& shape, std::string_view key);
Shape element_shape(const Shape& shape);
// A free shape takes the form of the value.
Shape resolved(Shape shape, const Json& value);
// The value of a missing list key: its default; nothing when there is none.
std::optional<Json> key_default(const Shape& list, const std::string& key);

// What a new object of the type looks like before anything is set, nulls included (what "added" is measured against).
Json zero_object(const TypeInfo* type);

}  // namespace ghostfleet::kube
