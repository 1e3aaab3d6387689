// The commands of the sandbox that need no waiting: text in, text out, an exit code. They know the files and facts of
// one container only.
//
// Thread rule: pure functions of their context.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kubelet_api/sandbox/file_system.h"
#include "agent/kubelet_api/sandbox/machine.h"

namespace ghostfleet::kubelet_api {

struct CommandContext {
  const Machine& machine;
  FileSystem& files;
  const std::map<std::string, std::string>& variables;  // exported ones
  const std::string& directory;
  WallTime now;
  uint16_t width = 80, height = 24;
  bool tty = false;
};

struct CommandResult {
  std::string out, err;
  int code = 0;
};

// Whether the name (or the last part of a path in a directory for programs) is one that runs here.
bool command_known(const Machine& machine, std::string_view name);
// "/bin/ls" and "ls" are "ls".
std::string_view command_name(std::string_view word);
// Whether it wants all of its input first, given these arguments.
bool command_reads_input(const std::vector<std::string>& argv);
// Runs one that is known; `input` is empty when it reads none.
CommandResult run_command(const std::vector<std::string>& argv, std::string_view input, const CommandContext& context);

}  // namespace ghostfleet::kubelet_api
