// Globs, as users write them to name many things: `*` is any text, `?` one character.
// Thread rule: a pure function; its time is bounded by the product of both lengths.
#pragma once

#include <string_view>

namespace ghostfleet {

bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace ghostfleet
