// ghostfleet fleet: a fleet against any cluster. ghostfleet down: removes what a fleet created.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cmd/commands.h"
#include "cmd/fleet_run.h"
#include "cmd/process.h"
#include "emulator/fleet/remove.h"
#include "kube/client/kubeconfig.h"

namespace ghostfleet::cmd {
namespace {

struct ClusterFlags {
  kube::KubeconfigFlags kubeconfig;
};

void add_cluster_flags(CLI::App& command, ClusterFlags* flags) {
  command.add_option("--kubeconfig", flags->kubeconfig.kubeconfig,
                     "which cluster (default: KUBECONFIG, ~/.kube/config, or the pod's own)");
  command.add_option("--context", flags->kubeconfig.context, "context of the kubeconfig (default: current-context)");
}

int run_fleet(const FleetFlags& flags, const ClusterFlags& cluster) {
  auto plan = plan_fleet(flags);
  if (!plan.ok()) return fail(plan.error());
  auto config = kube::load_client_config(cluster.kubeconfig, kube::Environment::process());
  if (!config.ok()) return fail_config(config.error());
  use_cluster(config->client, &plan->options);
  const std::string& name = plan->options.name;
  auto run_file = RunFile::create("fleet", name);
  if (!run_file.ok()) return fail(run_file.error());
  std::printf(
      "fleet %s: %llu nodes on %s (context %s). It creates nodes labelled ghostfleet.dev/fleet=%s with their leases "
      "and CSINodes, and touches nothing else.\n",
      name.c_str(), static_cast<unsigned long long>(plan->nodes), config->client.server_url.c_str(),
      config->context.c_str(), name.c_str());
  RunOptions run;
  run.server = config->client.server_url;
  const int code = run_fleet_to_end(*plan, flags, run, *run_file, [] { return std::vector<const MetricsRegistry*>(); });
  if (code != kExitOk) return code;
  std::printf("the nodes stay; 'ghostfleet down --fleet %s%s%s' removes them\n", name.c_str(),
              cluster.kubeconfig.kubeconfig.empty() ? "" : " --kubeconfig ", cluster.kubeconfig.kubeconfig.c_str());
  return code;
}

Status no_such_fleet(const std::string& name, const std::string& server, const std::vector<std::string>& others) {
  return not_found(fmt::format("no node of a fleet named {} is on {}: nothing was removed ({})", name, server,
                               others.empty() ? std::string("no other fleet is there")
                                              : fmt::format("fleets there: {}", fmt::join(others, ", "))));
}

int run_down(const std::string& name, bool dry_run, bool keep_pods, bool force, const ClusterFlags& cluster) {
  if (const int64_t pid = running_fleet(name); pid != 0 && !dry_run && !force) {
    return fail(
        Status(Code::kAlreadyExists,
               fmt::format("fleet {} runs (process {}): stop it first, or remove its nodes under it with --force", name,
                           pid)));
  }
  auto config = kube::load_client_config(cluster.kubeconfig, kube::Environment::process());
  if (!config.ok()) return fail_config(config.error());
  emulator::DownOptions options;
  options.dry_run = dry_run;
  options.delete_pods = !keep_pods;
  const bool terminal = stderr_is_terminal();
  auto report = emulator::remove_fleet(config->client, name, options, [&](uint64_t done, uint64_t total) {
    if (terminal)
      std::fprintf(stderr, "\r\033[Kremoving %llu/%llu", static_cast<unsigned long long>(done),
                   static_cast<unsigned long long>(total));
  });
  if (terminal) std::fprintf(stderr, "\r\033[K");
  if (!report.ok()) return fail(report.error());
  if (report->nodes + report->kept_adopted == 0 && report->failed == 0)
    return fail(no_such_fleet(name, config->client.server_url, report->other_fleets));
  std::printf(
      "%s\n",
      fmt::format("fleet {}: {} {} nodes, {} leases, {} CSINodes, {} ResourceSlices, {} certificate signing requests, "
                  "{} pods",
                  name, dry_run ? "would remove" : "removed", report->nodes, report->leases, report->csi_nodes,
                  report->resource_slices, report->signing_requests, report->pods)
          .c_str());
  if (report->kept_adopted > 0)
    std::printf("%llu adopted nodes were kept\n", static_cast<unsigned long long>(report->kept_adopted));
  for (const std::string& failure : report->failures) std::fprintf(stderr, "error: %s\n", failure.c_str());
  if (report->failed == 0) {
    const Status claims = dry_run ? Status() : emulator::remove_network_claims(home_directory(), config->client, name);
    return claims.ok() ? kExitOk : fail(claims);
  }
  std::fprintf(stderr, "error: %llu objects could not be removed; run the same command again\n",
               static_cast<unsigned long long>(report->failed));
  return kExitFailed;
}

}  // namespace

void add_fleet(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("fleet", "run a fleet of emulated nodes against an existing cluster");
  auto flags = std::make_shared<FleetFlags>();
  auto cluster = std::make_shared<ClusterFlags>();
  add_fleet_flags(*command, flags.get(), "ghost");
  add_cluster_flags(*command, cluster.get());
  command->footer(
      "Nodes stay in the cluster when the program ends; `ghostfleet down` removes exactly what it created.");
  command->callback([=] { *run = [=] { return run_fleet(*flags, *cluster); }; });
}

void add_down(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("down", "remove exactly what a fleet created, also after a crash");
  auto name = std::make_shared<std::string>("ghost");
  auto cluster = std::make_shared<ClusterFlags>();
  auto dry_run = std::make_shared<bool>(false);
  auto keep_pods = std::make_shared<bool>(false);
  auto force = std::make_shared<bool>(false);
  command->add_option("--fleet,--name", *name, "name of the fleet (default ghost)");
  add_cluster_flags(*command, cluster.get());
  command->add_flag("--dry-run", *dry_run, "only say how much would be removed");
  command->add_flag("--keep-pods", *keep_pods, "leave pods bound to the removed nodes to the pod garbage collector");
  command->add_flag("--force", *force, "also while the fleet runs on this machine");
  command->callback([=] { *run = [=] { return run_down(*name, *dry_run, *keep_pods, *force, *cluster); }; });
}

}  // namespace ghostfleet::cmd
