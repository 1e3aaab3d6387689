#include "agent/kubelet_api/sandbox/sed_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ghostfleet::kubelet_api {

namespace {

constexpr std::string_view kUnterminated = "unterminated `s' command";
constexpr size_t kNoRange = 0;                // of a command: outside of its range
constexpr size_t kMaxNumber = 1'000'000'000;  // of a line or a match

}  // namespace

// Reads the commands one after the other. A failure leaves `error_` set.
class SedParser {
 public:
  SedParser(std::string_view text, Pattern::Syntax syntax) : text_(text), syntax_(syntax) {}

  std::optional<SedScript> run(std::string* error) {
    SedScript script;
    while (skip_separators()) {
      SedScript::Command command;
      if (script.commands_.size() == SedScript::kMaxCommands) error_ = "too many commands";
      if (error_.empty()) read(&command);
      if (!error_.empty()) {
        *error = error_;
        return std::nullopt;
      }
      script.commands_.push_back(std::move(command));
    }
    return script;
  }

 private:
  using Address = SedScript::Address;

  bool end() const { return at_ >= text_.size(); }
  char peek() const { return end() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (peek() != c || end()) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  bool skip_separators() {
    while (!end() && std::string_view(" \t\n;").find(text_[at_]) != std::string_view::npos) ++at_;
    return !end();
  }

  void read(SedScript::Command* command) {
    command->from = address();
    skip_blanks();
    if (command->from && take(',')) {
      skip_blanks();
      command->to = address();
      if (!command->to && error_.empty()) error_ = "unexpected `,'";
    }
    skip_blanks();
    command->negated = take('!');
    skip_blanks();
    if (!error_.empty()) return;
    if (end()) {
      error_ = "missing command";
      return;
    }
    command->name = text_[at_++];
    if (command->name == 's') {
      substitution(command);
    } else if (std::string_view("pdq=").find(command->name) == std::string_view::npos) {
      error_ = fmt::format("unknown command: `{}'", command->name);
    }
    skip_blanks();
    if (error_.empty() && !end() && peek() != ';' && peek() != '\n') error_ = "extra characters after command";
  }

  std::optional<Address> address() {
    Address out;
    if (take('$')) {
      out.kind = Address::Kind::kLast;
      return out;
    }
    if (take('/')) {
      out.kind = Address::Kind::kPattern;
      out.pattern = pattern(part('/', "unterminated address regex"), false);
      return out;
    }
    if (peek() < '0' || peek() > '9') return std::nullopt;
    out.line = number();
    return out;
  }

  size_t number() {
    size_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min(value * 10 + static_cast<size_t>(peek() - '0'), kMaxNumber);
    return value;
  }

  // Up to the delimiter, which is taken too; escaped it stands for itself.
  std::string part(char delimiter, std::string_view unterminated) {
    std::string out;
    bool in_brackets = false;
    while (!end()) {
      const char c = text_[at_++];
      if (c == delimiter && !in_brackets) return out;
      if (c == '\\' && !end()) {
        const char next = text_[at_++];
        if (next != delimiter) out += '\\';
        out += next;
        continue;
      }
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      out += c;
    }
    error_ = unterminated;
    return out;
  }

  std::optional<Pattern> pattern(const std::string& text, bool ignore_case) {
    if (!error_.empty()) return std::nullopt;
    if (text.empty()) {
      error_ = "no previous regular expression";
      return std::nullopt;
    }
    return Pattern::compile(text, syntax_, ignore_case, &error_);
  }

  void substitution(SedScript::Command* command) {
    const char delimiter = peek();
    if (end() || delimiter == '\n' || delimiter == '\\') {
      error_ = kUnterminated;
      return;
    }
    ++at_;
    const std::string wanted = part(delimiter, kUnterminated);
    const std::string replacement = error_.empty() ? replacement_text(delimiter) : std::string();
    bool ignore_case = false;
    for (bool flags = error_.empty(); flags;) {
      const char c = peek();
      if (c >= '1' && c <= '9') {
        command->number = number();
        continue;
      }
      flags = c == 'g' || c == 'p' || c == 'i' || c == 'I';
      if (!flags) break;
      command->all |= c == 'g';
      command->print |= c == 'p';
      ignore_case |= c == 'i' || c == 'I';
      ++at_;
    }
    command->pattern = pattern(wanted, ignore_case);
    if (command->pattern) split_replacement(replacement, command);
  }

  // As part(), but brackets mean nothing.
  std::string replacement_text(char delimiter) {
    std::string out;
    while (!end()) {
      const char c = text_[at_++];
      if (c == delimiter) return out;
      out += c;
      if (c == '\\' && !end()) out += text_[at_++];
    }
    error_ = kUnterminated;
    return out;
  }

  void split_replacement(std::string_view text, SedScript::Command* command) {
    std::string piece;
    const auto group = [&](int number) {
      if (static_cast<size_t>(number) > command->pattern->groups()) {
        error_ = fmt::format("invalid reference \\{} on `s' command's RHS", number);
        return;
      }
      command->replacement.emplace_back(std::move(piece), number);
      piece.clear();
    };
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '&') {
        group(0);
      } else if (c != '\\' || i + 1 == text.size()) {
        piece += c;
      } else if (const char next = text[++i]; next >= '0' && next <= '9') {
        group(next - '0');
      } else {
        piece += next == 'n' ? '\n' : next == 't' ? '\t' : next;
      }
    }
    command->replacement.emplace_back(std::move(piece), -1);
  }

  std::string_view text_;
  Pattern::Syntax syntax_;
  size_t at_ = 0;
  std::string error_;
};

