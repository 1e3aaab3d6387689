// ghostfleet: the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/process.h"
#include "emulator/profile/object_reader.h"

namespace ghostfleet::cmd {
namespace {

void set_logging(int verbosity) {
  LogLevel level = LogLevel::kWarn;
  const char* variable = std::getenv("GHOSTFLEET_LOG");
  if (variable != nullptr && !parse_log_level(variable, &level)) {
    std::fprintf(stderr, "error: GHOSTFLEET_LOG=%s: one of error, warn, info, debug is expected; warn is taken\n",
                 variable);
  }
  if (verbosity == 1) level = LogLevel::kInfo;
  if (verbosity >= 2) level = LogLevel::kDebug;
  set_log_level(level);
}

std::string near_hint(const std::string& typed, const std::vector<std::string>& known) {
  const std::string near = emulator::nearest(typed, known);
  return near.empty() ? fmt::format("there are: {}", fmt::join(known, ", ")) : fmt::format("did you mean {}?", near);
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

int wrong_usage(const std::string& text) {
  std::fprintf(stderr, "error: %s\nRun with --help for more information.\n", text.c_str());
  return kExitUsage;
}

// What was typed and is neither subcommand nor flag, and what may have been meant.
int tell_unknown(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const std::string typed = words.empty() ? std::string() : words[0].substr(0, words[0].find('='));
  const CLI::App* last = &app;  // the subcommand of a subcommand that was chosen
  std::string path = "ghostfleet";
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = last->get_subcommands()) {
    last = chosen[0];
    path += " " + last->get_name();
  }
  const std::vector<std::string> below = subcommand_names(*last);
  if (typed.empty()) return wrong_usage(fmt::format("a subcommand is needed; there are: {}", fmt::join(below, ", ")));
  if (!below.empty() && !typed.starts_with('-'))
    return wrong_usage(fmt::format("\"{}\" is no subcommand{}; {}", typed, last == &app ? "" : " of " + path,
                                   near_hint(typed, below)));
  return wrong_usage(fmt::format("{} does not take {}; {}", path, typed, near_hint(typed, flag_names(*last))));
}

// A flag that was given as "": of a variable that is not set, most often. Empty: there is none.
std::string flag_without_value(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const auto& values = option->results();
    if (std::find(values.begin(), values.end(), "") != values.end()) return option->get_name();
  }
  for (const CLI::App* chosen : app.get_subcommands()) {
    if (const std::string flag = flag_without_value(*chosen); !flag.empty()) return flag;
  }
  return {};
}

int run(int argc, char** argv) {
  CLI::App app{"Emulated Kubernetes nodes by the hundred thousand: a fleet, an embedded control plane, one command."};
  app.name("ghostfleet");
  app.require_subcommand(0, 1);  // a missing one is told by run(), which knows what was typed instead
  app.fallthrough();
  app.set_version_flag("--version", "ghostfleet " GF_VERSION, "print the version");
  app.footer("Start with:  ghostfleet up --nodes 1000 --profile trn2.48xlarge");
  int verbosity = 0;
  app.add_flag("-v,--verbose", verbosity, "log more (-vv: everything)");
  Runner runner;
  add_up(app, &runner);
  add_fleet(app, &runner);
  add_down(app, &runner);
  add_agent(app, &runner);
  add_controlplane(app, &runner);
  add_image(app, &runner);
  add_device_plugin(app, &runner);
  add_status(app, &runner);
  add_profiles(app, &runner);
  add_version(app, &runner);
  add_completion(app, &runner);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    return tell_unknown(app);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return wrong_usage(e.what());
  }
  if (const std::string flag = flag_without_value(app); !flag.empty())
    return wrong_usage(fmt::format("{}: it is empty; a value is expected", flag));
  set_logging(verbosity);
  return runner ? runner() : tell_unknown(app);
}

}  // namespace
}  // namespace ghostfleet::cmd

int main(int argc, char** argv) {
  // Signals are taken by the main thread alone (cmd/process.h); a peer that goes away must not end the program.
  ghostfleet::cmd::block_signals();
  std::signal(SIGPIPE, SIG_IGN);
  return ghostfleet::cmd::run(argc, argv);
}
