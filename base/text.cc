#include "base/text.h"

namespace ghostfleet {

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const size_t from = text.find_first_not_of(blanks);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blanks) + 1 - from);
}

std::string_view take_part(std::string_view* text, std::string_view marks) {
  const size_t at = text->find_first_of(marks);
  const std::string_view part = trimmed(text->substr(0, at));
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return part;
}

std::string go_quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\a': out += "\\a"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\v': out += "\\v"; break;
      default:
        if (u >= 0x20 && u != 0x7f) {
          out += c;
        } else {
          out += "\\x";
          out += kHex[u >> 4];
          out += kHex[u & 15];
        }
    }
  }
  return out + '"';
}

}  // namespace ghostfleet
