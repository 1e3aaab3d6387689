// DraDevices: the accelerators that a node offers through a DRA driver instead of a device plugin, and what may be
// wrong with them.
//
// The description is of all nodes of a group; what differs between nodes (uuids, bus ids, groups) is computed when a
// slice is rendered. Thread rule: plain values and pure functions. Units: memory in MiB.
// Source: resource.k8s.io/v1; the published behaviour of the drivers gpu.nvidia.com and neuron.aws.com.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ghostfleet::agent {

enum class DriverKind : unsigned char { kGpu, kNeuron };

struct DraDevices {
  DriverKind kind = DriverKind::kGpu;
  uint32_t count = 0;  // 1 to kMostDraDevices
  std::string driver_version;
  // Of GPUs.
  std::string product, brand, architecture, compute_capability, cuda_version, addressing_mode;
  int64_t memory_mib = 0;  // of each
  // Of Neuron devices.
  std::string instance_type, dra_version;
};
inline constexpr uint32_t kMostDraDevices = 1024;

std::string_view driver_name(DriverKind kind);  // "gpu.nvidia.com"
// The extended resource whose device plugin the driver takes the place of: "nvidia.com/gpu".
std::string_view plugin_resource(DriverKind kind);
// "gpu-3"; and back: nothing when the node has no such device.
std::string device_name(DriverKind kind, uint32_t index);
std::optional<uint32_t> device_index(const DraDevices& devices, std::string_view name);
// What the runtime is told to give a container, and a pod's status calls the device.
std::string cdi_device(DriverKind kind, std::string_view device);

// Xid, lost and unmonitored are what the GPU driver finds; unhealthy is what a device plugin would call so.
enum class FaultKind : unsigned char { kXid, kGpuLost, kUnmonitored, kUnhealthy };

struct DeviceFault {
  uint32_t device = 0;
  FaultKind kind = FaultKind::kUnhealthy;
  std::string value;   // of the taint: the code of an XID
  std::string effect;  // of the taint
  friend bool operator==(const DeviceFault&, const DeviceFault&) = default;
};

// What is wrong with the driver of a node; empty: nothing.
struct DriverFaults {
  std::vector<DeviceFault> devices;  // sorted by device
  bool down = false;                 // it runs no more
  bool empty() const { return devices.empty() && !down; }
  friend bool operator==(const DriverFaults&, const DriverFaults&) = default;
};

// "gpu-0=xid:79; gpu-3=gpu-lost; gpu-5=unmonitored; driver=down", an effect may follow as in gpu-3=gpu-lost@NoExecute.
// InvalidArgument names the part that is wrong. At most kMaxFaults bytes.
inline constexpr size_t kMaxFaults = 64 << 10;
Result<DriverFaults> parse_faults(std::string_view text, const DraDevices& devices);
// What a device plugin would call unhealthy, of a GPU with its XID (-1: not told), unless something is known of the
// device already.
struct UnhealthyDevice {
  uint32_t device = 0;
  int xid = -1;
};
void add_unhealthy(const std::vector<UnhealthyDevice>& found, const DraDevices& devices, DriverFaults* faults);

// "gpu.nvidia.com/xid"
std::string taint_key(DriverKind kind, FaultKind fault);

enum class DeviceHealth : unsigned char { kUnknown, kHealthy, kUnhealthy };
struct DeviceState {
  DeviceHealth health = DeviceHealth::kHealthy;
  std::string message;
};

// The driver of ONE node as its pods meet it. Immutable: a change is another object.
struct DraDriver {
  const DraDevices* devices = nullptr;  // outlives it
  std::string pool;                     // the node's name
  DriverFaults faults;

  bool serves(std::string_view driver) const { return driver == driver_name(devices->kind) && !faults.down; }
  DeviceState state_of(std::string_view device) const;
};

}  // namespace ghostfleet::agent
