// Single commands of the shell: its own, those that wait or read, and the way to all others.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "agent/kubelet_api/sandbox/shell.h"

namespace ghostfleet::kubelet_api {

using agent::shell::assignment;
using agent::shell::is_name;

namespace {

constexpr int kInterrupted = 130, kNotFound = 127;

bool is_shell(std::string_view name) { return name == "sh" || name == "bash" || name == "ash"; }

bool parse_seconds(std::string_view text, Duration* out) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const double scale = unit.empty() || unit == "s" ? 1
                       : unit == "m"               ? 60
                       : unit == "h"               ? 3600
                       : unit == "d"               ? 86400
                                                   : 0;
  if (error != std::errc() || scale == 0 || !(value >= 0)) return false;
  *out = Duration(static_cast<int64_t>(std::min(value * scale, 3e8) * 1e9));
  return true;
}

bool is_builtin(std::string_view name) {
  static constexpr std::string_view kNames[] = {"cd",       "exit",   "export", "unset", ":",    "set",   "break",
                                                "continue", "return", "umask",  "trap",  "wait", "shift", "local"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

std::string Shell::why_not(const std::vector<std::string>& argv) const {
  if (argv.empty() || argv[0].empty()) return "no command specified";
  std::string line;
  for (const std::string& word : argv) line += (line.empty() ? "" : " ") + word;
  const std::string_view name = command_name(argv[0]);
  if (process_.machine().answers.contains(line) || is_shell(name) || name == "sleep" ||
      command_known(process_.machine(), argv[0])) {
    return {};
  }
  if (argv[0].find('/') == std::string::npos)
    return fmt::format("exec: \"{}\": executable file not found in $PATH", argv[0]);
  const FileEntry* file = process_.files().find(FileSystem::resolve(directory_, argv[0]));
  if (file == nullptr) return fmt::format("exec: \"{0}\": stat {0}: no such file or directory", argv[0]);
  return fmt::format("exec: \"{}\": permission denied", argv[0]);
}

Task<int> Shell::command(std::vector<std::string> argv, Io io) {
  std::string line;
  for (const std::string& word : argv) line += (line.empty() ? "" : " ") + word;
  const auto answer = process_.machine().answers.find(line);
  if (answer != process_.machine().answers.end()) {
    write(io, 1, answer->second.out);
    write(io, 2, answer->second.err);
    co_return answer->second.exit_code;
  }
  bool known = false;
  const int code = builtin(argv, io, &known);
  if (known) co_return code;
  const std::string name(command_name(argv[0]));
  if (is_shell(name)) co_return co_await run_shell(std::move(argv), io);
  if (name == "sleep") co_return co_await sleep(std::move(argv), io);
  if (name == "read") co_return co_await read(std::move(argv), io);
  const bool no_file = argv.size() == 1 || (argv.size() == 2 && argv[1] == "-");
  if (name == "cat" && no_file && io.in == nullptr) co_return co_await cat_input(io);
  if (!command_known(process_.machine(), argv[0])) {
    write(io, 2, fmt::format("sh: {}: not found\n", argv[0]));
    co_return kNotFound;
  }
  std::string input;
  if (command_reads_input(argv)) co_await collect(&input, io);
  if (stopped()) co_return kInterrupted;
  CommandResult result = run_command(argv, input, context());
  write(io, 1, result.out);
  write(io, 2, result.err);
  co_return result.code;
}

int Shell::leave(const std::vector<std::string>& argv, Flow how) {
  flow_ = how;
  int code = how == Flow::kBreak || how == Flow::kContinue ? 0 : status_;
  if (argv.size() > 1 && how != Flow::kBreak && how != Flow::kContinue)
    std::from_chars(argv[1].data(), argv[1].data() + argv[1].size(), code);
  return code & 255;
}

int Shell::builtin(const std::vector<std::string>& argv, const Io& io, bool* known) {
  const std::string& name = argv[0];
  *known = is_builtin(name);
  if (!*known) return 0;
  if (name == "exit") return leave(argv, Flow::kExit);
  if (name == "return") return leave(argv, Flow::kReturn);
  if (name == "break") return leave(argv, Flow::kBreak);
  if (name == "continue") return leave(argv, Flow::kContinue);
  if (name == "cd") {
    const std::string to = argv.size() < 2 ? variable("HOME") : argv[1];
    const std::string path = FileSystem::resolve(directory_, to);
    const FileEntry* entry = process_.files().find(path);
    if (entry == nullptr || !entry->directory()) {
      write(io, 2,
            fmt::format("sh: cd: can't cd to {}: {}\n", to,
                        file_error_text(entry == nullptr ? FileError::kNoEntry : FileError::kNotDirectory)));
      return 2;
    }
    directory_ = path;
  } else if (name == "export") {
    for (size_t i = 1; i < argv.size(); ++i) {
      const size_t equals = assignment(argv[i]);
      const std::string key = argv[i].substr(0, equals);
      exported_[key] = equals == std::string::npos ? variable(key) : argv[i].substr(equals + 1);
    }
  } else if (name == "unset") {
    for (size_t i = 1; i < argv.size(); ++i) unset_variable(argv[i]);
  } else if (name == "local") {
    return local(argv, io);
  } else if (name == "shift") {
    return shift(argv, io);
  } else if (name == "set" && argv.size() > 1 && argv[1] == "--") {
    parameters_.assign(argv.begin() + 2, argv.end());
  }
  return 0;
}

int Shell::local(const std::vector<std::string>& argv, const Io& io) {
  if (locals_.empty()) {
    write(io, 2, "sh: local: not in a function\n");
    return 1;
  }
  for (size_t i = 1; i < argv.size(); ++i) {
    const size_t equals = assignment(argv[i]);
    const std::string key = argv[i].substr(0, equals);
    locals_.back().try_emplace(key, find_variable(key));
    set_variable(key, equals == std::string::npos ? std::string() : argv[i].substr(equals + 1));
  }
  return 0;
}

int Shell::shift(const std::vector<std::string>& argv, const Io& io) {
  size_t count = 1;
  if (argv.size() > 1) std::from_chars(argv[1].data(), argv[1].data() + argv[1].size(), count);
  if (count > parameters_.size()) {
    write(io, 2, "sh: shift: can't shift that many\n");
    return 1;
  }
  parameters_.erase(parameters_.begin(), parameters_.begin() + static_cast<std::ptrdiff_t>(count));
  return 0;
}

Task<int> Shell::run_shell(std::vector<std::string> argv, Io io) {
  size_t i = 1;
  bool script = false;
  for (; i < argv.size() && argv[i].size() > 1 && argv[i][0] == '-'; ++i)
    script |= argv[i].find('c') != std::string::npos;
  if (depth_ >= kMaxDepth) co_return 1;
  ++depth_;
  int code = 0;
  if (script && i < argv.size()) {
    // The word behind the script is $0.
    const size_t first = std::min(i + 2, argv.size());
    std::vector<std::string> parameters(argv.begin() + static_cast<std::ptrdiff_t>(first), argv.end());
    std::swap(parameters_, parameters);
    code = co_await run_script(argv[i], io);
    std::swap(parameters_, parameters);
  } else if (i < argv.size()) {
    SharedBytes text;
    const FileError error = process_.files().read(FileSystem::resolve(directory_, argv[i]), &text);
    if (error == FileError::kOk) {
      code = co_await run_script(std::string(view(text)), io);
    } else {
      write(io, 2, fmt::format("sh: can't open '{}': {}\n", argv[i], file_error_text(error)));
      code = 2;
    }
  } else {
    code = co_await interactive(io);
  }
  --depth_;
  if (flow_ == Flow::kExit && !process_.interrupted() && !process_.broken()) flow_ = Flow::kNext;
  co_return code;
}

Task<int> Shell::run_script(std::string text, Io io) {
  const agent::shell::Tree tree = agent::shell::parse(text);
  if (!tree) {
    write(io, 2, "sh: syntax error, or something this shell does not know\n");
    co_return 2;
  }
  co_return co_await node(*tree, io);
}

// Reads commands line by line: with a prompt in a terminal, without one from a pipe.
Task<int> Shell::interactive(Io io) {
  std::string text;
  int code = 0;
  while (true) {
    if (process_.tty() && io.in == nullptr)
      write(io, 1,
            !text.empty() ? "> " : fmt::format("{} {} ", directory_, process_.machine().user_id == "0" ? "#" : "$"));
    std::string line;
    const int got = co_await read_line(&line, io);
    if (process_.take_interrupt()) {
      flow_ = Flow::kNext;
      text.clear();
      code = status_ = kInterrupted;
      continue;
    }
    if (got != 0 && line.empty()) break;
    text += line + "\n";
    bool incomplete = false;
    const agent::shell::Tree tree = agent::shell::parse(text, &incomplete);
    // What is not complete yet goes on in the next line.
    if (!tree && incomplete && text.size() < agent::shell::kMaxScript && got == 0) continue;
    text.clear();
    if (!tree) {
      write(io, 2, "sh: syntax error, or something this shell does not know\n");
      code = status_ = 2;
      continue;
    }
    code = co_await node(*tree, io);
    if (process_.tty() && process_.take_interrupt()) {
      flow_ = Flow::kNext;
      code = status_ = kInterrupted;
    }
    if (flow_ == Flow::kExit) break;
    flow_ = Flow::kNext;
  }
  co_return code;
}

Task<int> Shell::sleep(std::vector<std::string> argv, Io io) {
  Duration total{0};
  for (size_t i = 1; i < argv.size(); ++i) {
    Duration one{0};
    if (argv[i] == "infinity") {
      one = std::chrono::hours(24 * 365);
    } else if (!parse_seconds(argv[i], &one)) {
      write(io, 2, fmt::format("sleep: invalid number '{}'\n", argv[i]));
      co_return 1;
    }
    total += one;
  }
  if (argv.size() < 2) {
    write(io, 2, "BusyBox usage: sleep [N]...\n");
    co_return 1;
  }
  co_await process_.sleep(total);
  if (process_.interrupted()) flow_ = Flow::kExit;
  co_return process_.interrupted() ? kInterrupted : 0;
}

Task<int> Shell::cat_input(Io io) {
  while (true) {
    if (process_.interrupted()) {
      flow_ = Flow::kExit;
      co_return kInterrupted;
    }
    std::string& pending = process_.pending();
    if (!pending.empty()) {
      const std::string piece = std::exchange(pending, std::string());
      process_.input_taken();
      write(io, 1, piece);
      if (process_.broken()) co_return 1;
      if (process_.out_full()) co_await process_.reader();
      continue;
    }
    if (process_.take_end()) co_return 0;
    co_await process_.input();
  }
}

// 0, or 1 at the end of the input.
Task<int> Shell::read_line(std::string* line, Io io) {
  if (io.in != nullptr) {
    const size_t end = io.in->find('\n');
    *line = io.in->substr(0, end);
    const bool more = end != std::string::npos;
    io.in->erase(0, more ? end + 1 : end);
    co_return more ? 0 : 1;
  }
  while (true) {
    std::string& pending = process_.pending();
    const size_t end = pending.find('\n');
    if (end != std::string::npos) {
      *line = pending.substr(0, end);
      pending.erase(0, end + 1);
      process_.input_taken();
      co_return 0;
    }
    if (process_.interrupted()) co_return 1;
    if (pending.size() > Process::kPauseInput || process_.take_end()) {
      *line = std::exchange(pending, std::string());
      process_.input_taken();
      co_return 1;
    }
    co_await process_.input();
  }
}

Task<int> Shell::read(std::vector<std::string> argv, Io io) {
  std::string line;
  const int code = co_await read_line(&line, io);
  std::vector<std::string> names;
  std::copy_if(argv.begin() + 1, argv.end(), std::back_inserter(names), [](const auto& a) { return is_name(a); });
  std::string_view rest = line;
  for (size_t i = 0; i < names.size(); ++i) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    const size_t end = i + 1 == names.size() ? rest.size() : std::min(rest.find_first_of(" \t"), rest.size());
    variables_[names[i]] = std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  co_return code;
}

// All of the input, as far as it may be kept.
Task<int> Shell::collect(std::string* text, Io io) {
  if (io.in != nullptr) {
    *text = std::exchange(*io.in, std::string());
    co_return 0;
  }
  process_.collect_all();
  while (!process_.take_end()) {
    if (process_.interrupted()) {
      flow_ = Flow::kExit;
      co_return kInterrupted;
    }
    if (process_.pending().size() >= Process::kMaxInput) break;
    co_await process_.input();
  }
  *text = std::exchange(process_.pending(), std::string());
  co_return 0;
}

}  // namespace ghostfleet::kubelet_api
