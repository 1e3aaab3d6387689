// The value of a shell's $((...)): integers of 64 bits that wrap, C's operators without assignments, numbers (decimal,
// 0x and 0 for octal) and names of variables.
//
// Thread rule: a pure function. Errors: nullopt, and a text as a shell says it. Limits: kMaxArithmeticDepth levels.
// Source: POSIX.1-2017, Shell Command Language, 2.6.4.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ghostfleet::agent::shell {

inline constexpr int kMaxArithmeticDepth = 64;

// `variable` gives the text of a variable; an unset or empty one counts as 0.
std::optional<int64_t> evaluate(std::string_view text, const std::function<std::string(std::string_view)>& variable,
                                std::string* error);

}  // namespace ghostfleet::agent::shell
