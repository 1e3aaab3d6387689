// What single commands do: the shell's own and the small programs that scripts of containers are made of.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "agent/behavior/shell_arithmetic.h"
#include "agent/behavior/shell_run.h"

namespace ghostfleet::agent {

namespace {

using Words = std::vector<std::string>;

bool to_number(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

template <size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// "1.5", "2m", "infinity"
bool parse_sleep(std::string_view text, Duration* out) {
  if (text == "infinity" || text == "inf") {
    *out = CommandModel::kNeverEnds;
    return true;
  }
  double unit = 1;
  if (!text.empty() && std::string_view("smhd").find(text.back()) != std::string_view::npos) {
    unit = text.back() == 's' ? 1 : text.back() == 'm' ? 60 : text.back() == 'h' ? 3600 : 86400;
    text.remove_suffix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return false;
  const double most = std::chrono::duration<double>(CommandModel::kNeverEnds).count();
  *out = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(value * unit, most)));
  return true;
}

// The escapes of printf and echo -e.
std::string unescape(std::string_view text) {
  constexpr std::string_view kLetters = "ntr\\abfve", kMeanings = "\n\t\r\\\a\b\f\v\033";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char next = text[++i];
    const size_t letter = kLetters.find(next);
    if (letter != std::string_view::npos) {
      out += kMeanings[letter];
    } else if (next >= '0' && next <= '7') {
      int value = 0;
      for (int k = 0; k < 4 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++k)
        value = value * 8 + (text[i++] - '0');
      --i;
      // Bytes that have a meaning of their own here are rare.
      out += value < 8 || value == kFieldEnd ? '?' : static_cast<char>(value);
    } else {
      out += {'\\', next};
    }
  }
  return out;
}

std::optional<bool> compare(const std::string& a, std::string_view op, const std::string& b) {
  // What is not there yet cannot be compared.
  if (a != b && (has_mark(a) || has_mark(b))) return std::nullopt;
  if (op == "=" || op == "==") return a == b;
  if (op == "!=") return a != b;
  int64_t x = 0, y = 0;
  if (!to_number(a, &x) || !to_number(b, &y)) return std::nullopt;
  if (op == "-eq") return x == y;
  if (op == "-ne") return x != y;
  if (op == "-lt") return x < y;
  if (op == "-le") return x <= y;
  if (op == "-gt") return x > y;
  if (op == "-ge") return x >= y;
  return std::nullopt;
}

// The value of --name=N or --name N.
int port_flag(const Words& words, std::string_view name, int usual) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool apart = words[i] == name && i + 1 < words.size();
    const std::string_view word = words[i];
    if (!apart && !(word.starts_with(name) && word.size() > name.size() && word[name.size()] == '=')) continue;
    int64_t port = 0;
    if (to_number(apart ? std::string_view(words[i + 1]) : word.substr(name.size() + 1), &port) && port > 0 &&
        port < 65536) {
      return static_cast<int>(port);
    }
  }
  return usual;
}

}  // namespace

// ---- the shell's own

Flow ShellRun::builtin(const Words& words, const Io& io, bool* known) {
  const std::string& name = words[0];
  if (name == ":") return done(0);
  if (name == "exit") return leave(words, Flow::kExit);
  if (name == "return") return leave(words, Flow::kReturn);
  if (name == "break" && words.size() == 1) return Flow::kBreak;
  if (name == "continue" && words.size() == 1) return Flow::kContinue;
  if (name == "set") return set(words);
  if (name == "trap") return trap(words);
  if (name == "[[") return test(words);
  if (name == "shift") return shift(words);
  if (name == "local") return local(words);
  if (name == "unset") return unset(words);
  if (name == "export") return export_all(words);
  if (name == "exec" && words.size() > 1) {
    const Flow flow = utility(Words(words.begin() + 1, words.end()), io);
    return flow == Flow::kNext ? Flow::kExit : flow;
  }
  *known = false;
  return Flow::kUnknown;
}

Flow ShellRun::leave(const Words& words, Flow how) {
  if (words.size() == 1) return how;
  int64_t code = 0;
  if (words.size() > 2 || !to_number(words[1], &code)) return Flow::kUnknown;
  status_ = static_cast<int>(code & 255);
  return how;
}

// export NAME, export NAME=VALUE: what is run here sees all variables anyway.
Flow ShellRun::export_all(const Words& words) {
  if (words.size() < 2) return Flow::kUnknown;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = shell::assignment(words[i]);
    if (equals == std::string::npos && !shell::is_name(words[i])) return Flow::kUnknown;
    if (equals != std::string::npos) set_variable(words[i].substr(0, equals), words[i].substr(equals + 1));
  }
  return done(0);
}

