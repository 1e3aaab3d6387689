#include "kube/api/openapi.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/digest.h"

namespace ghostfleet::kube {
namespace {

constexpr std::string_view kMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.";

// "core/v1.PodSpec" -> "io.k8s.api.core.v1.PodSpec"
std::string schema_name(const TypeInfo& type) {
  if (type.group == "meta") return std::string(kMeta) + type.short_name;
  std::string package = "io.k8s.api." + type.group.substr(0, type.group.find('.'));
  if (type.group == "apiextensions.k8s.io") package = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions";
  if (type.group == "apiregistration.k8s.io") package = "io.k8s.kube-aggregator.pkg.apis.apiregistration";
  return package + "." + type.version + "." + type.short_name;
}

// "example.com", "v1", "Widget" -> "com.example.v1.Widget"
std::string custom_schema_name(const KindInfo& kind) {
  std::string out;
  std::string_view rest = kind.group;
  while (!rest.empty()) {
    const size_t dot = rest.rfind('.');
    const std::string_view part = dot == std::string_view::npos ? rest : rest.substr(dot + 1);
    out += std::string(part) + ".";
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(0, dot);
  }
  return out + kind.version + "." + kind.kind;
}

Json gvk(const KindInfo& k) { return JsonObject{{"group", k.group}, {"kind", k.kind}, {"version", k.version}}; }

Json reference(std::string_view name) { return JsonObject{{"$ref", "#/components/schemas/" + std::string(name)}}; }

// Collects the schemas that a document needs.
class Schemas {
 public:
  void add_kind(const KindInfo& kind) {
    if (kind.type == nullptr) return;
    add_type(*kind.type);
    Json& schema = schemas_[schema_name(*kind.type)];
    JsonObject& properties = ensure_object(schema, "properties");
    if (!properties.contains("apiVersion")) {
      properties["apiVersion"] =
          JsonObject{{"type", "string"}, {"description", "Version of the schema this object is written in."}};
      properties["kind"] = JsonObject{{"type", "string"}, {"description", "Kind of this object, in CamelCase."}};
    }
    schema.as_object()["x-kubernetes-group-version-kind"] = JsonArray{gvk(kind)};
    if (const TypeInfo* list =
            find_type((kind.group.empty() ? "core" : kind.group) + "/" + kind.version + "." + kind.kind + "List"))
      add_type(*list);
  }

  void add_custom(const KindInfo& kind, const Json* schema) {
    Json copy = schema == nullptr ? Json(JsonObject{{"type", "object"}}) : *schema;
    if (!copy.is_object()) copy = JsonObject{{"type", "object"}};
    JsonObject& properties = ensure_object(copy, "properties");
    properties["apiVersion"] =
        JsonObject{{"type", "string"}, {"description", "Version of the schema this object is written in."}};
    properties["kind"] = JsonObject{{"type", "string"}, {"description", "Kind of this object, in CamelCase."}};
    properties["metadata"] = JsonObject{{"allOf", JsonArray{reference(std::string(kMeta) + "ObjectMeta")}}};
    copy.as_object()["x-kubernetes-group-version-kind"] = JsonArray{gvk(kind)};
    schemas_[custom_schema_name(kind)] = std::move(copy);
    if (const TypeInfo* meta = find_type("meta/v1.ObjectMeta")) add_type(*meta);
  }

  JsonObject take() {
    JsonObject out;
    for (auto& [name, schema] : schemas_) out[name] = std::move(schema);
    return out;
  }

 private:
  // Types are walked with an explicit list: some refer to themselves (JSONSchemaProps).
  void add_type(const TypeInfo& first) {
    std::vector<const TypeInfo*> todo{&first};
    while (!todo.empty()) {
      const TypeInfo* type = todo.back();
      todo.pop_back();
      const std::string name = schema_name(*type);
      if (schemas_.count(name) > 0) continue;
      JsonObject properties;
      JsonArray required;
      add_fields(*type, &properties, &required, &todo);
      JsonObject schema{{"type", "object"},
                        {"description", type->short_name + " of " + type->group + "/" + type->version + "."}};
      if (!properties.empty()) schema["properties"] = std::move(properties);
      if (!required.empty()) schema["required"] = std::move(required);
      if (type->atomic) schema["x-kubernetes-map-type"] = "atomic";
      schemas_[name] = std::move(schema);
    }
  }

