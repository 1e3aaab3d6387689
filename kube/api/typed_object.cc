#include "kube/api/typed_object.h"

#include <algorithm>

namespace ghostfleet::kube {

namespace {

boost::json::string_view bsv(std::string_view s) { return {s.data(), s.size()}; }

// Gives each object of a list its kind and apiVersion.
void fill_kinds(const FieldInfo& f, Json* list) {
  if (!list->is_array()) return;
  const TypeInfo& type = *f.message;
  const std::string api_version = type.group == "core" ? type.version : type.group + "/" + type.version;
  for (Json& item : list->get_array()) {
    if (!item.is_object()) continue;
    JsonObject object;
    object.reserve(item.get_object().size() + 2);
    object.emplace("kind", type.short_name);
    object.emplace("apiVersion", api_version);
    for (auto& m : item.get_object()) object.emplace(m.key(), std::move(m.value()));
    item = std::move(object);
  }
}

}  // namespace

Json zero_struct(const TypeInfo& type) {
  JsonObject object;
  object.reserve(type.always_written.size());
  for (const uint16_t i : type.always_written) {
    const FieldInfo& f = *type.flat[i].field;
    object.emplace(bsv(f.json_name), zero_value(f));
  }
  return object;
}

Json zero_value(const FieldInfo& f) {
  if (f.empty_as_list) return JsonArray();
  return f.pointer || f.repeated || f.map ? Json() : zero_element(f);
}

Json zero_element(const FieldInfo& f) {
  switch (f.kind) {
    case FieldKind::kString: return JsonString();
    case FieldKind::kBool: return false;
    case FieldKind::kInt32:
    case FieldKind::kInt64:
    case FieldKind::kDouble:
    case FieldKind::kIntOrString: return int64_t{0};
    case FieldKind::kMessage: return zero_struct(*f.message);
    case FieldKind::kDuration: return JsonString("0s");
    case FieldKind::kQuantity: return JsonString("0");
    case FieldKind::kSchemaOrBool: return false;
    default: return nullptr;
  }
}

bool is_empty_value(const FieldInfo& f, const Json& v) {
  if (v.is_null()) return true;
  if (f.pointer) return false;
  if (f.repeated) return v.is_array() && v.get_array().empty();
  if (f.map) return v.is_object() && v.get_object().empty();
  switch (v.kind()) {
    case boost::json::kind::string: return v.get_string().empty();
    case boost::json::kind::bool_: return !v.get_bool();
    case boost::json::kind::int64: return v.get_int64() == 0;
    case boost::json::kind::uint64: return v.get_uint64() == 0;
    case boost::json::kind::double_: return v.get_double() == 0;
    default: return false;
  }
}

void build_object(const TypeInfo& type, std::vector<FieldSlot>* slots, size_t base, Json* out) {
  const auto first = slots->begin() + static_cast<std::ptrdiff_t>(base);
  const auto before = [](const FieldSlot& a, const FieldSlot& b) { return a.field < b.field; };
  if (!std::is_sorted(first, slots->end(), before)) std::sort(first, slots->end(), before);
  JsonObject& object = out->emplace_object();
  object.reserve(slots->size() - base + type.always_written.size());
  auto always = type.always_written.begin();
  const auto add_missing_before = [&](int limit) {
    for (; always != type.always_written.end() && *always < limit; ++always) {
      const FieldInfo& f = *type.flat[*always].field;
      object.emplace(bsv(f.json_name), zero_value(f));
    }
  };
  for (size_t i = base; i < slots->size(); ++i) {
    FieldSlot& slot = (*slots)[i];
    const FieldInfo& f = *type.flat[static_cast<size_t>(slot.field)].field;
    add_missing_before(slot.field);
    if (is_empty_value(f, slot.value)) {
      if (!f.always_written) continue;
      slot.value = zero_value(f);
    }
    if (f.fills_kind) fill_kinds(f, &slot.value);
    object.emplace(bsv(f.json_name), std::move(slot.value));
    if (always != type.always_written.end() && *always == slot.field) ++always;
  }
  add_missing_before(static_cast<int>(type.flat.size()));
  slots->erase(first, slots->end());
}

}  // namespace ghostfleet::kube