Flow ShellRun::unset(const Words& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (!shell::is_name(words[i])) return Flow::kUnknown;
    unset_variable(words[i]);
  }
  return done(0);
}

Flow ShellRun::local(const Words& words) {
  if (locals_.empty()) return Flow::kUnknown;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = shell::assignment(words[i]);
    const std::string name = words[i].substr(0, equals);
    if (!shell::is_name(name)) return Flow::kUnknown;
    const auto before = variables_.find(name);
    const auto value = before == variables_.end() ? std::nullopt : std::optional(before->second);
    locals_.back().try_emplace(name, Outer{value, unset_.contains(name)});
    if (equals == std::string::npos) {
      unset_variable(name);
    } else {
      set_variable(name, words[i].substr(equals + 1));
    }
  }
  return done(0);
}

Flow ShellRun::shift(const Words& words) {
  int64_t count = 1;
  if (words.size() > 2 || (words.size() == 2 && (!to_number(words[1], &count) || count < 0))) return Flow::kUnknown;
  if (static_cast<size_t>(count) > parameters_.size()) return Flow::kUnknown;  // shells differ in what follows
  parameters_.erase(parameters_.begin(), parameters_.begin() + static_cast<std::ptrdiff_t>(count));
  if (count > 0) ++state_changes_;
  return done(0);
}

Flow ShellRun::set(const Words& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--") {
      parameters_.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      ++state_changes_;
      return done(0);
    }
    if (words[i].size() < 2 || words[i].find_first_not_of("eux", 1) != std::string::npos) return Flow::kUnknown;
    if (words[i][0] != '-' && words[i][0] != '+') return Flow::kUnknown;
    if (words[i].find('e') != std::string::npos) exit_on_error_ = words[i][0] == '-';
    if (words[i].find('x') != std::string::npos) traced_ = words[i][0] == '-';
  }
  return done(0);
}

Flow ShellRun::trap(const Words& words) {
  constexpr std::array<std::string_view, 3> kTerm = {"TERM", "SIGTERM", "15"};
  constexpr std::array<std::string_view, 6> kOther = {"INT", "SIGINT", "HUP", "SIGHUP", "QUIT", "SIGQUIT"};
  if (words.size() < 3) return Flow::kUnknown;
  for (size_t i = 2; i < words.size(); ++i) {
    if (one_of(words[i], kTerm)) {
      trap_ = words[1];
    } else if (!one_of(words[i], kOther)) {
      return Flow::kUnknown;
    }
  }
  if (trap_ == "-") trap_.reset();
  return done(0);
}

// ---- programs

Flow ShellRun::utility(const Words& words, const Io& io) {
  const std::string_view name = base_name(words[0]);
  constexpr std::array<std::string_view, 3> kShells = {"sh", "bash", "ash"};
  if (one_of(name, kShells)) return run_shell(words, io);
  if (name == "true") return done(0);
  if (name == "false") return done(1);
  if (name == "sleep") return sleep(words);
  if (name == "echo") return echo(words, io);
  if (name == "printf") return print(words, io);
  if (name == "cat") return cat(words, io);
  if (name == "wc") return count_lines(words, io);
  if (name == "awk") return awk(words, io);
  if (name == "expr") return expr(words, io);
  if (name == "touch") return touch(words);
  if (name == "rm") return remove(words, io);
  if (name == "date") return date(words, io);
  if (name == "seq") return seq(words, io);
  if (name == "hostname" && words.size() == 1) return write_out(host_mark() + "\n", io) ? done(0) : Flow::kUnknown;
  if (name == "test" || name == "[") return test(words);
  if (name == "agnhost") return agnhost(words);
  if (name == "pause") {
    handles_term_ = true;
    return words.size() == 1 ? Flow::kForever : Flow::kUnknown;
  }
  if (name == "tail") return tail(words, io);
  return Flow::kUnknown;
}

