#include <algorithm>

#include "base/digest.h"
#include "kube/api/openapi.h"

namespace ghostfleet::kube {
namespace {

void put_varint(uint64_t v, std::string* out) {
  for (; v >= 128; v >>= 7) *out += static_cast<char>(v | 128);
  *out += static_cast<char>(v);
}

// A length-delimited field: text, bytes or a message.
void put(uint32_t number, std::string_view value, std::string* out) {
  put_varint(number << 3 | 2, out);
  put_varint(value.size(), out);
  *out += value;
}

std::string field(uint32_t number, std::string_view value) {
  std::string out;
  put(number, value, &out);
  return out;
}

// ParametersItem{1 Parameter{2 NonBodyParameter{3 QueryParameterSubSchema{2 in, 4 name, 6 type}}}}
std::string query_parameter(std::string_view name) {
  const std::string query = field(2, "query") + field(4, name) + field(6, "string");
  return field(1, field(2, field(3, query)));
}

// NamedAny{1 name, 2 Any{2 yaml}}
std::string extension(std::string_view name, std::string_view yaml) {
  return field(1, name) + field(2, field(2, yaml));
}

// Operation{5 operation_id, 8 parameters, 9 responses, 13 vendor_extension}
std::string operation(const KindInfo& k, std::string_view action) {
  std::string out = field(5, std::string(action) + k.kind);
  for (const char* name : {"dryRun", "fieldManager", "fieldValidation"}) put(8, query_parameter(name), &out);
  put(9, "", &out);
  put(13, extension("x-kubernetes-action", std::string(action) + "\n"), &out);
  const std::string group = k.group.empty() ? "\"\"" : k.group;
  put(13,
      extension("x-kubernetes-group-version-kind",
                "group: " + group + "\nkind: " + k.kind + "\nversion: " + k.version + "\n"),
      &out);
  return out;
}

// NamedPathItem{1 name, 2 PathItem{4 post, 8 patch}}
void put_path(const std::string& path, const std::string& item, std::string* paths) {
  put(2, field(1, path) + field(2, item), paths);
}

}  // namespace

OpenApiDocument openapi_v2_document(const KindList& kinds) {
  std::string paths;
  for (const KindInfo* k : kinds) {
    const std::string base = k->root_path() + (k->namespaced ? "/namespaces/{namespace}/" : "/") + k->resource;
    if (k->has_verb("create")) put_path(base, field(4, operation(*k, "post")), &paths);
    if (k->has_verb("patch")) put_path(base + "/{name}", field(8, operation(*k, "patch")), &paths);
  }
  OpenApiDocument out;
  // Document{1 swagger, 2 Info{1 title, 2 version}, 8 Paths, 9 Definitions}
  out.json = field(1, "2.0") + field(2, field(1, "Kubernetes") + field(2, "v1.36")) + field(8, paths) + field(9, "");
  out.hash = sha256_hex(out.json);
  std::transform(out.hash.begin(), out.hash.end(), out.hash.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

}  // namespace ghostfleet::kube
