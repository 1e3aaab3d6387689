// What a real server says of a strategically merged object that does not fit its type. It converts maps to structs
// field by field and stops at the first misfit.
#include <fmt/format.h>

#include <string>

#include "kube/api/patch.h"

namespace ghostfleet::kube {
namespace {

std::string_view go_kind(const Json& value) {
  if (value.is_object()) return "map";
  if (value.is_array()) return "slice";
  if (value.is_string()) return "string";
  if (value.is_bool()) return "bool";
  return value.is_double() ? "float64" : "int64";
}

std::string cannot_convert(const Json& value, std::string_view to) {
  const std::string_view from = value.is_object()  ? "map[string]interface {}"
                                : value.is_array() ? "[]interface {}"
                                                   : go_kind(value);
  return fmt::format("cannot convert {} to {}", from, to);
}

bool is_whole(const Json& value) {
  return value.is_int64() || value.is_uint64() ||
         (value.is_double() && value.get_double() == static_cast<double>(static_cast<int64_t>(value.get_double())));
}

std::string struct_problem(const Json& value, const TypeInfo& type);

std::string single_problem(const Json& value, const FieldInfo& field) {
  const std::string& to = field.repeated || field.map ? field.go_element : field.go_type;
  switch (field.kind) {
    case FieldKind::kString: return value.is_string() ? "" : cannot_convert(value, to);
    case FieldKind::kBool: return value.is_bool() ? "" : cannot_convert(value, to);
    case FieldKind::kInt32:
    case FieldKind::kInt64: return is_whole(value) ? "" : cannot_convert(value, to);
    case FieldKind::kDouble: return value.is_number() ? "" : cannot_convert(value, to);
    case FieldKind::kBytes: return value.is_string() ? "" : fmt::format("cannot restore slice from {}", go_kind(value));
    case FieldKind::kMessage: return field.message != nullptr ? struct_problem(value, *field.message) : "";
    default: return "";  // these decode themselves and have their own words
  }
}

std::string field_problem(const Json& value, const FieldInfo& field) {
  if (value.is_null()) return "";
  if (field.map) {
    if (!value.is_object()) return fmt::format("cannot restore map from {}", go_kind(value));
    if (field.map_of_lists) return "";
    for (const auto& m : value.get_object()) {
      if (m.value().is_null()) continue;
      if (std::string bad = single_problem(m.value(), field); !bad.empty()) return bad;
    }
    return "";
  }
  if (field.repeated) {
    if (!value.is_array()) return fmt::format("cannot restore slice from {}", go_kind(value));
    for (const Json& item : value.get_array()) {
      if (item.is_null()) continue;
      if (std::string bad = single_problem(item, field); !bad.empty()) return bad;
    }
    return "";
  }
  return single_problem(value, field);
}

std::string struct_problem(const Json& value, const TypeInfo& type) {
  if (!value.is_object()) return fmt::format("cannot restore struct from: {}", go_kind(value));
  for (const auto& m : value.get_object()) {
    const FieldInfo* field = type.find(m.key());
    if (field == nullptr) continue;
    if (std::string bad = field_problem(m.value(), *field); !bad.empty()) return bad;
  }
  return "";
}

}  // namespace

std::string conversion_problem(const Json& merged, const TypeInfo& type) { return struct_problem(merged, type); }

}  // namespace ghostfleet::kube
