// Pattern: a regular expression of grep and sed: fixed text, or POSIX basic or extended, turned into what RE2 reads, so
// that no pattern takes more than linear time.
//
// Thread rule: immutable. Errors: a text that says what is wrong. Limits: kMaxText bytes; no back references.
// Source: POSIX.1-2017, Regular Expressions, 9.3 and 9.4, with the \| \+ \? \< \> \w \s \b of GNU.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace ghostfleet::kubelet_api {

class Pattern {
 public:
  static constexpr size_t kMaxText = 1024;
  static constexpr size_t kMaxGroups = 10;  // the whole and nine more
  enum class Syntax : unsigned char { kBasic, kExtended, kFixed };

  static std::optional<Pattern> compile(std::string_view text, Syntax syntax, bool ignore_case, std::string* error);

  // The leftmost, longest match that begins at `from` or later: the whole of it and the groups (null: took no part).
  bool find(std::string_view text, size_t from, std::vector<std::string_view>* groups) const;
  bool matches(std::string_view text) const { return find(text, 0, nullptr); }
  size_t groups() const;

 private:
  std::shared_ptr<const re2::RE2> engine_;
};

}  // namespace ghostfleet::kubelet_api
