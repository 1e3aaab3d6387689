#include "controlplane/apiserver/strategies/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::FieldError;
using kube::FieldErrorType;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr size_t kMaxAnnotationBytes = 256 * 1024;

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

void Path::append(std::string* out) const {
  if (parent_ != nullptr) parent_->append(out);
  if (!name_.empty()) {
    if (!out->empty()) out->push_back('.');
    out->append(name_);
  }
  if (index_ >= 0) *out += fmt::format("[{}]", index_);
  if (keyed_) *out += fmt::format("[{}]", key_);
}

std::string Path::to_string() const {
  std::string out;
  append(&out);
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default: out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

void Findings::required(const Path& path, std::string_view detail) {
  errors_.push_back({FieldErrorType::kRequired, path.to_string(), "", std::string(detail)});
}

void Findings::forbidden(const Path& path, std::string_view detail) {
  errors_.push_back({FieldErrorType::kForbidden, path.to_string(), "", std::string(detail)});
}

void Findings::invalid(const Path& path, std::string value, std::string_view detail) {
  errors_.push_back({FieldErrorType::kInvalid, path.to_string(), std::move(value), std::string(detail)});
}

void Findings::invalid_text(const Path& path, std::string_view value, std::string_view detail) {
  invalid(path, quoted(value), detail);
}

void Findings::invalid_number(const Path& path, int64_t value, std::string_view detail) {
  invalid(path, std::to_string(value), detail);
}

void Findings::not_supported(const Path& path, std::string_view value,
                             std::initializer_list<std::string_view> supported) {
  std::string detail = "supported values: ";
  bool first = true;
  for (std::string_view s : supported) {
    if (!first) detail += ", ";
    first = false;
    detail += quoted(s);
  }
  errors_.push_back({FieldErrorType::kNotSupported, path.to_string(), quoted(value), std::move(detail)});
}

void Findings::not_supported_value(const Path& path, std::string value, std::string_view detail) {
  errors_.push_back({FieldErrorType::kNotSupported, path.to_string(), std::move(value), std::string(detail)});
}

void Findings::type_invalid(const Path& path, std::string value, std::string_view detail) {
  errors_.push_back({FieldErrorType::kTypeInvalid, path.to_string(), std::move(value), std::string(detail)});
}

void Findings::duplicate(const Path& path, std::string_view text) { duplicate_value(path, quoted(text)); }

void Findings::duplicate_value(const Path& path, std::string value) {
  errors_.push_back({FieldErrorType::kDuplicate, path.to_string(), std::move(value), ""});
}

void Findings::not_found(const Path& path, std::string_view text, std::string detail) {
  errors_.push_back({FieldErrorType::kNotFound, path.to_string(), quoted(text), std::move(detail)});
}

void Findings::too_long(const Path& path, size_t max) {
  errors_.push_back(
      {FieldErrorType::kTooLong, path.to_string(), "", fmt::format("may not be more than {} bytes", max)});
}

void Findings::too_many(const Path& path, size_t given, size_t max) {
  errors_.push_back({FieldErrorType::kTooMany, path.to_string(), std::to_string(given),
                     fmt::format("must have at most {} {}", max, max == 1 ? "item" : "items")});
}

void Findings::messages(const Path& path, std::string_view value, const std::vector<std::string>& messages) {
  for (const std::string& m : messages) invalid_text(path, value, m);
}

void Findings::repeat_from(size_t first) {
  size_t end = errors_.size();
  errors_.reserve(end + end - first);
  for (size_t i = first; i < end; ++i) errors_.push_back(errors_[i]);
}

const Json* member(const Json& value, std::string_view key) {
  if (!value.is_object()) return nullptr;
  const Json* found = value.get_object().if_contains(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

Json* member(Json& value, std::string_view key) {
  return const_cast<Json*>(member(static_cast<const Json&>(value), key));
}

const Json* member(const Json* value, std::string_view key) { return value == nullptr ? nullptr : member(*value, key); }

std::string_view as_text(const Json& value) {
  if (!value.is_string()) return {};
  const auto& s = value.get_string();
  return {s.data(), s.size()};
}

std::string_view text_of(const Json& value, std::string_view key) {
  const Json* found = member(value, key);
  return found == nullptr ? std::string_view() : as_text(*found);
}

const JsonArray* array_of(const Json& value, std::string_view key) {
  const Json* found = member(value, key);
  return found != nullptr && found->is_array() ? &found->get_array() : nullptr;
}

const JsonObject* object_of(const Json& value, std::string_view key) {
  const Json* found = member(value, key);
  return found != nullptr && found->is_object() ? &found->get_object() : nullptr;
}

bool is_integer(const Json* value) { return value != nullptr && (value->is_int64() || value->is_uint64()); }

int64_t as_int(const Json& value, int64_t fallback) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_uint64()) return static_cast<int64_t>(value.get_uint64());
  if (value.is_double()) return static_cast<int64_t>(value.get_double());
  return fallback;
}

int64_t int_of(const Json& value, std::string_view key, int64_t fallback) {
  const Json* found = member(value, key);
  return found == nullptr ? fallback : as_int(*found, fallback);
}

bool bool_of(const Json& value, std::string_view key) {
  const Json* found = member(value, key);
  return found != nullptr && found->is_bool() && found->get_bool();
}

std::string json_text(const Json& value) { return kube::to_json(value); }

bool one_of(std::string_view value, std::initializer_list<std::string_view> allowed) {
  return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

bool equal_members(const Json& a, const Json& b, std::string_view key) {
  const Json* x = member(a, key);
  const Json* y = member(b, key);
  if (x == nullptr || y == nullptr) return x == y;
  return kube::json_equal(*x, *y);
}

// ---- metadata -----------------------------------------------------------------------------------------------------

void check_labels(const Json* labels, const Path& path, Findings& out) {
  if (labels == nullptr || !labels->is_object()) return;
  for (const auto& [key, value] : labels->get_object()) {
    out.messages(path, key, kube::check_qualified_name(key));
    out.messages(path, as_text(value), kube::check_label_value(as_text(value)));
  }
}

void check_annotations(const Json* annotations, const Path& path, Findings& out) {
  if (annotations == nullptr || !annotations->is_object()) return;
  size_t bytes = 0;
  for (const auto& [key, value] : annotations->get_object()) {
    out.messages(path, key, kube::check_qualified_name(lower_case(key)));
    bytes += key.size() + as_text(value).size();
  }
  if (bytes > kMaxAnnotationBytes) out.too_long(path, kMaxAnnotationBytes);
}

namespace {

void check_owner(const Json& owner, const Path& path, Findings& out) {
  std::string_view api_version = text_of(owner, "apiVersion");
  if (api_version.empty() || api_version.ends_with('/')) {
    out.invalid_text(path.child("apiVersion"), api_version, "version must not be empty");
  }
  for (std::string_view key : {"kind", "name", "uid"}) {
    if (text_of(owner, key).empty()) out.invalid_text(path.child(key), "", "must not be empty");
  }
  if (api_version == "v1" && text_of(owner, "kind") == "Event") {
    out.invalid(path, json_text(owner), "/v1, Kind=Event is disallowed from being an owner");
  }
}

void check_owners(const Json& metadata, const Path& meta, Findings& out) {
  const JsonArray* owners = array_of(metadata, "ownerReferences");
  if (owners == nullptr) return;
  Path path = meta.child("ownerReferences");
  std::string controller;
  for (const Json& owner : *owners) {
    check_owner(owner, path, out);
    if (!bool_of(owner, "controller")) continue;
    std::string name = fmt::format("{}/{}", text_of(owner, "kind"), text_of(owner, "name"));
    if (controller.empty()) {
      controller = name;
    } else {
      out.invalid(path, json_text(*owners),
                  fmt::format("Only one reference can have Controller set to true. Found \"true\" in references for {} "
                              "and {}",
                              controller, name));
    }
  }
}

void check_finalizers(const Json& metadata, const Path& meta, Findings& out) {
  const JsonArray* finalizers = array_of(metadata, "finalizers");
  if (finalizers == nullptr) return;
  Path path = meta.child("finalizers");
  bool orphan = false;
  bool foreground = false;
  for (const Json& f : *finalizers) {
    std::string_view name = as_text(f);
    out.messages(path, name, kube::check_qualified_name(name));
    orphan = orphan || name == "orphan";
    foreground = foreground || name == "foregroundDeletion";
  }
  if (orphan && foreground) {
    out.invalid(path, json_text(*finalizers), "finalizer orphan and foregroundDeletion cannot be both set");
  }
}

void check_no_new_finalizers(const Json& metadata, const Json& old, const Path& meta, Findings& out) {
  const JsonArray* now = array_of(metadata, "finalizers");
  if (now == nullptr) return;
  const JsonArray* before = array_of(old, "finalizers");
  std::vector<std::string> added;
  for (const Json& f : *now) {
    bool known = before != nullptr && std::find(before->begin(), before->end(), f) != before->end();
    if (!known) added.emplace_back(as_text(f));
  }
  if (added.empty()) return;
  std::sort(added.begin(), added.end());
  std::string list;
  for (const std::string& f : added) list += (list.empty() ? "" : ", ") + quoted(f);
  out.forbidden(meta.child("finalizers"),
                fmt::format("no new finalizers can be added if the object is being deleted, found new finalizers "
                            "[]string{{{}}}",
                            list));
}

void check_changeable_metadata(const Json& metadata, const Path& meta, Findings& out) {
  check_labels(member(metadata, "labels"), meta.child("labels"), out);
  check_annotations(member(metadata, "annotations"), meta.child("annotations"), out);
  check_owners(metadata, meta, out);
}

// What may stand in the metadata of any object.
void check_full_metadata(const Json& metadata, const Path& meta, Findings& out) {
  if (int64_t generation = int_of(metadata, "generation"); generation < 0) {
    out.invalid_number(meta.child("generation"), generation, "must be greater than or equal to 0");
  }
  check_changeable_metadata(metadata, meta, out);
  check_finalizers(metadata, meta, out);
}

void check_unchanged_metadata(const Json& metadata, const Json& old, const Path& meta, Findings& out) {
  if (member(old, "deletionTimestamp") != nullptr) check_no_new_finalizers(metadata, old, meta, out);
  if (int_of(metadata, "generation") < int_of(old, "generation")) {
    out.invalid_number(meta.child("generation"), int_of(metadata, "generation"), "must not be decremented");
  }
  for (std::string_view key : {"name", "namespace", "uid", "creationTimestamp"}) {
    if (text_of(metadata, key) != text_of(old, key)) {
      out.invalid_text(meta.child(key), text_of(metadata, key), kImmutable);
    }
  }
  check_changeable_metadata(metadata, meta, out);
}

const Json& own_metadata_of(const Json& object) {
  static const Json kEmpty = JsonObject();
  const Json* metadata = member(object, "metadata");
  return metadata == nullptr ? kEmpty : *metadata;
}

}  // namespace

void check_metadata(const Json& object, bool namespaced, const std::vector<std::string>& name_messages, Findings& out) {
  const Json& metadata = own_metadata_of(object);
  Path meta("metadata");
  std::string_view name = text_of(metadata, "name");
  if (name.empty()) {
    out.required(meta.child("name"), "name or generateName is required");
  } else {
    out.messages(meta.child("name"), name, name_messages);
  }
  std::string_view ns = text_of(metadata, "namespace");
  if (namespaced) {
    if (ns.empty()) {
      out.required(meta.child("namespace"));
    } else {
      out.messages(meta.child("namespace"), ns, kube::check_dns1123_label(ns));
    }
  } else if (!ns.empty()) {
    out.forbidden(meta.child("namespace"), "not allowed on this type");
  }
  check_full_metadata(metadata, meta, out);
}

void check_metadata_update(const Json& object, const Json& old_object, OwnMetadata own, Findings& out) {
  const Json& metadata = own_metadata_of(object);
  const Json& old = own_metadata_of(old_object);
  const Path meta("metadata");
  check_full_metadata(metadata, meta, out);
  check_unchanged_metadata(metadata, old, meta, out);
  if (own != OwnMetadata::kFull) check_unchanged_metadata(metadata, old, meta, out);
  if (own != OwnMetadata::kUpdate) check_full_metadata(metadata, meta, out);
}

// ---- selectors ----------------------------------------------------------------------------------------------------

namespace {

void check_requirement(const Json& requirement, const Path& path, Findings& out) {
  std::string_view op = text_of(requirement, "operator");
  const JsonArray* values = array_of(requirement, "values");
  size_t count = values == nullptr ? 0 : values->size();
  if (op == "In" || op == "NotIn") {
    if (count == 0) out.required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
  } else if (op == "Exists" || op == "DoesNotExist") {
    if (count > 0) {
      out.forbidden(path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    }
  } else {
    out.invalid_text(path.child("operator"), op, "not a valid selector operator");
  }
  std::string_view key = text_of(requirement, "key");
  out.messages(path.child("key"), key, kube::check_qualified_name(key));
  for (size_t i = 0; i < count; ++i) {
    std::string_view value = as_text((*values)[i]);
    out.messages(path.child("values", i), value, kube::check_label_value(value));
  }
}

}  // namespace

void check_label_selector(const Json* selector, const Path& path, Findings& out) {
  if (selector == nullptr) return;
  check_labels(member(*selector, "matchLabels"), path.child("matchLabels"), out);
  const JsonArray* expressions = array_of(*selector, "matchExpressions");
  if (expressions == nullptr) return;
  for (size_t i = 0; i < expressions->size(); ++i) {
    check_requirement((*expressions)[i], path.child("matchExpressions", i), out);
  }
}

bool selector_is_empty(const Json* selector) {
  if (selector == nullptr) return true;
  const JsonObject* labels = object_of(*selector, "matchLabels");
  const JsonArray* expressions = array_of(*selector, "matchExpressions");
  return (labels == nullptr || labels->empty()) && (expressions == nullptr || expressions->empty());
}

// ---- numbers ------------------------------------------------------------------------------------------------------

void check_not_negative(const Json& parent, std::string_view key, const Path& path, Findings& out) {
  if (int64_t n = int_of(parent, key); n < 0) {
    out.invalid_number(path.child(key), n, "must be greater than or equal to 0");
  }
}

void check_positive(const Json& parent, std::string_view key, const Path& path, Findings& out) {
  const Json* value = member(parent, key);
  if (value == nullptr) return;
  if (int64_t n = as_int(*value); n <= 0) out.invalid_number(path.child(key), n, "must be greater than 0");
}

void check_port(const Json& value, const Path& path, Findings& out) {
  if (value.is_string()) {
    out.messages(path, as_text(value), kube::check_port_name(as_text(value)));
    return;
  }
  int64_t n = as_int(value);
  if (n < 1 || n > 65535) out.invalid_number(path, n, "must be between 1 and 65535, inclusive");
}

void check_int_or_percent(const Json* value, const Path& path, Findings& out) {
  if (value == nullptr) return;
  if (value->is_string()) {
    std::string_view text = as_text(*value);
    int n = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    bool percent =
        error == std::errc() && end != text.data() && std::string_view(end, text.data() + text.size()) == "%";
    if (!percent || text[0] == '-') {
      out.invalid_text(path, text,
                       "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
                       "'93%', regex used for validation is '[0-9]+%')");
    }
    return;
  }
  if (int64_t n = as_int(*value); n < 0) out.invalid_number(path, n, "must be greater than or equal to 0");
}

void check_immutable(const Json& object, const Json& old, std::string_view key, const Path& path, Findings& out) {
  if (equal_members(object, old, key)) return;
  const Json* value = member(object, key);
  out.invalid(path.child(key), value == nullptr ? "null" : json_text(*value), kImmutable);
}

}  // namespace ghostfleet::controlplane
