#include "agent/behavior/command_model.h"

#include <algorithm>

#include "agent/behavior/shell_run.h"

namespace ghostfleet::agent {

namespace {

using Words = std::vector<std::string>;

// The last part of an image's name without tag and digest: "registry.k8s.io/e2e-test-images/agnhost:2.63" is agnhost.
std::string image_name(std::string_view image) {
  image = image.substr(0, image.find('@'));
  image = image.substr(image.rfind('/') + 1);
  return std::string(image.substr(0, image.find(':')));
}

bool expand_all(const Words& words, const CommandLine& line, Words* out) {
  for (const std::string& word : words) {
    std::string text;
    if (!expand_variables(word, line, &text)) return false;
    out->push_back(std::move(text));
  }
  return true;
}

// Bytes that a log gives a meaning of its own.
bool has_own_bytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return (c >= kMarkBegin && c <= kMarkLine) || c == kFieldEnd; });
}

bool has_own_bytes(const CommandLine& line) {
  const auto any = [](const Words& words) {
    return std::any_of(words.begin(), words.end(), [](const std::string& word) { return has_own_bytes(word); });
  };
  return any(line.command) || any(line.args) || std::any_of(line.env.begin(), line.env.end(), [](const auto& variable) {
           return variable.second && has_own_bytes(*variable.second);
         });
}

}  // namespace

std::vector<std::string> process_of(const CommandLine& line) {
  Words out;
  if (has_own_bytes(line)) return {};
  const std::string image = image_name(line.image);
  if (line.command.empty()) {
    if (image == "agnhost" || (image == "pause" && line.args.empty())) {
      out.push_back(image);
    } else if (image != "busybox" || line.args.empty()) {
      return {};
    }
  }
  if (!expand_all(line.command, line, &out) || !expand_all(line.args, line, &out)) return {};
  return out;
}

namespace {

bool in_volume(const std::string& path, const CommandLine& line) {
  return std::any_of(line.volumes.begin(), line.volumes.end(),
                     [&](const std::string& v) { return path.starts_with(v + "/"); });
}

ShellRun::Files kept(const ShellRun::Files& files, const CommandLine& line) {
  ShellRun::Files out;
  for (const auto& [path, text] : files) {
    if (in_volume(path, line)) out[path] = text;
  }
  return out;
}

std::string last_lines(const std::string& text) {
  constexpr size_t kMaxBytes = 2048, kMaxLines = 80;
  size_t from = text.size() > kMaxBytes ? text.size() - kMaxBytes : 0;
  size_t lines = 0;
  for (size_t i = text.size(); i > from; --i) {
    if (text[i - 1] == '\n' && i < text.size() && ++lines == kMaxLines) {
      from = i;
      break;
    }
  }
  return text.substr(from);
}

CommandAttempt attempt_of(const ShellRun& run, Flow flow, const CommandLine& line) {
  CommandAttempt attempt;
  attempt.servers = run.servers();
  attempt.files = run.changes();
  attempt.files_lost = run.changes_lost();
  if (flow == Flow::kForever) return attempt;
  attempt.exit = run.status();
  attempt.after = run.elapsed();
  const auto file = run.files().find(line.message_path);
  if (file != run.files().end()) attempt.message = file->second;
  if (attempt.message.empty() && line.message_from_log && run.status() != 0) attempt.message = last_lines(run.output());
  return attempt;
}

void plan_stop(ShellRun run, CommandPlan* plan) {
  const Duration before = run.elapsed();
  Flow flow = Flow::kNext;
  const bool handled = run.terminate(&flow);
  // Ignored, or the script goes on after its trap: only a kill ends it.
  plan->stop_after = CommandModel::kNeverEnds;
  plan->stop = 137;
  if (!handled || flow == Flow::kForever || flow == Flow::kUnknown) return;
  if (flow == Flow::kNext && run.has_trap()) return;
  plan->stop = run.status();
  plan->stop_after = run.elapsed() - before;
  if (*plan->stop_after == Duration(0)) plan->stop_after.reset();
}

std::optional<CommandPlan> make_plan(const CommandLine& line) {
  const Words argv = process_of(line);
  if (argv.empty()) return std::nullopt;
  CommandPlan plan;
  ShellRun::Files files;
  std::vector<ShellRun::Files> starts;
  while (true) {
    ShellRun run(line, files);
    starts.push_back(files);
    const Flow flow = run.run(argv);
    if (flow == Flow::kUnknown) return std::nullopt;
    plan.attempts.push_back(attempt_of(run, flow, line));
    ShellRun::Files left = kept(run.files(), line);
    const bool settled = flow == Flow::kForever || left == files || plan.attempts.size() == CommandModel::kMaxAttempts;
    files = std::move(left);
    if (!settled) continue;
    plan_stop(std::move(run), &plan);
    plan.log = std::make_shared<const CommandLog>(line, std::move(starts));
    return plan;
  }
}

// The files at an age of the container.
ShellRun::Files files_at(const CommandAttempt& attempt, Duration age) {
  ShellRun::Files out;
  for (const FileChange& change : attempt.files) {
    if (change.at > age) break;
    if (change.there) {
      out[change.path] = change.text;
    } else {
      out.erase(change.path);
    }
  }
  return out;
}

}  // namespace

bool expand_variables(std::string_view text, const CommandLine& line, std::string* out) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '$' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == '$') {
      *out += '$';
      ++i;
      continue;
    }
    const size_t end = next == '(' ? text.find(')', i) : std::string_view::npos;
    const std::string name =
        end == std::string_view::npos ? std::string() : std::string(text.substr(i + 2, end - i - 2));
    const auto value = line.env.find(name);
    if (name.empty() || value == line.env.end()) {
      *out += text[i];
      continue;
    }
    if (!value->second) return false;
    *out += *value->second;
    i = end;
  }
  return true;
}

CommandModel::CommandModel(CommandLine line) : line_(std::move(line)) { plan_ = make_plan(line_); }

std::optional<ProbeWindow> CommandModel::exec_probe(const Words& command, Duration timeout) const {
  Words argv;
  if (!plan_ || !expand_all(command, line_, &argv) || argv.empty()) return std::nullopt;
  const CommandAttempt& attempt = plan_->attempts.front();
  if (attempt.files_lost) return std::nullopt;
  std::vector<Duration> moments = {Duration(0)};
  for (const FileChange& change : attempt.files) moments.push_back(change.at);
  ProbeWindow window{kNeverEnds, Duration(0)};
  for (const Duration moment : moments) {
    ShellRun run(line_, files_at(attempt, moment));
    const Flow flow = run.run(argv);
    if (flow == Flow::kUnknown) return std::nullopt;
    const bool passes = flow != Flow::kForever && run.status() == 0 && run.elapsed() <= timeout;
    if (passes && window.from == kNeverEnds) window.from = moment;
    if (!passes && window.from != kNeverEnds) {
      window.until = std::max(moment, Duration(1));
      break;
    }
  }
  return window;
}

std::optional<ProbeWindow> CommandModel::port_probe(int port, bool grpc, std::string_view path) const {
  if (!plan_) return std::nullopt;
  for (const CommandServer& server : plan_->attempts.back().servers) {
    if (server.port != port || (grpc && !server.grpc)) continue;
    const bool health = path.find("healthz") != std::string_view::npos;
    return ProbeWindow{Duration(0), health ? server.healthy : Duration(0)};
  }
  return ProbeWindow{kNeverEnds, Duration(0)};
}

}  // namespace ghostfleet::agent
