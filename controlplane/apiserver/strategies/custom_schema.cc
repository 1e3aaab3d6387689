#include "controlplane/apiserver/strategies/custom_schema.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace ghostfleet::controlplane {

using kube::FieldError;
using kube::FieldErrorType;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr int kMaxDepth = 64;

bool preserves(const Json& schema) { return bool_of(schema, "x-kubernetes-preserve-unknown-fields"); }
bool is_embedded(const Json& schema) { return bool_of(schema, "x-kubernetes-embedded-resource"); }

// The schema of a member: of properties, else of additionalProperties; null pointer when it has none.
const Json* schema_of(const Json& schema, std::string_view key) {
  if (const Json* properties = member(schema, "properties")) {
    if (const Json* found = member(*properties, key)) return found;
  }
  const Json* additional = member(schema, "additionalProperties");
  return additional != nullptr && additional->is_object() ? additional : nullptr;
}

bool allows_any(const Json& schema) {
  const Json* additional = member(schema, "additionalProperties");
  return additional != nullptr && additional->is_bool() && additional->get_bool();
}

// Takes unknown fields out and remembers their paths (a.b[0].c).
class Pruner {
 public:
  std::vector<std::string> unknown;

  void prune(Json& value, const Json& schema, bool root, int depth) {
    if (depth > kMaxDepth) return;
    if (value.is_array()) return prune_elements(value.get_array(), schema, depth);
    if (!value.is_object()) return;
    JsonObject& object = value.get_object();
    const bool keeps_unknown = preserves(schema) || allows_any(schema);
    std::vector<std::string> dropped;
    for (auto& entry : object) {
      const std::string_view key = entry.key();
      if ((root || is_embedded(schema)) && one_of(key, {"apiVersion", "kind", "metadata"})) continue;
      const Json* of_member = schema_of(schema, key);
      if (of_member == nullptr) {
        if (!keeps_unknown) dropped.emplace_back(key);
        if (!keeps_unknown) unknown.push_back(path_to(key));
      } else if (entry.value().is_null() && !bool_of(*of_member, "nullable")) {
        dropped.emplace_back(key);
      } else {
        const size_t length = path_.size();
        path_ = path_to(key);
        prune(entry.value(), *of_member, false, depth + 1);
        path_.resize(length);
      }
    }
    for (const std::string& key : dropped) object.erase(key);
  }

 private:
  std::string path_to(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  void prune_elements(JsonArray& list, const Json& schema, int depth) {
    const Json* items = member(schema, "items");
    const size_t length = path_.size();
    for (size_t i = 0; items != nullptr && i < list.size(); ++i) {
      path_ += fmt::format("[{}]", i);
      prune(list[i], *items, false, depth + 1);
      path_.resize(length);
    }
  }

  std::string path_;
};

void fill(Json& value, const Json& schema, int depth) {
  if (depth > kMaxDepth) return;
  if (value.is_array()) {
    const Json* items = member(schema, "items");
    for (size_t i = 0; items != nullptr && i < value.get_array().size(); ++i) {
      fill(value.get_array()[i], *items, depth + 1);
    }
    return;
  }
  if (!value.is_object()) return;
  JsonObject& object = value.get_object();
  if (const JsonObject* properties = object_of(schema, "properties")) {
    for (const auto& property : *properties) {
      const Json* fallback = member(property.value(), "default");
      if (fallback != nullptr && object.if_contains(property.key()) == nullptr) object[property.key()] = *fallback;
    }
  }
  for (auto& entry : object) {
    if (const Json* of_member = schema_of(schema, entry.key())) fill(entry.value(), *of_member, depth + 1);
  }
}

// ---- validation ---------------------------------------------------------------------------------------------------

std::string_view type_name(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_double() && std::floor(value.get_double()) != value.get_double() ? "number" : "integer";
}

bool has_type(const Json& value, std::string_view type) {
  std::string_view actual = type_name(value);
  return actual == type || (type == "number" && actual == "integer");
}

double number_of(const Json& value) {
  return value.is_double() ? value.get_double() : static_cast<double>(as_int(value));
}

class Checker {
 public:
  explicit Checker(Findings& out) : out_(out) {}