// sh -c SCRIPT, sh -ec SCRIPT; what follows are the script's own arguments, which it cannot use here.
Flow ShellRun::run_shell(const Words& words, const Io& io) {
  if (words.size() < 3 || words[1].size() < 2 || words[1][0] != '-' || words[1].back() != 'c') return Flow::kUnknown;
  if (words[1].find_first_not_of("eux", 1) != words[1].size() - 1) return Flow::kUnknown;
  if (depth_ >= shell::kMaxDepth) return Flow::kUnknown;
  const shell::Tree tree = shell::parse(words[2]);
  if (tree == nullptr) return Flow::kUnknown;
  // The word behind the script is $0.
  const auto first = words.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(4, words.size()));
  const Words before_parameters = std::exchange(parameters_, Words(first, words.end()));
  if (steps_ == 0) {
    // It is the process itself: what it traps stays.
    exit_on_error_ = words[1].find('e') != std::string::npos;
    traced_ = words[1].find('x') != std::string::npos;
    return node(*tree, io);
  }
  const bool before = exit_on_error_;
  exit_on_error_ = words[1].find('e') != std::string::npos;
  ++depth_;
  const Flow flow = subshell(*tree, io);
  --depth_;
  exit_on_error_ = before;
  parameters_ = before_parameters;
  return flow;
}

Flow ShellRun::sleep(const Words& words) {
  Duration sum{0};
  for (size_t i = 1; i < words.size(); ++i) {
    Duration one{0};
    if (!parse_sleep(words[i], &one)) return Flow::kUnknown;
    sum = std::min(sum + one, CommandModel::kNeverEnds);
  }
  if (words.size() < 2) return Flow::kUnknown;
  elapsed_ += sum;
  if (tape_ != nullptr && elapsed_ > tape_->until()) {
    elapsed_ = tape_->until();
    return Flow::kForever;
  }
  return elapsed_ >= CommandModel::kNeverEnds ? Flow::kForever : done(0);
}

Flow ShellRun::echo(const Words& words, const Io& io) {
  size_t first = 1;
  bool newline = true, escapes = false;
  for (; first < words.size() && (words[first] == "-n" || words[first] == "-e"); ++first) {
    (words[first] == "-n" ? newline : escapes) = words[first] == "-e";
  }
  std::string text;
  for (size_t i = first; i < words.size(); ++i) text += (i == first ? "" : " ") + words[i];
  if (escapes) text = unescape(text);
  if (newline) text += '\n';
  return write_out(text, io) ? done(0) : Flow::kUnknown;
}

namespace {

// One %... of printf; false: not known. `value` is the argument.
bool print_one(std::string_view flags, char letter, std::string value, std::string* out) {
  const bool left = flags.find('-') != std::string_view::npos;
  const bool zeros = flags.starts_with('0');
  const size_t digits = std::min(flags.find_first_of("123456789"), flags.size());
  size_t width = 0;
  const char* end = std::from_chars(flags.data() + digits, flags.data() + flags.size(), width).ptr;
  if (end != flags.data() + flags.size() || width > 1000 || (width > 0 && has_mark(value))) return false;
  if (letter == 'd' || letter == 'i' || letter == 'u' || letter == 'x' || letter == 'o') {
    int64_t number = 0;
    if (!value.empty() && !to_number(value, &number)) return false;
    char text[32] = {};
    const auto size = std::to_chars(text, text + sizeof text, number, letter == 'x' ? 16 : letter == 'o' ? 8 : 10).ptr;
    value.assign(text, size);
  } else if (letter == 'c') {
    value = value.substr(0, 1);
  } else if (letter == 'b') {
    value = unescape(value);
  } else if (letter != 's') {
    return false;
  }
  const std::string pad(width - std::min(width, value.size()), zeros && letter != 's' && !left ? '0' : ' ');
  *out += left ? value + pad : pad + value;
  return true;
}

}  // namespace

// The format repeats as long as there are arguments.
Flow ShellRun::print(const Words& words, const Io& io) {
  if (words.size() < 2 || (words[1].size() > 1 && words[1][0] == '-')) return Flow::kUnknown;
  const std::string& format = words[1];
  std::string out;
  size_t next = 2;
  do {
    const size_t before = next;
    for (size_t i = 0; i < format.size();) {
      const size_t percent = std::min(format.find('%', i), format.size());
      out += unescape(std::string_view(format).substr(i, percent - i));
      if (percent == format.size()) break;
      const size_t letter = format.find_first_not_of("-0123456789", percent + 1);
      if (letter == std::string::npos) return Flow::kUnknown;
      i = letter + 1;
      if (format[letter] == '%') {
        out += '%';
        continue;
      }
      const std::string_view flags = std::string_view(format).substr(percent + 1, letter - percent - 1);
      if (!print_one(flags, format[letter], next < words.size() ? words[next] : std::string(), &out))
        return Flow::kUnknown;
      ++next;
    }
    if (next == before) break;
  } while (next < words.size() && out.size() <= CommandModel::kMaxText);
  return write_out(out, io) ? done(0) : Flow::kUnknown;
}

