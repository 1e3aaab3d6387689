// ghostfleet agent: one node in the foreground.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/files.h"
#include "cmd/commands.h"
#include "cmd/fleet_run.h"
#include "emulator/fleet/single_node.h"
#include "emulator/profile/profile.h"
#include "kube/api/names.h"
#include "kube/client/kubeconfig.h"

namespace ghostfleet::cmd {
namespace {

struct AgentFlags {
  kube::KubeconfigFlags kubeconfig;
  std::string node_name, profile, capacity, image_rules, for_time, summary, zone = "us-west-2a", region = "us-west-2",
                                                                            internal_ip = "10.0.1.1";
  std::vector<std::string> labels;
  int metrics_port = -1;
};

Result<agent::NodeTemplate> node_template(const AgentFlags& flags) {
  if (!flags.capacity.empty() && !flags.profile.empty())
    return invalid_argument("--profile and --capacity: give one of them");
  if (flags.profile.empty()) return emulator::node_template_from_capacity(flags.capacity);
  auto profiles = emulator::ProfileCatalogue::load(home_directory() + "/profiles");
  if (!profiles.ok()) return profiles.error();
  auto profile = profiles->find(flags.profile);
  if (!profile.ok()) return profile.error();
  return emulator::make_node_template(*profile, {});
}

Status add_labels(const std::vector<std::string>& labels, agent::NodeTemplate* node) {
  for (const std::string& label : labels) {
    const size_t eq = label.find('=');
    if (eq == std::string::npos || !kube::check_qualified_name(label.substr(0, eq)).empty())
      return invalid_argument(fmt::format("--node-labels {}: KEY=VALUE is expected", label));
    node->labels.emplace_back(label.substr(0, eq), label.substr(eq + 1));
  }
  return Status();
}

Result<emulator::SingleNodeOptions> options_of(const AgentFlags& flags) {
  emulator::SingleNodeOptions o;
  if (const auto bad = kube::check_dns1123_subdomain(flags.node_name); !bad.empty())
    return invalid_argument(fmt::format("--node-name \"{}\": {}", flags.node_name, bad.front()));
  o.identity.name = flags.node_name;
  o.identity.zone = flags.zone;
  o.identity.region = flags.region;
  o.identity.internal_ip = flags.internal_ip;
  auto node = node_template(flags);
  if (!node.ok()) return node.error();
  o.node = *node;
  GF_RETURN_IF_ERROR(add_labels(flags.labels, &o.node));
  if (!flags.image_rules.empty()) {
    auto text = read_file(expand_home(flags.image_rules), 1 << 20);
    if (!text.ok()) return text.error().with_context("--image-rules");
    auto rules = emulator::parse_image_rules(*text, flags.image_rules);
    if (!rules.ok()) return rules.error();
    o.pods.image_rules = *rules;
  }
  return o;
}

int run_agent(const AgentFlags& flags) {
  auto options = options_of(flags);
  if (!options.ok()) return fail(options.error(), kExitUsage);
  auto for_time = parse_for(flags.for_time);
  if (!for_time.ok()) return fail(for_time.error(), kExitUsage);
  auto config = kube::load_client_config(flags.kubeconfig, kube::Environment::process());
  if (!config.ok()) return fail(config.error());
  options->client = config->client;
  auto run_file = RunFile::create("agent", flags.node_name);
  if (!run_file.ok()) return fail(run_file.error());
  emulator::FleetCallbacks callbacks;
  callbacks.notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  auto node = emulator::SingleNode::start(*options, callbacks);
  if (!node.ok()) return fail(node.error());
  std::printf("node %s on %s (context %s)\n", flags.node_name.c_str(), config->client.server_url.c_str(),
              config->context.c_str());
  RunOptions run;
  run.for_time = *for_time;
  run.summary_file = flags.summary;
  run.metrics_port = flags.metrics_port;
  run.server = config->client.server_url;
  const int code = watch_run(
      run, *run_file, [&] { return (*node)->snapshot(); },
      [&] { return std::vector<const MetricsRegistry*>{&(*node)->metrics()}; });
  (*node)->stop();
  return code;
}

}  // namespace

void add_agent(CLI::App& app, Runner* run) {
  CLI::App* command =
      app.add_subcommand("agent", "run one emulated node in the foreground, with every request of a kubelet");
  auto flags = std::make_shared<AgentFlags>();
  command->add_option("--kubeconfig", flags->kubeconfig.kubeconfig,
                      "which cluster, and who the node is (default: KUBECONFIG, ~/.kube/config, or the pod's own)");
  command->add_option("--context", flags->kubeconfig.context, "context of the kubeconfig (default: current-context)");
  command->add_option("--node-name", flags->node_name, "name of the node")->required();
  command->add_option("--profile", flags->profile, "instance type, or a profile file");
  command->add_option("--capacity", flags->capacity,
                      "instead of a profile: cpu=16,memory=64Gi,pods=110,nvidia.com/gpu=8");
  command->add_option("--node-labels", flags->labels, "further labels: KEY=VALUE,...")->delimiter(',');
  command->add_option("--zone", flags->zone, "zone label (default us-west-2a)");
  command->add_option("--region", flags->region, "region label (default us-west-2)");
  command->add_option("--node-ip", flags->internal_ip, "InternalIP of the node (default 10.0.1.1)");
  command->add_option("--image-rules", flags->image_rules,
                      "YAML list of {match: GLOB, pull: 5s} or {match: GLOB, error: NotFound}");
  command->add_option("--for", flags->for_time, "end cleanly after this time (2m, 90s)");
  command->add_option("--summary", flags->summary, "write a JSON summary to this file at the end");
  command
      ->add_option("--metrics-port", flags->metrics_port,
                   "serve Prometheus metrics, /healthz and /readyz on 127.0.0.1:PORT (0: any port)")
      ->check(CLI::Range(0, 65535));
  command->callback([=] { *run = [=] { return run_agent(*flags); }; });
}

}  // namespace ghostfleet::cmd
