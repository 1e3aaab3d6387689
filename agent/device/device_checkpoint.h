// DeviceCheckpoint: which container holds which devices, as a kubelet's device manager keeps it over its restarts in
// kubelet_internal_checkpoint. Data only: who keeps the bytes (a file, a table, nobody) is the owner's affair.
//
// Format: {"Data":{"PodDeviceEntries":[{"PodUID","ContainerName","ResourceName","DeviceIDs":{NUMA node:[ids]},
// "AllocResp":base64 of ContainerAllocateResponse}],"RegisteredDevices":{resource:[ids]}},"Checksum"}. NUMA node "-1"
// is of devices that tell none. The checksum is FNV-1a (32 bit) over Go's way to print the data with its types; it is
// compared with the checksums of real files in the test.
// Thread rule: plain values. Limits: kMaxBytes, kMaxEntries. Errors: the field, its value and what is expected; a
// checksum that does not fit is one.
// Source: a kubelet 1.36.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ghostfleet::agent {

struct DeviceCheckpoint {
  static constexpr size_t kMaxBytes = 16 << 20;
  static constexpr size_t kMaxEntries = 20000;

  struct Entry {
    std::string pod_uid, container, resource;
    std::map<int64_t, std::vector<std::string>> ids;  // by NUMA node
    std::string response;                             // protobuf (allocate_response.h)
  };
  std::vector<Entry> entries;
  std::map<std::string, std::vector<std::string>> registered;  // healthy devices of each resource
};

std::string render_checkpoint(const DeviceCheckpoint& checkpoint);
Result<DeviceCheckpoint> parse_device_checkpoint(std::string_view text);
uint32_t checksum_of(const DeviceCheckpoint& checkpoint);

}  // namespace ghostfleet::agent
