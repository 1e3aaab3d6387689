#include "kube/api/patch_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kube/api/patch.h"

namespace ghostfleet::kube {

PatchMeta patch_meta(const TypeInfo* type, std::string_view key) {
  PatchMeta meta;
  if (type == nullptr) return meta;
  const FieldInfo* field = type->find(key);
  if (field == nullptr) return meta;
  meta.known = true;
  meta.merge = field->merge;
  meta.retain_keys = field->retain_keys;
  meta.merge_key = field->merge_key;
  meta.element = field->message;
  // The one field of the API that is patched as a whole though it is a map.
  meta.replace = key == "selector" && type->name == "policy/v1.PodDisruptionBudgetSpec";
  return meta;
}

bool same_scalar(const Json& a, const Json& b) { return json_equal(a, b); }

std::string scalar_text(const Json& value) { return go_text(value); }

namespace {

void append_go_text(const Json& value, std::string* out) {
  switch (value.kind()) {
    case boost::json::kind::null: *out += "<nil>"; return;
    case boost::json::kind::bool_: *out += value.get_bool() ? "true" : "false"; return;
    case boost::json::kind::int64: *out += std::to_string(value.get_int64()); return;
    case boost::json::kind::uint64: *out += std::to_string(value.get_uint64()); return;
    case boost::json::kind::double_: *out += fmt::format("{}", value.get_double()); return;
    case boost::json::kind::string: *out += std::string_view(value.get_string()); return;
    case boost::json::kind::array: {
      *out += '[';
      bool first = true;
      for (const Json& item : value.get_array()) {
        if (!first) *out += ' ';
        first = false;
        append_go_text(item, out);
      }
      *out += ']';
      return;
    }
    case boost::json::kind::object: {
      std::vector<std::string_view> keys;
      for (const auto& member : value.get_object()) keys.push_back(member.key());
      std::sort(keys.begin(), keys.end());
      *out += "map[";
      for (size_t i = 0; i < keys.size(); ++i) {
        if (i > 0) *out += ' ';
        *out += keys[i];
        *out += ':';
        append_go_text(value.get_object().at(keys[i]), out);
      }
      *out += ']';
      return;
    }
  }
}

}  // namespace

std::string go_text(const Json& value) {
  std::string out;
  append_go_text(value, &out);
  return out;
}

}  // namespace ghostfleet::kube
