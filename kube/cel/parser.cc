// Recursive descent over the grammar of CEL.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "kube/cel/lexer.h"
#include "kube/cel/syntax.h"

namespace ghostfleet::kube::cel {

namespace {

constexpr std::array<std::string_view, 5> kLoops = {"all", "exists", "exists_one", "filter", "map"};
constexpr std::array<std::string_view, 7> kRelations = {"==", "!=", "<", "<=", ">", ">=", "in"};
// Words that CEL keeps for itself.
constexpr std::array<std::string_view, 16> kReserved = {"as",        "break",  "const",  "continue", "else", "for",
                                                        "function",  "if",     "import", "let",      "loop", "package",
                                                        "namespace", "return", "var",    "void"};

template <typename Words>
bool among(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

NodePtr make(NodeKind kind, size_t position, std::string name = {}) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->position = position;
  node->name = std::move(name);
  return node;
}

NodePtr make(NodeKind kind, size_t position, std::string name, NodePtr a, NodePtr b = nullptr) {
  NodePtr node = make(kind, position, std::move(name));
  node->args.push_back(std::move(a));
  if (b != nullptr) node->args.push_back(std::move(b));
  return node;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text) {}

  Result<NodePtr> parse() {
    GF_RETURN_IF_ERROR(advance());
    auto node = expression();
    if (!node.ok()) return node;
    if (token_.kind != TokenKind::kEnd) return unexpected("an operator or the end");
    return node;
  }

 private:
  // One level of nesting, as long as it lives.
  class Level {
   public:
    explicit Level(int* depth) : depth_(depth) { ++*depth_; }
    ~Level() { --*depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int* depth_;
  };

  Status fail(size_t position, std::string_view what) const {
    return invalid_argument(fmt::format("{}: {}", place_of(text_, position), what));
  }
  Status unexpected(std::string_view wanted) const {
    const std::string there = token_.kind == TokenKind::kEnd ? "the end" : fmt::format("'{}'", token_.text);
    return fail(token_.position, fmt::format("{} is expected, not {}", wanted, there));
  }
  Status advance() {
    auto next = lexer_.next();
    if (!next.ok()) return fail(token_.position, next.error().message());
    token_ = std::move(*next);
    return Status();
  }
  bool is(std::string_view punctuation) const {
    return token_.kind == TokenKind::kPunctuation && token_.text == punctuation;
  }
  Status expect(std::string_view punctuation) {
    if (!is(punctuation)) return unexpected(fmt::format("'{}'", punctuation));
    return advance();
  }

  Result<NodePtr> expression() {
    const Level level(&depth_);
    if (depth_ > kMaxDepth) return fail(token_.position, fmt::format("more than {} levels of nesting", kMaxDepth));
    auto condition = disjunction();
    if (!condition.ok() || !is("?")) return condition;
    NodePtr node = make(NodeKind::kConditional, token_.position, {}, std::move(*condition));
    GF_RETURN_IF_ERROR(advance());
    auto yes = disjunction();
    if (!yes.ok()) return yes;
    GF_RETURN_IF_ERROR(expect(":"));
    auto no = expression();
    if (!no.ok()) return no;
    node->args.push_back(std::move(*yes));
    node->args.push_back(std::move(*no));
    return node;
  }

  Result<NodePtr> disjunction() {
    return chain(
        &Parser::conjunction, [this] { return is("||"); }, NodeKind::kOr);
  }
  Result<NodePtr> conjunction() {
    return chain(
        &Parser::relation, [this] { return is("&&"); }, NodeKind::kAnd);
  }
  Result<NodePtr> relation() {
    const auto here = [this] {
      return among(kRelations, token_.text) &&
             (token_.kind == TokenKind::kPunctuation || (token_.kind == TokenKind::kIdent && token_.text == "in"));
    };
    return chain(&Parser::sum, here, NodeKind::kBinary);
  }
  Result<NodePtr> sum() {
    return chain(
        &Parser::product, [this] { return is("+") || is("-"); }, NodeKind::kBinary);
  }
  Result<NodePtr> product() {
    return chain(
        &Parser::unary, [this] { return is("*") || is("/") || is("%"); }, NodeKind::kBinary);
  }

  // Operators of one rank, from the left. Each makes the tree deeper, so they count as levels together.
  template <typename Here>
  Result<NodePtr> chain(Result<NodePtr> (Parser::*part)(), Here here, NodeKind kind) {
    auto left = (this->*part)();
    if (!left.ok()) return left;
    for (int length = 1; here(); ++length) {
      if (length > kMaxDepth) return fail(token_.position, fmt::format("more than {} operators in a row", kMaxDepth));
      const Token op = token_;
      GF_RETURN_IF_ERROR(advance());
      auto right = (this->*part)();
      if (!right.ok()) return right;
      left = make(kind, op.position, op.text, std::move(*left), std::move(*right));
    }
    return left;
  }

