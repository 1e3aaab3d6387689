// PluginModel: what a device plugin of some kind answers, for every node that runs it: how many devices there are,
// their ids, NUMA nodes and health rules, which it prefers, and what a container needs to use them. Used inside a
// fleet, where nodes hold nothing of it, and by plugin programs behind a socket.
//
// Devices are told apart by their index, from 0 to count(); ids are computed when they are asked for, from the node's
// name, and are the same after a restart. A chip is the piece of hardware a device is (part) of: several devices may be
// of one chip (MIG, time-slicing, NeuronCores), and models of the same hardware() number the same chips.
//
// Thread rule: immutable, shared by all threads.
// Source: device plugin API v1beta1; NVIDIA/k8s-device-plugin; AWS Neuron and EFA documentation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/allocate_response.h"
#include "base/status.h"

namespace ghostfleet::agent {

struct PluginOptions {
  bool pre_start = false;             // PreStartContainer is to be called
  bool preferred_allocation = false;  // GetPreferredAllocation may be
};

// By index of a device or chip.
using DeviceBits = std::vector<bool>;

// GetPreferredAllocation of one container.
struct DeviceChoice {
  DeviceBits available;
  std::vector<uint32_t> must_include;  // part of `available`
  uint32_t size = 0;                   // with those of must_include
  DeviceBits others;                   // chips that other models of the same hardware have given out
};

class PluginModel {
 public:
  // NUMA nodes are bits of 64.
  static constexpr uint32_t kMaxNumaNodes = 64;

  PluginModel(std::string resource, uint32_t count) : resource_(std::move(resource)), count_(count) {}
  virtual ~PluginModel() = default;
  PluginModel(const PluginModel&) = delete;
  PluginModel& operator=(const PluginModel&) = delete;

  const std::string& resource() const { return resource_; }  // "nvidia.com/gpu"
  uint32_t count() const { return count_; }
  virtual PluginOptions options() const { return {}; }

  virtual std::string id(std::string_view node, uint32_t index) const = 0;
  // The index of an id of that node.
  std::optional<uint32_t> find(std::string_view node, std::string_view id) const;
  // Bits of the NUMA nodes it is near to; 0: not told.
  virtual uint64_t numa_nodes(uint32_t /*index*/) const { return 0; }

  // "neuron": chips of models with the same word are the same; empty: chips are this model's own.
  virtual std::string_view hardware() const { return {}; }
  virtual uint32_t chip(uint32_t index) const { return index; }
  uint32_t chips() const { return count_ == 0 ? 0 : chip(count_ - 1) + 1; }

  // At most choice.size indexes, best first; fewer leave the rest to the kubelet.
  virtual std::vector<uint32_t> prefer(const DeviceChoice& choice) const;
  // What a container needs for these. `others`: chips that another model of this hardware has given out. An error is
  // what the plugin answers (without the words of gRPC).
  virtual Result<AllocateResponse> allocate(std::string_view node, const std::vector<uint32_t>& indexes,
                                            const DeviceBits& others) const = 0;
  // Why a container's program does not start with these devices; empty: it does.
  virtual std::string start_failure(const std::vector<uint32_t>& /*indexes*/) const { return {}; }
  // Whether a container may have these together; false: its pod waits for better ones (a scheduler extension).
  virtual bool acceptable(const std::vector<uint32_t>& /*indexes*/) const { return true; }
  virtual bool insists() const { return false; }  // acceptable() may say no

  // Which of its devices a fault of device `number` of `resource` makes Unhealthy, with an error code of the hardware
  // (XID; -1: no code). Devices of a resource that is none of its hardware's: none.
  virtual std::vector<uint32_t> hit_by(std::string_view resource, uint32_t number, int code) const;
  // How many numbers of that resource hit_by knows; 0: the resource is no concern of this model.
  virtual uint32_t fault_numbers(std::string_view resource) const;
  // Whether a device that is well again is told as Healthy before the plugin restarts.
  virtual bool heals() const { return true; }

 private:
  std::string resource_;
  uint32_t count_;
};

// Any other extended resource: ids "radio-0", a device node for each, no preference.
std::shared_ptr<const PluginModel> plain_plugin(std::string resource, uint32_t count);
// vpc.amazonaws.com/efa: one uverbs device node each, spread over the NUMA nodes; never shared.
std::shared_ptr<const PluginModel> efa_plugin(uint32_t count, uint32_t numa_nodes);

// "GPU-7bf3...": a UUID from a hash of node, resource and index, as NVML prints it.
std::string device_uuid(std::string_view prefix, std::string_view node, std::string_view resource, uint32_t index);

}  // namespace ghostfleet::agent
