// Lexer: the words of an expression. Thread rule: plain value; the text outlives it. Errors: where, and what is wrong.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::kube::cel {

enum class TokenKind : unsigned char { kEnd, kIdent, kInt, kUint, kDouble, kString, kPunctuation };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  size_t position = 0;
  std::string text;  // of a string what it says, of a number its digits, else as it stands
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Result<Token> next();

 private:
  void skip_blanks();
  Result<Token> number();
  Result<Token> string(bool raw);
  Status escape(std::string* out);
  Status code_point(size_t digits, int base, std::string* out);
  bool at(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace ghostfleet::kube::cel
