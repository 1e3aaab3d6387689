// The two-way strategic diff, in the shape client-go gives it.
#include <algorithm>
#include <string>
#include <vector>

#include "kube/api/patch.h"
#include "kube/api/patch_meta.h"

namespace ghostfleet::kube {
namespace {

bool same_type(const Json& a, const Json& b) {
  const auto number = [](const Json& v) { return v.is_int64() || v.is_uint64(); };
  return a.kind() == b.kind() || (number(a) && number(b));
}

// Go marshals maps with sorted keys: so does every object of a patch.
Json sorted(const Json& value) {
  if (value.is_array()) {
    JsonArray out;
    for (const Json& item : value.get_array()) out.push_back(sorted(item));
    return out;
  }
  if (!value.is_object()) return value;
  std::vector<std::string_view> keys;
  for (const auto& m : value.get_object()) keys.push_back(m.key());
  std::sort(keys.begin(), keys.end());
  JsonObject out;
  for (std::string_view key : keys) out.emplace(key, sorted(value.get_object().at(key)));
  return out;
}

const Json* key_of(const Json& item, std::string_view merge_key) {
  return item.is_object() ? item.get_object().if_contains(merge_key) : nullptr;
}

const Json* find_element(const JsonArray& list, const Json& key, std::string_view merge_key) {
  for (const Json& item : list) {
    const Json* other = key_of(item, merge_key);
    if (other != nullptr && same_scalar(*other, key)) return &item;
  }
  return nullptr;
}

bool contains(const JsonArray& list, const Json& value) {
  return std::any_of(list.begin(), list.end(), [&](const Json& item) { return same_scalar(item, value); });
}

bool by_text(const Json& a, const Json& b) { return scalar_text(a) < scalar_text(b); }

JsonObject diff_maps(const JsonObject& before, const JsonObject& after, const TypeInfo* type, bool retain);

void diff_scalar_list(std::string_view key, const JsonArray& before, const JsonArray& after, JsonObject* patch) {
  JsonArray added, removed;
  for (const Json& item : after) {
    if (!contains(before, item)) added.push_back(item);
  }
  for (const Json& item : before) {
    if (!contains(after, item) && !contains(removed, item)) removed.push_back(item);
  }
  std::sort(removed.begin(), removed.end(), by_text);
  if (!added.empty()) patch->insert_or_assign(key, std::move(added));
  if (!removed.empty()) {
    patch->insert_or_assign(std::string(kDeleteFromPrimitiveList) + "/" + std::string(key), std::move(removed));
  }
  // The real diff has sorted the old list by now: the order is told whenever the new one is not that sorted list.
  JsonArray sorted_before = before;
  std::stable_sort(sorted_before.begin(), sorted_before.end(), by_text);
  if (!json_equal(Json(sorted_before), Json(after)) && !after.empty()) {
    patch->insert_or_assign(std::string(kSetElementOrder) + "/" + std::string(key), after);
  }
}

bool same_order(const JsonArray& before, const JsonArray& after, std::string_view merge_key) {
  if (before.size() != after.size()) return false;
  for (size_t i = 0; i < after.size(); ++i) {
    const Json* a = key_of(before[i], merge_key);
    const Json* b = key_of(after[i], merge_key);
    if (a == nullptr || b == nullptr || !same_scalar(*a, *b)) return false;
  }
  return true;
}

// Changed and new elements in the order of `after`, then a delete directive for each one that is gone.
JsonArray diff_elements(const JsonArray& before, const JsonArray& after, const PatchMeta& meta) {
  JsonArray list;
  for (const Json& item : after) {
    const Json& key = *key_of(item, meta.merge_key);
    const Json* old = find_element(before, key, meta.merge_key);
    if (old == nullptr) {
      list.push_back(item);
      continue;
    }
    JsonObject change = diff_maps(old->get_object(), item.get_object(), meta.element, meta.retain_keys);
    if (change.empty()) continue;
    change[meta.merge_key] = key;
    list.push_back(std::move(change));
  }
  std::vector<Json> gone;
  for (const Json& item : before) {
    const Json& key = *key_of(item, meta.merge_key);
    if (find_element(after, key, meta.merge_key) == nullptr) gone.push_back(key);
  }
  std::sort(gone.begin(), gone.end(), by_text);
  for (const Json& key : gone) list.push_back(JsonObject{{kPatchDirective, "delete"}, {meta.merge_key, key}});
  return list;
}

void diff_element_list(std::string_view key, const JsonArray& before, const JsonArray& after, const PatchMeta& meta,
                       JsonObject* patch) {
  JsonArray list = diff_elements(before, after, meta);
  if (list.empty() && same_order(before, after, meta.merge_key)) return;
  if (!list.empty()) patch->insert_or_assign(key, std::move(list));
  if (after.empty()) return;
  JsonArray order;
  for (const Json& item : after) order.push_back(JsonObject{{meta.merge_key, *key_of(item, meta.merge_key)}});
  patch->insert_or_assign(std::string(kSetElementOrder) + "/" + std::string(key), std::move(order));
}

// Lists that can be merged: all elements objects with the key, or all scalars.
bool mergeable(const JsonArray& before, const JsonArray& after, std::string_view merge_key) {
  for (const JsonArray* list : {&before, &after}) {
    for (const Json& item : *list) {
      const bool fits = merge_key.empty() ? !item.is_object() && !item.is_array() : key_of(item, merge_key) != nullptr;
      if (!fits) return false;
    }
  }
  return true;
}

void diff_member(std::string_view key, const Json& before, const Json& after, const TypeInfo* type, JsonObject* patch) {
  if (!same_type(before, after)) {
    patch->insert_or_assign(key, after);
    return;
  }
  const PatchMeta meta = patch_meta(type, key);
  if (after.is_object() && !meta.replace) {
    JsonObject change = diff_maps(before.get_object(), after.get_object(), meta.element, meta.retain_keys);
    if (!change.empty()) patch->insert_or_assign(key, std::move(change));
    return;
  }
  if (after.is_array() && meta.merge && mergeable(before.get_array(), after.get_array(), meta.merge_key)) {
    if (before.get_array().empty()) {
      if (!after.get_array().empty()) patch->insert_or_assign(key, after);
    } else if (meta.merge_key.empty()) {
      diff_scalar_list(key, before.get_array(), after.get_array(), patch);
    } else {
      diff_element_list(key, before.get_array(), after.get_array(), meta, patch);
    }
    return;
  }
  if (!json_equal(before, after)) patch->insert_or_assign(key, after);
}

JsonObject diff_maps(const JsonObject& before, const JsonObject& after, const TypeInfo* type, bool retain) {
  JsonObject patch;
  JsonArray kept;
  for (const auto& m : after) {
    if (retain && !m.value().is_null()) kept.emplace_back(std::string_view(m.key()));
    const Json* old = before.if_contains(m.key());
    if (old == nullptr) {
      patch.insert_or_assign(m.key(), m.value());
    } else {
      diff_member(m.key(), *old, m.value(), type, &patch);
    }
  }
  for (const auto& m : before) {
    if (!after.contains(m.key())) patch.insert_or_assign(m.key(), nullptr);
  }
  if (!kept.empty() && !patch.empty()) {
    std::sort(kept.begin(), kept.end(), by_text);
    patch.insert_or_assign(kRetainKeys, std::move(kept));
  }
  return patch;
}

}  // namespace

Json make_strategic_merge_patch(const Json& before, const Json& after, const TypeInfo& type) {
  static const JsonObject kEmpty;
  const JsonObject& old = before.is_object() ? before.get_object() : kEmpty;
  const JsonObject& wanted = after.is_object() ? after.get_object() : kEmpty;
  return sorted(Json(diff_maps(old, wanted, &type, false)));
}

}  // namespace ghostfleet::kube
