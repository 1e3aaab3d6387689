// Parts of short texts that people write (annotations, flags, header values), and how Go shows a text.
//
// Thread rule: pure functions. Views are of the text that was given.
#pragma once

#include <string>
#include <string_view>

namespace ghostfleet {

inline constexpr std::string_view kBlanks = " \t\r\n";

// Without `blanks` at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = kBlanks);
// The part of `text` before the first of `marks`, trimmed; it is taken off `text`, with its mark.
std::string_view take_part(std::string_view* text, std::string_view marks);
// In quotes, as %q of Go's fmt shows a text without characters beyond ASCII; bytes beyond stay as they are.
std::string go_quote(std::string_view text);

}  // namespace ghostfleet