  void check(const Json& value, const Json& schema, const Path& path, bool root, int depth) {
    if (depth > kMaxDepth) return;
    if (value.is_null() && bool_of(schema, "nullable")) return;
    if (!check_type(value, schema, path)) return;
    check_enum(value, schema, path);
    if (value.is_string()) check_text(as_text(value), schema, path);
    if (value.is_number()) check_number(value, schema, path);
    if (value.is_array()) check_array(value.get_array(), schema, path, depth);
    if (value.is_object()) check_object(value, schema, path, root, depth);
  }

 private:
  bool check_type(const Json& value, const Json& schema, const Path& path) {
    std::string_view type = text_of(schema, "type");
    std::string wanted(type);
    bool fits = type.empty() || has_type(value, type);
    if (bool_of(schema, "x-kubernetes-int-or-string")) {
      fits = value.is_string() || type_name(value) == "integer";
      wanted = "integer,string";
    }
    if (fits) return true;
    std::string text = path.to_string();
    std::string actual = quoted(type_name(value));
    out_.type_invalid(path, actual, fmt::format("{} in body must be of type {}: {}", text, wanted, actual));
    return false;
  }

  void check_enum(const Json& value, const Json& schema, const Path& path) {
    const JsonArray* allowed = array_of(schema, "enum");
    if (allowed == nullptr || std::find(allowed->begin(), allowed->end(), value) != allowed->end()) return;
    std::string detail = "supported values: ";
    for (size_t i = 0; i < allowed->size(); ++i) detail += (i == 0 ? "" : ", ") + json_text((*allowed)[i]);
    out_.not_supported_value(path, json_text(value), detail);
  }

  void check_text(std::string_view text, const Json& schema, const Path& path) {
    const Json* max = member(schema, "maxLength");
    const Json* min = member(schema, "minLength");
    // Characters, not bytes.
    auto length = static_cast<int64_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    if (max != nullptr && length > as_int(*max)) out_.too_long(path, static_cast<size_t>(as_int(*max)));
    if (min != nullptr && length < as_int(*min)) {
      out_.invalid_text(path, text,
                        fmt::format("{} in body should be at least {} chars long", path.to_string(), as_int(*min)));
    }
    std::string_view pattern = text_of(schema, "pattern");
    if (pattern.empty()) return;
    re2::RE2::Options options;
    options.set_log_errors(false);
    re2::RE2 expression(re2::StringPiece(pattern.data(), pattern.size()), options);
    if (expression.ok() && !re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), expression)) {
      out_.invalid_text(path, text, fmt::format("{} in body should match '{}'", path.to_string(), pattern));
    }
  }

  void check_number(const Json& value, const Json& schema, const Path& path) {
    double n = number_of(value);
    const Json* min = member(schema, "minimum");
    const Json* max = member(schema, "maximum");
    bool above = bool_of(schema, "exclusiveMinimum");
    bool below = bool_of(schema, "exclusiveMaximum");
    if (min != nullptr && (above ? n <= number_of(*min) : n < number_of(*min))) {
      out_.invalid(path, json_text(value),
                   fmt::format("{} in body should be greater than {}{}", path.to_string(), above ? "" : "or equal to ",
                               json_text(*min)));
    }
    if (max != nullptr && (below ? n >= number_of(*max) : n > number_of(*max))) {
      out_.invalid(path, json_text(value),
                   fmt::format("{} in body should be less than {}{}", path.to_string(), below ? "" : "or equal to ",
                               json_text(*max)));
    }
    const Json* step = member(schema, "multipleOf");
    if (step != nullptr && number_of(*step) > 0 && std::fmod(n, number_of(*step)) != 0) {
      out_.invalid(path, json_text(value),
                   fmt::format("{} in body should be a multiple of {}", path.to_string(), json_text(*step)));
    }
  }

  void check_array(const JsonArray& list, const Json& schema, const Path& path, int depth) {
    const Json* max = member(schema, "maxItems");
    const Json* min = member(schema, "minItems");
    if (max != nullptr && static_cast<int64_t>(list.size()) > as_int(*max)) {
      out_.too_many(path, list.size(), static_cast<size_t>(as_int(*max)));
    }
    if (min != nullptr && static_cast<int64_t>(list.size()) < as_int(*min)) {
      out_.invalid_number(path, static_cast<int64_t>(list.size()),
                          fmt::format("{} in body should have at least {} items", path.to_string(), as_int(*min)));
    }
    check_duplicates(list, schema, path);
    const Json* items = member(schema, "items");
    for (size_t i = 0; items != nullptr && i < list.size(); ++i) {
      check(list[i], *items, path.index(i), false, depth + 1);
    }
  }

  void check_duplicates(const JsonArray& list, const Json& schema, const Path& path) {
    std::string_view type = text_of(schema, "x-kubernetes-list-type");
    if (type != "map" && type != "set") return;
    const JsonArray* keys = array_of(schema, "x-kubernetes-list-map-keys");
    std::set<std::string> seen;
    for (size_t i = 0; i < list.size(); ++i) {
      Json key = list[i];
      if (type == "map") {
        JsonObject picked;
        for (size_t k = 0; keys != nullptr && k < keys->size(); ++k) {
          const Json* value = member(list[i], as_text((*keys)[k]));
          if (value != nullptr) picked[as_text((*keys)[k])] = *value;
        }
        key = std::move(picked);
      }
      std::string text = json_text(key);
      if (!seen.insert(text).second) out_.duplicate_value(path.index(i), text);
    }
  }

  void check_object(const Json& value, const Json& schema, const Path& path, bool root, int depth) {
    const JsonArray* required = array_of(schema, "required");
    for (size_t i = 0; required != nullptr && i < required->size(); ++i) {
      std::string_view key = as_text((*required)[i]);
      if (member(value, key) != nullptr) continue;
      if (root) {
        out_.required(Path(key));
      } else {
        out_.required(path.child(key));
      }
    }
    for (const auto& entry : value.get_object()) {
      std::string_view key = entry.key();
      if (root && one_of(key, {"apiVersion", "kind", "metadata"})) continue;
      const Json* of_member = schema_of(schema, key);
      if (of_member == nullptr) continue;
      if (root) {
        check(entry.value(), *of_member, Path(key), false, depth + 1);
      } else {
        check(entry.value(), *of_member, path.child(key), false, depth + 1);
      }
    }
  }

  Findings& out_;
};

