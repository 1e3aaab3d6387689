// What `up`, `fleet` and `agent` share: flags of a fleet, the health line, the summary, metrics, the end.
//
// Thread rule: main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "cmd/node_server_flags.h"
#include "cmd/process.h"
#include "emulator/fleet/fleet.h"
#include "emulator/profile/fleet_file.h"

namespace CLI {
class App;
}

namespace ghostfleet::cmd {

struct FleetFlags {
  std::string nodes, profile = "m5.large", file, name, connections, image_rules, for_time, summary, node_template,
                     behavior, behavior_rules, event_rate, seed, vpc;
  std::string register_rate, identity, fidelity, images;
  std::vector<std::string> zones;
  std::string region;
  int metrics_port = -1;
  int shards = 0;
  bool adopt = false, dra = false;
  bool serving_certificates = false, approve_serving = false;
  bool nodes_given = false, profile_given = false, name_given = false;
  NodeServerFlags node_server;
};

void add_fleet_flags(CLI::App& command, FleetFlags* flags, const std::string& default_name);
// The spec of the flags or of the file; flags that contradict a file are errors.
Result<emulator::FleetSpec> fleet_spec(const FleetFlags& flags);
// The rules of --behavior-rules FILE; null when `file` is empty.
Result<std::shared_ptr<const agent::BehaviorRules>> load_behavior_rules(const std::string& file);
// The network of --vpc FILE; null when `file` is empty.
Result<std::shared_ptr<const emulator::VpcSpec>> load_vpc(const std::string& file);
// The model of image pulls of --images FILE; "built-in": the usual settings and the images that come with the program.
Result<emulator::ImageModel> load_image_model(const std::string& file);
// Whether the file of --summary can be written in the end: a run of an hour is not to end without its summary.
Status check_summary_file(const std::string& file);
// "2m", or nothing when empty.
Result<Duration> parse_for(const std::string& text);

// What the flags of `up` and `fleet` come to: everything but the client. Per-node connections also need their
// descriptors.
struct FleetPlan {
  emulator::FleetOptions options;
  Duration for_time{0};
  uint64_t nodes = 0;
};
Result<FleetPlan> plan_fleet(const FleetFlags& flags);
// The part of the plan that depends on the cluster: its credentials, and where certificates of its nodes are kept.
void use_cluster(const kube::ClientConfig& client, emulator::FleetOptions* options);

// What ends a run and what it leaves.
struct RunOptions {
  Duration for_time{0};  // 0: until a signal
  std::string summary_file;
  int metrics_port = -1;  // -1: none
  std::string kind, name, server;
  kube::JsonObject extra;  // into the run file and the summary ("kubeconfig")
  // Of the pods' network, where there is one: Prometheus text, and what the daemon of a node shows.
  std::function<std::string()> network_metrics;
  std::function<std::optional<std::string>(std::string_view node, std::string_view path)> show_network;
};

// Metrics of the process and its parts at http://127.0.0.1:PORT/metrics, /healthz and /readyz, and what `show` has at
// /nodes/NAME/PATH.
class MetricsServer {
 public:
  struct Parts {
    std::function<std::string()> metrics;
    std::function<bool()> ready;
    std::function<std::optional<std::string>(std::string_view node, std::string_view path)> show;  // may be empty
  };
  static Result<std::unique_ptr<MetricsServer>> start(int port, Parts parts);
  virtual ~MetricsServer() = default;
  virtual uint16_t port() const = 0;
};

// Shows health until --for is over or a signal comes, then writes the summary. `stats` and `metrics` are asked from
// this thread (metrics also from the metrics server's). Answers the exit code.
int watch_run(const RunOptions& options, RunFile& run_file, const std::function<emulator::FleetStats()>& stats,
              const std::function<std::vector<const MetricsRegistry*>()>& metrics);

// Starts the fleet, watches it to the end and stops it (the nodes stay). `also` are further metrics of the process.
int run_fleet_to_end(const FleetPlan& plan, const FleetFlags& flags, RunOptions options, RunFile& run_file,
                     const std::function<std::vector<const MetricsRegistry*>()>& also);

// The summary file's JSON (names that scripts rely on: docs/summary.md).
kube::JsonObject summary_of(const emulator::FleetStats& stats);

}  // namespace ghostfleet::cmd
