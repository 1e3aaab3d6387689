// Fleet file: a fleet as YAML (kind: Fleet), and the flags that are its shorthand. Both give the same FleetSpec.
//
// Format: docs/fleet-file.md. Strict: unknown fields, wrong types and impossible values are errors with file and line.
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/behavior/behavior_rules.h"
#include "agent/pod/pod_manager.h"
#include "base/status.h"
#include "emulator/fleet/fleet.h"
#include "emulator/profile/behavior_file.h"
#include "emulator/profile/device_section.h"
#include "emulator/profile/profile.h"

namespace ghostfleet::emulator {

struct GroupSpec {
  std::string name;  // of the group; names its nodes unless name_template is given
  int64_t count = 0;
  std::string profile;
  std::vector<std::string> zones;
  std::string name_template;
  ProfileOverrides overrides;
  bool own_range = false;                // network {ipam: range}: its pods do not use the fleet's VPC
  std::optional<PullOptions> pull;       // what differs from the fleet's images
  std::optional<bool> dra;               // unset: as the fleet
  std::optional<DeviceSection> devices;  // over the fleet's; unset: as the fleet
};

// An event is one more write for a node, and an object that stays for an hour: too much of a good thing in large
// fleets.
inline constexpr int64_t kMostNodesWithEvents = 20000;

struct FleetSpec {
  std::string name;
  std::string region = "us-west-2";
  std::vector<std::string> zones;  // default of groups without their own; empty: three zones of the region
  std::vector<GroupSpec> groups;
  ConnectionMode connections = ConnectionMode::kShared;
  double register_rate = 0;
  Duration lease_duration = std::chrono::seconds(40);
  uint64_t seed = 1;
  std::optional<agent::NodeEvents> events;  // unset: few, or none for a fleet beyond kMostNodesWithEvents
  std::vector<agent::ImageRule> image_rules;
  std::optional<ImageModel> images;  // how they are pulled; unset: by image_rules alone
  bool commands = false;             // agent::PodOptions::commands
  bool device_plugins = false;       // agent::PodOptions
  DeviceSection devices;             // of groups that say nothing of it
  bool dra = false;                  // accelerators come from a DRA driver, not from a device plugin
  agent::EvictionRules eviction;
  std::string second_pod_cidr;  // FleetOptions
  bool second_is_primary = false;
  std::shared_ptr<const VpcSpec> vpc;  // network {ipam: vpc}; null: pods have addresses of the fleet's range
  std::shared_ptr<const agent::BehaviorRules> behaviors;
  double event_rate = 0;  // events a second of the whole fleet; 0: no limit but each node's own
};

// Histograms and the VPC file that the file names are read by `load`; absent: from the disk, beside the file.
Result<FleetSpec> parse_fleet_file(std::string_view text, std::string file, TextLoader load = {});
// A YAML list of {match: GLOB, pull: 5s} or {match: GLOB, error: NotFound}.
Result<std::vector<agent::ImageRule>> parse_image_rules(std::string_view text, std::string file);

// The options a Fleet needs (all but the client): profiles looked up, templates made.
Result<FleetOptions> make_fleet_options(const FleetSpec& spec, const ProfileCatalogue& profiles);

}  // namespace ghostfleet::emulator
