// The subcommands. Each adds itself to the command line with its flags and the function that runs it.
//
// Exit codes: 0 done; 1 it failed (the message says why); 2 the command line or a file was wrong; 3 the cluster could
// not be reached or refused us.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace ghostfleet::cmd {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCluster = 3;

// What main() runs after parsing; set by the chosen subcommand.
using Runner = std::function<int()>;

void add_up(CLI::App& app, Runner* run);
void add_fleet(CLI::App& app, Runner* run);
void add_down(CLI::App& app, Runner* run);
void add_agent(CLI::App& app, Runner* run);
void add_controlplane(CLI::App& app, Runner* run);
void add_image(CLI::App& app, Runner* run);
void add_device_plugin(CLI::App& app, Runner* run);
void add_status(CLI::App& app, Runner* run);
void add_profiles(CLI::App& app, Runner* run);
void add_version(CLI::App& app, Runner* run);
void add_completion(CLI::App& app, Runner* run);

}  // namespace ghostfleet::cmd