  void add_fields(const TypeInfo& type, JsonObject* properties, JsonArray* required,
                  std::vector<const TypeInfo*>* todo) {
    for (const FieldInfo& f : type.fields) {
      if (f.json_name.empty()) {  // embedded: its fields stand here
        if (f.message != nullptr) add_fields(*f.message, properties, required, todo);
        continue;
      }
      (*properties)[f.json_name] = field_schema(f, todo);
      if (!f.omitempty && !f.pointer && f.default_value.empty()) required->emplace_back(f.json_name);
    }
  }

  Json field_schema(const FieldInfo& f, std::vector<const TypeInfo*>* todo) {
    Json value = value_schema(f, todo);
    JsonObject out;
    if (f.map_of_lists) value = JsonObject{{"type", "array"}, {"items", std::move(value)}};
    if (f.map) {
      out = {{"type", "object"}, {"additionalProperties", std::move(value)}};
      if (f.atomic_map) out["x-kubernetes-map-type"] = "atomic";
    } else if (f.repeated) {
      out = {{"type", "array"}, {"items", std::move(value)}};
      add_list_marks(f, &out);
    } else if (value.as_object().contains("$ref")) {
      out = {{"allOf", JsonArray{std::move(value)}}};  // beside a $ref no other key counts
    } else {
      out = std::move(value.as_object());
    }
    if (!f.default_value.empty()) {
      if (auto parsed = parse_json(f.default_value); parsed.ok()) out["default"] = *parsed;
    }
    return out;
  }

  static void add_list_marks(const FieldInfo& f, JsonObject* out) {
    if (f.list_type == ListType::kSet) (*out)["x-kubernetes-list-type"] = "set";
    if (f.list_type == ListType::kAtomic) (*out)["x-kubernetes-list-type"] = "atomic";
    if (f.list_type == ListType::kMap) {
      (*out)["x-kubernetes-list-type"] = "map";
      JsonArray keys;
      for (const std::string& key : f.list_map_keys) keys.emplace_back(key);
      (*out)["x-kubernetes-list-map-keys"] = std::move(keys);
    }
    if (f.merge) (*out)["x-kubernetes-patch-strategy"] = f.retain_keys ? "merge,retainKeys" : "merge";
    if (f.merge && !f.merge_key.empty()) (*out)["x-kubernetes-patch-merge-key"] = f.merge_key;
  }

  Json value_schema(const FieldInfo& f, std::vector<const TypeInfo*>* todo) {
    switch (f.kind) {
      case FieldKind::kString: return JsonObject{{"type", "string"}};
      case FieldKind::kBool: return JsonObject{{"type", "boolean"}};
      case FieldKind::kInt32: return JsonObject{{"type", "integer"}, {"format", "int32"}};
      case FieldKind::kInt64: return JsonObject{{"type", "integer"}, {"format", "int64"}};
      case FieldKind::kDouble: return JsonObject{{"type", "number"}, {"format", "double"}};
      case FieldKind::kBytes: return JsonObject{{"type", "string"}, {"format", "byte"}};
      case FieldKind::kMessage:
        if (f.message == nullptr) return JsonObject{{"type", "object"}};
        todo->push_back(f.message);
        return reference(schema_name(*f.message));
      case FieldKind::kTime:
        return special(std::string(kMeta) + "Time", JsonObject{{"type", "string"}, {"format", "date-time"}});
      case FieldKind::kMicroTime:
        return special(std::string(kMeta) + "MicroTime", JsonObject{{"type", "string"}, {"format", "date-time"}});
      case FieldKind::kDuration: return special(std::string(kMeta) + "Duration", JsonObject{{"type", "string"}});
      case FieldKind::kQuantity:
        return special(
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            JsonObject{{"oneOf", JsonArray{JsonObject{{"type", "string"}}, JsonObject{{"type", "number"}}}}});
      case FieldKind::kIntOrString:
        return special("io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                       JsonObject{{"oneOf", JsonArray{JsonObject{{"type", "integer"}}, JsonObject{{"type", "string"}}}},
                                  {"format", "int-or-string"}});
      case FieldKind::kFieldsV1: return special(std::string(kMeta) + "FieldsV1", JsonObject{{"type", "object"}});
      case FieldKind::kRawExtension:
        return special("io.k8s.apimachinery.pkg.runtime.RawExtension", JsonObject{{"type", "object"}});
      case FieldKind::kJsonAny:
      case FieldKind::kSchemaOrBool:
      case FieldKind::kSchemaOrArray:
      case FieldKind::kSchemaOrStringArray: return JsonObject{{"x-kubernetes-preserve-unknown-fields", true}};
    }
    return JsonObject{};
  }

