// Looks into JSON text without building a tree: what the reflector and the client need of an object is a handful of
// strings near its top. Nothing is copied; a value is a view into the text.
//
// It is lenient: it follows brackets and strings and does not check what it skips. Text that ends too early or does not
// nest gives an empty view, never an overrun. Depth costs no stack.
// Thread rule: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ghostfleet::kube {

// Takes one value off the front of `text` (white space before it too); empty when there is none or it is cut off.
std::string_view take_json_value(std::string_view* text);

// Walks the members of an object, or the items of an array; the callback returns false to stop. False when the text is
// no object (array), or broken.
bool for_each_json_member(std::string_view object,
                          const std::function<bool(std::string_view key, std::string_view value)>& fn);
bool for_each_json_item(std::string_view array, const std::function<bool(std::string_view value)>& fn);

// The value of a member, empty when missing. Keys with escapes are not found.
std::string_view json_member(std::string_view object, std::string_view key);
// The text between the quotes; empty when the value is no string. Escapes stay as they are.
std::string_view json_raw_string(std::string_view value);
// A member that is a string, with its escapes resolved.
std::string json_string_member(std::string_view object, std::string_view key);

}  // namespace ghostfleet::kube
