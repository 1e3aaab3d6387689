#include "agent/behavior/shell_script.h"

#include <algorithm>
#include <array>

#include "agent/behavior/shell_words.h"

namespace ghostfleet::agent::shell {

namespace {

constexpr std::string_view kWordEnd = " \t\n;&|<>()";
constexpr size_t npos = std::string_view::npos;

// One past the bracket that closes the one at `open`, quotes and nested brackets minded.
size_t end_of_bracket(std::string_view text, size_t open, char closing, int depth) {
  const char opening = text[open];
  int level = 0;
  for (size_t i = open; i < text.size();) {
    const char c = text[i];
    if (c == '\\') {
      i += 2;
      continue;
    }
    if (c == '\'' || c == '"' || c == '`') {
      i = end_of_piece(text, i, depth + 1);
      if (i == npos) return npos;
      continue;
    }
    level += c == opening ? 1 : c == closing ? -1 : 0;
    ++i;
    if (level == 0) return i;
  }
  return npos;
}

size_t end_of_double_quotes(std::string_view text, size_t at, int depth) {
  for (size_t i = at + 1; i < text.size();) {
    if (text[i] == '"') return i + 1;
    if (text[i] == '\\') {
      i += 2;
    } else if (text[i] == '$' || text[i] == '`') {
      i = end_of_piece(text, i, depth + 1);
      if (i == npos) return npos;
    } else {
      ++i;
    }
  }
  return npos;
}

size_t end_of_dollar(std::string_view text, size_t at, int depth) {
  if (at + 1 >= text.size()) return at + 1;
  if (text[at + 1] == '(') return end_of_bracket(text, at + 1, ')', depth);
  if (text[at + 1] == '{') return end_of_bracket(text, at + 1, '}', depth);
  return at + 1;
}

enum class TokenKind : unsigned char { kWord, kOperator, kNewline, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  bool glued = false;    // a redirection follows without a blank: "2>"
  bool literal = false;  // the text of a here-document whose end was quoted
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  // False when the text is no script: a quote or a here-document has no end.
  bool run(std::vector<Token>* out) {
    while (true) {
      skip_blanks();
      if (at_ >= text_.size()) break;
      Token token;
      if (!next(&token)) return false;
      const TokenKind kind = token.kind;
      out->push_back(std::move(token));
      note_document(*out);
      if (kind == TokenKind::kNewline && !read_documents(out)) return false;
    }
    out->push_back({});
    return documents_.empty();
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (text_.substr(at_).starts_with("\\\n")) {
        at_ += 2;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  struct HereDocument {
    size_t token = 0;   // its end, which becomes its text
    bool tabs = false;  // <<-: leading tabs do not count
  };

  // The word behind << says how the document ends.
  void note_document(const std::vector<Token>& tokens) {
    if (tokens.size() < 2 || tokens.back().kind != TokenKind::kWord) return;
    const Token& before = tokens[tokens.size() - 2];
    if (before.kind != TokenKind::kOperator || !before.text.starts_with("<<")) return;
    documents_.push_back({tokens.size() - 1, before.text == "<<-"});
  }

  bool read_documents(std::vector<Token>* tokens) {
    for (const HereDocument& document : documents_) {
      Token& token = (*tokens)[document.token];
      std::string end;
      for (const char c : token.text) {
        const bool quote = c == '\'' || c == '"' || c == '\\';
        token.literal |= quote;
        if (!quote) end += c;
      }
      token.text.clear();
      if (!read_document(end, document.tabs, &token.text)) return false;
      if (!token.literal) token.text = as_quoted(token.text);
    }
    documents_.clear();
    return true;
  }

  bool read_document(std::string_view end, bool tabs, std::string* out) {
    while (at_ < text_.size()) {
      std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
      at_ = std::min(at_ + line.size() + 1, text_.size());
      if (tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == end) return true;
      out->append(line);
      *out += '\n';
    }
    return false;
  }

  bool next(Token* token) {
    if (text_[at_] == '\n') {
      ++at_;
      token->kind = TokenKind::kNewline;
      return true;
    }
    constexpr std::array<std::string_view, 16> kOperators = {"<<-", "<<", "<&", "&&", "||", ";;", ">>", ">&",
                                                             ">|",  ";",  "&",  "|",  "<",  ">",  "(",  ")"};
    for (const std::string_view op : kOperators) {
      if (!text_.substr(at_).starts_with(op)) continue;
      at_ += op.size();
      token->kind = TokenKind::kOperator;
      token->text = op;
      return true;
    }
    return word(token);
  }

  bool word(Token* token) {
    const size_t from = at_;
    while (at_ < text_.size() && kWordEnd.find(text_[at_]) == npos) {
      const char c = text_[at_];
      if (c == '\\') {
        at_ = std::min(at_ + 2, text_.size());
      } else if (c == '\'' || c == '"' || c == '`' || c == '$') {
        at_ = end_of_piece(text_, at_);
        if (at_ == npos) return false;
      } else {
        ++at_;
      }
    }
    const bool glued = at_ < text_.size() && (text_[at_] == '<' || text_[at_] == '>');
    *token = {TokenKind::kWord, std::string(text_.substr(from, at_ - from)), glued, false};
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<HereDocument> documents_;  // of this line
};

// Recursive descent. A failure leaves `failed_` set and returns what is there; the caller of parse() sees only null.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Tree run(bool* incomplete) {
    Tree tree = list({});
    if (peek().kind != TokenKind::kEnd) fail();
    *incomplete = incomplete_;
    return failed_ ? nullptr : tree;
  }

 private:
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is_operator(std::string_view text) const { return peek().kind == TokenKind::kOperator && peek().text == text; }
  bool is_word(std::string_view text) const { return peek().kind == TokenKind::kWord && peek().text == text; }
  // The first failure tells: at the end of the text more of it could help.
  void fail() {
    if (!failed_) incomplete_ = peek().kind == TokenKind::kEnd;
    failed_ = true;
  }
  void fail_for_good() { failed_ = true; }
  void skip_newlines() {
    while (peek().kind == TokenKind::kNewline) ++at_;
  }
  void expect_word(std::string_view text) {
    if (!is_word(text)) fail();
    ++at_;
  }
  void expect_operator(std::string_view text) {
    if (!is_operator(text)) fail();
    ++at_;
  }
  bool at_end_of_list(const std::vector<std::string_view>& ends) const {
    if (failed_ || peek().kind == TokenKind::kEnd || is_operator(")") || is_operator(";;")) return true;
    return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_word(end); });
  }

