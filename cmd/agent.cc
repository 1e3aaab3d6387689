// ghostfleet agent: one node in the foreground.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/files.h"
#include "cmd/commands.h"
#include "cmd/eviction_flags.h"
#include "cmd/fleet_run.h"
#include "cmd/image_store_flags.h"
#include "cmd/node_bootstrap.h"
#include "cmd/static_pods.h"
#include "emulator/fleet/single_node.h"
#include "emulator/profile/device_section.h"
#include "emulator/profile/dra_devices.h"
#include "emulator/profile/fleet_network.h"
#include "emulator/profile/image_file.h"
#include "emulator/profile/profile.h"
#include "kube/api/names.h"
#include "kube/client/kubeconfig.h"

namespace ghostfleet::cmd {
namespace {

struct AgentFlags {
  kube::KubeconfigFlags kubeconfig;
  BootstrapFlags bootstrap;
  std::string plugin_delay, boot_id;
  std::string node_name, profile, capacity, image_rules, images, behavior, behavior_rules, for_time, summary, zone,
      region, internal_ip;
  std::vector<std::string> labels;
  int metrics_port = -1;
  bool adopt = false;
  uint64_t seed = 1;
  NodeServerFlags node_server;
  std::string manifests, second_pod_cidr, primary_family, vpc;
  std::string devices, kubelet_root, plugin_directory, pod_resources, topology_policy, topology_scope;
  bool device_plugins = false, dra = false;
  EvictionFlags eviction;
  ImageStoreFlags image_store;
};

Result<agent::NodeTemplate> node_template(const AgentFlags& flags, emulator::PullMachine* machine) {
  if (!flags.capacity.empty() && !flags.profile.empty())
    return invalid_argument("--profile and --capacity: give one of them");
  if (flags.profile.empty()) {
    auto plain = emulator::node_template_from_capacity(flags.capacity);
    if (plain.ok()) *machine = emulator::pull_machine(*plain, 0);
    return plain;
  }
  auto profiles = emulator::ProfileCatalogue::load(home_directory() + "/profiles");
  if (!profiles.ok()) return profiles.error();
  auto profile = profiles->find(flags.profile);
  if (!profile.ok()) return profile.error();
  agent::NodeTemplate node = emulator::make_node_template(*profile, {});
  *machine = emulator::pull_machine(node, profile->bandwidth_mbps);
  return node;
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

Status add_network(const AgentFlags& flags, emulator::SingleNodeOptions* o) {
  auto vpc = load_vpc(flags.vpc);
  if (!vpc.ok()) return vpc.error();
  if (*vpc == nullptr) return Status();
  if (flags.profile.empty())
    return invalid_argument("--vpc: --profile is needed with it: an instance type says how many interfaces a node has");
  auto profiles = emulator::ProfileCatalogue::load(home_directory() + "/profiles");
  if (!profiles.ok()) return profiles.error();
  auto profile = profiles->find(flags.profile);
  if (!profile.ok()) return profile.error();
  auto network = emulator::make_network_options(
      **vpc, {{"node " + flags.node_name, true, *profile, o->node, {o->identity.zone}, false}});
  if (!network.ok()) return network.error();
  o->network = std::move(*network);
  return Status();
}

Status add_dra(const AgentFlags& flags, emulator::SingleNodeOptions* o) {
  if (!flags.dra) return Status();
  if (flags.profile.empty())
    return invalid_argument("--dra: --profile is needed with it: an instance type says which accelerators a node has");
  auto profiles = emulator::ProfileCatalogue::load(home_directory() + "/profiles");
  if (!profiles.ok()) return profiles.error();
  auto profile = profiles->find(flags.profile);
  if (!profile.ok()) return profile.error();
  auto devices = emulator::make_dra_devices(*profile, o->node);
  if (!devices.ok()) return devices.error().with_context("--dra");
  o->dra = std::move(*devices);
  emulator::remove_plugin_resources(*o->dra, &o->node);
  return Status();
}

Status add_devices(const AgentFlags& flags, emulator::SingleNodeOptions* o) {
  if (flags.devices.empty()) return Status();
  auto text = read_named_file(flags.devices, 1 << 20, "--devices");
  if (!text.ok()) return text.error();
  auto section = emulator::parse_device_section(*text, flags.devices);
  if (!section.ok()) return section.error();
  if (section->dra) return invalid_argument("--devices: dra: the flag --dra says it here");
  emulator::ProfileAccelerator accelerator;
  if (!flags.profile.empty()) {
    auto profiles = emulator::ProfileCatalogue::load(home_directory() + "/profiles");
    if (!profiles.ok()) return profiles.error();
    auto profile = profiles->find(flags.profile);
    if (!profile.ok()) return profile.error();
    accelerator = profile->accelerator;
  }
  emulator::FleetGroup group;
  group.node = std::move(o->node);
  const Status applied = apply_devices(*section, accelerator, &group);
  o->node = std::move(group.node);
  if (!applied.ok()) return applied.with_context("--devices " + flags.devices);
  o->devices = std::move(group.devices);
  if (o->devices != nullptr) {
    const Status absent = agent::check_absent(section->config.absent, {o->devices.get()});
    if (!absent.ok()) return absent.with_context("--devices " + flags.devices);
  }
  o->pods.device_plugins = true;
  if (section->plugin_delay) o->device_plugin_delay = *section->plugin_delay;
  return Status();
}

// How images come to the node: one of three ways.
Status add_images(const AgentFlags& flags, emulator::SingleNodeOptions* o) {
  const std::string& store = flags.image_store.store;
  if (!store.empty() && !flags.images.empty()) return invalid_argument("--image-store and --images: give one of them");
  if (!store.empty() && !flags.image_rules.empty())
    return invalid_argument("--image-store and --image-rules: give one of them");
  if (!flags.image_rules.empty()) {
    auto text = read_named_file(flags.image_rules, 1 << 20, "--image-rules");
    if (!text.ok()) return text.error();
    auto rules = emulator::parse_image_rules(*text, flags.image_rules);
    if (!rules.ok()) return rules.error();
    o->pods.image_rules = *rules;
  }
  if (!flags.images.empty()) {
    auto model = load_image_model(flags.images);
    if (!model.ok()) return model.error();
    o->images = emulator::with_built_in_images(*model);
  }
  auto real = image_store_options(flags.image_store);
  if (!real.ok()) return real.error();
  o->image_store = std::move(*real);
  return Status();
}

Result<emulator::SingleNodeOptions> options_of(const AgentFlags& flags) {
  emulator::SingleNodeOptions o;
  if (const auto bad = kube::check_dns1123_subdomain(flags.node_name); !bad.empty())
    return invalid_argument(fmt::format("--node-name \"{}\": {}", flags.node_name, bad.front()));
  o.identity.name = flags.node_name;
  o.identity.zone = flags.zone.empty() ? "us-west-2a" : flags.zone;
  o.identity.region = flags.region.empty() ? "us-west-2" : flags.region;
  in_addr address{};
  if (!flags.internal_ip.empty() && inet_pton(AF_INET, flags.internal_ip.c_str(), &address) != 1) {
    return invalid_argument(
        fmt::format("--node-ip \"{}\": an IPv4 address like 10.0.1.1 is expected", flags.internal_ip));
  }
  o.identity.internal_ip = flags.internal_ip;
  auto node = node_template(flags, &o.machine);
  if (!node.ok()) return node.error();
  o.node = *node;
  // A plain node has no place, unless somebody gives it one.
  if (flags.profile.empty() && !flags.zone.empty()) o.node.labels.emplace_back("topology.kubernetes.io/zone", "{zone}");
  if (flags.profile.empty() && !flags.region.empty())
    o.node.labels.emplace_back("topology.kubernetes.io/region", "{region}");
  GF_RETURN_IF_ERROR(add_labels(flags.labels, &o.node));
  auto node_server = node_server_options(flags.node_server, 1);
  if (!node_server.ok()) return node_server.error();
  o.node_server = *node_server;
  GF_RETURN_IF_ERROR(add_images(flags, &o));
  o.pods.commands = flags.behavior == "command";
  o.pods.device_plugins = flags.device_plugins || !flags.profile.empty();
  o.second_pod_cidr = flags.second_pod_cidr;
  o.second_is_primary = flags.primary_family == "ipv6";
  if (o.second_is_primary && o.second_pod_cidr.empty())
    return invalid_argument("--primary-family ipv6: --second-pod-cidr with an IPv6 network is needed for it");
  GF_RETURN_IF_ERROR(add_network(flags, &o));
  GF_RETURN_IF_ERROR(add_dra(flags, &o));
  GF_RETURN_IF_ERROR(add_devices(flags, &o));
  auto eviction = eviction_rules(flags.eviction);
  if (!eviction.ok()) return eviction.error();
  o.pods.eviction = *eviction;
  auto behaviors = load_behavior_rules(flags.behavior_rules);
  if (!behaviors.ok()) return behaviors.error();
  o.pods.behaviors = std::move(*behaviors);
  return o;
}

Status set_plugin_delay(const std::string& text, emulator::SingleNodeOptions* options) {
  const bool modelled = options->pods.device_plugins && !options->device_sockets;
  if (text.empty() && options->device_plugin_delay < Duration(0) && modelled)
    std::printf(
        "extended resources of an existing Node are kept (as a kubelet without its checkpoint: --plugin-delay)\n");
  if (text.empty()) return Status();
  Duration delay{0};
  if (!parse_duration(text, &delay) || delay.count() < 0)
    return invalid_argument(fmt::format("--plugin-delay {}: a duration like 20s is expected", text));
  options->device_plugin_delay = delay;
  std::printf("extended resources of an existing Node become 0 at registration; those of the profile return after %s\n",
              format_duration(delay).c_str());
  return Status();
}

// `root`, `directory` and `socket`: the paths of the flags, without ~.
Status check_socket_flags(const AgentFlags& flags, const std::string& root, const std::string& directory,
                          const std::string& socket) {
  const bool topology = !flags.topology_policy.empty() || !flags.topology_scope.empty();
  if (!root.empty() && !flags.plugin_directory.empty()) {
    return invalid_argument(
        "--kubelet-root and --device-plugin-dir: give one of them: device plugins register in device-plugins of the "
        "first");
  }
  if (!root.empty() && root[0] != '/')
    return invalid_argument(fmt::format("--kubelet-root {}: an absolute path is expected", root));
  if (directory.empty() && topology)
    return invalid_argument(
        "--topology-manager-policy, --topology-manager-scope: --device-plugin-dir or --kubelet-root is needed with "
        "them; for modelled plugins topologyPolicy and topologyScope of the file of --devices say it");
  if (directory.empty() && socket.empty()) return Status();
  if (directory.empty())
    return invalid_argument("--pod-resources-socket: --device-plugin-dir or --kubelet-root is needed with it");
  const char* given = root.empty() ? "--device-plugin-dir" : "--kubelet-root";
  if (!flags.plugin_delay.empty())
    return invalid_argument(fmt::format("--plugin-delay and {}: give one of them", given));
  if (!flags.devices.empty()) return invalid_argument(fmt::format("--devices and {}: give one of them", given));
  if (directory[0] != '/')
    return invalid_argument(fmt::format("--device-plugin-dir {}: an absolute path is expected", directory));
  if (!socket.empty() && socket[0] != '/')
    return invalid_argument(fmt::format("--pod-resources-socket {}: an absolute path is expected", socket));
  return Status();
}

// A node whose device plugins are processes. Without a checkpoint of an earlier agent its Node shows no devices until
// they have registered, as by a kubelet.
Status set_device_sockets(const AgentFlags& flags, emulator::SingleNodeOptions* options) {
  const std::string root = expand_home(flags.kubelet_root), socket = expand_home(flags.pod_resources);
  const std::string directory = root.empty() ? expand_home(flags.plugin_directory) : root + "/device-plugins";
  GF_RETURN_IF_ERROR(check_socket_flags(flags, root, directory, socket));
  if (directory.empty()) return Status();
  const std::string taken = options->dra ? std::string(agent::plugin_resource(options->dra->kind)) : std::string();
  options->device_sockets = agent::NodeSocketOptions{directory, socket, taken, root};
  agent::DeviceSetup setup;  // without models: plugins register
  setup.topology = agent::topology_policy(flags.topology_policy);
  setup.scope = agent::topology_scope(flags.topology_scope);
  options->devices = std::make_shared<const agent::DeviceSetup>(std::move(setup));
  options->pods.device_plugins = true;
  const std::string checkpoint = join_path(directory, std::string(agent::NodeSockets::kCheckpoint));
  if (!file_exists(checkpoint)) options->device_plugin_delay = Duration(0);
  return Status();
}

int run_agent(const AgentFlags& flags) {
  auto options = options_of(flags);
  if (!options.ok()) return fail(options.error(), kExitUsage);
  auto for_time = parse_for(flags.for_time);
  if (!for_time.ok()) return fail(for_time.error(), kExitUsage);
  if (Status bad = set_device_sockets(flags, &*options); !bad.ok()) return fail(bad, kExitUsage);
  if (const Status bad = check_summary_file(flags.summary); !bad.ok()) return fail(bad, kExitUsage);
  if (Status bad = set_plugin_delay(flags.plugin_delay, &*options); !bad.ok()) return fail(bad, kExitUsage);
  options->identity.boot_id = flags.boot_id;
  options->adopt = flags.adopt;
  options->seed = flags.seed;
  auto config = node_config(flags.kubeconfig, flags.bootstrap, kube::Environment::process(), &options->credentials);
  if (!config.ok()) return fail_config(config.error());
  options->client = config->client;
  if (options->network)
    options->network_claims =
        emulator::network_claims_file(home_directory(), options->network->vpc.name, config->client);
  const auto complain = [](const std::string& text) { std::fprintf(stderr, "error: %s\n", text.c_str()); };
  const auto notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  std::optional<ManifestFolder> manifests;
  if (!flags.manifests.empty()) {
    auto folder = ManifestFolder::open(expand_home(flags.manifests), flags.node_name, complain);
    if (!folder.ok()) return fail(folder.error(), kExitUsage);
    manifests = std::move(*folder);
  }
  auto run_file = RunFile::create("agent", flags.node_name);
  if (!run_file.ok()) return fail(run_file.error());
  emulator::FleetCallbacks callbacks;
  callbacks.notice = notice;
  auto node = emulator::SingleNode::start(*options, callbacks);
  if (!node.ok()) return fail(node.error());
  std::printf("node %s on %s (context %s)\n", flags.node_name.c_str(), config->client.server_url.c_str(),
              config->context.c_str());
  if (const std::string server = (*node)->node_server(); !server.empty())
    std::printf("node server: %s\n", server.c_str());
  if (options->image_store) std::printf("images are pulled into %s\n", options->image_store->folder.c_str());
  if (options->device_sockets)
    std::printf("device plugins register in %s\n", options->device_sockets->plugin_directory.c_str());
  if (options->device_sockets && !options->device_sockets->kubelet_root.empty())
    std::printf("plugins register in %s/plugins_registry\n", options->device_sockets->kubelet_root.c_str());
  RunOptions run;
  run.for_time = *for_time;
  run.summary_file = flags.summary;
  run.metrics_port = flags.metrics_port;
  run.server = config->client.server_url;
  const auto look = [&] {
    if (!manifests) return (*node)->snapshot();
    if (auto changed = manifests->changes()) (*node)->set_static_pods(std::move(*changed));
    return (*node)->snapshot();
  };
  run.network_metrics = [&] { return (*node)->network_metrics(); };
  run.show_network = [&](std::string_view name, std::string_view path) { return (*node)->show_network(name, path); };
  const int code = watch_run(run, *run_file, look, [&] { return (*node)->metrics(); });
  (*node)->stop();
  if (code == kExitOk) std::printf("the node stays; 'kubectl delete node %s' removes it\n", flags.node_name.c_str());
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
  add_bootstrap_flags(*command, &flags->bootstrap);
  command->add_option(
      "--boot-id", flags->boot_id,
      "boot id of the node; another one than its Node shows makes an event Rebooted (default: from its name)");
  command->add_option(
      "--plugin-delay", flags->plugin_delay,
      "as a kubelet without its device checkpoint: extended resources of a Node that exists become 0, the "
      "profile's return after this time (default: values that are there are kept)");
  command->add_option("--node-name", flags->node_name, "name of the node")->required();
  command->add_option("--profile", flags->profile, "instance type, or a profile file");
  command->add_option("--capacity", flags->capacity,
                      "instead of a profile: cpu=16,memory=64Gi,pods=110,nvidia.com/gpu=8");
  command->add_option("--node-labels", flags->labels, "further labels: KEY=VALUE,...")->delimiter(',');
  command->add_option("--zone", flags->zone, "zone label (default with a profile us-west-2a)");
  command->add_option("--region", flags->region, "region label (default with a profile us-west-2)");
  command->add_option("--node-ip", flags->internal_ip,
                      "InternalIP of the node (default: one that leads to its server)");
  add_node_server_flags(*command, &flags->node_server);
  add_eviction_flags(*command, &flags->eviction);
  command
      ->add_option("--behavior", flags->behavior,
                   "what a container does follows from its pod's annotation alone (annotation, default) or also from "
                   "its command line, where that is understood (command)")
      ->check(CLI::IsMember({"annotation", "command"}));
  command->add_option("--behavior-rules", flags->behavior_rules,
                      "YAML file of behaviorRules and histograms: what the containers of many pods do "
                      "(docs/fleet-file.md)");
  command->add_option("--vpc", flags->vpc,
                      "VPC file: pods get their addresses from this cloud network, as the VPC CNI gives them "
                      "(docs/network.md); needs --profile");
  command->add_option("--second-pod-cidr", flags->second_pod_cidr,
                      "IPv6 network like fd00:10:64::/48: the node and its pods get a second address from it");
  command->add_option("--primary-family", flags->primary_family, "which address comes first (default ipv4)")
      ->check(CLI::IsMember({"ipv4", "ipv6"}));
  command->add_flag("--device-plugins", flags->device_plugins,
                    "extended resources come from device plugins: containers hold devices with ids and health (with a "
                    "profile: always)");
  command->add_option("--devices", flags->devices,
                      "YAML file that says how the device plugins are set up: MIG, time-slicing, absent ones, ... "
                      "(docs/devices.md); device plugins are on with it");
  command->add_flag("--dra", flags->dra,
                    "the profile's accelerators come from a DRA driver (ResourceSlices, docs/dra.md) instead of a "
                    "device plugin");
  command->add_option(
      "--device-plugin-dir", flags->plugin_directory,
      "folder where device plugins register, as with a kubelet: extended resources come from them alone "
      "(docs/device-plugins.md)");
  command->add_option(
      "--kubelet-root", flags->kubelet_root,
      "folder that is to the node what /var/lib/kubelet is to a kubelet: device plugins register in its "
      "device-plugins, DRA drivers and plugins of all sorts in its plugins_registry (docs/dra.md)");
  command
      ->add_option("--topology-manager-policy", flags->topology_policy,
                   "with --device-plugin-dir or --kubelet-root: how devices are spread over NUMA nodes, as a kubelet's "
                   "(default none)")
      ->check(CLI::IsMember(agent::topology_policy_names()));
  command
      ->add_option("--topology-manager-scope", flags->topology_scope,
                   "whether containers or whole pods are looked at (default container)")
      ->check(CLI::IsMember(agent::topology_scope_names()));
  command->add_option("--pod-resources-socket", flags->pod_resources,
                      "where PodResources are told (default: ../pod-resources/kubelet.sock of that folder)");
  command->add_option("--pod-manifest-path", flags->manifests,
                      "folder of static pods' manifests, looked at each second: the node runs them, and shows each in "
                      "the API as a mirror pod");
  command->add_option("--image-rules", flags->image_rules,
                      "YAML list of {match: GLOB, pull: 5s} or {match: GLOB, error: NotFound}");
  command->add_option("--images", flags->images,
                      "pull images by the model (docs/images.md): a file of images and settings (kind: Images), or "
                      "built-in (default: images are there at once)");
  add_image_store_flags(*command, &flags->image_store);
  command->add_option("--seed", flags->seed, "of everything that is left to chance (default 1)");
  command->add_flag("--adopt", flags->adopt, "take over a node of a fleet that runs");
  command->add_option("--for", flags->for_time, "end cleanly after this time (2m, 90s)");
  command->add_option("--summary", flags->summary, "write a JSON summary to this file at the end");
  command
      ->add_option("--metrics-port", flags->metrics_port,
                   "serve Prometheus metrics, /healthz and /readyz on 127.0.0.1:PORT (0: any port)")
      ->check(CLI::Range(0, 65535));
  command->callback([=] { *run = [=] { return run_agent(*flags); }; });
}

}  // namespace ghostfleet::cmd
