// The `devices` section of a fleet file, of a group in it, or of a file of its own (agent --devices): how the device
// plugins of nodes are set up (docs/devices.md).
//
// Thread rule: plain values. Errors: file, line, field, value and what is expected; what a GPU cannot do is found when
// the section meets the profile (apply_devices).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/device/device_control.h"
#include "agent/node/node_template.h"
#include "base/clock.h"
#include "base/status.h"
#include "emulator/fleet/identity.h"
#include "emulator/profile/object_reader.h"
#include "emulator/profile/profile.h"

namespace ghostfleet::emulator {

struct DeviceSection {
  agent::DeviceConfig config;
  std::optional<Duration> plugin_delay;
  std::optional<bool> dra;
  bool plugins = false;  // something is said of device plugins
};

// What it does not say stays as `section` has it.
void read_device_section(ObjectReader* reader, DeviceSection* section);
// A file that holds nothing but the section's fields.
Result<DeviceSection> parse_device_section(std::string_view text, std::string file);

// The group's plugins, and its node as they make it: resources of MIG profiles, shared ones, none of those that never
// start. `accelerator` of the profile; empty: only what the node's resources tell is known.
Status apply_devices(const DeviceSection& section, const ProfileAccelerator& accelerator, FleetGroup* group);

}  // namespace ghostfleet::emulator
