// ghostfleet: the command line.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/process.h"

namespace ghostfleet::cmd {
namespace {

void set_logging(int verbosity) {
  LogLevel level = LogLevel::kWarn;
  const char* variable = std::getenv("GHOSTFLEET_LOG");
  if (variable != nullptr && !parse_log_level(variable, &level)) {
    std::fprintf(stderr, "GHOSTFLEET_LOG=%s: one of error, warn, info, debug is expected\n", variable);
  }
  if (verbosity == 1) level = LogLevel::kInfo;
  if (verbosity >= 2) level = LogLevel::kDebug;
  set_log_level(level);
}

int run(int argc, char** argv) {
  CLI::App app{"Emulated Kubernetes nodes by the hundred thousand: a fleet, an embedded control plane, one command."};
  app.name("ghostfleet");
  app.require_subcommand(1);
  app.fallthrough();
  app.failure_message(CLI::FailureMessage::simple);
  app.footer("Start with:  ghostfleet up --nodes 1000 --profile trn2.48xlarge");
  int verbosity = 0;
  app.add_flag("-v,--verbose", verbosity, "log more (-vv: everything)");
  Runner runner;
  add_up(app, &runner);
  add_fleet(app, &runner);
  add_down(app, &runner);
  add_agent(app, &runner);
  add_controlplane(app, &runner);
  add_status(app, &runner);
  add_profiles(app, &runner);
  add_version(app, &runner);
  add_completion(app, &runner);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? kExitOk : kExitUsage;
  }
  set_logging(verbosity);
  return runner ? runner() : kExitUsage;
}

}  // namespace
}  // namespace ghostfleet::cmd

int main(int argc, char** argv) {
  // Signals are taken by the main thread alone (cmd/process.h); a peer that goes away must not end the program.
  ghostfleet::cmd::block_signals();
  std::signal(SIGPIPE, SIG_IGN);
  return ghostfleet::cmd::run(argc, argv);
}
