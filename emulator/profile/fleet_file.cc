#include "emulator/profile/fleet_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "emulator/profile/dra_devices.h"
#include "emulator/profile/fleet_network.h"
#include "emulator/profile/image_file.h"
#include "emulator/profile/vpc_file.h"
#include "kube/api/names.h"

namespace ghostfleet::emulator {
namespace {

void check_labels(ObjectReader* reader, std::string_view key, const StringPairs& labels) {
  for (const auto& [name, value] : labels) {
    const std::string at = std::string(key) + "." + name;
    if (!kube::check_qualified_name(name).empty())
      reader->complain(at, "", "a label key like example.com/name is expected");
    if (value.find('{') == std::string::npos && !kube::check_label_value(value).empty()) {
      reader->complain(at, "\"" + value + "\"", "a label value is expected: at most 63 letters, digits, -, _ or .");
    }
  }
}

// What a group says of image pulls goes over what the fleet says.
void read_group_images(ObjectReader* reader, const FleetSpec& f, GroupSpec* g) {
  if (!reader->has("images")) return;
  ObjectReader images = reader->object("images");
  PullOptions own = f.images ? f.images->pull : ImageModel().pull;
  read_pull_options(&images, &own);
  g->pull = own;
  if (!f.images) reader->complain("images", "", "spec.images is needed for it: images: {} has the usual settings");
}

GroupSpec read_group(ObjectReader* reader, const FleetSpec& f) {
  GroupSpec g;
  g.name = reader->text("name");
  if (!g.name.empty() && !kube::check_dns1123_label(g.name).empty())
    reader->complain("name", "\"" + g.name + "\"", "a DNS label is expected: lower-case letters, digits and -");
  g.count = reader->integer("count", 1, kMaxFleetNodes, 0, true);
  if (!reader->has("count")) reader->complain_missing("count");
  g.profile = reader->required_text("profile");
  g.zones = reader->text_list("zones");
  g.name_template = reader->text("nameTemplate");
  g.overrides.labels = reader->text_map("labels");
  check_labels(reader, "labels", g.overrides.labels);
  g.overrides.annotations = reader->text_map("annotations");
  g.overrides.taints = read_taints(reader, "taints");
  g.overrides.capacity = reader->quantity_map("capacity");
  g.overrides.allocatable = reader->quantity_map("allocatable");
  g.overrides.max_pods = reader->integer("maxPods", 1, 100000, 0);
  g.overrides.kubelet_version = reader->text("kubeletVersion");
  if (reader->has("network")) {
    ObjectReader network = reader->object("network");
    g.own_range = network.one_of("ipam", {"vpc", "range"}, "") == "range";
    network.finish();
  }
  read_group_images(reader, f, &g);
  if (reader->has("devices")) {
    ObjectReader devices = reader->object("devices");
    g.devices = f.devices;
    read_device_section(&devices, &*g.devices);
    if (devices.has("dra")) g.dra = g.devices->dra;
    devices.finish();
  }
  reader->finish();
  return g;
}

agent::ImageRule read_image_rule(ObjectReader* reader) {
  agent::ImageRule rule;
  rule.match = reader->required_text("match");
  rule.pull = reader->duration("pull", Duration(0));
  rule.error = reader->text("error");
  if (reader->has("pull") && reader->has("error"))
    reader->complain("error", rule.error, "a rule either pulls or fails: leave out pull or error");
  if (!reader->has("pull") && !reader->has("error")) reader->complain("", "", "pull or error is expected");
  reader->finish();
  return rule;
}

agent::NodeEvents read_events(ObjectReader* spec) {
  const std::string text = spec->one_of("events", {"few", "none", "all"}, "few");
  if (text == "none") return agent::NodeEvents::kNone;
  return text == "all" ? agent::NodeEvents::kAll : agent::NodeEvents::kFew;
}

agent::NodeEvents events_of(const FleetSpec& f) {
  int64_t nodes = 0;
  for (const GroupSpec& group : f.groups) nodes += group.count;
  return f.events.value_or(nodes > kMostNodesWithEvents ? agent::NodeEvents::kNone : agent::NodeEvents::kFew);
}

std::string template_of(const FleetSpec& f, const GroupSpec& g) {
  if (!g.name_template.empty()) return g.name_template;
  return g.name.empty() ? f.name + "-{index}" : f.name + "-" + g.name + "-{index}";
}

// Two groups that could not be told apart in this file, or whose nodes would have the same names.
void check_group_names(const FleetSpec& f, std::vector<ObjectReader>* readers) {
  std::unordered_map<std::string, size_t> names, templates;
  for (size_t i = 0; i < f.groups.size(); ++i) {
    const GroupSpec& group = f.groups[i];
    ObjectReader& reader = (*readers)[i];
    const auto [name, new_name] = names.try_emplace(group.name, i);
    const auto [nodes, new_template] = templates.try_emplace(template_of(f, group), i);
    if (!group.name.empty() && !new_name) {
      reader.complain("name", group.name, fmt::format("groups[{}] has this name already", name->second));
    } else if (!new_template) {
      reader.complain(group.name_template.empty() ? "name" : "nameTemplate", group.name_template,
                      fmt::format("its nodes would be named as those of groups[{}]: another name or nameTemplate is "
                                  "expected",
                                  nodes->second));
    }
  }
}

void read_network(ObjectReader network, const TextLoader& load, FleetSpec* f) {
  const bool vpc = network.one_of("ipam", {"vpc", "range"}, "") == "vpc";
  const std::string file = network.text("file");
  network.finish();
  if (!vpc && !file.empty()) network.complain("file", "\"" + file + "\"", "is of ipam: vpc; a range needs no file");
  if (vpc && file.empty()) network.complain("file", "", "the path of a VPC file (docs/network.md) is required");
  if (!vpc || file.empty()) return;
  auto text = load(file);
  if (!text.ok()) return network.complain("file", "\"" + file + "\"", text.error().message());
  auto spec = parse_vpc_file(*text, file);
  if (!spec.ok()) return network.complain("file", "\"" + file + "\"", "\n" + spec.error().message());
  f->vpc = std::make_shared<const VpcSpec>(std::move(spec).value());
}

// Addresses of the network that nobody described.
void check_networks(const FleetSpec& f, std::vector<ObjectReader>* readers, bool network) {
  for (size_t i = 0; i < f.groups.size() && !network; ++i) {
    ObjectReader& reader = (*readers)[i];
    if (!reader.has("network") || f.groups[i].own_range) continue;
    reader.complain("network.ipam", "vpc", "spec.network {ipam: vpc, file: PATH} is needed for it");
  }
}

agent::EvictionRules read_eviction(ObjectReader* spec) {
  agent::EvictionRules rules;
  if (const std::string hard = spec->text("evictionHard"); !hard.empty()) {
    auto thresholds = agent::parse_thresholds(hard);
    if (!thresholds.ok()) spec->complain("evictionHard", hard, thresholds.error().message());
    if (thresholds.ok()) rules.thresholds = std::move(thresholds).value();
  }
  const std::string reclaim = spec->text("evictionMinimumReclaim");
  if (const Status bad = agent::parse_minimum_reclaim(reclaim, &rules.thresholds); !bad.ok())
    spec->complain("evictionMinimumReclaim", reclaim, bad.message());
  rules.transition = spec->duration("evictionPressureTransitionPeriod", rules.transition);
  return rules;
}

void read_spec(ObjectReader spec, const TextLoader& load, FleetSpec* f) {
  f->region = spec.text("region", "us-west-2");
  f->zones = spec.text_list("zones");
  f->connections = spec.one_of("connections", {"shared", "per-node"}, "shared") == "shared" ? ConnectionMode::kShared
                                                                                            : ConnectionMode::kPerNode;
  f->register_rate = spec.number("registerRate", 0, 1e6, 0);
  f->lease_duration = std::chrono::seconds(spec.integer("leaseDurationSeconds", 4, 3600, 40));
  f->seed = static_cast<uint64_t>(spec.integer("seed", 0, INT64_MAX, 1));
  if (spec.has("events")) f->events = read_events(&spec);
  f->device_plugins = spec.boolean("devicePlugins", false);
  if (spec.has("devices")) {
    ObjectReader devices = spec.object("devices");
    read_device_section(&devices, &f->devices);
    f->dra = f->devices.dra.value_or(false);
    devices.finish();
  }
  if (spec.has("devicePlugins") && !f->device_plugins && f->devices.plugins)
    spec.complain("devicePlugins", "false", "what `devices` says is said of device plugins: leave one of them out");
  f->eviction = read_eviction(&spec);
  f->second_pod_cidr = spec.text("secondPodCIDR");
  f->second_is_primary = spec.one_of("primaryFamily", {"ipv4", "ipv6"}, "ipv4") == "ipv6";
  if (f->second_is_primary && f->second_pod_cidr.empty())
    spec.complain("primaryFamily", "ipv6", "secondPodCIDR with an IPv6 network is needed for it");
  const bool network = spec.has("network");
  if (network) read_network(spec.object("network"), load, f);
  if (f->vpc != nullptr && !f->second_pod_cidr.empty())
    spec.complain("secondPodCIDR", f->second_pod_cidr, "pods of a VPC have addresses of one family: leave it out");
  f->commands = spec.one_of("behavior", {"annotation", "command"}, "annotation") == "command";
  for (ObjectReader& item : spec.list("imageRules")) f->image_rules.push_back(read_image_rule(&item));
  if (spec.has("images")) {
    ObjectReader images = spec.object("images");
    read_image_model(&images, &f->images.emplace());
  }
  f->behaviors = read_behavior_rules(&spec, load);
  f->event_rate = spec.number("eventRate", 0, 1e6, 0);
  std::vector<ObjectReader> groups = spec.list("groups");
  for (ObjectReader& item : groups) f->groups.push_back(read_group(&item, *f));
  check_group_names(*f, &groups);
  check_networks(*f, &groups, network);
  if (f->groups.empty()) spec.complain("groups", "", "at least one group {count, profile} is expected");
  spec.finish();
}

std::vector<std::string> zones_of(const FleetSpec& f, const GroupSpec& g) {
  if (!g.zones.empty()) return g.zones;
  if (!f.zones.empty()) return f.zones;
  return {f.region + "a", f.region + "b", f.region + "c"};
}

// Groups without accelerators stay as they are, unless they ask for it themselves.
Status add_dra(const FleetSpec& f, const GroupSpec& g, const Profile& profile, const std::string& name,
               FleetGroup* group) {
  if (!g.dra.value_or(f.dra)) return Status();
  auto devices = make_dra_devices(profile, group->node);
  if (!devices.ok()) return g.dra ? devices.error().with_context(name + ": devices.dra") : Status();
  group->dra = std::move(*devices);
  remove_plugin_resources(*group->dra, &group->node);
  return Status();
}

// What the fleet says of GPUs is not meant for groups without.
Status add_devices(const FleetSpec& f, const GroupSpec& g, const Profile& profile, const std::string& name,
                   FleetGroup* group) {
  DeviceSection section = g.devices.value_or(f.devices);
  const auto is_gpu = [](const auto& resource) { return resource.first == agent::kGpuResource; };
  const agent::StringPairs& capacity = group->node.capacity;
  if (!g.devices && std::none_of(capacity.begin(), capacity.end(), is_gpu))
    section.config.mig = agent::MigStrategy::kNone;
  return apply_devices(section, profile.accelerator, group).with_context(name);
}

// A group takes over what the fleet says, so a resource need not be in every group; but in one of them.
Status check_absent_plugins(const FleetSpec& f, const FleetOptions& o) {
  std::vector<std::string> absent = f.devices.config.absent;
  for (const GroupSpec& g : f.groups) {
    if (g.devices) absent.insert(absent.end(), g.devices->config.absent.begin(), g.devices->config.absent.end());
  }
  std::vector<const agent::DeviceSetup*> setups;
  for (const FleetGroup& group : o.groups) {
    if (group.devices != nullptr) setups.push_back(group.devices.get());
  }
  return check_absent(absent, setups);
}

}  // namespace

Result<FleetSpec> parse_fleet_file(std::string_view text, std::string file, TextLoader load) {
  if (!load) load = load_beside(file);
  auto document = Document::parse(text, std::move(file));
  if (!document.ok()) return document.error();
  ObjectReader root(&*document, &document->root(), "");
  root.one_of("apiVersion", {"ghostfleet.dev/v1alpha1"}, "");
  root.one_of("kind", {"Fleet"}, "");
  GF_RETURN_IF_ERROR(document->status());  // another kind of file: its fields would all be complained of
  FleetSpec f;
  ObjectReader metadata = root.object("metadata");
  f.name = metadata.required_text("name");
  metadata.finish();
  read_spec(root.object("spec"), load, &f);
  root.finish();
  GF_RETURN_IF_ERROR(document->status());
  return f;
}

Result<std::vector<agent::ImageRule>> parse_image_rules(std::string_view text, std::string file) {
  // A list has no keys for a reader to start from: it is read as the list of an object.
  auto document = Document::parse(text, std::move(file));
  if (!document.ok()) return document.error();
  std::vector<agent::ImageRule> rules;
  if (!document->root().is_array()) {
    return invalid_argument(document->file() +
                            ": a list of {match: GLOB, pull: 5s} or {match: GLOB, error: NotFound} is expected");
  }
  size_t i = 0;
  for (const kube::Json& item : document->root().get_array()) {
    ObjectReader reader(&*document, &item, fmt::format("[{}]", i++));
    rules.push_back(read_image_rule(&reader));
  }
  GF_RETURN_IF_ERROR(document->status());
  return rules;
}

Result<FleetOptions> make_fleet_options(const FleetSpec& spec, const ProfileCatalogue& profiles) {
  if (const auto bad = kube::check_dns1123_label(spec.name); !bad.empty()) {
    return invalid_argument(fmt::format(
        "fleet name \"{}\": a DNS label is expected: lower-case letters, digits and -, at most 63", spec.name));
  }
  FleetOptions o;
  o.name = spec.name;
  o.connections = spec.connections;
  o.register_rate = spec.register_rate;
  o.lease_duration = spec.lease_duration;
  o.seed = spec.seed;
  o.events = events_of(spec);
  if (!spec.image_rules.empty()) o.pods.image_rules = spec.image_rules;
  if (spec.images) o.images = with_built_in_images(*spec.images);
  o.pods.commands = spec.commands;
  o.pods.device_plugins = spec.device_plugins;
  o.pods.eviction = spec.eviction;
  o.second_pod_cidr = spec.second_pod_cidr;
  o.second_is_primary = spec.second_is_primary;
  o.pods.behaviors = spec.behaviors;
  o.pods.seed = spec.seed;
  o.event_rate = spec.event_rate;
  std::vector<NetworkGroup> network_groups;
  for (const GroupSpec& g : spec.groups) {
    auto profile = profiles.find(g.profile);
    if (!profile.ok()) return profile.error();
    FleetGroup group;
    group.count = static_cast<uint32_t>(g.count);
    group.name_template = template_of(spec, g);
    group.region = spec.region;
    group.zones = zones_of(spec, g);
    for (const std::string& zone : group.zones) {
      if (zone.empty() || !kube::check_label_value(zone).empty())
        return invalid_argument(fmt::format("zone \"{}\": a name like us-west-2a is expected", zone));
    }
    group.node = make_node_template(*profile, g.overrides);
    const std::string name = g.name.empty() ? "fleet " + spec.name : "group " + g.name;
    network_groups.push_back({name, !g.own_range, *profile, group.node, group.zones, g.overrides.max_pods > 0});
    group.machine = pull_machine(group.node, profile->bandwidth_mbps);
    group.pull = g.pull;
    GF_RETURN_IF_ERROR(add_dra(spec, g, *profile, name, &group));
    GF_RETURN_IF_ERROR(add_devices(spec, g, *profile, name, &group));
    o.pods.device_plugins = o.pods.device_plugins || group.devices != nullptr;
    o.groups.push_back(std::move(group));
  }
  GF_RETURN_IF_ERROR(check_absent_plugins(spec, o));
  if (spec.vpc != nullptr) {
    auto network = make_network_options(*spec.vpc, network_groups);
    if (!network.ok()) return network.error();
    o.network = std::move(network).value();
  }
  const auto has_dra = [](const FleetGroup& group) { return group.dra != nullptr; };
  if (spec.dra && std::none_of(o.groups.begin(), o.groups.end(), has_dra)) {
    return invalid_argument(
        "devices.dra: no group has accelerators with a DRA driver: a profile with some, like p5.48xlarge or "
        "trn2.48xlarge, is expected");
  }
  GF_RETURN_IF_ERROR(check_fleet(o));
  return o;
}

}  // namespace ghostfleet::emulator
