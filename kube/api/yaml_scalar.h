// What a plain YAML scalar means under YAML 1.1, as go-yaml v2 (and so kubectl and the API server) reads it.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "kube/api/json.h"

namespace ghostfleet::kube {

// null, bool, number or string. Timestamps stay strings. False for .nan and .inf, which JSON cannot say.
bool resolve_plain_scalar(std::string_view text, Json* out);
// The code point at *p, which is moved behind it; U+FFFD for a byte that is no UTF-8.
unsigned next_code_point(const char** p, const char* end);
// False for what YAML text cannot hold or takes for a line break: controls but '\n', U+0085, U+2028, U+FEFF, ...
bool is_printable(unsigned code_point);
bool all_printable(std::string_view text);
// True when a plain scalar of this text would not be read back as this string.
bool needs_quotes(std::string_view text);

}  // namespace ghostfleet::kube