  static Tree node(NodeKind kind, std::vector<Tree> parts, std::vector<std::string> words = {}) {
    auto n = std::make_shared<Node>();
    n->kind = kind;
    n->parts = std::move(parts);
    n->words = std::move(words);
    return n;
  }

  // Commands up to one of the words `ends`, a closing bracket, ;; or the end.
  Tree list(const std::vector<std::string_view>& ends) {
    std::vector<Tree> parts;
    if (++depth_ > kMaxDepth) fail_for_good();
    skip_separators();
    while (!at_end_of_list(ends)) {
      Tree part = and_or();
      if (is_operator("&")) {
        ++at_;
        part = node(NodeKind::kBackground, {std::move(part)});
      } else if (!at_end_of_list(ends) && !is_operator(";") && peek().kind != TokenKind::kNewline) {
        fail();
      }
      parts.push_back(std::move(part));
      skip_separators();
    }
    --depth_;
    return node(NodeKind::kSequence, std::move(parts));
  }

  void skip_separators() {
    while (peek().kind == TokenKind::kNewline || is_operator(";")) ++at_;
  }

  Tree and_or() {
    Tree left = pipeline();
    for (int links = 0; !failed_ && (is_operator("&&") || is_operator("||")); ++links) {
      if (links == kMaxDepth) fail_for_good();
      const NodeKind kind = is_operator("&&") ? NodeKind::kAnd : NodeKind::kOr;
      ++at_;
      skip_newlines();
      Tree right = pipeline();
      left = node(kind, {std::move(left), std::move(right)});
    }
    return left;
  }

