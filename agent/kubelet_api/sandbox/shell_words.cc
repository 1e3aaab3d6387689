// Words of a script turned into arguments: quotes, variables, $(...), $((...)), splitting.
#include <algorithm>

#include "agent/kubelet_api/sandbox/arithmetic.h"
#include "agent/kubelet_api/sandbox/shell.h"

namespace ghostfleet::kubelet_api {

using agent::shell::is_name;

namespace {

size_t end_of_name(std::string_view text) {
  size_t i = 0;
  while (i < text.size() && is_name(text.substr(0, i + 1))) ++i;
  return i;
}

// $((...)) and not $( (...) ): the second bracket closes right before the last.
bool is_arithmetic(std::string_view piece) {
  if (!piece.starts_with("$((") || !piece.ends_with("))")) return false;
  int level = 0;
  for (size_t i = 2; i + 1 < piece.size(); ++i) {
    level += piece[i] == '(' ? 1 : piece[i] == ')' ? -1 : 0;
    if (level == 0) return i + 2 == piece.size();
  }
  return false;
}

}  // namespace

std::string Shell::variable(std::string_view name) const {
  if (name == "?") return std::to_string(status_);
  if (name == "$") return "7";
  if (name == "0") return "sh";
  const std::string key(name);
  if (const auto it = variables_.find(key); it != variables_.end()) return it->second;
  const auto it = exported_.find(key);
  return it == exported_.end() ? std::string() : it->second;
}

// ${NAME}, ${NAME:-text}, ${#NAME}
std::string Shell::braces(std::string_view inside) const {
  if (inside.starts_with('#') && is_name(inside.substr(1))) return std::to_string(variable(inside.substr(1)).size());
  const size_t colon = inside.find_first_of(":-");
  if (colon == std::string_view::npos) return variable(inside);
  const std::string value = variable(inside.substr(0, colon));
  const size_t dash = inside.find('-', colon);
  return value.empty() && dash != std::string_view::npos ? std::string(inside.substr(dash + 1)) : value;
}

Task<int> Shell::substitute(std::string script, std::string* out, Io io) {
  if (depth_ >= kMaxDepth) co_return 1;
  ++depth_;
  std::string text;
  Io inner = io;
  inner.out = &text;
  const int code = co_await run_script(std::move(script), inner);
  --depth_;
  while (text.ends_with('\n')) text.pop_back();
  *out = std::move(text);
  status_ = code;
  co_return code;
}

Task<int> Shell::calculate(std::string expression, std::string* out, Io io) {
  std::vector<std::string> whole;
  bool open = false;
  co_await expand_text(std::move(expression), Mode::kQuoted, &whole, &open, io);
  std::string error;
  const auto value = evaluate(
      whole.empty() ? std::string_view() : std::string_view(whole.front()),
      [this](std::string_view name) { return variable(name); }, &error);
  if (value) {
    *out = std::to_string(*value);
    co_return 0;
  }
  write(io, 2, "sh: " + error + "\n");
  bad_word_ = true;
  co_return kBadWord;
}

Task<int> Shell::expand(std::string word, std::vector<std::string>* out, Io io) {
  std::vector<std::string> fields;
  bool open = false;
  if (word == "~" || word.starts_with("~/")) word = variable("HOME") + word.substr(1);
  co_await expand_text(std::move(word), Mode::kSplit, &fields, &open, io);
  out->insert(out->end(), fields.begin(), fields.end());
  co_return 0;
}

// Adds to the last field while `open`; unquoted values of variables are split at blanks.
Task<int> Shell::expand_text(std::string text, Mode mode, std::vector<std::string>* fields, bool* open, Io io) {
  const bool quoted = mode == Mode::kQuoted;
  const auto add = [fields, open](std::string_view piece) {
    if (!*open) fields->emplace_back();
    *open = true;
    fields->back() += piece;
  };
  const auto add_value = [&](const std::string& value) {
    if (mode != Mode::kSplit) return add(value);
    size_t at = 0;
    while (at < value.size()) {
      const size_t from = value.find_first_not_of(" \t\n", at);
      if (from != at) *open = false;
      if (from == std::string::npos) break;
      const size_t to = std::min(value.find_first_of(" \t\n", from), value.size());
      add(std::string_view(value).substr(from, to - from));
      at = to;
    }
  };
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      const char next = text[i + 1];
      const bool keeps = quoted && next != '$' && next != '"' && next != '\\' && next != '`';
      add(keeps ? text.substr(i, 2) : std::string(1, next));
      i += 2;
    } else if ((c == '\'' && !quoted) || c == '"') {
      const size_t end = agent::shell::end_of_piece(text, i);
      const size_t stop = std::min(end, text.size());
      const std::string inside = text.substr(i + 1, stop > i + 1 ? stop - i - 2 : 0);
      add("");
      if (c == '\'') {
        add(inside);
      } else {
        co_await expand_text(inside, Mode::kQuoted, fields, open, io);
      }
      i = stop;
    } else if (c == '`' || (c == '$' && i + 1 < text.size() && text[i + 1] == '(')) {
      const size_t end = std::min(agent::shell::end_of_piece(text, i), text.size());
      const size_t from = i + (c == '`' ? 1 : 2);
      std::string value;
      if (is_arithmetic(std::string_view(text).substr(i, end - i))) {
        co_await calculate(text.substr(i + 3, end - i - 5), &value, io);
      } else if (end > from) {
        co_await substitute(text.substr(from, end - from - 1), &value, io);
      }
      add_value(value);
      i = end;
    } else if (c == '$' && i + 1 < text.size()) {
      if (text[i + 1] == '{') {
        const size_t end = std::min(agent::shell::end_of_piece(text, i), text.size());
        add_value(end > i + 2 ? braces(std::string_view(text).substr(i + 2, end - i - 3)) : std::string());
        i = end;
        continue;
      }
      const bool one = std::string_view("?$#@*0123456789").find(text[i + 1]) != std::string_view::npos;
      const size_t size = one ? 1 : end_of_name(std::string_view(text).substr(i + 1));
      if (size == 0) {
        add("$");
      } else {
        add_value(variable(std::string_view(text).substr(i + 1, size)));
      }
      i += 1 + size;
    } else {
      add(std::string_view(text).substr(i, 1));
      ++i;
    }
  }
  co_return 0;
}

}  // namespace ghostfleet::kubelet_api
