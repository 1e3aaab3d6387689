#include "agent/kubelet_api/sandbox/shell.h"

#include <fmt/format.h>

#include <utility>

#include "agent/behavior/shell_words.h"

namespace ghostfleet::kubelet_api {

using agent::shell::assignment;
using agent::shell::Node;
using agent::shell::NodeKind;
using agent::shell::Redirect;

namespace {

constexpr int kInterrupted = 130;

}  // namespace

Shell::Shell(Process& process)
    : process_(process), exported_(process.machine().variables), directory_(process.machine().working_directory) {
  if (process.tty()) exported_["TERM"] = "xterm";
}

Task<int> Shell::main(std::vector<std::string> argv) {
  Io io;
  const int code = co_await command(std::move(argv), io);
  co_return process_.take_interrupt() ? kInterrupted : code;
}

CommandContext Shell::context() {
  return {process_.machine(), process_.files(), exported_,         directory_,
          process_.now(),     process_.width(), process_.height(), process_.tty()};
}

void Shell::write(const Io& io, int fd, std::string_view text) {
  if (fd == 2 && io.err_with_out) {
    fd = 1;
  } else if (fd == 1 && io.out_with_err) {
    fd = 2;
  }
  std::string* into = fd == 2 ? io.err : io.out;
  if (into == nullptr) {
    process_.write(fd, text);
  } else {
    into->append(text.substr(0, kMaxOutput - std::min(kMaxOutput, into->size())));
  }
}

// Between steps: a slow reader is waited for, and an endless loop rests.
Task<int> Shell::pause() {
  if (process_.out_full()) co_await process_.reader();
  if (++steps_ % Process::kStepsPerNap == 0) co_await process_.sleep(Process::kNap);
  if (process_.broken() || process_.interrupted()) flow_ = Flow::kExit;
  co_return 0;
}

// ---- the tree

Task<int> Shell::node(const Node& n, Io io) {
  switch (n.kind) {
    case NodeKind::kCommand: status_ = co_await simple(n, io); break;
    case NodeKind::kSequence:
      if (n.redirects.empty()) {
        status_ = co_await sequence(n, io);
      } else {
        status_ = co_await block(n, io);
      }
      break;
    case NodeKind::kCase: status_ = co_await choose(n, io); break;
    case NodeKind::kPipe: status_ = co_await pipe(n, io); break;
    case NodeKind::kAnd:
    case NodeKind::kOr:
      status_ = co_await node(*n.parts[0], io);
      if (!stopped() && (status_ == 0) == (n.kind == NodeKind::kAnd)) status_ = co_await node(*n.parts[1], io);
      break;
    case NodeKind::kNot:
      status_ = co_await node(*n.parts[0], io);
      if (!stopped()) status_ = status_ == 0 ? 1 : 0;
      break;
    case NodeKind::kIf: {
      const int condition = co_await node(*n.parts[0], io);
      if (stopped()) break;
      if (condition == 0) {
        status_ = co_await node(*n.parts[1], io);
      } else if (n.parts.size() > 2) {
        status_ = co_await node(*n.parts[2], io);
      } else {
        status_ = 0;
      }
      break;
    }
    case NodeKind::kWhile:
    case NodeKind::kUntil: status_ = co_await loop(n, io); break;
    case NodeKind::kFor: status_ = co_await for_each(n, io); break;
    case NodeKind::kSubshell: status_ = co_await subshell(n, io); break;
    case NodeKind::kFunction:
      functions_[n.words.front()] = n.parts.front();
      status_ = 0;
      break;
    case NodeKind::kBackground:
      write(io, 2, "sh: jobs in the background are not available here\n");
      status_ = 1;
      break;
  }
  co_return status_;
}

Task<int> Shell::sequence(const Node& n, Io io) {
  int code = 0;
  for (const auto& part : n.parts) {
    code = co_await node(*part, io);
    if (stopped()) break;
  }
  co_return code;
}

// One after the other: the output of each is the input of the next.
Task<int> Shell::pipe(const Node& n, Io io) {
  int code = 0;
  std::shared_ptr<std::string> between = io.in;
  for (size_t i = 0; i < n.parts.size(); ++i) {
    Io part = io;
    part.in = between;
    auto output = std::make_shared<std::string>();
    if (i + 1 < n.parts.size()) part.out = output.get();
    code = co_await node(*n.parts[i], part);
    if (stopped()) break;
    between = output;
  }
  co_return code;
}

Task<int> Shell::loop(const Node& n, Io io) {
  int code = 0;
  while (!stopped()) {
    const int condition = co_await node(*n.parts[0], io);
    if (stopped() || (condition == 0) != (n.kind == NodeKind::kWhile)) break;
    code = co_await node(*n.parts[1], io);
    if (flow_ == Flow::kBreak) {
      flow_ = Flow::kNext;
      break;
    }
    if (flow_ == Flow::kContinue) flow_ = Flow::kNext;
    co_await pause();
  }
  co_return code;
}

Task<int> Shell::for_each(const Node& n, Io io) {
  std::vector<std::string> values;
  for (size_t i = 1; i < n.words.size(); ++i) co_await expand(n.words[i], &values, io);
  int code = 0;
  for (const std::string& value : values) {
    variables_[n.words[0]] = value;
    code = co_await node(*n.parts[0], io);
    if (flow_ == Flow::kBreak) {
      flow_ = Flow::kNext;
      break;
    }
    if (flow_ == Flow::kContinue) flow_ = Flow::kNext;
    if (stopped()) break;
    co_await pause();
  }
  co_return code;
}

Task<int> Shell::subshell(const Node& n, Io io) {
  auto variables = variables_;
  auto exported = exported_;
  auto parameters = parameters_;
  const std::string directory = directory_;
  int code = 0;
  for (const auto& part : n.parts) {
    code = co_await node(*part, io);
    if (stopped()) break;
  }
  if (flow_ == Flow::kExit && !process_.interrupted() && !process_.broken()) flow_ = Flow::kNext;
  variables_ = std::move(variables);
  exported_ = std::move(exported);
  parameters_ = std::move(parameters);
  directory_ = directory;
  co_return code;
}

// case WORD in PATTERN) ...
Task<int> Shell::choose(const Node& n, Io io) {
  std::string word;
  co_await expand_one(n.words[0], Mode::kWhole, &word, io);
  for (size_t i = 0; i < n.parts.size(); ++i) {
    for (const std::string& pattern : n.patterns[i]) {
      std::string text;
      co_await expand_pattern(pattern, &text, io);
      if (std::exchange(bad_word_, false)) co_return kBadWord;
      if (agent::shell::matches(text, word)) co_return co_await node(*n.parts[i], io);
    }
  }
  co_return 0;
}

// A block with redirections.
Task<int> Shell::block(const Node& n, Io io) {
  std::vector<Output> outputs;
  int code = co_await open_redirects(n.redirects, &io, &outputs);
  if (code != 0) co_return code;
  code = co_await sequence(n, io);
  const int closed = close_redirects(outputs);
  co_return closed != 0 ? closed : code;
}

Task<int> Shell::open_redirects(const std::vector<Redirect>& redirects, Io* io, std::vector<Output>* outputs) {
  for (const Redirect& r : redirects) {
    const bool to_err = r.number == "2";
    if (r.op == "<<") {
      auto text = std::make_shared<std::string>(r.target);
      if (!r.literal) {
        text->clear();
        co_await expand_one(r.target, Mode::kQuoted, text.get(), *io);
      }
      io->in = std::move(text);
      continue;
    }
    std::vector<std::string> target;
    co_await expand(r.target, &target, *io);
    const std::string name = target.empty() ? std::string() : target.front();
    if (r.op == "<") {
      SharedBytes content;
      const FileError error = process_.files().read(FileSystem::resolve(directory_, name), &content);
      if (error != FileError::kOk && name != "/dev/null") {
        write(*io, 2, fmt::format("sh: can't open {}: {}\n", name, file_error_text(error)));
        co_return 1;
      }
      io->in = std::make_shared<std::string>(view(content));
    } else if (r.op == ">&") {
      io->err_with_out |= to_err && name == "1";
      io->out_with_err |= !to_err && name == "2";
    } else {
      auto buffer = std::make_shared<std::string>();
      (to_err ? io->err : io->out) = buffer.get();
      outputs->push_back({FileSystem::resolve(directory_, name), r.op == ">>", buffer});
    }
  }
  co_return 0;
}

int Shell::close_redirects(const std::vector<Output>& outputs) {
  int code = 0;
  for (const Output& output : outputs) {
    if (output.path == "/dev/null") continue;
    const FileError error = process_.files().write(output.path, *output.text, output.append, process_.now());
    if (error == FileError::kOk) continue;
    write(Io(), 2, fmt::format("sh: can't create {}: {}\n", output.path, file_error_text(error)));
    code = 1;
  }
  return code;
}

// A function has parameters and local variables of its own.
Task<int> Shell::call(agent::shell::Tree body, std::vector<std::string> parameters, Io io) {
  std::swap(parameters_, parameters);
  locals_.emplace_back();
  ++depth_;
  const int code = co_await node(*body, io);
  --depth_;
  for (auto& [name, value] : locals_.back()) {
    unset_variable(name);
    if (value) set_variable(name, std::move(*value));
  }
  locals_.pop_back();
  std::swap(parameters_, parameters);
  if (flow_ == Flow::kReturn) flow_ = Flow::kNext;
  co_return code;
}

Task<int> Shell::simple(const Node& n, Io io) {
  co_await pause();
  if (stopped()) co_return status_;
  // Redirections first, so that a missing file stops the command.
  std::vector<Output> outputs;
  int code = co_await open_redirects(n.redirects, &io, &outputs);
  if (code != 0) co_return code;
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& word : n.words) {
    const size_t equals = argv.empty() ? assignment(word) : std::string::npos;
    if (equals == std::string::npos) {
      co_await expand(word, &argv, io);
      continue;
    }
    std::string value;
    co_await expand_one(word.substr(equals + 1), Mode::kWhole, &value, io);
    settings.emplace_back(word.substr(0, equals), std::move(value));
  }
  if (std::exchange(bad_word_, false)) co_return kBadWord;
  if (argv.empty()) {
    for (auto& [name, value] : settings) set_variable(name, value);
  } else {
    const auto before = exported_;
    for (auto& [name, value] : settings) exported_[name] = value;
    const auto function = functions_.find(argv[0]);
    if (function != functions_.end() && depth_ < kMaxDepth) {
      code = co_await call(function->second, {argv.begin() + 1, argv.end()}, io);
    } else {
      code = co_await command(argv, io);
    }
    if (!settings.empty()) exported_ = before;
  }
  const int closed = close_redirects(outputs);
  co_return closed != 0 ? closed : code;
}

}  // namespace ghostfleet::kubelet_api
