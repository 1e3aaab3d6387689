#include "kube/api/yaml_scalar.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "kube/api/json_number.h"
#include "kube/api/json_scanner.h"

namespace ghostfleet::kube {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

template <size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

constexpr std::array<std::string_view, 5> kNulls = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 11> kTrue = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                                    "True", "TRUE", "on",  "On",  "ON"};
constexpr std::array<std::string_view, 11> kFalse = {"n",     "N",     "no",  "No",  "NO", "false",
                                                     "False", "FALSE", "off", "Off", "OFF"};
constexpr std::array<std::string_view, 12> kNoNumbers = {".nan",  ".NaN",  ".NAN",  ".inf",  ".Inf",  ".INF",
                                                         "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"};

// A whole number in decimal, 0x, 0o, 0b or with a leading 0 (octal).
bool parse_integer(std::string_view text, Json* out) {
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char c = text[1];
    const bool letter = c == 'x' || c == 'X' || c == 'o' || c == 'O' || c == 'b' || c == 'B';
    base = c == 'x' || c == 'X' ? 16 : c == 'b' || c == 'B' ? 2 : 8;
    text.remove_prefix(letter ? 2 : 1);
  }
  uint64_t value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || r.ec != std::errc() || r.ptr != text.data() + text.size()) return false;
  constexpr uint64_t kMin = uint64_t{1} << 63;
  if (negative) {
    if (value > kMin) return false;
    *out = static_cast<int64_t>(0 - value);
  } else if (value < kMin) {
    *out = static_cast<int64_t>(value);
  } else {
    *out = value;
  }
  return true;
}

// [-+]? (.digits | digits[.digits?]) ([eE][-+]?digits)?
bool looks_like_float(std::string_view text) {
  size_t i = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const auto digits = [&] {
    const size_t from = i;
    while (i < text.size() && digit(text[i])) ++i;
    return i - from;
  };
  const bool whole = digits() > 0;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0 && !whole) return false;
  } else if (!whole) {
    return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

// YYYY-M-D, perhaps with a time: a string to everyone, but written in quotes.
bool looks_like_timestamp(std::string_view text) {
  if (text.size() < 8 || text[4] != '-') return false;
  for (size_t i = 0; i < 4; ++i) {
    if (!digit(text[i])) return false;
  }
  return digit(text[5]) && text.find('-', 6) <= 7;
}

}  // namespace

bool resolve_plain_scalar(std::string_view text, Json* out) {
  const auto as_string = [&] { out->emplace_string().assign(text.data(), text.size()); };
  if (one_of(text, kNulls)) {
    *out = nullptr;
    return true;
  }
  const char c = text[0];
  if (!digit(c) && c != '-' && c != '+' && c != '.') {
    const bool yes = one_of(text, kTrue);
    if (yes || one_of(text, kFalse)) {
      *out = yes;
    } else {
      as_string();
    }
    return true;
  }
  if (one_of(text, kNoNumbers)) return false;
  std::string plain(text);
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  if (c != '.' && parse_integer(plain, out)) return true;
  if (looks_like_float(plain)) {
    if (plain[0] == '+') plain.erase(0, 1);
    if (number_from_text(plain, false, out)) return true;
  }
  as_string();
  return true;
}

unsigned next_code_point(const char** p, const char* end) {
  const auto size = static_cast<int>(utf8_sequence(*p, end));
  if (size == 0) {
    ++*p;
    return 0xFFFD;
  }
  const auto byte = [&](int i) { return static_cast<unsigned>(static_cast<unsigned char>((*p)[i])); };
  unsigned cp = size == 1 ? byte(0) : byte(0) & (0x7FU >> size);
  for (int i = 1; i < size; ++i) cp = cp << 6 | (byte(i) & 0x3F);
  *p += size;
  return cp;
}

bool is_printable(unsigned cp) {
  if (cp == '\n') return true;
  if (cp < 0x20 || (cp >= 0x7F && cp < 0xA0)) return false;
  return cp != 0x2028 && cp != 0x2029 && cp != 0xFEFF && cp != 0xFFFE && cp != 0xFFFF;
}

bool all_printable(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    if (!is_printable(next_code_point(&p, end))) return false;
  }
  return true;
}

bool needs_quotes(std::string_view text) {
  if (text.empty() || looks_like_timestamp(text)) return true;
  if (text == "=" || text == "<<") return true;
  static constexpr std::string_view kStart = "-?:,[]{}#&*!|>'\"%@`";
  const bool marker = kStart.find(text[0]) != kStart.npos;
  const bool allowed = (text[0] == '-' || text[0] == '?' || text[0] == ':') && text.size() > 1 && text[1] != ' ';
  if (marker && !allowed) return true;
  if (text.substr(0, 3) == "---" || text.substr(0, 3) == "...") return true;
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':') return true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') return true;
    if (text[i] == ':' && i + 1 < text.size() && text[i + 1] == ' ') return true;
    if (text[i] == '#' && i > 0 && text[i - 1] == ' ') return true;
  }
  if (!all_printable(text)) return true;
  Json value;
  return !resolve_plain_scalar(text, &value) || !value.is_string();
}

}  // namespace ghostfleet::kube
