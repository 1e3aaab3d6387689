#include "kube/api/apply_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace ghostfleet::kube {
namespace {

std::string field_element(std::string_view key) { return "f:" + std::string(key); }

Shape member_or_leaf(const Shape& shape, std::string_view key) {
  std::optional<Shape> member = member_shape(shape, key);
  return member ? std::move(*member) : Shape();
}

bool is_empty_container(const Json* value) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_object()) return value->get_object().empty();
  return value->is_array() && value->get_array().empty();
}

// ---- problems

void find_problems(const Json& value, const Shape& given, FieldPath* at, std::vector<std::string>* out) {
  const Shape shape = resolved(given, value);
  if (value.is_null() || shape.kind == Shape::Kind::kLeaf) return;
  if (shape.kind == Shape::Kind::kMap) {
    if (!value.is_object()) {
      out->push_back(fmt::format("{}: expected map, got &{{{}}}", path_text(*at), to_json(value)));
      return;
    }
    for (const auto& m : value.get_object()) {
      at->push_back(field_element(m.key()));
      const std::optional<Shape> member = member_shape(shape, m.key());
      if (member) {
        find_problems(m.value(), *member, at, out);
      } else {
        out->push_back(path_text(*at) + ": field not declared in schema");
      }
      at->pop_back();
    }
    return;
  }
  if (!value.is_array()) {
    out->push_back(fmt::format("{}: expected list, got &{{{}}}", path_text(*at), to_json(value)));
    return;
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < value.get_array().size(); ++i) {
    const Json& item = value.get_array()[i];
    std::string error;
    const std::string element = list_element(shape, item, i, &error);
    if (!error.empty()) {
      out->push_back(fmt::format("{}: element {}: {}", path_text(*at), i, error));
      continue;
    }
    if (!seen.insert(element).second) {
      out->push_back(fmt::format("{}: duplicate entries for key {}", path_text(*at), path_text({element})));
    }
    at->push_back(element);
    find_problems(item, element_shape(shape), at, out);
    at->pop_back();
  }
}

// ---- field sets

void collect_fields(const Json& value, const Shape& given, FieldSet* out) {
  const Shape shape = resolved(given, value);
  if (shape.kind == Shape::Kind::kLeaf) {
    out->set_member(true);
    return;
  }
  if (value.is_object() && shape.kind == Shape::Kind::kMap) {
    for (const auto& m : value.get_object()) {
      FieldSet& below = out->below(field_element(m.key()));
      const bool bare = m.value().is_null() || (m.value().is_object() && m.value().get_object().empty());
      if (bare || !is_named_field(shape, m.key())) below.set_member(true);
      if (!m.value().is_null()) collect_fields(m.value(), member_or_leaf(shape, m.key()), &below);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.get_array().size(); ++i) {
      const Json& item = value.get_array()[i];
      std::string error;
      const std::string element = list_element(shape, item, i, &error);
      if (!error.empty()) continue;
      FieldSet& below = out->below(element);
      below.set_member(true);
      collect_fields(item, element_shape(shape), &below);
    }
  }
}

// ---- comparison

class Comparer {
 public:
  explicit Comparer(Comparison* out) : out_(out) {}

  // Null pointers stand for absent, not for null.
  void compare(const Json* before, const Json* after, const Shape& given) {
    if (before == nullptr && after == nullptr) return;
    const Shape shape = resolved(given, after != nullptr && !after->is_null() ? *after : *(before ? before : after));
    const bool promoted = is_empty_container(before) && is_empty_container(after);
    if (shape.kind == Shape::Kind::kLeaf || promoted || mixed(before, after)) {
      leaf(before, after);
      return;
    }
    if (shape.kind == Shape::Kind::kMap) {
      maps(before, after, shape);
    } else {
      lists(before, after, shape);
    }
    if (before == nullptr) out_->added.insert(at_);
    if (after == nullptr) out_->removed.insert(at_);
  }

 private:
  static bool mixed(const Json* a, const Json* b) {
    const auto scalar = [](const Json* v) {
      return v != nullptr && !v->is_null() && !v->is_object() && !v->is_array();
    };
    return scalar(a) || scalar(b);
  }

  void leaf(const Json* before, const Json* after) {
    if (before == nullptr) {
      out_->added.insert(at_);
    } else if (after == nullptr) {
      out_->removed.insert(at_);
    } else if (!json_equal(*before, *after)) {
      out_->modified.insert(at_);
    }
  }

  static const Json* member(const Json* value, std::string_view key) {
    return value != nullptr && value->is_object() ? value->get_object().if_contains(key) : nullptr;
  }