  Json special(const std::string& name, JsonObject schema) {
    schemas_.try_emplace(name, std::move(schema));
    return reference(name);
  }

  std::map<std::string, Json> schemas_;
};

Json query_parameter(std::string_view name, std::string_view type, std::string_view description) {
  return JsonObject{{"name", name},
                    {"in", "query"},
                    {"description", description},
                    {"schema", JsonObject{{"type", type}, {"uniqueItems", true}}}};
}

Json write_parameters(bool patch) {
  JsonArray out{query_parameter("dryRun", "string", "All: the request is processed, nothing is stored."),
                query_parameter("fieldManager", "string", "Name of the actor that owns the fields written here."),
                query_parameter("fieldValidation", "string",
                                "Ignore, Warn or Strict: what happens to unknown and duplicate fields.")};
  if (patch) out.push_back(query_parameter("force", "boolean", "Take over fields that other managers own."));
  return out;
}

JsonObject operation(const KindInfo& k, std::string_view action, std::string_view schema, bool body) {
  Json content = JsonObject{{"application/json", JsonObject{{"schema", reference(schema)}}}};
  JsonObject op{{"description", std::string(action) + " " + k.kind},
                {"operationId", std::string(action) + k.kind},
                {"responses", JsonObject{{"200", JsonObject{{"description", "OK"}, {"content", content}}}}},
                {"x-kubernetes-action", action},
                {"x-kubernetes-group-version-kind", gvk(k)}};
  if (body) op["requestBody"] = JsonObject{{"content", JsonObject{{"*/*", JsonObject{{"schema", reference(schema)}}}}}};
  return op;
}

Json item_path(const KindInfo& k, std::string_view schema) {
  JsonObject item;
  if (k.has_verb("get")) item["get"] = operation(k, "get", schema, false);
  if (k.has_verb("update")) {
    item["put"] = operation(k, "put", schema, true);
    item["put"].as_object()["parameters"] = write_parameters(false);
  }
  if (k.has_verb("delete")) {
    item["delete"] = operation(k, "delete", schema, false);
    item["delete"].as_object()["parameters"] =
        JsonArray{query_parameter("dryRun", "string", "All: nothing is deleted.")};
  }
  if (k.has_verb("patch")) {
    item["patch"] = operation(k, "patch", schema, true);
    item["patch"].as_object()["parameters"] = write_parameters(true);
  }
  return item;
}

Json collection_path(const KindInfo& k, std::string_view schema) {
  JsonObject item;
  if (k.has_verb("list")) item["get"] = operation(k, "list", schema, false);
  if (k.has_verb("create")) {
    item["post"] = operation(k, "post", schema, true);
    item["post"].as_object()["parameters"] = write_parameters(false);
  }
  return item;
}

}  // namespace

std::string openapi_path(const KindInfo& kind) { return kind.root_path().substr(1); }

OpenApiDocument openapi_document(const KindList& kinds, const std::function<const Json*(const KindInfo&)>& schema_of) {
  Schemas schemas;
  JsonObject paths;
  for (const KindInfo* k : kinds) {
    if (k->custom()) {
      schemas.add_custom(*k, schema_of ? schema_of(*k) : nullptr);
    } else {
      schemas.add_kind(*k);
    }
    const std::string schema = k->custom() ? custom_schema_name(*k) : schema_name(*k->type);
    const std::string base = k->root_path() + (k->namespaced ? "/namespaces/{namespace}/" : "/") + k->resource;
    paths[base] = collection_path(*k, schema);
    if (!k->create_only()) paths[base + "/{name}"] = item_path(*k, schema);
  }
  const Json document = JsonObject{{"openapi", "3.0.0"},
                                   {"info", JsonObject{{"title", "Kubernetes"}, {"version", "v1.36"}}},
                                   {"paths", std::move(paths)},
                                   {"components", JsonObject{{"schemas", schemas.take()}}}};
  OpenApiDocument out;
  out.json = to_json(document);
  out.hash = sha256_hex(out.json);
  std::transform(out.hash.begin(), out.hash.end(), out.hash.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

std::string openapi_index(const std::vector<std::pair<std::string, std::string>>& path_and_hash) {
  JsonObject paths;
  for (const auto& [path, hash] : path_and_hash)
    paths[path] = JsonObject{{"serverRelativeURL", "/openapi/v3/" + path + "?hash=" + hash}};
  return to_json(JsonObject{{"paths", std::move(paths)}});
}

}  // namespace ghostfleet::kube
