#include "emulator/profile/dra_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "kube/api/quantity.h"

namespace ghostfleet::emulator {

namespace {

// Versions as semantic versions, the only ones the API takes: driver 580.95.05 is 580.95.5.
constexpr std::string_view kGpuDriver = "580.95.5", kCuda = "13.0.0";
constexpr std::string_view kNeuronDriver = "2.24.7", kNeuronDra = "1.0.0";

struct GpuModel {
  std::string_view name;  // of the profile
  int64_t memory_mib;     // 0: of any size
  std::string_view product, architecture, capability, addressing;
};
constexpr std::array<GpuModel, 9> kGpuModels = {{
    {"a100", 40960, "NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0", "HMM"},
    {"a100", 0, "NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0", "HMM"},
    {"h100", 0, "NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", "HMM"},
    {"h200", 0, "NVIDIA H200", "Hopper", "9.0.0", "HMM"},
    {"b200", 0, "NVIDIA B200", "Blackwell", "10.0.0", "HMM"},
    {"b300", 0, "NVIDIA B300", "Blackwell", "10.3.0", "HMM"},
    {"gb200", 0, "NVIDIA GB200", "Blackwell", "10.0.0", "ATS"},
    {"a10g", 0, "NVIDIA A10G", "Ampere", "8.6.0", "HMM"},
    {"l40s", 0, "NVIDIA L40S", "Ada Lovelace", "8.9.0", "HMM"},
}};

const GpuModel* model_of(const ProfileAccelerator& accelerator) {
  const auto at = std::find_if(kGpuModels.begin(), kGpuModels.end(), [&](const GpuModel& m) {
    return m.name == accelerator.name && (m.memory_mib == 0 || m.memory_mib == accelerator.memory_mib);
  });
  return at == kGpuModels.end() ? nullptr : &*at;
}

int64_t amount_of(const agent::NodeTemplate& node, std::string_view resource) {
  for (const auto& [name, text] : node.capacity) {
    const auto quantity = kube::Quantity::parse(text);
    if (name == resource && quantity.ok()) return quantity->value();
  }
  return 0;
}

void describe_gpus(const ProfileAccelerator& accelerator, agent::DraDevices* d) {
  d->kind = agent::DriverKind::kGpu;
  d->brand = "Nvidia";
  d->driver_version = kGpuDriver;
  d->cuda_version = kCuda;
  d->memory_mib = accelerator.memory_mib;
  d->product = "NVIDIA " + accelerator.name;
  const GpuModel* model = model_of(accelerator);
  if (model == nullptr) return;
  d->product = model->product;
  d->architecture = model->architecture;
  d->compute_capability = model->capability;
  d->addressing_mode = model->addressing;
}

}  // namespace

Result<std::shared_ptr<const agent::DraDevices>> make_dra_devices(const Profile& profile,
                                                                  const agent::NodeTemplate& node) {
  auto d = std::make_shared<agent::DraDevices>();
  if (profile.accelerator.manufacturer == "nvidia") {
    describe_gpus(profile.accelerator, d.get());
  } else if (profile.accelerator.manufacturer == "aws") {
    d->kind = agent::DriverKind::kNeuron;
    d->driver_version = kNeuronDriver;
    d->dra_version = kNeuronDra;
    d->instance_type = profile.name;
  } else {
    return not_found(
        fmt::format("profile {}: it has no accelerator with a DRA driver (spec.accelerator.manufacturer "
                    "\"{}\"; nvidia and aws have one)",
                    profile.name, profile.accelerator.manufacturer));
  }
  const std::string_view resource = agent::plugin_resource(d->kind);
  const int64_t count = amount_of(node, resource);
  if (count < 1 || count > agent::kMostDraDevices) {
    return not_found(fmt::format("profile {}: capacity {} is {}: 1 to {} devices are expected", profile.name, resource,
                                 count, agent::kMostDraDevices));
  }
  d->count = static_cast<uint32_t>(count);
  return std::shared_ptr<const agent::DraDevices>(std::move(d));
}

void remove_plugin_resources(const agent::DraDevices& devices, agent::NodeTemplate* node) {
  const auto is_plugins = [&devices](const auto& resource) {
    const std::string& name = resource.first;
    if (devices.kind == agent::DriverKind::kGpu) return name == "nvidia.com/gpu" || name.starts_with("nvidia.com/mig-");
    return name.starts_with("aws.amazon.com/neuron");
  };
  std::erase_if(node->capacity, is_plugins);
  std::erase_if(node->allocatable, is_plugins);
}

}  // namespace ghostfleet::emulator
