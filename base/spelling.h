// How far apart two words are, for messages that guess what was meant.
//
// Thread rule: pure functions. Time and memory: the product and the length of the words; callers bound both.
#pragma once

#include <cstddef>
#include <string_view>

namespace ghostfleet {

// Letters that differ, or are too many or too few. Capitals count as other letters.
size_t edit_distance(std::string_view a, std::string_view b);
// Whether a word may be another one misspelt: at most two letters are wrong, and not most of a short one.
bool looks_like(std::string_view word, std::string_view other);

}  // namespace ghostfleet