  Tree pipeline() {
    const bool negated = is_word("!");
    if (negated) ++at_;
    std::vector<Tree> parts = {command()};
    while (!failed_ && is_operator("|")) {
      ++at_;
      skip_newlines();
      parts.push_back(command());
    }
    Tree tree = parts.size() == 1 ? std::move(parts[0]) : node(NodeKind::kPipe, std::move(parts));
    return negated ? node(NodeKind::kNot, {std::move(tree)}) : tree;
  }

  Tree command() {
    if (failed_) return node(NodeKind::kSequence, {});
    if (is_operator("(")) return redirected(subshell());
    if (is_word("{")) return redirected(group());
    if (is_word("if")) return redirected(if_command());
    if (is_word("case")) return redirected(case_command());
    if (is_word("while")) return redirected(loop(NodeKind::kWhile));
    if (is_word("until")) return redirected(loop(NodeKind::kUntil));
    if (is_word("for")) return redirected(for_command());
    if (peek().kind == TokenKind::kWord && peek(1).kind == TokenKind::kOperator && peek(1).text == "(")
      return function();
    return simple();
  }

  Tree subshell() {
    ++at_;
    Tree body = list({});
    expect_operator(")");
    return node(NodeKind::kSubshell, {std::move(body)});
  }

  Tree group() {
    ++at_;
    Tree body = list({"}"});
    expect_word("}");
    return body;
  }

  Tree if_command() {
    ++at_;
    std::vector<Tree> parts = {list({"then"})};
    expect_word("then");
    parts.push_back(list({"elif", "else", "fi"}));
    if (is_word("elif")) {
      if (++depth_ > kMaxDepth) fail_for_good();
      parts.push_back(if_command());
      --depth_;
      return node(NodeKind::kIf, std::move(parts));
    }
    if (is_word("else")) {
      ++at_;
      parts.push_back(list({"fi"}));
    }
    expect_word("fi");
    return node(NodeKind::kIf, std::move(parts));
  }

  Tree case_command() {
    ++at_;
    auto n = std::make_shared<Node>();
    n->kind = NodeKind::kCase;
    n->words = {peek().text};
    if (peek().kind != TokenKind::kWord) fail();
    ++at_;
    skip_newlines();
    expect_word("in");
    skip_newlines();
    while (!failed_ && !is_word("esac")) {
      n->patterns.push_back(patterns());
      n->parts.push_back(list({"esac"}));
      if (!is_operator(";;")) break;  // the last one needs none
      ++at_;
      skip_newlines();
    }
    expect_word("esac");
    return n;
  }

  std::vector<std::string> patterns() {
    std::vector<std::string> out;
    if (is_operator("(")) ++at_;
    while (!failed_) {
      if (peek().kind != TokenKind::kWord) fail();
      out.push_back(peek().text);
      ++at_;
      if (!is_operator("|")) break;
      ++at_;
    }
    expect_operator(")");
    return out;
  }

  Tree loop(NodeKind kind) {
    ++at_;
    Tree condition = list({"do"});
    return node(kind, {std::move(condition), body_of_loop()});
  }

  Tree body_of_loop() {
    expect_word("do");
    Tree body = list({"done"});
    expect_word("done");
    return body;
  }

  Tree for_command() {
    ++at_;
    std::vector<std::string> words = {peek().text};
    if (peek().kind != TokenKind::kWord) fail();
    ++at_;
    skip_newlines();
    if (is_word("in")) {
      ++at_;
      for (; peek().kind == TokenKind::kWord; ++at_) words.push_back(peek().text);
    } else {
      words.emplace_back("\"$@\"");
    }
    skip_separators();
    return node(NodeKind::kFor, {body_of_loop()}, std::move(words));
  }