std::optional<SedScript> SedScript::parse(std::string_view text, Pattern::Syntax syntax, std::string* error) {
  return SedParser(text, syntax).run(error);
}

bool SedScript::hits(const Address& address, const Line& line) {
  switch (address.kind) {
    case Address::Kind::kLine: return line.number == address.line;
    case Address::Kind::kLast: return line.last;
    case Address::Kind::kPattern: return address.pattern->matches(line.text);
  }
  return false;
}

// `inside`: whether the command's range is open.
bool SedScript::chosen(const Command& command, const Line& line, size_t* inside) {
  if (!command.from) return !command.negated;
  bool hit = false;
  if (!command.to) {
    hit = hits(*command.from, line);
  } else if (*inside != kNoRange) {
    hit = true;
    const bool past = command.to->kind == Address::Kind::kLine && line.number >= command.to->line;
    if (past || hits(*command.to, line)) *inside = kNoRange;
  } else if (hits(*command.from, line)) {
    hit = true;
    // A second line number that is not behind the first means one line.
    const bool one = command.to->kind == Address::Kind::kLine && command.to->line <= line.number;
    *inside = one ? kNoRange : line.number;
  }
  return hit != command.negated;
}

bool SedScript::substitute(const Command& command, std::string* text) {
  std::string out;
  std::vector<std::string_view> groups;
  const std::string_view from(*text);
  size_t at = 0;
  size_t found = 0;
  size_t last_end = std::string_view::npos;
  bool changed = false;
  while (at <= from.size() && out.size() < kMaxSpace && command.pattern->find(from, at, &groups)) {
    const auto begin = static_cast<size_t>(groups[0].data() - from.data());
    out += from.substr(at, begin - at);
    if (groups[0].empty() && begin == last_end) {  // nothing matches once more where a match has just ended
      if (begin < from.size()) out += from[begin];
      at = begin + 1;
      continue;
    }
    const bool wanted = ++found >= command.number && (command.all || !changed);
    if (wanted) {
      changed = true;
      for (const auto& [piece, group] : command.replacement) {
        out += piece;
        if (group >= 0) out += groups[static_cast<size_t>(group)];
      }
    } else {
      out += groups[0];
    }
    at = last_end = begin + groups[0].size();
    if (groups[0].empty()) {
      if (at < from.size()) out += from[at];
      ++at;
    }
    if (changed && !command.all) break;
  }
  if (!changed) return false;
  if (at < from.size()) out += from.substr(at);
  out.resize(std::min(out.size(), kMaxSpace));
  *text = std::move(out);
  return true;
}

std::string SedScript::run(std::string_view input, bool quiet) const {
  std::string out;
  std::vector<size_t> inside(commands_.size(), kNoRange);
  Line line;
  while (!input.empty() && out.size() < kMaxSpace) {
    const size_t end = std::min(input.find('\n'), input.size());
    const bool newline = end < input.size();
    line = {std::string(input.substr(0, end)), line.number + 1, end + 1 >= input.size()};
    input.remove_prefix(std::min(end + 1, input.size()));
    bool deleted = false;
    bool quits = false;
    for (size_t i = 0; i < commands_.size() && !deleted && !quits; ++i) {
      const Command& command = commands_[i];
      if (!chosen(command, line, &inside[i])) continue;
      bool print = command.name == 'p';
      if (command.name == 's') print = substitute(command, &line.text) && command.print;
      if (command.name == '=') out += fmt::format("{}\n", line.number);
      if (print) out.append(line.text).append("\n");
      deleted = command.name == 'd';
      quits = command.name == 'q';
    }
    if (!deleted && !quiet) out.append(line.text).append(newline ? "\n" : "");
    if (quits) break;
  }
  return out;
}

}  // namespace ghostfleet::kubelet_api
