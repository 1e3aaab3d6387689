#include "agent/behavior/shell_arithmetic.h"

#include <charconv>

namespace ghostfleet::agent::shell {

namespace {

constexpr std::string_view kSyntax = "arithmetic syntax error";

struct Operator {
  std::string_view text;
  int level;  // a higher one binds tighter
};
// Longer ones before those they begin with.
constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7},
                                   {"<<", 8}, {">>", 8}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},
                                   {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

bool read_number(std::string_view text, int64_t* out) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const bool octal = !hex && text.size() > 1 && text[0] == '0';
  if (hex) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out, hex ? 16 : octal ? 8 : 10);
  return error == std::errc() && end == text.data() + text.size();
}

bool in_name(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// Recursive descent. The first failure stays in `error_`; what comes after it means nothing.
class Evaluator {
 public:
  Evaluator(std::string_view text, const std::function<std::string(std::string_view)>& variable)
      : text_(text), variable_(variable) {}

  std::optional<int64_t> run(std::string* error) {
    const int64_t value = ternary();
    skip_blanks();
    if (at_ < text_.size()) fail(kSyntax);
    if (error_.empty()) return value;
    *error = error_;
    return std::nullopt;
  }

 private:
  void fail(std::string_view why) {
    if (error_.empty()) error_ = why;
    at_ = text_.size();
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  int64_t ternary() {
    const int64_t condition = binary(1);
    if (!take('?')) return condition;
    if (++depth_ > kMaxArithmeticDepth) fail(kSyntax);
    const int64_t yes = unless(condition == 0, [this] { return ternary(); });
    if (!take(':')) fail(kSyntax);
    const int64_t no = unless(condition != 0, [this] { return ternary(); });
    --depth_;
    return condition != 0 ? yes : no;
  }

  // Reads a part whose value does not count when `skipped`: dividing by zero there is no error.
  template <class Part>
  int64_t unless(bool skipped, Part part) {
    skipping_ += skipped ? 1 : 0;
    const int64_t value = part();
    skipping_ -= skipped ? 1 : 0;
    return value;
  }

  const Operator* next_operator() {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    for (const Operator& op : kOperators) {
      if (rest.starts_with(op.text)) return &op;
    }
    return nullptr;
  }

  int64_t binary(int level) {
    int64_t left = unary();
    while (error_.empty()) {
      const Operator* op = next_operator();
      if (op == nullptr || op->level < level) return left;
      at_ += op->text.size();
      const bool known = (op->level == 1 && left != 0) || (op->level == 2 && left == 0);
      const int64_t right = unless(known, [this, op] { return binary(op->level + 1); });
      left = apply(left, op->text, right);
    }
    return left;
  }

  int64_t unary() {
    if (++depth_ > kMaxArithmeticDepth) fail(kSyntax);
    int64_t value = 0;
    if (take('!')) {
      value = unary() == 0 ? 1 : 0;
    } else if (take('~')) {
      value = ~unary();
    } else if (take('-')) {
      value = static_cast<int64_t>(0 - static_cast<uint64_t>(unary()));
    } else if (take('+')) {
      value = unary();
    } else if (take('(')) {
      value = ternary();
      if (!take(')')) fail(kSyntax);
    } else {
      value = operand();
    }
    --depth_;
    return value;
  }

  int64_t operand() {
    skip_blanks();
    const size_t from = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    std::string word(text_.substr(from, at_ - from));
    if (word.empty()) {
      fail(kSyntax);
      return 0;
    }
    if (word[0] < '0' || word[0] > '9') word = variable_(word);
    const bool negative = word.starts_with('-');
    int64_t value = 0;
    if (!word.empty() && !read_number(std::string_view(word).substr(negative ? 1 : 0), &value)) fail(kSyntax);
    return negative ? -value : value;
  }

  int64_t apply(int64_t a, std::string_view op, int64_t b) {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    if (op == "||") return a != 0 || b != 0 ? 1 : 0;
    if (op == "&&") return a != 0 && b != 0 ? 1 : 0;
    if (op == "==") return a == b ? 1 : 0;
    if (op == "!=") return a != b ? 1 : 0;
    if (op == "<=") return a <= b ? 1 : 0;
    if (op == ">=") return a >= b ? 1 : 0;
    if (op == "<") return a < b ? 1 : 0;
    if (op == ">") return a > b ? 1 : 0;
    if (op == "|") return a | b;
    if (op == "^") return a ^ b;
    if (op == "&") return a & b;
    if (op == "<<") return static_cast<int64_t>(x << (y & 63));
    if (op == ">>") return a >> (y & 63);
    if (op == "+") return static_cast<int64_t>(x + y);
    if (op == "-") return static_cast<int64_t>(x - y);
    if (op == "*") return static_cast<int64_t>(x * y);
    if (b == 0) {
      if (skipping_ == 0) fail("divide by zero");
      return 0;
    }
    if (b == -1) return op == "/" ? static_cast<int64_t>(0 - x) : 0;  // the smallest number has no opposite
    return op == "/" ? a / b : a % b;
  }

  std::string_view text_;
  const std::function<std::string(std::string_view)>& variable_;
  size_t at_ = 0;
  int depth_ = 0, skipping_ = 0;
  std::string error_;
};

}  // namespace

std::optional<int64_t> evaluate(std::string_view text, const std::function<std::string(std::string_view)>& variable,
                                std::string* error) {
  return Evaluator(text, variable).run(error);
}

}  // namespace ghostfleet::agent::shell
