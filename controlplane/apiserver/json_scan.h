// Looks into the store's own JSON bytes without parsing them into a tree: what selectors, indexes and metadata-only
// answers need of an object that is otherwise shipped as it is.
//
// Thread rule: pure functions. The input must be compact valid JSON (the store's own); on anything else the answers are
// empty, never out of bounds.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// The position after the value that begins at `pos`; npos when the text ends before.
size_t skip_json_value(std::string_view text, size_t pos);

// Calls `visit(key, value)` with the raw bytes of each member (the key without quotes, not unescaped); stops when it
// answers false.
void for_each_json_member(std::string_view object,
                          const std::function<bool(std::string_view, std::string_view)>& visit);

// The raw value of a member; empty when there is none. `key` must need no escaping.
std::string_view json_member(std::string_view object, std::string_view key);
// The same down a dotted path.
std::string_view json_at_path(std::string_view object, std::string_view path);
// Some members of some members of an object, parsed: what a reader needs of a large object, for a fraction of the cost
// of parsing it. What is missing or malformed is left out.
struct JsonPick {
  std::string_view parent;
  std::initializer_list<std::string_view> members;
};
kube::Json pick_json(std::string_view object, std::initializer_list<JsonPick> picks);
// The text of a raw string value, unescaped; numbers and booleans as they stand; empty for null, objects and arrays.
std::string json_text(std::string_view raw);

}  // namespace ghostfleet::controlplane
