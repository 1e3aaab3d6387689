// DeviceTable: which devices of a node's device plugins its containers hold, and which of them are unhealthy.
//
// A device is an index of its resource, from 0 to what the node has of it; ids are computed (device_id).
// Thread rule: the node's thread. Source: device plugin API v1beta1; a kubelet 1.36.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ghostfleet::agent {

// Indexes of a resource's devices that are Unhealthy; all others are Healthy.
using UnhealthyDevices = std::vector<std::pair<std::string, std::vector<uint32_t>>>;

// "nvidia.com/gpu=0,3; aws.amazon.com/neuron=1"; InvalidArgument names what is wrong. At most kMaxUnhealthy bytes.
inline constexpr size_t kMaxUnhealthy = 64 << 10;
Result<UnhealthyDevices> parse_unhealthy(std::string_view text);

class DeviceTable {
 public:
  static constexpr uint32_t kMost = 4096;  // devices of a resource that are told apart

  // The lowest `count` of `capacity` devices that are free and healthy. Empty: there are not as many, and `why` says it
  // in a kubelet's words.
  std::vector<uint32_t> take(std::string_view resource, uint32_t count, uint32_t capacity, std::string* why);
  // Devices that a container of an earlier run holds.
  void hold(std::string_view resource, const std::vector<uint32_t>& indexes);
  void give_back(std::string_view resource, const std::vector<uint32_t>& indexes);
  // True when something changed.
  bool set_unhealthy(const UnhealthyDevices& unhealthy);
  bool healthy(std::string_view resource, uint32_t index) const;

 private:
  std::map<std::string, std::vector<bool>, std::less<>> held_;
  UnhealthyDevices unhealthy_;
};

// "GPU-3fa9...": the id that a plugin gives the device of a node.
std::string device_id(std::string_view node, std::string_view resource, uint32_t index);

}  // namespace ghostfleet::agent
