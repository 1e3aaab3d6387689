// Words of a script turned into arguments: quotes, variables, $(...), $((...)), splitting.
#include <algorithm>

#include "agent/behavior/shell_arithmetic.h"
#include "agent/behavior/shell_words.h"
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

std::optional<std::string> Shell::find_variable(std::string_view name) const {
  if (name == "?") return std::to_string(status_);
  if (name == "$") return "7";
  if (name == "0") return "sh";
  if (name == "#") return std::to_string(parameters_.size());
  if (name == "@" || name == "*") {
    std::string all;
    for (const std::string& p : parameters_) all += (all.empty() ? "" : " ") + p;
    return parameters_.empty() ? std::nullopt : std::optional(std::move(all));
  }
  if (name.size() == 1 && name[0] > '0' && name[0] <= '9') {
    const auto index = static_cast<size_t>(name[0] - '1');
    return index < parameters_.size() ? std::optional(parameters_[index]) : std::nullopt;
  }
  const std::string key(name);
  if (const auto it = variables_.find(key); it != variables_.end()) return it->second;
  const auto it = exported_.find(key);
  return it == exported_.end() ? std::nullopt : std::optional(it->second);
}

void Shell::set_variable(const std::string& name, std::string value) {
  (exported_.contains(name) ? exported_ : variables_)[name] = std::move(value);
}

void Shell::unset_variable(const std::string& name) {
  variables_.erase(name);
  exported_.erase(name);
}

Task<int> Shell::expand_one(std::string word, Mode mode, std::string* out, Io io) {
  std::vector<std::string> whole;
  bool open = false;
  co_await expand_text(std::move(word), mode, &whole, &open, io);
  for (const std::string& field : whole) *out += field;
  co_return 0;
}

// What stands between quotes is plain, what is not may have * and its like.
Task<int> Shell::expand_pattern(std::string word, std::string* out, Io io) {
  const auto pieces = agent::shell::pieces_of(word);
  if (!pieces) co_return kBadWord;
  for (const agent::shell::Piece& piece : *pieces) {
    if (piece.kind == agent::shell::Piece::Kind::kPlain) {
      *out += piece.text;
      continue;
    }
    std::string text;
    co_await expand_one(std::string(piece.text), Mode::kWhole, &text, io);
    *out += piece.kind == agent::shell::Piece::Kind::kQuoted ? agent::shell::plain_pattern(text) : text;
  }
  co_return 0;
}

Task<int> Shell::braces(std::string inside, std::string* out, Io io) {
  if (depth_ >= kMaxDepth) {
    bad_word_ = true;
    co_return kBadWord;
  }
  ++depth_;
  const int code = co_await braces_value(std::move(inside), out, io);
  --depth_;
  co_return code;
}

Task<int> Shell::braces_value(std::string inside, std::string* out, Io io) {
  const auto p = agent::shell::read_parameter(inside);
  if (!p) {
    write(io, 2, "sh: syntax error: bad substitution\n");
    bad_word_ = true;
    co_return kBadWord;
  }
  const std::optional<std::string> value = find_variable(p->name);
  if (p->length || p->op == 0) {
    *out += p->length ? std::to_string(value.value_or(std::string()).size()) : value.value_or(std::string());
    co_return 0;
  }
  if (p->op == '#' || p->op == '%') {
    std::string pattern;
    co_await expand_pattern(std::string(p->word), &pattern, io);
    const auto rest = agent::shell::stripped(value.value_or(std::string()), pattern, p->op, p->longest);
    if (!rest) write(io, 2, "sh: value too long to cut\n");
    bad_word_ |= !rest;
    *out += rest.value_or(std::string());
    co_return 0;
  }
  const bool none = !value || (p->or_empty && value->empty());
  if (none) co_return co_await braces_without_value(std::string(p->name), p->op, std::string(p->word), out, io);
  if (p->op == '+') co_return co_await expand_one(std::string(p->word), Mode::kWhole, out, io);
  *out += *value;
  co_return 0;
}

Task<int> Shell::braces_without_value(std::string name, char op, std::string word, std::string* out, Io io) {
  if (op == '+') co_return 0;
  std::string value;
  co_await expand_one(std::move(word), Mode::kWhole, &value, io);
  if (op == '?') {
    write(io, 2, "sh: " + name + ": " + (value.empty() ? "parameter not set" : value) + "\n");
    bad_word_ = true;
    if (!process_.tty()) flow_ = Flow::kExit;
    co_return kBadWord;
  }
  if (op == '=' && is_name(name)) set_variable(name, value);
  *out += value;
  co_return 0;
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
  std::string text, error;
  co_await expand_one(std::move(expression), Mode::kQuoted, &text, io);
  const auto value = agent::shell::evaluate(
      text, [this](std::string_view name) { return variable(name); }, &error);
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
  const auto add = [this, fields, open](std::string_view piece) {
    if (!*open) fields->emplace_back();
    *open = true;
    if (fields->back().size() + piece.size() > kMaxOutput || fields->size() > kMaxOutput / 16) {
      bad_word_ = true;
      return;
    }
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
        std::string value;
        if (end > i + 2) co_await braces(text.substr(i + 2, end - i - 3), &value, io);
        add_value(value);
        i = end;
        continue;
      }
      if (text[i + 1] == '@' && quoted) {  // a word for each parameter
        for (size_t k = 0; k < parameters_.size(); ++k) {
          if (k > 0) *open = false;
          add(parameters_[k]);
        }
        i += 2;
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