  void maps(const Json* before, const Json* after, const Shape& shape) {
    for (const Json* side : {before, after}) {
      if (side == nullptr || !side->is_object()) continue;
      for (const auto& m : side->get_object()) {
        if (side == after && member(before, m.key()) != nullptr) continue;  // seen already
        at_.push_back(field_element(m.key()));
        compare(member(before, m.key()), member(after, m.key()), member_or_leaf(shape, m.key()));
        at_.pop_back();
      }
    }
  }

  using Elements = std::map<std::string, std::vector<const Json*>>;

  static Elements index(const Json* list, const Shape& shape) {
    Elements out;
    if (list == nullptr || !list->is_array()) return out;
    for (size_t i = 0; i < list->get_array().size(); ++i) {
      std::string error;
      const std::string element = list_element(shape, list->get_array()[i], i, &error);
      if (error.empty()) out[element].push_back(&list->get_array()[i]);
    }
    return out;
  }

  void lists(const Json* before, const Json* after, const Shape& shape) {
    const Elements old = index(before, shape), fresh = index(after, shape);
    const Shape element = element_shape(shape);
    const auto visit = [&](const std::string& key) {
      const auto a = old.find(key), b = fresh.find(key);
      at_.push_back(key);
      if ((a != old.end() && a->second.size() > 1) || (b != fresh.end() && b->second.size() > 1)) {
        duplicates(a == old.end() ? nullptr : &a->second, b == fresh.end() ? nullptr : &b->second);
      } else {
        compare(a == old.end() ? nullptr : a->second[0], b == fresh.end() ? nullptr : b->second[0], element);
      }
      at_.pop_back();
    };
    for (const auto& entry : old) visit(entry.first);
    for (const auto& entry : fresh) {
      if (old.count(entry.first) == 0) visit(entry.first);
    }
  }

  // Elements that share a key are owned together.
  void duplicates(const std::vector<const Json*>* before, const std::vector<const Json*>* after) {
    if (before == nullptr || after == nullptr) {
      (before == nullptr ? out_->added : out_->removed).insert(at_);
      return;
    }
    const bool same = std::equal(before->begin(), before->end(), after->begin(), after->end(),
                                 [](const Json* a, const Json* b) { return json_equal(*a, *b); });
    if (!same) out_->modified.insert(at_);
  }

  Comparison* out_;
  FieldPath at_;
};

// ---- merging

Json merge_lists(const JsonArray& live, const JsonArray& config, const Shape& shape);

Json merge_maps(const JsonObject& live, const JsonObject& config, const Shape& shape) {
  JsonObject out = live;
  for (const auto& m : config) {
    const Json* present = live.if_contains(m.key());
    out.insert_or_assign(
        m.key(), present == nullptr ? m.value() : merge_values(*present, m.value(), member_or_leaf(shape, m.key())));
  }
  return out;
}

struct Keyed {
  std::vector<std::string> order;
  std::map<std::string, const Json*> items;  // the first of each key
};

Keyed index_list(const JsonArray& list, const Shape& shape) {
  Keyed out;
  for (size_t i = 0; i < list.size(); ++i) {
    std::string error;
    std::string element = list_element(shape, list[i], i, &error);
    if (!error.empty()) element = "i:" + std::to_string(i);
    out.items.emplace(element, &list[i]);
    out.order.push_back(std::move(element));
  }
  return out;
}

// The configuration's order holds among its elements; what only the live list has keeps its place between the shared
// ones.
Json merge_lists(const JsonArray& live, const JsonArray& config, const Shape& shape) {
  const Keyed left = index_list(live, shape), right = index_list(config, shape);
  const Shape element = element_shape(shape);
  std::vector<std::string> shared;
  for (const std::string& key : right.order) {
    if (left.items.count(key) > 0) shared.push_back(key);
  }
  JsonArray out;
  std::set<std::string> done;
  size_t l = 0, r = 0, next = 0;
  const auto take_right = [&] {
    const std::string& key = right.order[r];
    const auto present = left.items.find(key);
    const Json& wanted = *right.items.at(key);
    out.push_back(present == left.items.end() ? wanted : merge_values(*present->second, wanted, element));
    done.insert(key);
    if (next < shared.size() && shared[next] == key) ++next;
    ++r;
  };
  while (l < left.order.size() || r < right.order.size()) {
    if (l < left.order.size() && r < right.order.size()) {
      const std::string& key = left.order[l];
      if (key == right.order[r]) {
        take_right();
        ++l;
        continue;
      }
      // Shared, but another shared one comes first.
      if (right.items.count(key) > 0 && next < shared.size() && shared[next] != key) {
        ++l;
        continue;
      }
    }
    if (l < left.order.size()) {
      const std::string& key = left.order[l];
      if (right.items.count(key) == 0) {
        out.push_back(live[l]);
        ++l;
        continue;
      }
      if (done.count(key) > 0) ++l;
    }
    if (r < right.order.size()) take_right();
  }
  return out;
}

