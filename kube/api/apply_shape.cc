#include "kube/api/apply_shape.h"

namespace ghostfleet::kube {
namespace {

Shape struct_shape(const TypeInfo* type) {
  Shape s;
  s.kind = type == nullptr || type->atomic ? Shape::Kind::kLeaf : Shape::Kind::kMap;
  s.type = type;
  return s;
}

Shape single_shape(const FieldInfo& field) {
  if (field.kind != FieldKind::kMessage || field.message == nullptr) return Shape();
  return struct_shape(field.message);
}

Shape field_shape(const FieldInfo& field) {
  Shape s;
  s.field = &field;
  if (field.repeated) {
    if (field.list_type == ListType::kAtomic) return Shape();
    s.kind = field.list_type == ListType::kSet ? Shape::Kind::kSet : Shape::Kind::kKeyed;
    s.keys = field.list_map_keys;
    s.type = field.message;
    return s;
  }
  if (field.map) {
    if (field.atomic_map) return Shape();
    s.kind = Shape::Kind::kMap;
    return s;
  }
  if (field.atomic_map) return Shape();
  return single_shape(field);
}

bool schema_flag(const Json& schema, std::string_view key) {
  const Json* flag = find_key(schema, key);
  return flag != nullptr && flag->is_bool() && flag->get_bool();
}

Shape schema_shape(const Json& schema) {
  Shape s;
  s.schema = &schema;
  const std::string_view type = get_string(schema, "type");
  if (schema_flag(schema, "x-kubernetes-int-or-string")) return Shape();
  if (type == "array") {
    const Json* kind = find_key(schema, "x-kubernetes-list-type");
    const std::string_view list = kind != nullptr && kind->is_string() ? std::string_view(kind->get_string()) : "";
    if (list == "set") s.kind = Shape::Kind::kSet;
    if (list == "map") s.kind = Shape::Kind::kKeyed;
    if (const Json* keys = find_key(schema, "x-kubernetes-list-map-keys"); keys != nullptr && keys->is_array()) {
      for (const Json& key : keys->get_array()) {
        if (key.is_string()) s.keys.emplace_back(key.get_string());
      }
    }
    return s;
  }
  if (type == "object" || (type.empty() && find_key(schema, "properties") != nullptr)) {
    const Json* kind = find_key(schema, "x-kubernetes-map-type");
    if (kind != nullptr && kind->is_string() && kind->get_string() == "atomic") return s;
    s.kind = Shape::Kind::kMap;
    return s;
  }
  s.free = type.empty();
  return s;
}

Shape free_shape() {
  Shape s;
  s.free = true;
  return s;
}

const Json* property(const Json& schema, std::string_view key) {
  const Json* properties = find_key(schema, "properties");
  return properties != nullptr ? find_key(*properties, key) : nullptr;
}

std::optional<Shape> schema_member(const Shape& shape, std::string_view key) {
  if (shape.root || schema_flag(*shape.schema, "x-kubernetes-embedded-resource")) {
    if (key == "metadata") return struct_shape(find_type("meta/v1.ObjectMeta"));
    if (key == "apiVersion" || key == "kind") return Shape();
  }
  if (const Json* child = property(*shape.schema, key)) return schema_shape(*child);
  const Json* additional = find_key(*shape.schema, "additionalProperties");
  if (additional != nullptr && additional->is_object()) return schema_shape(*additional);
  if (additional != nullptr && additional->is_bool() && additional->get_bool()) return free_shape();
  if (schema_flag(*shape.schema, "x-kubernetes-preserve-unknown-fields")) return free_shape();
  return std::nullopt;
}

Json zero_value(const FieldInfo& field) {
  if (field.repeated || field.map || field.pointer) return nullptr;
  switch (field.kind) {
    case FieldKind::kMessage: return zero_object(field.message);
    case FieldKind::kString: return "";
    case FieldKind::kBool: return false;
    case FieldKind::kInt32:
    case FieldKind::kInt64:
    case FieldKind::kDouble:
    case FieldKind::kIntOrString: return 0;
    case FieldKind::kQuantity: return "0";
    default: return nullptr;
  }
}

}  // namespace

Shape root_shape(const ApplySchema& schema) {
  if (schema.type != nullptr) return struct_shape(schema.type);
  if (schema.structural == nullptr) return free_shape();
  Shape s = schema_shape(*schema.structural);
  s.root = true;
  return s;
}

std::optional<Shape> member_shape(const Shape& shape, std::string_view key) {
  if (shape.free) return free_shape();
  if (shape.schema != nullptr) return schema_member(shape, key);
  if (shape.field != nullptr) {  // the values of a map
    return shape.field->map_of_lists ? Shape() : single_shape(*shape.field);
  }
  if (shape.type == nullptr) return Shape();
  if (shape.type->type_meta && (key == "kind" || key == "apiVersion")) return Shape();
  const FieldInfo* field = shape.type->find(key);
  if (field == nullptr) return std::nullopt;
  return field_shape(*field);
}

bool is_named_field(const Shape& shape, std::string_view key) {
  if (shape.free || shape.field != nullptr) return false;
  if (shape.schema != nullptr) {
    return (shape.root && (key == "metadata" || key == "kind" || key == "apiVersion")) ||
           property(*shape.schema, key) != nullptr;
  }
  return shape.type != nullptr && shape.type->find(key) != nullptr;
}

Shape element_shape(const Shape& shape) {
  if (shape.free) return free_shape();
  if (shape.schema != nullptr) {
    const Json* items = find_key(*shape.schema, "items");
    return items != nullptr && items->is_object() ? schema_shape(*items) : free_shape();
  }
  return shape.field != nullptr ? single_shape(*shape.field) : Shape();
}

Shape resolved(Shape shape, const Json& value) {
  if (shape.free) shape.kind = value.is_object() ? Shape::Kind::kMap : Shape::Kind::kLeaf;
  return shape;
}

std::optional<Json> key_default(const Shape& list, const std::string& key) {
  if (list.schema != nullptr) {
    const Json* items = find_key(*list.schema, "items");
    const Json* child = items != nullptr ? property(*items, key) : nullptr;
    const Json* value = child != nullptr ? find_key(*child, "default") : nullptr;
    return value != nullptr ? std::optional<Json>(*value) : std::nullopt;
  }
  const FieldInfo* field = list.type != nullptr ? list.type->find(key) : nullptr;
  if (field == nullptr) return std::nullopt;
  if (!field->default_value.empty()) {
    Result<Json> value = parse_json(field->default_value);
    return value.ok() ? *value : Json(field->default_value);
  }
  // A field that is always written has its zero as default.
  if (field->pointer || field->omitempty || field->kind == FieldKind::kMessage) return std::nullopt;
  return zero_value(*field);
}

Json zero_object(const TypeInfo* type) {
  JsonObject out;
  if (type == nullptr) return out;
  for (uint16_t index : type->always_written) {
    const FieldInfo& field = *type->flat[index].field;
    out.emplace(field.json_name, zero_value(field));
  }
  return out;
}

}  // namespace ghostfleet::kube
