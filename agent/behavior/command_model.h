// CommandModel: what a container would do, told by its command line, where that can be told without running anything:
// true, false, sleep, exit, echo, test, touch, cat and the like, alone or in a script for `sh -c`; and a few programs
// that only serve until they are stopped. Files that a script writes and reads are kept in mind, also over restarts
// when they are in a volume of the pod. Anything else is not known, and then there is no plan: nothing is guessed.
//
// Thread rule: plain values; nothing is executed and no file of the machine is looked at.
// Errors: none; what is not understood gives no plan.
// Limits: kMaxSteps commands of an attempt, kMaxFiles files,
// kMaxChanges changes of files, kMaxText bytes of a file or of output, kMaxAttempts attempts looked at.
// Source: POSIX.1-2017, Shell and Utilities; a process with id 1 ignores SIGTERM unless it handles it
// (pid_namespaces(7)).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ghostfleet::agent {

class CommandLog;

struct CommandLine {
  std::string image;
  std::vector<std::string> command, args;  // as in the container's spec; $(NAME) is expanded here
  std::map<std::string, std::optional<std::string>>
      env;                           // a variable without a value is there, but its value is not known
  std::vector<std::string> volumes;  // where the pod's own empty volumes are mounted
  std::vector<std::string> mounts;   // where something is mounted whose files are not known
  std::string message_path = "/dev/termination-log";
  bool message_from_log = false;  // terminationMessagePolicy FallbackToLogsOnError
};

struct FileChange {
  Duration at{0};  // since the start
  std::string path;
  bool there = false;
  std::string text;
};

// A port on which a program serves.
struct CommandServer {
  int port = 0;
  bool grpc = false;
  Duration healthy{0};  // how long its /healthz says so; 0: for ever
};

struct CommandAttempt {
  std::optional<int> exit;  // absent: runs until it is stopped
  Duration after{0};
  std::string message;  // what it leaves as its termination message; may hold marks (command_log.h)
  std::vector<CommandServer> servers;
  std::vector<FileChange> files;
  bool files_lost = false;  // there were more changes
};

struct CommandPlan {
  std::vector<CommandAttempt> attempts;  // the last one repeats; never empty
  int stop = 0;                          // exit code when stopped
  std::optional<Duration> stop_after;    // absent: at once
  std::shared_ptr<const CommandLog> log;
};

// When a probe passes: from `from` (since the start) until `until`.
struct ProbeWindow {
  Duration from{0}, until{0};  // until 0: for ever
};

// $(NAME) with the value of that variable and $$ as $, as a kubelet does before a process starts. False: a value is not
// known.
bool expand_variables(std::string_view text, const CommandLine& line, std::string* out);

class CommandModel {
 public:
  static constexpr int kMaxSteps = 2000;
  static constexpr size_t kMaxFiles = 64, kMaxChanges = 64, kMaxText = 4096, kMaxAttempts = 8;
  // What never happens happens after a year.
  static constexpr Duration kNeverEnds = std::chrono::hours(24 * 365);

  explicit CommandModel(CommandLine line);

  const std::optional<CommandPlan>& plan() const { return plan_; }
  // An exec probe of this container; without a value when its command is not known here, or what the container does is
  // not.
  std::optional<ProbeWindow> exec_probe(const std::vector<std::string>& command, Duration timeout) const;
  // A probe over the network: a port on which nothing serves fails. `path` of an HTTP request, else empty.
  std::optional<ProbeWindow> port_probe(int port, bool grpc, std::string_view path) const;

 private:
  CommandLine line_;
  std::optional<CommandPlan> plan_;
};

}  // namespace ghostfleet::agent
