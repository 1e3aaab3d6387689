#include "agent/kubelet_api/sandbox/pattern.h"

#include <re2/re2.h>

#include <algorithm>

namespace ghostfleet::kubelet_api {

namespace {

constexpr std::string_view kSpecial = "(){}|+?*.^$[]\\/-";

// POSIX in, RE2 out. False: `error_` says why.
class Translator {
 public:
  Translator(std::string_view text, bool extended) : text_(text), extended_(extended) {}

  bool run(std::string* out, std::string* error) {
    while (at_ < text_.size()) {
      if (!piece()) {
        *error = error_;
        return false;
      }
    }
    *out = std::move(out_);
    return true;
  }

 private:
  bool piece() {
    const char c = text_[at_];
    if (c == '[') return bracket();
    if (c == '\\') return escape();
    ++at_;
    if (c == '*' && at_start_) return literal(c);
    if (c == '^') return extended_ || at_start_ ? special("^", true) : literal(c);
    if (c == '$') return extended_ || at_end() ? special("$", false) : literal(c);
    if (std::string_view("(){}|+?").find(c) != std::string_view::npos && !extended_) return literal(c);
    return special(std::string_view(&c, 1), c == '(' || c == '|');
  }

  // Whether a group, a branch or the whole ends here.
  bool at_end() const {
    const std::string_view rest = text_.substr(at_);
    return rest.empty() || rest.starts_with("\\)") || rest.starts_with("\\|");
  }

  bool special(std::string_view what, bool starts) {
    out_ += what;
    at_start_ = starts;
    return true;
  }
  bool literal(char c) {
    if (kSpecial.find(c) != std::string_view::npos) out_ += '\\';
    out_ += c;
    at_start_ = false;
    return true;
  }

  bool escape() {
    if (at_ + 1 == text_.size()) {
      error_ = "trailing backslash (\\)";
      return false;
    }
    const char c = text_[at_ + 1];
    at_ += 2;
    if (c >= '1' && c <= '9') {
      error_ = "back references in a pattern are not known here";
      return false;
    }
    if (c == '<' || c == '>') return special("\\b", false);
    if (std::string_view("wWsSbB").find(c) != std::string_view::npos) {
      out_ += '\\';
      return special(std::string_view(&c, 1), false);
    }
    if (c == 'n') return literal('\n');
    if (c == 't') return literal('\t');
    const bool swapped = !extended_ && std::string_view("(){}|+?").find(c) != std::string_view::npos;
    return swapped ? special(std::string_view(&c, 1), c == '(' || c == '|') : literal(c);
  }

  // [...] is copied, but a backslash in it is itself.
  bool bracket() {
    size_t i = at_ + 1;
    out_ += '[';
    if (i < text_.size() && text_[i] == '^') {
      out_ += '^';
      ++i;
    }
    for (bool first = true; i < text_.size(); first = false) {
      const char c = text_[i];
      if (c == ']' && !first) {
        at_ = i + 1;
        return special("]", false);
      }
      const bool is_class = text_.substr(i).starts_with("[:");
      const size_t end = is_class ? text_.find(":]", i + 2) : std::string_view::npos;
      if (end != std::string_view::npos) {
        out_ += text_.substr(i, end + 2 - i);
        i = end + 2;
        continue;
      }
      if (c == '\\' || c == '[' || c == ']') out_ += '\\';
      out_ += c;
      ++i;
    }
    error_ = "unmatched [";
    return false;
  }

  std::string_view text_;
  bool extended_, at_start_ = true;
  size_t at_ = 0;
  std::string out_, error_;
};

}  // namespace

std::optional<Pattern> Pattern::compile(std::string_view text, Syntax syntax, bool ignore_case, std::string* error) {
  if (text.size() > kMaxText) {
    *error = "the pattern is too long";
    return std::nullopt;
  }
  std::string translated(text);
  if (syntax != Syntax::kFixed && !Translator(text, syntax == Syntax::kExtended).run(&translated, error))
    return std::nullopt;
  RE2::Options options;
  options.set_log_errors(false);
  options.set_longest_match(true);
  options.set_literal(syntax == Syntax::kFixed);
  options.set_case_sensitive(!ignore_case);
  options.set_encoding(RE2::Options::EncodingLatin1);  // any bytes
  options.set_max_mem(1 << 20);
  auto engine = std::make_shared<const RE2>(translated, options);
  if (!engine->ok()) {
    *error = engine->error();
    return std::nullopt;
  }
  Pattern pattern;
  pattern.engine_ = std::move(engine);
  return pattern;
}

bool Pattern::find(std::string_view text, size_t from, std::vector<std::string_view>* groups) const {
  re2::StringPiece found[kMaxGroups];
  const int wanted = groups == nullptr ? 0 : static_cast<int>(kMaxGroups);
  const re2::StringPiece whole(text.data(), text.size());
  if (!engine_->Match(whole, from, text.size(), RE2::UNANCHORED, found, wanted)) return false;
  if (groups == nullptr) return true;
  groups->clear();
  for (const re2::StringPiece& piece : found) groups->emplace_back(piece.data(), piece.size());
  return true;
}

size_t Pattern::groups() const { return static_cast<size_t>(std::max(0, engine_->NumberOfCapturingGroups())); }

}  // namespace ghostfleet::kubelet_api