  Result<NodePtr> unary() {
    if (!is("!") && !is("-")) return member();
    const Level level(&depth_);
    if (depth_ > kMaxDepth) return fail(token_.position, fmt::format("more than {} levels of nesting", kMaxDepth));
    const bool negate = is("-");
    const size_t position = token_.position;
    GF_RETURN_IF_ERROR(advance());
    // The most negative number has no positive twin.
    if (negate && token_.kind == TokenKind::kInt && token_.text == "9223372036854775808") {
      NodePtr node = make(NodeKind::kLiteral, position);
      node->literal = Value(INT64_MIN);
      GF_RETURN_IF_ERROR(advance());
      return node;
    }
    auto of = unary();
    if (!of.ok()) return of;
    return make(negate ? NodeKind::kNegate : NodeKind::kNot, position, {}, std::move(*of));
  }

  Result<NodePtr> member() {
    auto node = primary();
    for (int length = 1; node.ok() && (is(".") || is(".?") || is("[") || is("[?")); ++length) {
      if (length > kMaxDepth) return fail(token_.position, fmt::format("more than {} fields in a row", kMaxDepth));
      node = is("[") || is("[?") ? index(std::move(*node)) : select(std::move(*node));
    }
    return node;
  }

  Result<NodePtr> index(NodePtr of) {
    NodePtr node = make(NodeKind::kIndex, token_.position, {}, std::move(of));
    node->optional = is("[?");
    GF_RETURN_IF_ERROR(advance());
    auto key = expression();
    if (!key.ok()) return key;
    node->args.push_back(std::move(*key));
    GF_RETURN_IF_ERROR(expect("]"));
    return node;
  }

  Result<NodePtr> select(NodePtr of) {
    const bool optional = is(".?");
    const size_t position = token_.position;
    GF_RETURN_IF_ERROR(advance());
    if (token_.kind != TokenKind::kIdent) return unexpected("the name of a field");
    const std::string name = token_.text;
    GF_RETURN_IF_ERROR(advance());
    if (!is("(") || optional) {
      NodePtr node = make(NodeKind::kSelect, position, name, std::move(of));
      node->optional = optional;
      return node;
    }
    auto args = arguments(")");
    if (!args.ok()) return args.error();
    if (of->kind == NodeKind::kIdent && of->name == "cel" && name == "bind") return bind(position, std::move(*args));
    if (among(kLoops, name)) return loop(position, name, std::move(of), std::move(*args));
    NodePtr node = make(NodeKind::kCall, position, name, std::move(of));
    node->method = true;
    for (NodePtr& arg : *args) node->args.push_back(std::move(arg));
    return node;
  }

  Result<NodePtr> loop(size_t position, const std::string& name, NodePtr of, std::vector<NodePtr> args) {
    const size_t most = name == "map" ? 3 : 2;
    if (args.size() < 2 || args.size() > most || args[0]->kind != NodeKind::kIdent)
      return fail(position, fmt::format("{}(variable, expression) is expected", name));
    NodePtr node = make(NodeKind::kLoop, position, name, std::move(of));
    node->variable = args[0]->name;
    for (size_t i = 1; i < args.size(); ++i) node->args.push_back(std::move(args[i]));
    return node;
  }

  Result<NodePtr> bind(size_t position, std::vector<NodePtr> args) {
    if (args.size() != 3 || args[0]->kind != NodeKind::kIdent)
      return fail(position, "cel.bind(variable, value, expression) is expected");
    NodePtr node = make(NodeKind::kBind, position, {}, std::move(args[1]), std::move(args[2]));
    node->variable = args[0]->name;
    return node;
  }

  // From the opening bracket, which is the present token, to the closing one.
  Result<std::vector<NodePtr>> arguments(std::string_view end) {
    std::vector<NodePtr> out;
    GF_RETURN_IF_ERROR(advance());
    while (!is(end)) {
      auto arg = expression();
      if (!arg.ok()) return arg.error();
      out.push_back(std::move(*arg));
      if (is(",")) {
        GF_RETURN_IF_ERROR(advance());
      } else if (!is(end)) {
        return unexpected(fmt::format("',' or '{}'", end));
      }
    }
    GF_RETURN_IF_ERROR(advance());
    return out;
  }

