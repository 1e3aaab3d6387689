#include "kube/cel/lexer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace ghostfleet::kube::cel {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Longer ones first.
constexpr std::array<std::string_view, 27> kPunctuation = {"&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "(",
                                                           ")",  "[",  "]",  "{",  "}",  ",",  ":",  ".",  "?",
                                                           "!",  "<",  ">",  "+",  "-",  "*",  "/",  "%",  "="};

Status wrong(std::string_view what) { return invalid_argument(std::string(what)); }

void append_utf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
  } else if (c < 0x800) {
    *out += static_cast<char>(0xc0 | c >> 6);
    *out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    *out += static_cast<char>(0xe0 | c >> 12);
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    *out += static_cast<char>(0xf0 | c >> 18);
    *out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

}  // namespace

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    if (at("//")) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (std::string_view(" \t\r\n\f").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    } else {
      return;
    }
  }
}

Result<Token> Lexer::next() {
  skip_blanks();
  const size_t begin = at_;
  if (at_ >= text_.size()) return Token{TokenKind::kEnd, begin, {}};
  const char c = text_[at_];
  if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) return number();
  if (c == '"' || c == '\'') return string(false);
  if ((c == 'r' || c == 'R') && at_ + 1 < text_.size() && (text_[at_ + 1] == '"' || text_[at_ + 1] == '\'')) {
    ++at_;
    return string(true);
  }
  if (is_letter(c)) {
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return Token{TokenKind::kIdent, begin, std::string(text_.substr(begin, at_ - begin))};
  }
  for (const std::string_view p : kPunctuation) {
    if (!at(p)) continue;
    at_ += p.size();
    return Token{TokenKind::kPunctuation, begin, std::string(p)};
  }
  return wrong(fmt::format("token recognition error at: '{}'", c >= ' ' && c < 127 ? std::string(1, c) : "?"));
}

Result<Token> Lexer::number() {
  Token token{TokenKind::kInt, at_, {}};
  const size_t begin = at_;
  if (at("0x") || at("0X")) {
    at_ += 2;
    while (at_ < text_.size() && std::isxdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  } else {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
      token.kind = TokenKind::kDouble;
      for (++at_; at_ < text_.size() && is_digit(text_[at_]);) ++at_;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      token.kind = TokenKind::kDouble;
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    }
  }
  token.text = text_.substr(begin, at_ - begin);
  if (token.kind == TokenKind::kInt && (at("u") || at("U"))) {
    token.kind = TokenKind::kUint;
    ++at_;
  }
  return token;
}

Result<Token> Lexer::string(bool raw) {
  Token token{TokenKind::kString, at_, {}};
  std::string mark(1, text_[at_]);
  if (at(mark + mark + mark)) mark = mark + mark + mark;
  at_ += mark.size();
  while (!at(mark)) {
    if (at_ >= text_.size() || (mark.size() == 1 && text_[at_] == '\n')) return wrong("a string does not end");
    if (text_[at_] != '\\' || raw) {
      token.text += text_[at_++];
      continue;
    }
    GF_RETURN_IF_ERROR(escape(&token.text));
  }
  at_ += mark.size();
  return token;
}

Status Lexer::escape(std::string* out) {
  constexpr std::string_view kLetters = "abfnrtv\\?\"'`", kMeans = "\a\b\f\n\r\t\v\\?\"'`";
  ++at_;
  if (at_ >= text_.size()) return wrong("a string does not end");
  const char c = text_[at_];
  if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
    ++at_;
    *out += kMeans[i];
    return Status();
  }
  if (c == 'x' || c == 'X') return ++at_, code_point(2, 16, out);
  if (c == 'u') return ++at_, code_point(4, 16, out);
  if (c == 'U') return ++at_, code_point(8, 16, out);
  if (is_digit(c)) return code_point(3, 8, out);
  return wrong(fmt::format("unknown escape \\{} in a string", c));
}

Status Lexer::code_point(size_t digits, int base, std::string* out) {
  const std::string_view text = text_.substr(at_, digits);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + digits || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
    return wrong("an escape in a string names no character");
  at_ += digits;
  append_utf8(value, out);
  return Status();
}

}  // namespace ghostfleet::kube::cel
