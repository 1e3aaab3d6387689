#include "kube/api/json_scanner.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace ghostfleet::kube {

namespace {

// True when none of the 8 bytes is a quote, a backslash, a control character or beyond ASCII.
bool plain8(const char* p) {
  uint64_t w;
  std::memcpy(&w, p, sizeof w);
  constexpr uint64_t kOnes = 0x0101010101010101ULL;
  constexpr uint64_t kHigh = 0x8080808080808080ULL;
  const uint64_t quote = w ^ (kOnes * '"');
  const uint64_t slash = w ^ (kOnes * '\\');
  const uint64_t found = ((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash) | ((w - kOnes * 0x20) & ~w) | w;
  return (found & kHigh) == 0;
}

bool plain(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u >= 0x20 && u < 0x80 && u != '"' && u != '\\';
}

bool digit(char c) { return c >= '0' && c <= '9'; }

bool continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// A byte as Go quotes a rune that it does not understand further.
std::string quote_byte(char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto u = static_cast<unsigned char>(c);
  switch (c) {
    case '\'': return "'\\''";
    case '"': return "'\"'";
    case '\\': return "'\\\\'";
    case '\a': return "'\\a'";
    case '\b': return "'\\b'";
    case '\f': return "'\\f'";
    case '\n': return "'\\n'";
    case '\r': return "'\\r'";
    case '\t': return "'\\t'";
    case '\v': return "'\\v'";
    default: break;
  }
  std::string out = "'";
  if (u < 0x20 || u == 0x7f) {
    out += "\\x";
    out += kHex[u >> 4];
    out += kHex[u & 15];
  } else if (u >= 0x80 && u < 0xa0) {
    out += "\\u00";
    out += kHex[u >> 4];
    out += kHex[u & 15];
  } else {
    append_utf8(u, &out);
  }
  return out + "'";
}

}  // namespace

void append_utf8(unsigned cp, std::string* out) {
  if (cp < 0x80) {
    out->push_back(static_cast<char>(cp));
  } else if (cp < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (cp >> 6)));
    out->push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else if (cp < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (cp >> 12)));
    out->push_back(static_cast<char>(0x80 | ((cp >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (cp >> 18)));
    out->push_back(static_cast<char>(0x80 | ((cp >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((cp >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  }
}

size_t utf8_sequence(const char* p, const char* end) {
  const auto c = static_cast<unsigned char>(*p);
  if (c < 0x80) return 1;
  const auto left = static_cast<size_t>(end - p);
  if (c < 0xC2 || left < 2 || !continuation(p[1])) return 0;
  if (c < 0xE0) return 2;
  const auto second = static_cast<unsigned char>(p[1]);
  if (left < 3 || !continuation(p[2])) return 0;
  if (c < 0xF0) {
    if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F)) return 0;
    return 3;
  }
  if (c > 0xF4 || left < 4 || !continuation(p[3])) return 0;
  if ((c == 0xF0 && second < 0x90) || (c == 0xF4 && second > 0x8F)) return 0;
  return 4;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    const size_t n = utf8_sequence(p, end);
    if (n == 0) {
      append_utf8(0xFFFD, &out);
      ++p;
    } else {
      out.append(p, n);
      p += n;
    }
  }
  return out;
}

bool JsonScanner::fail(std::string_view context) {
  if (failed()) return false;
  if (at_end()) {
    error_ = "unexpected end of JSON input";
  } else {
    error_ = "invalid character " + quote_byte(*p_) + " " + std::string(context);
  }
  return false;
}

bool JsonScanner::fail_depth() { return fail("exceeded max depth"); }

bool JsonScanner::read_string(std::string_view* out) {
  const char* start = ++p_;
  while (end_ - p_ >= 8 && plain8(p_)) p_ += 8;
  while (p_ < end_ && plain(*p_)) ++p_;
  if (p_ < end_ && *p_ == '"') {
    *out = {start, static_cast<size_t>(p_ - start)};
    ++p_;
    return true;
  }
  return read_escaped(start, out);
}

bool JsonScanner::read_escaped(const char* start, std::string_view* out) {
  scratch_.assign(start, p_);
  while (p_ < end_ && *p_ != '"') {
    const char c = *p_;
    if (plain(c)) {
      const char* from = p_;
      while (p_ < end_ && plain(*p_)) ++p_;
      scratch_.append(from, p_);
    } else if (c == '\\') {
      ++p_;
      if (!read_escape()) return false;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      return fail("in string literal");
    } else {
      const size_t n = utf8_sequence(p_, end_);
      if (n == 0) {
        append_utf8(0xFFFD, &scratch_);
      } else {
        scratch_.append(p_, n);
      }
      p_ += n == 0 ? 1 : n;
    }
  }
  if (at_end()) return fail("");
  ++p_;
  *out = scratch_;
  return true;
}

bool JsonScanner::read_hex4(unsigned* out) {
  *out = 0;
  for (int i = 0; i < 4; ++i, ++p_) {
    const char c = peek();
    unsigned d;
    if (digit(c)) {
      d = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      d = static_cast<unsigned>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      d = static_cast<unsigned>(c - 'A' + 10);
    } else {
      return fail("in \\u hexadecimal character escape");
    }
    *out = *out * 16 + d;
  }
  return true;
}

bool JsonScanner::read_escape() {
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
  const char c = peek();
  if (const size_t at = at_end() ? kNames.npos : kNames.find(c); at != kNames.npos) {
    scratch_.push_back(kBytes[at]);
    ++p_;
    return true;
  }
  if (c != 'u' || at_end()) return fail("in string escape code");
  ++p_;
  unsigned first;
  if (!read_hex4(&first)) return false;
  if (first < 0xD800 || first > 0xDFFF) {
    append_utf8(first, &scratch_);
    return true;
  }
  if (first < 0xDC00 && end_ - p_ >= 2 && p_[0] == '\\' && p_[1] == 'u') {
    const char* before = p_;
    p_ += 2;
    unsigned second;
    if (!read_hex4(&second)) return false;
    if (second >= 0xDC00 && second <= 0xDFFF) {
      append_utf8(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), &scratch_);
      return true;
    }
    p_ = before;  // the second escape stands for itself
  }
  append_utf8(0xFFFD, &scratch_);
  return true;
}

bool JsonScanner::skip_digits() {
  const char* from = p_;
  while (p_ < end_ && digit(*p_)) ++p_;
  return p_ != from;
}

bool JsonScanner::read_number(std::string_view* raw, bool* integer) {
  const char* start = p_;
  *integer = true;
  if (*p_ == '-') ++p_;
  if (peek() == '0') {
    ++p_;
  } else if (!skip_digits()) {
    return fail("in numeric literal");
  }
  if (peek() == '.') {
    ++p_;
    *integer = false;
    if (!skip_digits()) return fail("after decimal point in numeric literal");
  }
  if (peek() == 'e' || peek() == 'E') {
    ++p_;
    *integer = false;
    if (peek() == '+' || peek() == '-') ++p_;
    if (!skip_digits()) return fail("in exponent of numeric literal");
  }
  *raw = {start, static_cast<size_t>(p_ - start)};
  return true;
}

bool JsonScanner::read_word(std::string_view word) {
  for (size_t i = 0; i < word.size(); ++i, ++p_) {
    if (peek() == word[i] && !at_end()) continue;
    if (i == 0) return fail("looking for beginning of value");
    return fail("in literal " + std::string(word) + " (expecting '" + word[i] + "')");
  }
  return true;
}

bool JsonScanner::read_key(std::string_view* key) {
  skip_space();
  if (peek() != '"') return fail("looking for beginning of object key string");
  if (!read_string(key)) return false;
  skip_space();
  if (!take(':')) return fail("after object key");
  return true;
}

bool JsonScanner::next_item(char close, const char* context, bool* closed) {
  skip_space();
  *closed = take(close);
  return *closed || take(',') || fail(context);
}

bool JsonScanner::skip_string() {
  ++p_;
  for (;;) {
    while (end_ - p_ >= 8 && plain8(p_)) p_ += 8;
    if (at_end()) return fail("");
    const char c = *p_;
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) return fail("in string literal");
    ++p_;
    if (c != '\\') continue;
    scratch_.clear();
    if (!read_escape()) return false;
  }
  ++p_;
  return true;
}

bool JsonScanner::skip_scalar() {
  std::string_view raw;
  bool integer;
  switch (peek()) {
    case '"': return skip_string();
    case 't': return read_word("true");
    case 'f': return read_word("false");
    case 'n': return read_word("null");
    default: break;
  }
  if (peek() == '-' || digit(peek())) return read_number(&raw, &integer);
  return fail("looking for beginning of value");
}

bool JsonScanner::skip_value(int depth) {
  std::vector<bool> open;  // true: an object
  for (;;) {
    skip_space();
    bool value_done = false;
    if (peek() == '{' || peek() == '[') {
      const bool object = *p_ == '{';
      if (depth + static_cast<int>(open.size()) >= kMaxJsonTextDepth) return fail_depth();
      ++p_;
      open.push_back(object);
      skip_space();
      if (take(object ? '}' : ']')) {
        open.pop_back();
        value_done = true;
      }
    } else {
      if (!skip_scalar()) return false;
      value_done = true;
    }
    while (value_done && !open.empty()) {
      const bool object = open.back();
      bool closed;
      if (!next_item(object ? '}' : ']', object ? "after object key:value pair" : "after array element", &closed)) {
        return false;
      }
      if (!closed) break;
      open.pop_back();
    }
    if (open.empty()) return true;
    std::string_view key;
    if (open.back() && !read_key(&key)) return false;
  }
}

bool JsonScanner::finish() {
  skip_space();
  return at_end() || fail("after top-level value");
}

}  // namespace ghostfleet::kube
