#include "kube/api/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "kube/api/names.h"

namespace ghostfleet::kube {
namespace {

enum class Token : unsigned char {
  kError,
  kEnd,
  kOpen,
  kClose,
  kComma,
  kNot,
  kEquals,
  kDoubleEquals,
  kNotEquals,
  kGreater,
  kLess,
  kIn,
  kNotIn,
  kIdentifier
};

struct Lexeme {
  Token token = Token::kEnd;
  std::string literal;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_symbol(char c) { return std::string_view("=!(),><").find(c) != std::string_view::npos; }

std::optional<Token> symbol_token(std::string_view text) {
  if (text == "(") return Token::kOpen;
  if (text == ")") return Token::kClose;
  if (text == ",") return Token::kComma;
  if (text == "!") return Token::kNot;
  if (text == "=") return Token::kEquals;
  if (text == "==") return Token::kDoubleEquals;
  if (text == "!=") return Token::kNotEquals;
  if (text == ">") return Token::kGreater;
  if (text == "<") return Token::kLess;
  return std::nullopt;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Lexeme next() {
    while (pos_ < text_.size() && is_space(text_[pos_])) ++pos_;
    if (pos_ >= text_.size() || text_[pos_] == '\0') return {Token::kEnd, ""};
    return is_symbol(text_[pos_]) ? symbol() : word();
  }

 private:
  // The longest run of symbols that is a token.
  Lexeme symbol() {
    Lexeme found{Token::kError, ""};
    std::string run;
    while (pos_ < text_.size() && is_symbol(text_[pos_])) {
      run += text_[pos_];
      const std::optional<Token> token = symbol_token(run);
      if (!token && found.token != Token::kError) break;
      if (token) found = {*token, run};
      ++pos_;
    }
    if (found.token == Token::kError) found.literal = "error expected: keyword found '" + run + "'";
    return found;
  }

  Lexeme word() {
    const size_t start = pos_;
    while (pos_ < text_.size() && text_[pos_] != '\0' && !is_symbol(text_[pos_]) && !is_space(text_[pos_])) ++pos_;
    const std::string literal(text_.substr(start, pos_ - start));
    if (literal == "in") return {Token::kIn, literal};
    if (literal == "notin") return {Token::kNotIn, literal};
    return {Token::kIdentifier, literal};
  }

  std::string_view text_;
  size_t pos_ = 0;
};

std::string quoted(std::string_view text) { return Json(text).is_string() ? to_json(Json(text)) : ""; }

std::string key_problem(std::string_view key, std::string_view path) {
  const std::vector<std::string> errors = check_qualified_name(key);
  if (errors.empty()) return "";
  return fmt::format("{}: Invalid value: {}: {}", path, quoted(key), fmt::join(errors, "; "));
}

bool is_integer(std::string_view text) {
  int64_t value = 0;
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Everything that is wrong with a requirement; several are written as Go writes an aggregate.
std::string requirement_problem(const LabelRequirement& r) {
  std::vector<std::string> problems;
  if (std::string key = key_problem(r.key, "key"); !key.empty()) problems.push_back(std::move(key));
  const bool set = r.op == SelectorOp::kIn || r.op == SelectorOp::kNotIn;
  const bool compare = r.op == SelectorOp::kGreater || r.op == SelectorOp::kLess;
  if (set && r.values.empty()) {
    problems.emplace_back("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty");
  }
  if ((r.op == SelectorOp::kExists || r.op == SelectorOp::kNotExists) && !r.values.empty()) {
    std::vector<std::string> values;
    for (const std::string& v : r.values) values.push_back(quoted(v));
    problems.push_back(fmt::format(
        "values: Invalid value: [{}]: values set must be empty for exists and does not exist", fmt::join(values, ",")));
  }
  for (size_t i = 0; compare && i < r.values.size(); ++i) {
    if (is_integer(r.values[i])) continue;
    problems.push_back(
        fmt::format("values[{}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer", i,
                    quoted(r.values[i])));
  }
  for (size_t i = 0; i < r.values.size(); ++i) {
    const std::vector<std::string> errors = check_label_value(r.values[i]);
    if (errors.empty()) continue;
    problems.push_back(
        fmt::format("values[{}][{}]: Invalid value: {}: {}", i, r.key, quoted(r.values[i]), fmt::join(errors, "; ")));
  }
  if (problems.empty()) return "";
  if (problems.size() == 1) return problems[0];
  return fmt::format("[{}]", fmt::join(problems, ", "));
}

class Parser {
 public:
  explicit Parser(std::string_view text) {
    Lexer lexer(text);
    do {
      items_.push_back(lexer.next());
    } while (items_.back().token != Token::kEnd && items_.back().token != Token::kError);
  }

  // The empty text, or what is wrong.
  std::string parse(std::vector<LabelRequirement>* out) {
    for (;;) {
      const Lexeme head = peek();
      if (head.token == Token::kEnd) return "";
      if (head.token != Token::kIdentifier && head.token != Token::kNot) {
        return fmt::format("found '{}', expected: !, identifier, or 'end of string'", head.literal);
      }
      LabelRequirement r;
      if (std::string error = requirement(&r); !error.empty()) return "unable to parse requirement: " + error;
      out->push_back(std::move(r));
      const Lexeme separator = take();
      if (separator.token == Token::kEnd) return "";
      if (separator.token != Token::kComma) {
        return fmt::format("found '{}', expected: ',' or 'end of string'", separator.literal);
      }
      const Lexeme after = peek();
      if (after.token != Token::kIdentifier && after.token != Token::kNot) {
        return fmt::format("found '{}', expected: identifier after ','", after.literal);
      }
    }
  }

 private:
  // In the place of a value or key, "in" and "notin" are ordinary words.
  static Lexeme as_value(Lexeme item) {
    if (item.token == Token::kIn || item.token == Token::kNotIn) item.token = Token::kIdentifier;
    return item;
  }
  Lexeme peek() const { return as_value(items_[std::min(pos_, items_.size() - 1)]); }
  Lexeme take_raw() {
    const Lexeme item = items_[std::min(pos_, items_.size() - 1)];
    ++pos_;
    return item;
  }
  Lexeme take() { return as_value(take_raw()); }

  std::string requirement(LabelRequirement* r) {
    Lexeme key = take();
    const bool negated = key.token == Token::kNot;
    if (negated) key = take();
    if (key.token != Token::kIdentifier) return fmt::format("found '{}', expected: identifier", key.literal);
    if (std::string bad = key_problem(key.literal, "<nil>"); !bad.empty()) return bad;
    r->key = key.literal;
    const Token next = peek().token;
    const bool alone = next == Token::kEnd || next == Token::kComma;
    if (negated || alone) {
      r->op = negated ? SelectorOp::kNotExists : SelectorOp::kExists;
      return requirement_problem(*r);
    }
    if (std::string bad = operation(r); !bad.empty()) return bad;
    std::set<std::string> values;
    const bool set = r->op == SelectorOp::kIn || r->op == SelectorOp::kNotIn;
    if (std::string bad = set ? value_list(&values) : exact_value(&values); !bad.empty()) return bad;
    r->values.assign(values.begin(), values.end());
    return requirement_problem(*r);
  }

  std::string operation(LabelRequirement* r) {
    const Lexeme item = take_raw();
    switch (item.token) {
      case Token::kIn: r->op = SelectorOp::kIn; return "";
      case Token::kNotIn: r->op = SelectorOp::kNotIn; return "";
      case Token::kEquals:
      case Token::kDoubleEquals: r->op = SelectorOp::kEquals; return "";
      case Token::kNotEquals: r->op = SelectorOp::kNotEquals; return "";
      case Token::kGreater: r->op = SelectorOp::kGreater; return "";
      case Token::kLess: r->op = SelectorOp::kLess; return "";
      default: return fmt::format("found '{}', expected: in, notin, =, ==, !=, gt, lt", item.literal);
    }
  }

  std::string exact_value(std::set<std::string>* values) {
    const Token next = peek().token;
    if (next == Token::kEnd || next == Token::kComma) {
      values->insert("");
      return "";
    }
    const Lexeme item = take();
    if (item.token != Token::kIdentifier) return fmt::format("found '{}', expected: identifier", item.literal);
    values->insert(item.literal);
    return "";
  }

  std::string value_list(std::set<std::string>* values) {
    const Lexeme open = take();
    if (open.token != Token::kOpen) return fmt::format("found '{}' expected: '('", open.literal);
    const Lexeme first = peek();
    if (first.token == Token::kClose) {
      take();
      values->insert("");
      return "";
    }
    if (first.token != Token::kIdentifier && first.token != Token::kComma) {
      return fmt::format("found '{}', expected: ',', ')' or identifier", first.literal);
    }
    if (std::string bad = identifiers(values); !bad.empty()) return bad;
    if (take().token != Token::kClose) return fmt::format("found '{}', expected: ')'", first.literal);
    return "";
  }

  // Stops before the closing parenthesis. Missing values ("(,a)") are empty texts.
  std::string identifiers(std::set<std::string>* values) {
    for (;;) {
      const Lexeme item = take();
      const Lexeme next = peek();
      if (item.token == Token::kIdentifier) {
        values->insert(item.literal);
        if (next.token == Token::kClose) return "";
        if (next.token != Token::kComma) return fmt::format("found '{}', expected: ',' or ')'", next.literal);
        continue;
      }
      if (item.token != Token::kComma) return fmt::format("found '{}', expected: ',', or identifier", item.literal);
      if (values->empty() || next.token == Token::kComma || next.token == Token::kClose) values->insert("");
      if (next.token == Token::kClose) return "";
    }
  }

  std::vector<Lexeme> items_;
  size_t pos_ = 0;
};

bool has_value(const LabelRequirement& r, const std::string& value) {
  return std::binary_search(r.values.begin(), r.values.end(), value);
}

bool compares(const LabelRequirement& r, const std::string& value) {
  if (!is_integer(value) || r.values.size() != 1 || !is_integer(r.values[0])) return false;
  const long long left = std::stoll(value), right = std::stoll(r.values[0]);
  return r.op == SelectorOp::kGreater ? left > right : left < right;
}

bool requirement_matches(const LabelRequirement& r, const std::string* value) {
  switch (r.op) {
    case SelectorOp::kIn:
    case SelectorOp::kEquals: return value != nullptr && has_value(r, *value);
    case SelectorOp::kNotIn:
    case SelectorOp::kNotEquals: return value == nullptr || !has_value(r, *value);
    case SelectorOp::kExists: return value != nullptr;
    case SelectorOp::kNotExists: return value == nullptr;
    case SelectorOp::kGreater:
    case SelectorOp::kLess: return value != nullptr && compares(r, *value);
  }
  return false;
}

std::string requirement_text(const LabelRequirement& r) {
  const std::string values = fmt::format("{}", fmt::join(r.values, ","));
  switch (r.op) {
    case SelectorOp::kIn: return r.key + " in (" + values + ")";
    case SelectorOp::kNotIn: return r.key + " notin (" + values + ")";
    case SelectorOp::kEquals: return r.key + "=" + values;
    case SelectorOp::kNotEquals: return r.key + "!=" + values;
    case SelectorOp::kExists: return r.key;
    case SelectorOp::kNotExists: return "!" + r.key;
    case SelectorOp::kGreater: return r.key + ">" + values;
    case SelectorOp::kLess: return r.key + "<" + values;
  }
  return "";
}

std::optional<SelectorOp> expression_operator(std::string_view word) {
  if (word == "In") return SelectorOp::kIn;
  if (word == "NotIn") return SelectorOp::kNotIn;
  if (word == "Exists") return SelectorOp::kExists;
  if (word == "DoesNotExist") return SelectorOp::kNotExists;
  return std::nullopt;
}

// One entry of matchExpressions; the empty text, or what is wrong.
std::string read_expression(const Json& expression, LabelRequirement* r) {
  const std::string_view word = get_string(expression, "operator");
  const std::optional<SelectorOp> op = expression_operator(word);
  if (!op) return quoted(word) + " is not a valid label selector operator";
  r->op = *op;
  r->key = std::string(get_string(expression, "key"));
  std::set<std::string> values;
  if (const JsonArray* list = get_array(expression, "values")) {
    for (const Json& v : *list) {
      if (v.is_string()) values.emplace(v.get_string());
    }
  }
  r->values.assign(values.begin(), values.end());
  return requirement_problem(*r);
}

void sort_requirements(std::vector<LabelRequirement>* requirements) {
  std::stable_sort(requirements->begin(), requirements->end(),
                   [](const LabelRequirement& a, const LabelRequirement& b) { return a.key < b.key; });
}

// `\\`, `\,` and `\=` stand for the character; any other escape and a bare comma or equals sign are errors.
std::string unescape_value(std::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',' || c == '=') return fmt::format("invalid field selector: unescaped character in value: {}", int(c));
    if (c != '\\') {
      *out += c;
      continue;
    }
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (next != '\\' && next != ',' && next != '=') {
      return fmt::format("invalid field selector: invalid escape sequence: {}", text.substr(i, 2));
    }
    *out += next;
    ++i;
  }
  return "";
}

std::vector<std::string_view> split_terms(std::string_view text) {
  std::vector<std::string_view> terms;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == ',') {
      terms.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  terms.push_back(text.substr(start));
  return terms;
}

// The first "!=", "==" or "=" splits a term; false when there is none.
bool split_term(std::string_view term, FieldRequirement* r, std::string_view* value) {
  for (size_t i = 0; i < term.size(); ++i) {
    const std::string_view rest = term.substr(i);
    const bool two = rest.substr(0, 2) == "!=" || rest.substr(0, 2) == "==";
    if (!two && rest[0] != '=') continue;
    r->field = std::string(term.substr(0, i));
    r->equals = rest[0] == '=';
    *value = rest.substr(two ? 2 : 1);
    return true;
  }
  return false;
}

}  // namespace

ApiResult<LabelSelector> LabelSelector::parse(std::string_view text) {
  LabelSelector selector;
  std::string error = Parser(text).parse(&selector.requirements_);
  if (!error.empty()) return bad_request(std::move(error));
  sort_requirements(&selector.requirements_);
  return selector;
}

ApiResult<LabelSelector> LabelSelector::from_json(const Json* selector) {
  if (selector == nullptr || selector->is_null()) return nothing();
  LabelSelector out;
  if (const JsonObject* labels = get_object(*selector, "matchLabels")) {
    for (const auto& [key, value] : *labels) {
      LabelRequirement r;
      r.key = std::string(key);
      r.op = SelectorOp::kEquals;
      if (value.is_string()) r.values.emplace_back(value.get_string());
      if (std::string bad = requirement_problem(r); !bad.empty()) return bad_request(std::move(bad));
      out.requirements_.push_back(std::move(r));
    }
  }
  if (const JsonArray* expressions = get_array(*selector, "matchExpressions")) {
    for (const Json& expression : *expressions) {
      LabelRequirement r;
      if (std::string bad = read_expression(expression, &r); !bad.empty()) return bad_request(std::move(bad));
      out.requirements_.push_back(std::move(r));
    }
  }
  sort_requirements(&out.requirements_);
  return out;
}

LabelSelector LabelSelector::nothing() {
  LabelSelector selector;
  selector.nothing_ = true;
  return selector;
}

bool LabelSelector::matches(const JsonObject* labels) const {
  std::string held;
  return matches_lookup([&](std::string_view key) -> const std::string* {
    if (labels == nullptr) return nullptr;
    const auto it = labels->find(key);
    if (it == labels->end() || !it->value().is_string()) return nullptr;
    held = std::string(it->value().get_string());
    return &held;
  });
}

bool LabelSelector::matches_lookup(const std::function<const std::string*(std::string_view key)>& lookup) const {
  if (nothing_) return false;
  return std::all_of(requirements_.begin(), requirements_.end(),
                     [&](const LabelRequirement& r) { return requirement_matches(r, lookup(r.key)); });
}

std::string LabelSelector::to_string() const {
  std::string text;
  for (const LabelRequirement& r : requirements_) {
    if (!text.empty()) text += ',';
    text += requirement_text(r);
  }
  return text;
}

ApiResult<std::vector<FieldRequirement>> parse_field_selector(std::string_view text) {
  std::vector<std::string_view> terms = split_terms(text);
  std::sort(terms.begin(), terms.end());
  std::vector<FieldRequirement> out;
  for (std::string_view term : terms) {
    if (term.empty()) continue;
    FieldRequirement r;
    std::string_view value;
    if (!split_term(term, &r, &value)) {
      return bad_request(fmt::format("invalid selector: '{}'; can't understand '{}'", text, term));
    }
    if (std::string bad = unescape_value(value, &r.value); !bad.empty()) return bad_request(std::move(bad));
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace ghostfleet::kube
