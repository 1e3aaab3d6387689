// Messages of the device plugin API v1beta1 and of the PodResources API v1, to protobuf and back: what a kubelet and
// its device plugins say to each other on their sockets. (One container's answer of Allocate is in
// allocate_response.h.)
//
// Field numbers are those of Kubernetes' k8s.io/kubelet 0.36. Fields that are not known are passed over, as proto3 has
// it; fields of a message that comes twice: the last one counts.
// Thread rule: plain values. Limits: a message is as long as its transport lets it be (gRPC: 4 MiB); an id or name in
// it is at most kube::kMaxMessageText bytes. Errors: InvalidArgument; the bytes are no protobuf, or a text is no UTF-8
// or too long.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/device/plugin_model.h"
#include "base/status.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kPluginVersion = "v1beta1";
inline constexpr std::string_view kHealthy = "Healthy";  // any other word is Unhealthy
inline constexpr std::string_view kUnhealthy = "Unhealthy";

using TextList = std::vector<std::string>;

// v1beta1.Registration/Register; its answer is empty.
struct RegisterRequest {
  std::string version, endpoint, resource;
  PluginOptions options;
};
std::string encode_register_request(const RegisterRequest& request);
Result<RegisterRequest> decode_register_request(std::string_view bytes);

// GetDevicePluginOptions
std::string encode_plugin_options(const PluginOptions& options);
Result<PluginOptions> decode_plugin_options(std::string_view bytes);

// ListAndWatch: each message has all devices.
struct PluginDevice {
  std::string id, health;
  std::vector<int64_t> numa_nodes;

  // As bits; nodes that are no number from 0 to 63 are left out.
  uint64_t numa_bits() const;
};
// The other way round.
std::vector<int64_t> numa_nodes_of(uint64_t bits);
std::string encode_device_list(const std::vector<PluginDevice>& devices);
Result<std::vector<PluginDevice>> decode_device_list(std::string_view bytes);

// GetPreferredAllocation: one of each for a container.
struct PreferredRequest {
  TextList available, must_include;
  int32_t size = 0;
};
std::string encode_preferred_request(const std::vector<PreferredRequest>& containers);
Result<std::vector<PreferredRequest>> decode_preferred_request(std::string_view bytes);
std::string encode_preferred_response(const std::vector<TextList>& containers);
Result<std::vector<TextList>> decode_preferred_response(std::string_view bytes);

// Allocate: the ids of each container; the answer of each container as its own message (decode_response).
std::string encode_allocate_request(const std::vector<TextList>& containers);
Result<std::vector<TextList>> decode_allocate_request(std::string_view bytes);
std::string encode_allocate_answers(const std::vector<std::string>& containers);
Result<std::vector<std::string>> decode_allocate_answers(std::string_view bytes);

// PreStartContainer; its answer is empty.
std::string encode_pre_start_request(const TextList& ids);
Result<TextList> decode_pre_start_request(std::string_view bytes);

// ---- PodResources v1

// Devices of one resource and one set of NUMA nodes.
struct ResourceDevices {
  std::string resource;
  TextList ids;
  uint64_t numa_nodes = 0;  // bits; 0: none told
  friend bool operator==(const ResourceDevices&, const ResourceDevices&) = default;
};
// A device that a container has by a ResourceClaim, and the claim with all of its devices.
struct ClaimedDevice {
  TextList cdi_names;
  std::string driver, pool, device;
  friend bool operator==(const ClaimedDevice&, const ClaimedDevice&) = default;
};
struct DynamicResource {
  std::string claim, ns;
  std::vector<ClaimedDevice> devices;
  friend bool operator==(const DynamicResource&, const DynamicResource&) = default;
};
struct ContainerResources {
  std::string name;
  std::vector<ResourceDevices> devices;
  std::vector<DynamicResource> claims;
  friend bool operator==(const ContainerResources&, const ContainerResources&) = default;
};
struct PodResources {
  std::string name, ns;
  std::vector<ContainerResources> containers;
  friend bool operator==(const PodResources&, const PodResources&) = default;
};
// List
std::string encode_pod_resources_list(const std::vector<PodResources>& pods);
Result<std::vector<PodResources>> decode_pod_resources_list(std::string_view bytes);
// GetAllocatableResources
std::string encode_allocatable(const std::vector<ResourceDevices>& devices);
Result<std::vector<ResourceDevices>> decode_allocatable(std::string_view bytes);
// Get: name and namespace; one pod.
std::string encode_pod_resources_request(std::string_view name, std::string_view ns);
Result<std::pair<std::string, std::string>> decode_pod_resources_request(std::string_view bytes);
std::string encode_pod_resources(const PodResources& pod);
Result<PodResources> decode_pod_resources(std::string_view bytes);

}  // namespace ghostfleet::agent
