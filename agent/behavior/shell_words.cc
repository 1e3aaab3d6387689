#include "agent/behavior/shell_words.h"

#include <algorithm>

#include "agent/behavior/shell_script.h"

namespace ghostfleet::agent::shell {

namespace {

constexpr size_t npos = std::string_view::npos;

// A bracket expression that begins at `at`: where it ends and whether it takes `c`. npos: the bracket is plain.
size_t bracket(std::string_view pattern, size_t at, char c, bool* takes) {
  size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (bool first = true; i < pattern.size(); first = false) {
    if (pattern[i] == ']' && !first) {
      *takes = found != negated;
      return i + 1;
    }
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    const char low = pattern[i++];
    char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      high = pattern[i + 1];
      i += 2;
    }
    found |= low <= c && c <= high;
  }
  return npos;
}

// One character of the text against the pattern at `at`; npos: it does not match, else where the pattern goes on.
size_t match_one(std::string_view pattern, size_t at, char c) {
  if (pattern[at] == '?') return at + 1;
  if (pattern[at] == '[') {
    bool takes = false;
    const size_t end = bracket(pattern, at, c, &takes);
    if (end != npos) return takes ? end : npos;
  }
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  return pattern[at] == c ? at + 1 : npos;
}

bool is_special(char c) { return std::string_view("?#@*").find(c) != npos || (c >= '0' && c <= '9'); }

size_t end_of_name(std::string_view text) {
  if (!text.empty() && is_special(text[0])) return 1;
  size_t end = 0;
  while (end < text.size() && is_name(text.substr(0, end + 1))) ++end;
  return end;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = npos, star_text = 0;  // the last * and where it began to take
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    const size_t next = p < pattern.size() ? match_one(pattern, p, text[t]) : npos;
    if (next != npos) {
      p = next;
      ++t;
    } else if (star != npos) {
      p = star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string plain_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[]\\!-^").find(c) != npos) out += '\\';
    out += c;
  }
  return out;
}

std::optional<std::vector<Piece>> pieces_of(std::string_view word) {
  std::vector<Piece> out;
  size_t plain = 0;
  const auto add = [&](Piece::Kind kind, size_t from, size_t to) {
    if (from > plain) out.push_back({Piece::Kind::kPlain, word.substr(plain, from - plain)});
    out.push_back({kind, word.substr(from, to - from)});
    plain = to;
  };
  for (size_t i = 0; i < word.size();) {
    const char c = word[i];
    if (c == '\\' && i + 1 < word.size()) {
      add(Piece::Kind::kQuoted, i, i + 2);
      i += 2;
      continue;
    }
    if (c != '\'' && c != '"' && c != '`' && c != '$') {
      ++i;
      continue;
    }
    size_t end = end_of_piece(word, i);
    if (end == npos) return std::nullopt;
    // $NAME without braces ends with its name.
    if (c == '$' && end == i + 1) end += end_of_name(word.substr(end));
    add(c == '\'' || c == '"' ? Piece::Kind::kQuoted : Piece::Kind::kSubstituted, i, end);
    i = end;
  }
  if (plain < word.size()) out.push_back({Piece::Kind::kPlain, word.substr(plain)});
  return out;
}

std::optional<Parameter> read_parameter(std::string_view inside) {
  Parameter p;
  if (inside.size() > 1 && inside[0] == '#' && end_of_name(inside.substr(1)) == inside.size() - 1) {
    p.length = true;
    p.name = inside.substr(1);
    return p;
  }
  const size_t end = end_of_name(inside);
  if (end == 0) return std::nullopt;
  p.name = inside.substr(0, end);
  inside.remove_prefix(end);
  if (inside.empty()) return p;
  p.or_empty = inside[0] == ':';
  if (p.or_empty) inside.remove_prefix(1);
  if (inside.empty() || std::string_view(p.or_empty ? "-=+?" : "-=+?#%").find(inside[0]) == npos) return std::nullopt;
  p.op = inside[0];
  inside.remove_prefix(1);
  p.longest = (p.op == '#' || p.op == '%') && inside.starts_with(p.op);
  p.word = inside.substr(p.longest ? 1 : 0);
  return p;
}

std::optional<std::string> stripped(std::string_view value, std::string_view pattern, char op, bool longest) {
  if (value.size() > kMaxStripped) return std::nullopt;
  for (size_t i = 0; i <= value.size(); ++i) {
    const size_t size = longest ? value.size() - i : i;
    const std::string_view piece = op == '#' ? value.substr(0, size) : value.substr(value.size() - size);
    if (!matches(pattern, piece)) continue;
    return std::string(op == '#' ? value.substr(size) : value.substr(0, value.size() - size));
  }
  return std::string(value);
}

std::string as_quoted(std::string_view document) {
  std::string out;
  for (size_t i = 0; i < document.size();) {
    const char c = document[i];
    if (c == '$' || c == '`') {
      const size_t end = std::min(end_of_piece(document, i), document.size());
      out += document.substr(i, end - i);
      i = end;
    } else if (document.substr(i).starts_with("\\\n")) {
      i += 2;
    } else if (document.substr(i).starts_with("\\\"")) {
      out += "\\\\\\\"";
      i += 2;
    } else if (c == '\\' && i + 1 < document.size()) {
      out += document.substr(i, 2);
      i += 2;
    } else {
      if (c == '"') out += '\\';
      out += c;
      ++i;
    }
  }
  return out;
}

}  // namespace ghostfleet::agent::shell
