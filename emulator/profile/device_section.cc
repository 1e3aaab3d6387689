#include "emulator/profile/device_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/api/names.h"

namespace ghostfleet::emulator {
namespace {

void read_mig(ObjectReader reader, agent::DeviceConfig* config) {
  const std::string strategy = reader.one_of("strategy", {"none", "single", "mixed"}, "none");
  config->mig = strategy == "single"  ? agent::MigStrategy::kSingle
                : strategy == "mixed" ? agent::MigStrategy::kMixed
                                      : agent::MigStrategy::kNone;
  config->mig_layout.clear();
  for (const auto& [profile, count] : reader.quantity_map("layout")) {
    const auto number = parse_count(count);
    if (!number || *number < 1 || *number > 7)
      reader.complain("layout." + profile, count, "how many on each GPU, from 1 to 7, is expected");
    config->mig_layout.emplace_back(profile, static_cast<uint32_t>(number.value_or(1)));
  }
  if (config->mig == agent::MigStrategy::kNone && !config->mig_layout.empty())
    reader.complain("strategy", strategy, "single or mixed is expected with a layout");
  if (config->mig != agent::MigStrategy::kNone && config->mig_layout.empty())
    reader.complain("layout", "", "profiles and how many of each a GPU has are expected, as in {1g.10gb: 7}");
  reader.finish();
}

void read_time_slicing(ObjectReader reader, agent::DeviceConfig* config) {
  config->replicas = static_cast<uint32_t>(reader.integer("replicas", 1, agent::kMaxReplicas, 1));
  config->rename_shared = reader.boolean("renameByDefault", false);
  config->refuse_more_than_one = reader.boolean("failRequestsGreaterThanOne", false);
  reader.finish();
}

void read_health(ObjectReader* reader, agent::DeviceConfig* config) {
  if (!reader->has("disableHealthChecks") && !reader->has("enableHealthChecks")) return;
  const std::string disabled = reader->text("disableHealthChecks");
  auto rules = agent::XidRules::parse(disabled, reader->text("enableHealthChecks"));
  if (!rules.ok()) reader->complain("disableHealthChecks", disabled, rules.error().message());
  if (rules.ok()) config->xids = *rules;
}

std::string_view quantity_of(const agent::StringPairs& list, std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const auto& pair) { return pair.first == name; });
  return at == list.end() ? std::string_view() : std::string_view(at->second);
}

// Allocatable lists the same plugins' resources as capacity does.
void renew_allocatable(agent::NodeTemplate* node) {
  if (node->allocatable.empty()) return;
  std::erase_if(node->allocatable, [&](const auto& pair) {
    return agent::is_device_resource(pair.first) && quantity_of(node->capacity, pair.first).empty();
  });
  for (const auto& [name, quantity] : node->capacity) {
    if (agent::is_device_resource(name) && quantity_of(node->allocatable, name).empty())
      node->allocatable.emplace_back(name, quantity);
  }
}

// Those of GPU feature discovery that follow from the plugin's settings.
void add_labels(const agent::DeviceConfig& config, agent::NodeTemplate* node) {
  if (config.mig != agent::MigStrategy::kNone) {
    node->labels.emplace_back("nvidia.com/mig.strategy",
                              config.mig == agent::MigStrategy::kSingle ? "single" : "mixed");
  }
  if (config.replicas > 1) node->labels.emplace_back("nvidia.com/gpu.replicas", std::to_string(config.replicas));
}

}  // namespace

void read_device_section(ObjectReader* reader, DeviceSection* section) {
  if (reader->has("dra")) section->dra = reader->boolean("dra", false);
  agent::DeviceConfig& config = section->config;
  const std::vector<std::string> of_plugins = {
      "mig",           "timeSlicing",      "disableHealthChecks", "topologyPolicy",
      "topologyScope", "neuronContiguity", "enableHealthChecks",  "absentPlugins",
      "pluginDelay"};
  reader->announce({"dra"});
  reader->announce(of_plugins);
  section->plugins = section->plugins || std::any_of(of_plugins.begin(), of_plugins.end(),
                                                     [&](const std::string& key) { return reader->has(key); });
  if (reader->has("mig")) read_mig(reader->object("mig"), &config);
  if (reader->has("timeSlicing")) read_time_slicing(reader->object("timeSlicing"), &config);
  read_health(reader, &config);
  if (reader->has("neuronContiguity")) {
    const std::string text = reader->one_of("neuronContiguity", {"ignore", "fault", "extension"}, "ignore");
    config.contiguity = text == "fault"       ? agent::Contiguity::kFault
                        : text == "extension" ? agent::Contiguity::kExtension
                                              : agent::Contiguity::kIgnore;
  }
  if (reader->has("topologyPolicy"))
    config.topology = agent::topology_policy(reader->one_of("topologyPolicy", agent::topology_policy_names(), "none"));
  if (reader->has("topologyScope"))
    config.scope = agent::topology_scope(reader->one_of("topologyScope", agent::topology_scope_names(), "container"));
  if (reader->has("absentPlugins")) config.absent = reader->text_list("absentPlugins");
  if (reader->has("pluginDelay")) section->plugin_delay = reader->duration("pluginDelay", Duration(0));
}

Result<DeviceSection> parse_device_section(std::string_view text, std::string file) {
  auto document = Document::parse(text, std::move(file));
  if (!document.ok()) return document.error();
  ObjectReader root(&*document, &document->root(), "");
  DeviceSection section;
  read_device_section(&root, &section);
  root.finish();
  GF_RETURN_IF_ERROR(document->status());
  return section;
}

Status apply_devices(const DeviceSection& section, const ProfileAccelerator& accelerator, FleetGroup* group) {
  group->device_plugin_delay = section.plugin_delay;
  if (!section.plugins) return Status();
  const agent::DeviceConfig& config = section.config;
  agent::DeviceHardware hardware;
  if (accelerator.manufacturer == "nvidia") {
    hardware.gpu = accelerator.name;
    hardware.gpu_memory_mib = accelerator.memory_mib;
  }
  hardware.cores_per_chip = static_cast<uint32_t>(std::max<int64_t>(accelerator.cores_per_device, 0));
  // Nothing to absent or to cut on a node without them.
  for (const std::string& absent : config.absent) {
    if (!agent::is_device_resource(absent))
      return invalid_argument(
          fmt::format("devices.absentPlugins: \"{}\": a resource like nvidia.com/gpu is expected", absent));
  }
  const bool gpus = !quantity_of(group->node.capacity, agent::kGpuResource).empty();
  if (config.mig != agent::MigStrategy::kNone && !gpus)
    return invalid_argument("devices.mig: its nodes have no nvidia.com/gpu");
  auto setup = agent::make_device_setup(config, hardware, &group->node.capacity);
  if (!setup.ok()) return setup.error().with_context("devices");
  renew_allocatable(&group->node);
  if (gpus) add_labels(config, &group->node);
  group->devices = std::make_shared<const agent::DeviceSetup>(std::move(setup).value());
  return Status();
}

}  // namespace ghostfleet::emulator