void check_schema_node(const Json& schema, const Path& path, int depth, Findings& out) {
  if (depth > kMaxDepth || !schema.is_object()) return;
  std::string_view type = text_of(schema, "type");
  bool typeless = bool_of(schema, "x-kubernetes-int-or-string") || preserves(schema);
  if (type.empty() && !typeless) {
    out.required(path.child("type"),
                 depth == 0 ? "must not be empty at the root" : "must not be empty for specified object fields");
  } else if (!type.empty() && !one_of(type, {"array", "boolean", "integer", "number", "object", "string"})) {
    out.not_supported(path.child("type"), type, {"array", "boolean", "integer", "number", "object", "string"});
  }
  if (const JsonObject* properties = object_of(schema, "properties")) {
    Path at = path.child("properties");
    for (const auto& property : *properties) {
      check_schema_node(property.value(), at.key(property.key()), depth + 1, out);
    }
  }
  if (const Json* items = member(schema, "items")) check_schema_node(*items, path.child("items"), depth + 1, out);
  const Json* additional = member(schema, "additionalProperties");
  if (additional != nullptr && additional->is_object()) {
    check_schema_node(*additional, path.child("additionalProperties"), depth + 1, out);
  }
}

}  // namespace

std::vector<std::string> prune_by_schema(Json& object, const Json& schema) {
  Pruner pruner;
  pruner.prune(object, schema, true, 0);
  std::sort(pruner.unknown.begin(), pruner.unknown.end());
  return std::move(pruner.unknown);
}

void default_by_schema(Json& object, const Json& schema) { fill(object, schema, 0); }

void check_by_schema(const Json& object, const Json& schema, Findings& out) {
  Checker(out).check(object, schema, Path(""), true, 0);
}

void check_schema(const Json& schema, const Path& path, Findings& out) { check_schema_node(schema, path, 0, out); }

}  // namespace ghostfleet::controlplane
