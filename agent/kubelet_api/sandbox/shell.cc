#include "agent/kubelet_api/sandbox/shell.h"

#include <fmt/format.h>

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
    case NodeKind::kSequence: status_ = co_await sequence(n, io); break;
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
  const std::string directory = directory_;
  int code = 0;
  for (const auto& part : n.parts) {
    code = co_await node(*part, io);
    if (stopped()) break;
  }
  if (flow_ == Flow::kExit && !process_.interrupted() && !process_.broken()) flow_ = Flow::kNext;
  variables_ = std::move(variables);
  exported_ = std::move(exported);
  directory_ = directory;
  co_return code;
}

Task<int> Shell::simple(const Node& n, Io io) {
  co_await pause();
  if (stopped()) co_return status_;
  // Redirections first, so that a missing file stops the command.
  std::vector<std::pair<std::string, std::shared_ptr<std::string>>> files;  // to write at the end; ">>" keeps '+'
  for (const Redirect& r : n.redirects) {
    std::vector<std::string> target;
    co_await expand(r.target, &target, io);
    const std::string name = target.empty() ? std::string() : target.front();
    const bool to_err = r.number == "2";
    if (r.op == "<") {
      SharedBytes content;
      const FileError error = process_.files().read(FileSystem::resolve(directory_, name), &content);
      if (error != FileError::kOk && name != "/dev/null") {
        write(io, 2, fmt::format("sh: can't open {}: {}\n", name, file_error_text(error)));
        co_return 1;
      }
      io.in = std::make_shared<std::string>(view(content));
    } else if (r.op == ">&") {
      io.err_with_out |= to_err && name == "1";
      io.out_with_err |= !to_err && name == "2";
    } else {
      auto buffer = std::make_shared<std::string>();
      (to_err ? io.err : io.out) = buffer.get();
      files.emplace_back((r.op == ">>" ? "+" : "-") + FileSystem::resolve(directory_, name), buffer);
    }
  }
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& word : n.words) {
    const size_t equals = argv.empty() ? assignment(word) : std::string::npos;
    if (equals == std::string::npos) {
      co_await expand(word, &argv, io);
      continue;
    }
    std::vector<std::string> value;
    bool open = false;
    co_await expand_text(word.substr(equals + 1), Mode::kWhole, &value, &open, io);
    settings.emplace_back(word.substr(0, equals), value.empty() ? std::string() : value.front());
  }
  if (std::exchange(bad_word_, false)) co_return kBadWord;
  int code = 0;
  if (argv.empty()) {
    for (auto& [name, value] : settings) (exported_.contains(name) ? exported_ : variables_)[name] = value;
  } else {
    const auto before = exported_;
    for (auto& [name, value] : settings) exported_[name] = value;
    if (functions_.contains(argv[0]) && depth_ < kMaxDepth) {
      ++depth_;
      const agent::shell::Tree body = functions_[argv[0]];
      for (size_t i = 1; i < argv.size(); ++i) variables_[std::to_string(i)] = argv[i];
      code = co_await node(*body, io);
      if (flow_ == Flow::kReturn) flow_ = Flow::kNext;
      --depth_;
    } else {
      code = co_await command(argv, io);
    }
    if (!settings.empty()) exported_ = before;
  }
  for (const auto& [path, text] : files) {
    const FileError error = path.substr(1) == "/dev/null"
                                ? FileError::kOk
                                : process_.files().write(path.substr(1), *text, path[0] == '+', process_.now());
    if (error == FileError::kOk) continue;
    Io outer;
    write(outer, 2, fmt::format("sh: can't create {}: {}\n", path.substr(1), file_error_text(error)));
    code = 1;
  }
  co_return code;
}

}  // namespace ghostfleet::kubelet_api