  Tree function() {
    std::string name = peek().text;
    at_ += 2;
    expect_operator(")");
    skip_newlines();
    if (!is_word("{")) fail();
    return failed_ ? node(NodeKind::kSequence, {}) : node(NodeKind::kFunction, {group()}, {std::move(name)});
  }

  bool at_redirect() const {
    constexpr std::array<std::string_view, 6> kRedirects = {"<", ">", ">>", ">&", "<<", "<<-"};
    return peek().kind == TokenKind::kOperator &&
           std::find(kRedirects.begin(), kRedirects.end(), peek().text) != kRedirects.end();
  }

  // What follows a block is for all of it.
  Tree redirected(Tree block) {
    const bool numbered = peek().kind == TokenKind::kWord && peek().glued && (peek().text == "1" || peek().text == "2");
    if (failed_ || (!at_redirect() && !numbered)) return block;
    auto n = std::make_shared<Node>();
    n->kind = NodeKind::kSequence;
    n->parts = {std::move(block)};
    while (!failed_ && (at_redirect() || peek().glued)) {
      std::string number;
      if (!at_redirect()) {
        number = peek().text;
        ++at_;
      }
      redirect(std::move(number), n.get());
    }
    return n;
  }

  Tree simple() {
    auto n = std::make_shared<Node>();
    while (!failed_) {
      if (peek().kind == TokenKind::kWord) {
        n->words.push_back(peek().text);
        ++at_;
      } else if (at_redirect()) {
        redirect(number_before(n.get()), n.get());
      } else {
        break;
      }
    }
    constexpr std::array<std::string_view, 9> kReserved = {"then", "elif", "else", "fi",      "do",
                                                           "done", "}",    "esac", "function"};
    const bool reserved =
        !n->words.empty() && std::find(kReserved.begin(), kReserved.end(), n->words[0]) != kReserved.end();
    if (reserved) fail_for_good();
    if (n->words.empty() && n->redirects.empty()) fail();
    return n;
  }

  std::string number_before(Node* n) {
    const bool numbered =
        !n->words.empty() && at_ > 0 && tokens_[at_ - 1].glued && (n->words.back() == "1" || n->words.back() == "2");
    if (!numbered) return {};
    std::string number = std::move(n->words.back());
    n->words.pop_back();
    return number;
  }

  void redirect(std::string number, Node* n) {
    Redirect r;
    r.op = peek().text == "<<-" ? "<<" : peek().text;
    r.number = std::move(number);
    ++at_;
    if (peek().kind != TokenKind::kWord) return fail();
    r.target = peek().text;
    r.literal = peek().literal;
    ++at_;
    n->redirects.push_back(std::move(r));
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
  bool incomplete_ = false;
};

}  // namespace

size_t end_of_piece(std::string_view text, size_t at, int depth) {
  if (depth > kMaxDepth) return npos;
  const char c = text[at];
  if (c == '"') return end_of_double_quotes(text, at, depth);
  if (c == '$') return end_of_dollar(text, at, depth);
  const size_t end = text.find(c, at + 1);  // ' and `
  return end == npos ? npos : end + 1;
}

Tree parse(std::string_view script, bool* incomplete) {
  bool ignored = false;
  bool& open = incomplete != nullptr ? *incomplete : ignored;
  open = false;
  if (script.size() > kMaxScript) return nullptr;
  std::vector<Token> tokens;
  if (!Lexer(script).run(&tokens)) {
    open = true;
    return nullptr;
  }
  return Parser(std::move(tokens)).run(&open);
}

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

size_t assignment(std::string_view word) {
  const size_t equals = word.find('=');
  return equals != std::string_view::npos && is_name(word.substr(0, equals)) ? equals : std::string_view::npos;
}

}  // namespace ghostfleet::agent::shell