// date, date -u, date +FORMAT, date -Iseconds
Flow ShellRun::date(const Words& words, const Io& io) {
  std::string format = "%a %b %e %H:%M:%S UTC %Y";
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-u" || words[i] == "--utc") continue;
    if (words[i].starts_with('+')) {
      format = words[i].substr(1);
    } else if (words[i] == "-I") {
      format = "%Y-%m-%d";
    } else if (words[i] == "-Iseconds" || words[i] == "-Is") {
      format = "%Y-%m-%dT%H:%M:%S+00:00";
    } else if (words[i] == "-R") {
      format = "%a, %d %b %Y %H:%M:%S +0000";
    } else {
      return Flow::kUnknown;
    }
  }
  const std::optional<std::string> mark = date_mark(elapsed_, format);
  return mark && write_out(*mark + "\n", io) ? done(0) : Flow::kUnknown;
}

// seq LAST, seq FIRST LAST, seq FIRST STEP LAST
Flow ShellRun::seq(const Words& words, const Io& io) {
  int64_t first = 1, step = 1, last = 0;
  const size_t n = words.size();
  if (n < 2 || n > 4 || !to_number(words[n - 1], &last)) return Flow::kUnknown;
  if (n > 2 && !to_number(words[1], &first)) return Flow::kUnknown;
  if (n > 3 && !to_number(words[2], &step)) return Flow::kUnknown;
  constexpr int64_t kMost = 1'000'000'000;
  if (step == 0 || std::max({std::abs(first), std::abs(step), std::abs(last)}) > kMost) return Flow::kUnknown;
  for (int64_t i = first; step > 0 ? i <= last : i >= last; i += step) {
    if (++steps_ > CommandModel::kMaxSteps && tape_ == nullptr) return Flow::kUnknown;
    if (steps_ > CommandLog::kMaxSteps) return Flow::kForever;
    if (!write_out(std::to_string(i) + "\n", io)) return Flow::kUnknown;
  }
  return done(0);
}

// tail -f FILE: its last ten lines, and then nothing more: nobody else writes to it.
Flow ShellRun::tail(const Words& words, const Io& io) {
  if (words.size() != 3 || (words[1] != "-f" && words[1] != "-F")) return Flow::kUnknown;
  if (words[2] == "/dev/null") return Flow::kForever;
  if (files_.count(words[2]) == 0) return Flow::kUnknown;
  const std::string& text = files_[words[2]];
  size_t from = text.size();
  for (int lines = 0; from > 0; --from) {
    if (text[from - 1] == '\n' && from < text.size() && ++lines == 10) break;
  }
  return write_out(std::string(text.substr(from)), io) ? Flow::kForever : Flow::kUnknown;
}

Flow ShellRun::cat(const Words& words, const Io& io) {
  if (words.size() == 1) return io.in != nullptr && write_out(*io.in, io) ? done(0) : Flow::kUnknown;
  int status = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::optional<bool> there = file_is_there(words[i]);
    if (!there) return Flow::kUnknown;
    if (!*there) {
      complain(is_busybox() ? "cat: can't open '" + words[i] + "': No such file or directory\n"
                            : "cat: " + words[i] + ": No such file or directory\n",
               io);
      status = 1;
    } else if (!write_out(std::string(files_[words[i]]), io)) {
      return Flow::kUnknown;
    }
  }
  return done(status);
}

// wc -l [FILE]
Flow ShellRun::count_lines(const Words& words, const Io& io) {
  if (words.size() < 2 || words.size() > 3 || words[1] != "-l") return Flow::kUnknown;
  const bool file = words.size() == 3;
  if (file && files_.count(words[2]) == 0) return Flow::kUnknown;
  if (!file && io.in == nullptr) return Flow::kUnknown;
  const std::string& text = file ? files_[words[2]] : *io.in;
  std::string line = std::to_string(std::count(text.begin(), text.end(), '\n'));
  if (file) line += " " + words[2];
  return write_out(line + "\n", io) ? done(0) : Flow::kUnknown;
}

// awk '{print $N}' of its input
Flow ShellRun::awk(const Words& words, const Io& io) {
  constexpr std::string_view kHead = "{print $";
  if (io.in != nullptr && has_mark(*io.in)) return Flow::kUnknown;
  if (words.size() != 2 || io.in == nullptr || !words[1].starts_with(kHead) || !words[1].ends_with('}'))
    return Flow::kUnknown;
  int64_t field = 0;
  const std::string_view program = words[1];
  if (!to_number(program.substr(kHead.size(), program.size() - kHead.size() - 1), &field) || field < 1)
    return Flow::kUnknown;
  std::string out;
  std::string_view rest = *io.in;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    for (int64_t i = 1; !line.empty(); ++i) {
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      const std::string_view word = line.substr(0, line.find_first_of(" \t"));
      if (i == field) out += word;
      line.remove_prefix(word.size());
    }
    out += '\n';
  }
  return write_out(out, io) ? done(0) : Flow::kUnknown;
}

