// The ResourceSlices of a node, rendered when they are sent: nothing is kept for them.
//
// Thread rule: pure functions. Source: resource.k8s.io/v1 (at most 128 devices in a slice, 64 when some have taints).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/dra/devices.h"

namespace ghostfleet::agent {

struct SliceNode {
  std::string name, uid, zone;
  std::string fleet;                               // label ghostfleet.dev/fleet; empty: none
  std::function<std::string(uint32_t)> uuid = {};  // of the n-th GPU: as its device plugin would call it
};

uint32_t slice_count(const DraDevices& devices, const DriverFaults& faults);
// The n-th slice of a node: the same name after a restart.
std::string slice_name(const DraDevices& devices, std::string_view node, uint32_t slice);
// With a resourceVersion it is the body of a replacement, else of a creation.
std::string render_slice(const DraDevices& devices, const SliceNode& node, const DriverFaults& faults,
                         int64_t generation, uint32_t slice, std::string_view resource_version = {});

}  // namespace ghostfleet::agent
