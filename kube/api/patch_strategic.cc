// Strategic merge: maps merge, lists are replaced unless the field table gives them a merge key, and directives inside
// the patch say the rest.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kube/api/patch.h"
#include "kube/api/patch_meta.h"

namespace ghostfleet::kube {
namespace {

ApiError plain_error(int code, std::string reason, std::string message) {
  ApiError e;
  e.code = code;
  e.reason = std::move(reason);
  e.message = std::move(message);
  return e;
}

bool has_prefix(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// The field behind "$setElementOrder/FIELD".
std::string_view directive_field(std::string_view key) {
  const size_t slash = key.find('/');
  return slash == std::string_view::npos ? std::string_view() : key.substr(slash + 1);
}

// As Go's reflect.TypeOf tells decoded JSON apart.
int type_of(const Json& value) {
  if (value.is_uint64()) return static_cast<int>(boost::json::kind::int64);
  return static_cast<int>(value.kind());
}

const Json* member(const Json& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(key) : nullptr;
}

void drop_nulls(Json* value) {
  if (value->is_array()) {
    for (Json& item : value->get_array()) drop_nulls(&item);
  } else if (value->is_object()) {
    JsonObject kept;
    for (auto& m : value->get_object()) {
      if (m.value().is_null()) continue;
      drop_nulls(&m.value());
      kept.emplace(m.key(), std::move(m.value()));
    }
    *value = std::move(kept);
  }
}

// What a patch value is when nothing is there to merge with: without its directives. False: it is nothing but one.
bool strip_directives(Json* value) {
  if (value->is_object()) {
    if (value->get_object().contains(kPatchDirective)) return false;
    JsonObject kept;
    for (auto& m : value->get_object()) {
      if (strip_directives(&m.value())) kept.emplace(m.key(), std::move(m.value()));
    }
    *value = std::move(kept);
  } else if (value->is_array()) {
    JsonArray kept;
    for (Json& item : value->get_array()) {
      if (strip_directives(&item)) kept.push_back(std::move(item));
    }
    *value = std::move(kept);
  }
  return true;
}

// Position of the element of `list` that has the merge key (or, without one, the value) of `item`; -1: none.
std::ptrdiff_t index_of(const JsonArray& list, const Json& item, std::string_view merge_key) {
  const Json* wanted = merge_key.empty() ? &item : member(item, merge_key);
  for (size_t i = 0; i < list.size(); ++i) {
    const Json* key = merge_key.empty() ? &list[i] : member(list[i], merge_key);
    if (key == nullptr ? wanted == nullptr : wanted != nullptr && same_scalar(*key, *wanted)) {
      return static_cast<std::ptrdiff_t>(i);
    }
  }
  return -1;
}

void sort_by(JsonArray* list, const JsonArray& order, std::string_view merge_key) {
  std::vector<std::pair<std::ptrdiff_t, size_t>> places;
  for (size_t i = 0; i < list->size(); ++i) places.emplace_back(index_of(order, (*list)[i], merge_key), i);
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  JsonArray sorted;
  for (const auto& place : places) sorted.push_back(std::move((*list)[place.second]));
  *list = std::move(sorted);
}

// Elements the patch orders, and those only the server has, each in its own order; between the two the server's order
// decides where it knows both.
JsonArray weave(JsonArray ordered, JsonArray server_only, const JsonArray& patch_order, const JsonArray& server_order,
                std::string_view merge_key) {
  sort_by(&ordered, patch_order, merge_key);
  sort_by(&server_only, server_order, merge_key);
  JsonArray out;
  size_t i = 0, j = 0;
  while (i < server_only.size() || j < ordered.size()) {
    bool server_first = j >= ordered.size();
    if (i < server_only.size() && j < ordered.size()) {
      const std::ptrdiff_t left = index_of(server_order, server_only[i], merge_key);
      const std::ptrdiff_t right = index_of(server_order, ordered[j], merge_key);
      server_first = left >= 0 && right >= 0 && left < right;
    }
    out.push_back(server_first ? std::move(server_only[i++]) : std::move(ordered[j++]));
  }
  return out;
}

class StrategicMerger {
 public:
  // Merges `patch` (consumed) into `target`; false when error() tells why not.
  bool merge_map(JsonObject* target, JsonObject patch, const TypeInfo* type) {
    if (const Json* directive = patch.if_contains(kPatchDirective)) return whole_map(target, patch, *directive);
    return retain_keys(target, &patch) && order_lists(target, &patch, type) && merge_members(target, &patch, type);
  }

  ApiError take_error() { return std::move(*error_); }

 private:
  bool fail(int code, std::string reason, std::string message) {
    error_ = plain_error(code, std::move(reason), std::move(message));
    return false;
  }
  // Errors Go passes through as they are: 500 without a reason.
  bool fail(std::string message) { return fail(500, "", std::move(message)); }
  bool bad(std::string message) { return fail(400, "BadRequest", std::move(message)); }

  bool whole_map(JsonObject* target, JsonObject& patch, const Json& directive) {
    if (directive == "replace") {
      patch.erase(kPatchDirective);
      *target = std::move(patch);
      return true;
    }
    if (directive == "delete") {
      target->clear();
      return true;
    }
    return fail(fmt::format("unknown patch type: {} in map: {}", go_text(directive), go_text(Json(patch))));
  }

  bool retain_keys(JsonObject* target, JsonObject* patch) {
    const auto it = patch->find(kRetainKeys);
    if (it == patch->end()) return true;
    const Json wanted = std::move(it->value());
    patch->erase(it);
    if (!wanted.is_array()) return bad("invalid patch format of retainKeys");
    const auto kept = [&](std::string_view key) { return index_of(wanted.get_array(), Json(key), "") >= 0; };
    for (const auto& m : *patch) {
      const std::string_view key = m.key();
      const bool directive = has_prefix(key, kDeleteFromPrimitiveList) || has_prefix(key, kSetElementOrder);
      if (!m.value().is_null() && !directive && !kept(key)) return bad("invalid patch format of retainKeys");
    }
    JsonObject rest;
    for (auto& m : *target) {
      if (kept(m.key())) rest.emplace(m.key(), std::move(m.value()));
    }
    *target = std::move(rest);
    return true;
  }

  bool order_lists(JsonObject* target, JsonObject* patch, const TypeInfo* type) {
    std::vector<std::string> directives;
    for (const auto& m : *patch) {
      if (has_prefix(m.key(), kSetElementOrder)) directives.emplace_back(m.key());
    }
    for (const std::string& key : directives) {
      Json order = std::move(patch->at(key));
      patch->erase(key);
      if (!order_list(target, patch, type, key, order)) return false;
    }
    return true;
  }

  bool order_list(JsonObject* target, JsonObject* patch, const TypeInfo* type, std::string_view key, Json& order) {
    if (!order.is_array()) return fail(fmt::format("expected a slice, but received a {}", go_type_name(order)));
    const std::string_view field = directive_field(key);
    if (field.empty()) return bad("invalid patch format of setElementOrder list");
    Json* present = target->if_contains(field);
    Json* given = patch->if_contains(field);
    for (const Json* list : {present, given}) {
      if (list != nullptr && !list->is_array()) {
        return fail(fmt::format("expected a slice, but received a {}", go_type_name(*list)));
      }
    }
    const PatchMeta meta = patch_meta(type, field);
    if (!meta.known) return fail(unknown_field(type, field));
    if (given != nullptr && !follows(given->get_array(), order.get_array(), meta.merge_key)) return false;
    if (present == nullptr && given == nullptr) return true;
    JsonArray server_order = present != nullptr ? present->get_array() : JsonArray();
    if (!same_types(server_order, given != nullptr ? given->get_array() : JsonArray())) return false;
    if (given != nullptr && !meta.merge_key.empty()) reuse_slots(&server_order, given->get_array(), meta.merge_key);
    JsonArray merged;
    if (given == nullptr) {
      merged = present->get_array();
    } else if (present == nullptr) {
      if (!strip_directives(given)) return true;
      merged = given->get_array();
    } else {
      merged = present->get_array();
      if (!merge_list(&merged, given->get_array(), meta, false)) return false;
    }
    (*target)[field] = arrange(std::move(merged), order.get_array(), server_order, meta.merge_key);
    patch->erase(field);
    return true;
  }

  // A real server orders by a list it has edited meanwhile: places of deleted elements are taken by new ones, so that a
  // new element counts as known, behind the old ones.
  static void reuse_slots(JsonArray* order, const JsonArray& patch, std::string_view merge_key) {
    size_t used = order->size();
    const auto find = [&](const Json& item) {
      for (size_t i = 0; i < used; ++i) {
        if (same_element((*order)[i], item, merge_key)) return i;
      }
      return used;
    };
    for (const Json& item : patch) {
      const Json* directive = member(item, kPatchDirective);
      if (directive == nullptr || *directive != "delete") continue;
      for (size_t at = find(item); at < used; at = find(item)) {
        for (size_t i = at; i + 1 < used; ++i) (*order)[i] = (*order)[i + 1];
        --used;
      }
    }
    for (const Json& item : patch) {
      if (used == order->size()) return;
      if (member(item, kPatchDirective) == nullptr && find(item) == used) (*order)[used++] = item;
    }
  }

  // Every element the patch adds or changes must appear in the order list, in that order.
  bool follows(const JsonArray& patch, const JsonArray& order, std::string_view merge_key) {
    if (order.empty() || patch.empty()) return true;
    size_t next = 0;
    for (const Json& item : patch) {
      if (member(item, kPatchDirective) != nullptr) continue;
      if (!merge_key.empty() && !has_key(item, merge_key)) return false;
      while (next < order.size() && !same_element(item, order[next], merge_key)) ++next;
      if (next == order.size()) {
        return fail(fmt::format("The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                                go_text(Json(patch)), go_text(Json(order))));
      }
      ++next;
    }
    return true;
  }

  static bool same_element(const Json& a, const Json& b, std::string_view merge_key) {
    if (merge_key.empty()) return same_scalar(a, b);
    const Json* left = member(a, merge_key);
    const Json* right = member(b, merge_key);
    return left != nullptr && right != nullptr && same_scalar(*left, *right);
  }

  bool merge_members(JsonObject* target, JsonObject* patch, const TypeInfo* type) {
    for (auto& m : *patch) {
      if (!merge_member(target, m.key(), m.value(), type)) return false;
    }
    return true;
  }

  bool merge_member(JsonObject* target, std::string_view key, Json& value, const TypeInfo* type) {
    const bool deletes = has_prefix(key, kDeleteFromPrimitiveList);
    if (deletes) key = directive_field(key);
    if (deletes && key.empty()) return bad("invalid patch format of primitive list");
    const auto present = target->find(key);
    if (value.is_null()) {
      if (present != target->end()) target->stable_erase(present);
      return true;
    }
    if (present == target->end() || type_of(present->value()) != type_of(value)) {
      if (!deletes) set_member(target, key, value);
      return true;
    }
    const PatchMeta meta = patch_meta(type, key);
    if (value.is_object()) {
      if (!meta.known && type != nullptr) return fail(unknown_field(type, key));
      if (!meta.replace) return merge_map(&present->value().get_object(), std::move(value.get_object()), meta.element);
      present->value() = std::move(value);
      return true;
    }
    if (value.is_array()) {
      if (!meta.known && type != nullptr) return fail(unknown_field(type, key));
      if (meta.merge || deletes) return merge_list(&present->value().get_array(), value.get_array(), meta, deletes);
      present->value() = std::move(value);
      return true;
    }
    set_member(target, key, value);
    return true;
  }

  static void set_member(JsonObject* target, std::string_view key, Json& value) {
    drop_nulls(&value);
    if (strip_directives(&value)) {
      (*target)[key] = std::move(value);
    } else {
      target->erase(key);
    }
  }

  bool merge_list(JsonArray* target, JsonArray patch, const PatchMeta& meta, bool deletes) {
    if (target->empty() && patch.empty()) return true;
    if (!same_types(*target, patch)) return false;
    const Json& first = target->empty() ? patch.front() : target->front();
    if (!first.is_object()) return merge_scalars(target, patch, deletes);
    if (meta.merge_key.empty()) {
      return fail(fmt::format("cannot merge lists without merge key for {}",
                              meta.element != nullptr ? meta.element->short_name : ""));
    }
    bool replace = false;
    JsonArray plain;
    if (!element_directives(target, patch, meta.merge_key, &plain, &replace)) return false;
    if (replace) {
      *target = std::move(plain);
      return true;
    }
    const JsonArray order = plain;
    const JsonArray server_order = *target;
    if (!merge_elements(target, std::move(plain), meta)) return false;
    *target = arrange(std::move(*target), order, server_order, meta.merge_key);
    return true;
  }

  bool merge_scalars(JsonArray* target, const JsonArray& patch, bool deletes) {
    JsonArray result;
    for (Json& item : *target) {
      const bool unwanted = deletes ? index_of(patch, item, "") >= 0 : index_of(result, item, "") >= 0;
      if (!unwanted) result.push_back(item);
    }
    if (!deletes) {
      for (const Json& item : patch) {
        if (index_of(result, item, "") < 0) result.push_back(item);
      }
      result = arrange(std::move(result), patch, *target, "");
    }
    *target = std::move(result);
    return true;
  }

  // {"$patch":"delete","name":"x"} and {"$patch":"replace"} among the elements; the others go to `plain`.
  bool element_directives(JsonArray* target, JsonArray& patch, std::string_view merge_key, JsonArray* plain,
                          bool* replace) {
    for (Json& item : patch) {
      const Json* directive = member(item, kPatchDirective);
      if (directive == nullptr) {
        plain->push_back(std::move(item));
      } else if (*directive == "delete") {
        if (!has_key(item, merge_key)) return false;
        for (std::ptrdiff_t at = index_of(*target, item, merge_key); at >= 0; at = index_of(*target, item, merge_key)) {
          target->erase(target->begin() + at);
        }
      } else if (*directive == "replace") {
        *replace = true;
      } else if (*directive == "merge") {
        return fail("merging lists cannot yet be specified in the patch");
      } else {
        return fail(fmt::format("unknown patch type: {} in map: {}", go_text(*directive), go_text(item)));
      }
    }
    return true;
  }

  bool merge_elements(JsonArray* target, JsonArray patch, const PatchMeta& meta) {
    for (Json& item : patch) {
      if (!has_key(item, meta.merge_key)) return false;
      const std::ptrdiff_t at = index_of(*target, item, meta.merge_key);
      if (at < 0) {
        target->push_back(std::move(item));
        continue;
      }
      Json& present = (*target)[static_cast<size_t>(at)];
      if (!merge_map(&present.get_object(), std::move(item.get_object()), meta.element)) return false;
    }
    // Elements without the key can be neither found nor ordered.
    return std::all_of(target->begin(), target->end(), [&](const Json& item) { return has_key(item, meta.merge_key); });
  }

  static JsonArray arrange(JsonArray list, const JsonArray& order, const JsonArray& server_order,
                           std::string_view merge_key) {
    JsonArray ordered, server_only;
    for (Json& item : list) {
      (index_of(order, item, merge_key) >= 0 ? ordered : server_only).push_back(std::move(item));
    }
    return weave(std::move(ordered), std::move(server_only), order, server_order, merge_key);
  }

  bool has_key(const Json& item, std::string_view merge_key) {
    if (member(item, merge_key) != nullptr) return true;
    return fail(fmt::format("map: {} does not contain declared merge key: {}", go_text(item), merge_key));
  }

  bool same_types(const JsonArray& a, const JsonArray& b) {
    const Json* first = nullptr;
    for (const JsonArray* list : {&a, &b}) {
      for (const Json& item : *list) {
        if (first == nullptr) first = &item;
        if (first->is_array()) return fail(422, "Invalid", "lists of lists are not supported");
        if (type_of(*first) == type_of(item)) continue;
        return fail(fmt::format("list element types are not identical: [{} {}]", go_text(Json(a)), go_text(Json(b))));
      }
    }
    return true;
  }

  static std::string unknown_field(const TypeInfo* type, std::string_view field) {
    return fmt::format("unable to find api field in struct {} for the json field \"{}\"",
                       type != nullptr ? type->short_name : "", field);
  }

  static std::string_view go_type_name(const Json& value) {
    if (value.is_object()) return "map";
    if (value.is_array()) return "slice";
    if (value.is_string()) return "string";
    if (value.is_bool()) return "bool";
    if (value.is_null()) return "nil";
    return value.is_double() ? "float64" : "int64";
  }

  std::optional<ApiError> error_;
};

}  // namespace

ApiResult<Json> apply_strategic_merge_patch(Json target, const Json& patch, const TypeInfo& type) {
  ApiResult<bool> body = check_patch_body(patch, true);
  if (!body.ok()) return body.error();
  if (patch.is_null()) return target;
  if (!target.is_object()) target = JsonObject();
  StrategicMerger merger;
  if (!merger.merge_map(&target.get_object(), patch.get_object(), &type)) return merger.take_error();
  return target;
}

}  // namespace ghostfleet::kube
