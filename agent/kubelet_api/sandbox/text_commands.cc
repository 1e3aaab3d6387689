// Lines of text: head, tail, wc, grep, sort, cut and tee.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "agent/kubelet_api/sandbox/command_call.h"
#include "agent/kubelet_api/sandbox/pattern.h"

namespace ghostfleet::kubelet_api::commands {

// head and tail: -n N, -N, -c N, -c+N.
void cut_ends(Call& c) {
  const bool tail = command_name(c.argv[0]) == "tail";
  bool bytes = false;
  std::string amount = "10";
  Argv files;
  for (size_t i = 1; i < c.argv.size(); ++i) {
    const std::string& word = c.argv[i];
    if (word == "-n" || word == "-c") {
      bytes = word == "-c";
      if (i + 1 < c.argv.size()) amount = c.argv[++i];
    } else if (word.starts_with("-n") || word.starts_with("-c")) {
      bytes = word[1] == 'c';
      amount = word.substr(2);
    } else if (word.size() > 1 && word[0] == '-') {
      amount = word.substr(1);
    } else {
      files.push_back(word);
    }
  }
  const bool from_start = amount.starts_with('+');
  size_t n = 0;
  std::from_chars(amount.data() + (from_start ? 1 : 0), amount.data() + amount.size(), n);
  c.operands = files;
  const std::string text = c.text(0);
  if (bytes) {
    const size_t from = from_start ? std::min(text.size(), n > 0 ? n - 1 : 0)
                        : tail     ? text.size() - std::min(n, text.size())
                                   : 0;
    c.result.out += text.substr(from, tail ? std::string::npos : n);
    return;
  }
  const auto lines = lines_of(text);
  size_t from = tail ? lines.size() - std::min(n, lines.size()) : 0;
  if (tail && from_start) from = std::min(lines.size(), n > 0 ? n - 1 : 0);
  const size_t to = tail ? lines.size() : std::min(n, lines.size());
  for (size_t i = from; i < to; ++i) c.result.out.append(lines[i]).append("\n");
}

void count(Call& c) {
  const std::string text = c.text(0);
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  size_t words = 0;
  bool inside = false;
  for (const char ch : text) {
    const bool blank = ch == ' ' || ch == '\n' || ch == '\t';
    words += !blank && !inside ? 1 : 0;
    inside = !blank;
  }
  std::vector<size_t> shown;
  if (c.letters.empty() || c.has('l')) shown.push_back(lines);
  if (c.letters.empty() || c.has('w')) shown.push_back(words);
  if (c.letters.empty() || c.has('c')) shown.push_back(text.size());
  std::string row;
  for (const size_t n : shown) row += fmt::format("{}{}", row.empty() ? "" : " ", n);
  if (!c.operands.empty()) row += " " + c.operands[0];
  c.result.out = row + "\n";
}

void search(Call& c) {
  const bool apart = c.has('e');
  if (!apart && c.operands.empty()) return c.fail("a pattern is expected", 2);
  const std::string wanted = apart ? c.value('e') : c.operands[0];
  const auto syntax = c.has('F')   ? Pattern::Syntax::kFixed
                      : c.has('E') ? Pattern::Syntax::kExtended
                                   : Pattern::Syntax::kBasic;
  std::string error;
  const auto pattern = Pattern::compile(wanted, syntax, c.has('i'), &error);
  if (!pattern) return c.fail(error, 2);
  const std::string text = c.text(apart ? 0 : 1);
  size_t found = 0;
  size_t number = 0;
  std::vector<std::string_view> match;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (pattern->find(line, 0, &match) == c.has('v')) continue;
    ++found;
    if (c.has('q') || c.has('c')) continue;
    if (c.has('n')) c.result.out += std::to_string(number) + ":";
    c.result.out.append(c.has('o') && !c.has('v') ? match[0] : line).append("\n");
  }
  if (c.has('c')) c.result.out = std::to_string(found) + "\n";
  if (found == 0 && c.result.code == 0) c.result.code = 1;
}

void sort_lines(Call& c) {
  if (!c.values.empty()) return c.fail("-k and -t are not known here", 2);
  const std::string text = c.text(0);
  auto lines = lines_of(text);
  const auto number_of = [](std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    double value = 0;
    std::from_chars(line.data(), line.data() + line.size(), value);
    return value;
  };
  std::sort(lines.begin(), lines.end());
  if (c.has('n'))
    std::stable_sort(lines.begin(), lines.end(), [&](auto a, auto b) { return number_of(a) < number_of(b); });
  if (c.has('r')) std::reverse(lines.begin(), lines.end());
  if (c.has('u')) lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  for (const std::string_view line : lines) c.result.out.append(line).append("\n");
}

namespace {

constexpr size_t kToTheEnd = SIZE_MAX;
using Ranges = std::vector<std::pair<size_t, size_t>>;  // first and last, from 1 on

// 2, 1,3, 2-4, -3, 5-
bool read_ranges(std::string_view list, Ranges* out) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    const size_t dash = one.find('-');
    const std::string_view left = one.substr(0, dash);
    const std::string_view right = dash == std::string_view::npos ? left : one.substr(dash + 1);
    size_t from = left.empty() ? 1 : 0;
    size_t to = right.empty() ? kToTheEnd : 0;
    if (!left.empty() && std::from_chars(left.begin(), left.end(), from).ptr != left.end()) return false;
    if (!right.empty() && std::from_chars(right.begin(), right.end(), to).ptr != right.end()) return false;
    if (from == 0 || to < from || one == "-") return false;
    out->emplace_back(from, to);
  }
  return !out->empty();
}

bool in_ranges(const Ranges& ranges, size_t n) {
  return std::any_of(ranges.begin(), ranges.end(), [n](const auto& r) { return r.first <= n && n <= r.second; });
}

void cut_bytes(std::string_view line, const Ranges& ranges, std::string* out) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (in_ranges(ranges, i + 1)) *out += line[i];
  }
  *out += '\n';
}

void cut_fields(std::string_view line, const Ranges& ranges, char delimiter, bool only_delimited, std::string* out) {
  if (line.find(delimiter) == std::string_view::npos) {
    if (!only_delimited) out->append(line).append("\n");
    return;
  }
  bool any = false;
  for (size_t n = 1, at = 0; at <= line.size(); ++n) {
    const size_t end = std::min(line.find(delimiter, at), line.size());
    if (in_ranges(ranges, n)) {
      if (any) *out += delimiter;
      out->append(line.substr(at, end - at));
      any = true;
    }
    at = end + 1;
  }
  *out += '\n';
}

}  // namespace

void cut(Call& c) {
  const bool fields = c.has('f');
  const std::string list = fields ? c.value('f') : c.has('c') ? c.value('c') : c.value('b');
  const std::string delimiter = c.has('d') ? c.value('d') : "\t";
  Ranges ranges;
  if (!read_ranges(list, &ranges)) return c.fail(fmt::format("a list such as -f1,3-5 is expected, not '{}'", list));
  if (delimiter.size() != 1) return c.fail("the delimiter must be a single character");
  const std::string text = c.text(0);
  for (const std::string_view line : lines_of(text)) {
    if (fields) {
      cut_fields(line, ranges, delimiter[0], c.has('s'), &c.result.out);
    } else {
      cut_bytes(line, ranges, &c.result.out);
    }
  }
}

void tee(Call& c) {
  c.result.out = c.input;
  for (const std::string& name : c.operands) {
    const FileError error = c.context.files.write(c.path(name), c.input, c.has('a'), c.context.now);
    if (error != FileError::kOk) c.complain(name, error);
  }
}

}  // namespace ghostfleet::kubelet_api::commands
