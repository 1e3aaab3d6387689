// What shells do with words, apart from running anything: patterns of `case` and of ${NAME#PATTERN}, the parts of
// ${...}, and the pieces a word is made of. Shared by the model of a script (shell_run.h) and the shell of exec.
//
// Thread rule: pure functions. Limits: kMaxStripped bytes of a value that a pattern is cut off.
// Source: POSIX.1-2017, Shell Command Language, 2.6.2, 2.7.4 and 2.13.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ghostfleet::agent::shell {

inline constexpr size_t kMaxStripped = 4096;

// * ? [a-z] [!a-z]; a backslash makes the next character plain. Takes the product of both lengths at most.
bool matches(std::string_view pattern, std::string_view text);
// The text as a pattern that matches itself alone.
std::string plain_pattern(std::string_view text);

// A word in order: quoted pieces as they stand ("...", '...', \c), substitutions ($..., `...`), and what is between.
struct Piece {
  enum class Kind : unsigned char { kPlain, kQuoted, kSubstituted } kind = Kind::kPlain;
  std::string_view text;
};
// Nothing when a quote does not end.
std::optional<std::vector<Piece>> pieces_of(std::string_view word);

// The inside of ${...}.
struct Parameter {
  std::string_view name;  // of a variable, or one of ? # @ * and the digits
  bool length = false;    // ${#NAME}
  bool or_empty = false;  // with a colon: an empty value counts as none
  char op = 0;            // - = + ? # %; 0: none
  bool longest = false;   // ## and %%
  std::string_view word;
};
std::optional<Parameter> read_parameter(std::string_view inside);

// The value without the shortest (longest) piece at its begin (#) or end (%) that the pattern matches; nothing: the
// value is too long.
std::optional<std::string> stripped(std::string_view value, std::string_view pattern, char op, bool longest);

// The text of a here-document as what stands between double quotes.
std::string as_quoted(std::string_view document);

}  // namespace ghostfleet::agent::shell
