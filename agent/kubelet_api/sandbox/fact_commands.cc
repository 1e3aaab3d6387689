// What a container tells of itself: id, date, uname, ps, df and the like.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "agent/kubelet_api/sandbox/command_call.h"

namespace ghostfleet::kubelet_api::commands {

void identity(Call& c) {
  const Machine& m = c.context.machine;
  if (c.has('u')) {
    c.result.out = (c.has('n') ? m.user : m.user_id) + "\n";
  } else if (c.has('g')) {
    c.result.out = m.user_id + "\n";
  } else {
    c.result.out = fmt::format("uid={0}({1}) gid={0}({1}) groups={0}({1})\n", m.user_id, m.user);
  }
}

void date(Call& c) {
  const std::time_t seconds = c.context.now.seconds();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::string format = "%a %b %e %H:%M:%S UTC %Y";
  for (const std::string& word : c.operands) {
    if (word.starts_with('+')) format = word.substr(1, 200);
  }
  char text[512] = {};
  (void)std::strftime(text, sizeof text, format.c_str(), &parts);
  c.result.out = std::string(text) + "\n";
}

void system_name(Call& c) {
  const agent::NodeTemplate& n = *c.context.machine.node.node;
  const std::string machine = n.architecture == "arm64" ? "aarch64" : "x86_64";
  if (c.has('a')) {
    c.result.out =
        fmt::format("Linux {} {} #1 SMP {} GNU/Linux\n", c.context.machine.host_name, n.kernel_version, machine);
  } else if (c.has('r')) {
    c.result.out = n.kernel_version + "\n";
  } else if (c.has('n')) {
    c.result.out = c.context.machine.host_name + "\n";
  } else {
    c.result.out = c.has('m') ? machine + "\n" : "Linux\n";
  }
}

void processes(Call& c) {
  c.result.out = "PID   USER     TIME  COMMAND\n";
  c.result.out += fmt::format("{:>5} {:<8} {:>5} {}\n", 1, c.context.machine.user, "0:00", c.context.machine.container);
  c.result.out += fmt::format("{:>5} {:<8} {:>5} {}\n", 7, c.context.machine.user, "0:00", c.argv[0]);
}

void memory(Call& c) {
  const int64_t total = c.context.machine.memory_bytes / 1024;
  const int64_t used = total / 4;
  c.result.out = fmt::format("{:>18}{:>12}{:>12}\nMem:    {:>10}{:>12}{:>12}\nSwap:   {:>10}{:>12}{:>12}\n", "total",
                             "used", "free", total, used, total - used, 0, 0, 0);
}

void disk(Call& c) {
  c.result.out = "Filesystem           1K-blocks      Used Available Use% Mounted on\n";
  c.result.out += fmt::format("overlay              {:>9} {:>9} {:>9} {:>3}% /\n", 83873772, 12582912, 71290860, 15);
}

void terminal(Call& c) {
  if (!c.context.tty) {
    c.result.err = "stty: standard input: Not a tty\n";
    c.result.code = 1;
  } else if (!c.operands.empty() && c.operands[0] == "size") {
    c.result.out = fmt::format("{} {}\n", c.context.height, c.context.width);
  }
}

void which(Call& c) {
  for (const std::string& name : c.operands) {
    if (command_known(c.context.machine, name)) {
      c.result.out += "/bin/" + std::string(command_name(name)) + "\n";
    } else {
      c.result.code = 1;
    }
  }
}

void host_name(Call& c) { c.result.out = (c.has('i') ? c.context.machine.pod_ip : c.context.machine.host_name) + "\n"; }

void processors(Call& c) {
  c.result.out = std::to_string(std::max<int64_t>(1, c.context.machine.cpu_millis / 1000)) + "\n";
}

void terminal_name(Call& c) {
  c.result = c.context.tty ? CommandResult{"/dev/pts/0\n", "", 0} : CommandResult{"not a tty\n", "", 1};
}

}  // namespace ghostfleet::kubelet_api::commands