Flow ShellRun::expr(const Words& words, const Io& io) {
  int64_t a = 0, b = 0;
  if (words.size() != 4 || words[2].size() != 1 || std::string_view("+-*/%").find(words[2][0]) == std::string::npos)
    return Flow::kUnknown;
  if (!to_number(words[1], &a) || !to_number(words[3], &b)) return Flow::kUnknown;
  const auto none = [](std::string_view) { return std::string(); };
  std::string error;
  const std::optional<int64_t> result =
      shell::evaluate("(" + std::to_string(a) + ")" + words[2] + "(" + std::to_string(b) + ")", none, &error);
  if (!result || !write_out(std::to_string(*result) + "\n", io)) return Flow::kUnknown;
  return done(*result == 0 ? 1 : 0);
}

Flow ShellRun::touch(const Words& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].empty() || words[i][0] != '/') return Flow::kUnknown;
    if (files_.count(words[i]) != 0) continue;
    if (files_.size() >= CommandModel::kMaxFiles) return Flow::kUnknown;
    files_[words[i]];
    ++state_changes_;
    change(words[i], true);
  }
  return words.size() > 1 ? done(0) : Flow::kUnknown;
}

Flow ShellRun::remove(const Words& words, const Io& io) {
  bool force = false;
  int status = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-f" || words[i] == "-rf" || words[i] == "-r") {
      force |= words[i] != "-r";
      continue;
    }
    const std::optional<bool> there = file_is_there(words[i]);
    if (!there) return Flow::kUnknown;
    if (*there) {
      files_.erase(words[i]);
      ++state_changes_;
      change(words[i], false);
    } else if (!force) {
      complain(
          (is_busybox() ? "rm: can't remove '" : "rm: cannot remove '") + words[i] + "': No such file or directory\n",
          io);
      status = 1;
    }
  }
  return done(status);
}

// test ..., [ ... ], [[ ... ]]
Flow ShellRun::test(Words words) {
  const std::string_view closing = words[0] == "[" ? "]" : words[0] == "[[" ? "]]" : "";
  if (!closing.empty()) {
    if (words.back() != closing) return Flow::kUnknown;
    words.pop_back();
  }
  words.erase(words.begin());
  bool negated = false;
  while (words.size() > 1 && words[0] == "!") {
    negated = !negated;
    words.erase(words.begin());
  }
  const std::optional<bool> result = holds(words);
  return result ? done(*result == negated ? 1 : 0) : Flow::kUnknown;
}

std::optional<bool> ShellRun::holds(const Words& words) {
  if (words.empty()) return false;
  if (words.size() == 1) return !words[0].empty();
  if (words.size() == 3) return compare(words[0], words[1], words[2]);
  if (words.size() != 2) return std::nullopt;
  if (words[0] == "-z") return words[1].empty();
  if (words[0] == "-n") return !words[1].empty();
  if (words[0] != "-f" && words[0] != "-r" && words[0] != "-e" && words[0] != "-s") return std::nullopt;
  const std::optional<bool> there = file_is_there(words[1]);
  if (there == true && words[0] == "-s") return !files_[words[1]].empty();
  return there;
}

// The subcommands of Kubernetes' test image that serve until they are stopped, and the one that only says its words.
Flow ShellRun::agnhost(const Words& words) {
  const std::string_view name = words.size() > 1 ? std::string_view(words[1]) : "pause";
  if (name == "entrypoint-tester") return done(0);
  if (name == "netexec" || name == "grpc-health-checking") {
    servers_.push_back({port_flag(words, "--http-port", 8080), false, Duration(0)});
  } else if (name == "liveness") {
    servers_.push_back({8080, false, std::chrono::seconds(10)});
  } else if (name == "test-webserver" || name == "serve-hostname" || name == "nettest") {
    const int usual = name == "nettest" ? 8080 : name == "test-webserver" ? 80 : 9376;
    servers_.push_back({port_flag(words, "--port", usual), false, Duration(0)});
  } else if (name != "pause") {
    return Flow::kUnknown;
  }
  if (name == "grpc-health-checking") servers_.push_back({port_flag(words, "--port", 5000), true, Duration(0)});
  handles_term_ = true;
  term_status_ = 2;  // how a Go program ends on SIGTERM that nobody else may deliver the default of
  return Flow::kForever;
}

}  // namespace ghostfleet::agent
