// AllocateResponse: what a device plugin says a container needs for the devices it got, and its protobuf form
// (ContainerAllocateResponse of the device plugin API v1beta1), which a kubelet's checkpoint keeps too.
//
// Thread rule: plain values. Limits: decoding refuses more than kMaxBytes. Errors: where the bytes make no sense.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ghostfleet::agent {

struct AllocateResponse {
  static constexpr size_t kMaxBytes = 1 << 20;

  struct Mount {
    std::string container_path, host_path;
    bool read_only = false;
    friend bool operator==(const Mount&, const Mount&) = default;
  };
  struct DeviceNode {
    std::string container_path, host_path;
    std::string permissions;  // of r, w, m
    friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
  };
  std::vector<std::pair<std::string, std::string>> envs, annotations;
  std::vector<Mount> mounts;
  std::vector<DeviceNode> nodes;
  std::vector<std::string> cdi_names;  // "nvidia.com/gpu=0"

  friend bool operator==(const AllocateResponse&, const AllocateResponse&) = default;
};

std::string encode_response(const AllocateResponse& response);
// Fields that are not known are passed over. A key that is there twice: the last one counts.
Result<AllocateResponse> decode_response(std::string_view bytes);

}  // namespace ghostfleet::agent