  Result<NodePtr> primary() {
    switch (token_.kind) {
      case TokenKind::kInt:
      case TokenKind::kUint:
      case TokenKind::kDouble:
      case TokenKind::kString: return literal();
      case TokenKind::kIdent: return name();
      case TokenKind::kPunctuation: break;
      case TokenKind::kEnd: return unexpected("an expression");
    }
    if (is("(")) return parenthesis();
    if (is("[")) return list();
    if (is("{")) return map();
    return unexpected("an expression");
  }

  Result<NodePtr> parenthesis() {
    GF_RETURN_IF_ERROR(advance());
    auto inner = expression();
    if (!inner.ok()) return inner;
    GF_RETURN_IF_ERROR(expect(")"));
    return inner;
  }

  Result<NodePtr> list() {
    NodePtr node = make(NodeKind::kList, token_.position);
    auto items = arguments("]");
    if (!items.ok()) return items.error();
    node->args = std::move(*items);
    return node;
  }

  Result<NodePtr> map() {
    NodePtr node = make(NodeKind::kMap, token_.position);
    GF_RETURN_IF_ERROR(advance());
    while (!is("}")) {
      auto key = expression();
      if (!key.ok()) return key;
      GF_RETURN_IF_ERROR(expect(":"));
      auto value = expression();
      if (!value.ok()) return value;
      node->args.push_back(std::move(*key));
      node->args.push_back(std::move(*value));
      if (!is("}")) GF_RETURN_IF_ERROR(expect(","));
    }
    GF_RETURN_IF_ERROR(advance());
    return node;
  }

  Result<NodePtr> name() {
    const Token token = token_;
    if (among(kReserved, token.text)) return fail(token.position, fmt::format("reserved identifier: {}", token.text));
    GF_RETURN_IF_ERROR(advance());
    if (token.text == "true" || token.text == "false" || token.text == "null") {
      NodePtr node = make(NodeKind::kLiteral, token.position);
      if (token.text != "null") node->literal = Value(token.text == "true");
      return node;
    }
    if (!is("(")) return make(NodeKind::kIdent, token.position, token.text);
    auto args = arguments(")");
    if (!args.ok()) return args.error();
    if (token.text == "has") return has(token.position, std::move(*args));
    NodePtr node = make(NodeKind::kCall, token.position, token.text);
    node->args = std::move(*args);
    return node;
  }

  Result<NodePtr> has(size_t position, std::vector<NodePtr> args) {
    if (args.size() != 1 || args[0]->kind != NodeKind::kSelect || args[0]->optional)
      return fail(position, "has(object.field) is expected");
    NodePtr node = make(NodeKind::kHas, position, args[0]->name, std::move(args[0]->args[0]));
    return node;
  }

  Result<NodePtr> literal() {
    NodePtr node = make(NodeKind::kLiteral, token_.position);
    const std::string& text = token_.text;
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    const std::string_view digits = hex ? std::string_view(text).substr(2) : std::string_view(text);
    const auto whole = [&](auto* out) {
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *out, hex ? 16 : 10);
      return error == std::errc() && end == digits.data() + digits.size();
    };
    int64_t i = 0;
    uint64_t u = 0;
    bool ok = true;
    switch (token_.kind) {
      case TokenKind::kInt:
        ok = whole(&i);
        node->literal = Value(i);
        break;
      case TokenKind::kUint:
        ok = whole(&u);
        node->literal = Value(u);
        break;
      case TokenKind::kDouble: node->literal = Value(std::strtod(text.c_str(), nullptr)); break;
      default: node->literal = Value(text); break;
    }
    if (!ok) return fail(node->position, fmt::format("invalid number {}", text));
    GF_RETURN_IF_ERROR(advance());
    return node;
  }

  std::string_view text_;
  Lexer lexer_;
  Token token_;
  int depth_ = 0;
};

int depth_of(const Node& node) {
  int deepest = 0;
  for (const NodePtr& arg : node.args) deepest = std::max(deepest, depth_of(*arg));
  return deepest + 1;
}

}  // namespace

std::string place_of(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, position);
  const size_t line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t start = before.rfind('\n');
  return fmt::format("{}:{}", line + 1, position - (start == std::string_view::npos ? 0 : start + 1) + 1);
}

Result<NodePtr> parse_expression(std::string_view text) {
  if (text.size() > kMaxExpression)
    return invalid_argument(fmt::format("an expression of {} bytes: at most {} are read", text.size(), kMaxExpression));
  auto node = Parser(text).parse();
  if (node.ok() && depth_of(**node) > kMaxTreeDepth)
    return invalid_argument(fmt::format("more than {} levels of operators and brackets", kMaxTreeDepth));
  return node;
}

}  // namespace ghostfleet::kube::cel