// ---- removal

Json remove_from_list(const JsonArray& list, const FieldSet& set, const Shape& shape) {
  JsonArray out;
  const Shape element_form = element_shape(shape);
  for (size_t i = 0; i < list.size(); ++i) {
    std::string error;
    const std::string element = list_element(shape, list[i], i, &error);
    if (error.empty() && set.has(element)) continue;
    const FieldSet* below = error.empty() ? set.child(element) : nullptr;
    out.push_back(below == nullptr ? list[i] : remove_fields(list[i], *below, element_form));
  }
  if (out.empty()) return nullptr;
  return out;
}

Json remove_from_map(const JsonObject& map, const FieldSet& set, const Shape& shape) {
  JsonObject out;
  for (const auto& m : map) {
    const std::string element = field_element(m.key());
    if (set.has(element)) continue;
    const FieldSet* below = set.child(element);
    if (below == nullptr || below->empty()) {
      out.emplace(m.key(), m.value());
      continue;
    }
    Json rest = remove_fields(m.value(), *below, member_or_leaf(shape, m.key()));
    if (!rest.is_null()) out.emplace(m.key(), std::move(rest));
  }
  if (out.empty()) return nullptr;
  return out;
}

}  // namespace

std::string list_element(const Shape& list, const Json& value, size_t index, std::string* error) {
  if (list.kind == Shape::Kind::kSet) return "v:" + to_json(value);
  if (list.kind != Shape::Kind::kKeyed) return "i:" + std::to_string(index);
  if (!value.is_object()) {
    *error = "associative list with keys may not have non-map elements";
    return "";
  }
  std::vector<std::string> names = list.keys;
  std::sort(names.begin(), names.end());
  JsonObject keys;
  for (const std::string& name : names) {
    const Json* given = value.get_object().if_contains(name);
    if (given != nullptr && !given->is_null()) {
      keys.emplace(name, *given);
    } else if (std::optional<Json> fallback = key_default(list, name)) {
      keys.emplace(name, std::move(*fallback));
    }
  }
  if (keys.empty()) {
    std::string all;
    for (const std::string& name : list.keys) all += (all.empty() ? "\"" : " \"") + name + "\"";
    *error = fmt::format(
        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for "
        "any key fields)",
        all);
    return "";
  }
  return "k:" + to_json(Json(std::move(keys)));
}

std::vector<std::string> typed_problems(const Json& value, const Shape& shape) {
  std::vector<std::string> out;
  FieldPath at;
  find_problems(value, shape, &at, &out);
  return out;
}

FieldSet field_set_of(const Json& value, const Shape& shape) {
  FieldSet out;
  collect_fields(value, shape, &out);
  out.set_member(false);
  return out;
}

Comparison compare_values(const Json& before, const Json& after, const Shape& shape) {
  Comparison out;
  Comparer(&out).compare(&before, &after, shape);
  return out;
}

Json merge_values(const Json& live, const Json& config, const Shape& given) {
  if (config.is_null()) return given.kind == Shape::Kind::kLeaf ? config : live;
  const Shape shape = resolved(given, config);
  if (shape.kind == Shape::Kind::kMap && live.is_object() && config.is_object()) {
    return merge_maps(live.get_object(), config.get_object(), shape);
  }
  const bool list = shape.kind == Shape::Kind::kSet || shape.kind == Shape::Kind::kKeyed;
  if (list && live.is_array() && config.is_array()) return merge_lists(live.get_array(), config.get_array(), shape);
  return config;
}

Json remove_fields(const Json& value, const FieldSet& set, const Shape& given) {
  const Shape shape = resolved(given, value);
  if (is_empty_container(&value)) return value;
  if (shape.kind == Shape::Kind::kMap && value.is_object()) return remove_from_map(value.get_object(), set, shape);
  const bool list = shape.kind == Shape::Kind::kSet || shape.kind == Shape::Kind::kKeyed;
  if (list && value.is_array()) return remove_from_list(value.get_array(), set, shape);
  // A leaf whose inside was named: nothing of it is kept when it is an atomic container.
  if (value.is_object() || value.is_array()) return nullptr;
  return value;
}

FieldSet with_named_parents(const FieldSet& set, const Shape& shape) {
  FieldSet out;
  out.set_member(set.member());
  for (const auto& [element, below] : set.children()) {
    const std::string_view key = std::string_view(element).substr(2);
    const bool field = element[0] == 'f';
    const Shape inner = field ? member_or_leaf(shape, key) : element_shape(shape);
    FieldSet child = with_named_parents(below, inner);
    const bool has_children = !below.children().empty();
    if (field && has_children && is_named_field(shape, key)) child.set_member(true);
    out.below(element) = std::move(child);
  }
  return out;
}

}  // namespace ghostfleet::kube
