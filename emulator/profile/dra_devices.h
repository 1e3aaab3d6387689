// What the DRA driver of an instance type's accelerators publishes.
//
// Thread rule: pure functions. Source: NVIDIA's product pages (architecture, compute capability), the drivers'
// documentation.
#pragma once

#include <memory>

#include "agent/dra/devices.h"
#include "agent/node/node_template.h"
#include "base/status.h"
#include "emulator/profile/profile.h"

namespace ghostfleet::emulator {

// As many devices as the node has of the resource that their plugin would tell. NotFound: the profile has no
// accelerator whose driver is known.
Result<std::shared_ptr<const agent::DraDevices>> make_dra_devices(const Profile& profile,
                                                                  const agent::NodeTemplate& node);
// A node runs the device plugin or the DRA driver: the plugin's resources go.
void remove_plugin_resources(const agent::DraDevices& devices, agent::NodeTemplate* node);

}  // namespace ghostfleet::emulator
