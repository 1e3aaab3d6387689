// ghostfleet up: control plane and fleet together. ghostfleet controlplane: the control plane alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/files.h"
#include "cmd/commands.h"
#include "cmd/fleet_run.h"
#include "cmd/plane.h"
#include "emulator/fleet/network_options.h"
#include "kube/client/kubeconfig.h"

namespace ghostfleet::cmd {
namespace {

struct PlaneFlags {
  std::string kubeconfig, controllers = "all", scheduler = "on", managed_fields = "on", allow_privileged = "on",
                          data_dir, address = "127.0.0.1", kubelet_certificate_authority,
                          node_monitor_grace_period = "50s";
  int port = 6443;
  bool port_given = false;
};

void add_plane_flags(CLI::App& command, PlaneFlags* flags) {
  command.add_option("--kubeconfig", flags->kubeconfig,
                     "where to write the kubeconfig (default ~/.ghostfleet/NAME/kubeconfig)");
  command.add_option("--port", flags->port, "port of the API server (default 6443, or a free one when that is taken)")
      ->check(CLI::Range(0, 65535))
      ->each([flags](const std::string&) { flags->port_given = true; });
  command.add_option("--controllers", flags->controllers,
                     "all, none, or names as kube-controller-manager has them, comma separated (-name leaves one out)");
  command.add_option("--node-monitor-grace-period", flags->node_monitor_grace_period,
                     "how long a node may be silent before it becomes Unknown (default 50s)");
  command.add_option("--scheduler", flags->scheduler, "on (default) or off")->check(CLI::IsMember({"on", "off"}));
  command
      .add_option("--managed-fields", flags->managed_fields,
                  "on (default): ownership of every field is kept; off: only after an apply, which saves memory")
      ->check(CLI::IsMember({"on", "off"}));
  command
      .add_option("--allow-privileged", flags->allow_privileged,
                  "on (default): pods may have privileged containers; off: as a bare kube-apiserver")
      ->check(CLI::IsMember({"on", "off"}));
  command.add_option("--kubelet-certificate-authority", flags->kubelet_certificate_authority,
                     "file with the authority that signed the nodes' serving certificates (default: they are not "
                     "verified, as by kube-apiserver)");
}

Result<PlaneOptions> plane_options(const PlaneFlags& flags, const std::string& name) {
  PlaneOptions o;
  const std::string& grace = flags.node_monitor_grace_period;
  if (!parse_duration(grace, &o.node_monitor_grace_period) || o.node_monitor_grace_period < std::chrono::seconds(1))
    return invalid_argument(
        fmt::format("--node-monitor-grace-period {}: a duration of a second or more is expected, e.g. 50s", grace));
  o.name = name;
  o.address = flags.address;
  o.port = flags.port;
  o.port_given = flags.port_given;
  o.directory = flags.data_dir.empty() ? home_directory() + "/" + name : expand_home(flags.data_dir);
  o.kubeconfig = flags.kubeconfig.empty() ? o.directory + "/kubeconfig" : expand_home(flags.kubeconfig);
  o.controllers = flags.controllers;
  o.scheduler = flags.scheduler == "on";
  o.managed_fields = flags.managed_fields == "on";
  o.allow_privileged = flags.allow_privileged == "on";
  o.kubelet_certificate_authority = expand_home(flags.kubelet_certificate_authority);
  return o;
}

void print_plane(const Plane& plane) {
  std::printf("control plane: %s\nkubeconfig:    %s\ntry:           kubectl --kubeconfig %s get nodes\n",
              plane.url().c_str(), plane.kubeconfig().c_str(), plane.kubeconfig().c_str());
  std::fflush(stdout);
}

int run_up(const FleetFlags& flags, const PlaneFlags& plane_flags) {
  auto plan = plan_fleet(flags);
  if (!plan.ok()) return fail(plan.error());
  if (const Status bad = check_folder_name(plan->options.name); !bad.ok()) return fail(bad, kExitUsage);
  auto run_file = RunFile::create("up", plan->options.name);
  if (!run_file.ok()) return fail(run_file.error());
  auto plane_opts = plane_options(plane_flags, plan->options.name);
  if (!plane_opts.ok()) return fail(plane_opts.error(), kExitUsage);
  plane_opts->max_in_flight = 20000;  // the fleet of this very process paces itself
  plane_opts->max_mutating_in_flight = 20000;
  auto plane = Plane::start(*plane_opts);
  if (!plane.ok()) return fail(plane.error());
  print_plane(**plane);
  auto config = kube::load_client_config({(*plane)->kubeconfig(), ""}, kube::Environment::process());
  if (!config.ok()) return fail(config.error());
  use_cluster(config->client, &plan->options);
  RunOptions run;
  run.server = (*plane)->url();
  run.extra["kubeconfig"] = (*plane)->kubeconfig();
  const int code = run_fleet_to_end(*plan, flags, run, *run_file, [&] { return (*plane)->metrics(); });
  (*plane)->stop();
  if (plan->options.network_claims.empty()) return code;
  // The pods are gone with the plane that kept them, and so is who could remove the fleet later.
  const Status claims = emulator::remove_network_claims(home_directory(), config->client, plan->options.name);
  return claims.ok() ? code : fail(claims);
}

int run_controlplane(const PlaneFlags& flags, const std::string& for_text) {
  auto for_time = parse_for(for_text);
  if (!for_time.ok()) return fail(for_time.error(), kExitUsage);
  const auto options = plane_options(flags, "controlplane");
  if (!options.ok()) return fail(options.error(), kExitUsage);
  auto run_file = RunFile::create("controlplane", "controlplane");
  if (!run_file.ok() && flags.data_dir.empty()) return fail(run_file.error());
  auto plane = Plane::start(*options);
  if (!plane.ok()) return fail(plane.error());
  print_plane(**plane);
  if (run_file.ok())
    run_file->update({{"server", (*plane)->url()},
                      {"kubeconfig", (*plane)->kubeconfig()},
                      {"started", format_time(SystemClock::instance().wall_now())}});
  wait_for_signal(for_time->count() > 0 ? *for_time : Duration(std::chrono::hours(24 * 365)));
  (*plane)->stop();
  return kExitOk;
}

}  // namespace

void add_up(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("up", "start a control plane and a fleet of nodes on this machine");
  auto flags = std::make_shared<FleetFlags>();
  auto plane = std::make_shared<PlaneFlags>();
  add_fleet_flags(*command, flags.get(), "ghost");
  add_plane_flags(*command, plane.get());
  command->footer("Ctrl-C ends it. Example: ghostfleet up --nodes 10k --profile trn2.48xlarge");
  command->callback([=] { *run = [=] { return run_up(*flags, *plane); }; });
}

void add_controlplane(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("controlplane", "start the embedded control plane alone");
  auto plane = std::make_shared<PlaneFlags>();
  auto for_time = std::make_shared<std::string>();
  add_plane_flags(*command, plane.get());
  command->add_option("--data-dir", plane->data_dir,
                      "folder of its keys and kubeconfig (default ~/.ghostfleet/controlplane)");
  command->add_option("--bind-address", plane->address, "address to listen on (default 127.0.0.1)");
  command->add_option("--for", *for_time, "end cleanly after this time (2m, 90s)");
  command->callback([=] { *run = [=] { return run_controlplane(*plane, *for_time); }; });
}

}  // namespace ghostfleet::cmd
