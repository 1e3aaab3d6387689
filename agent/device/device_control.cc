#include "agent/device/device_control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace ghostfleet::agent {
namespace {

bool read_number(std::string_view text, uint32_t most, uint32_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return !text.empty() && error == std::errc() && end == text.data() + text.size() && *out <= most;
}

// Calls `read(resource, values)` for each "resource=values" between semicolons.
template <class Read>
Status each_item(std::string_view text, std::string_view what, std::string_view expected, Read&& read) {
  if (text.size() > kMaxControl) {
    return invalid_argument(fmt::format("{}: {} bytes: at most {} are expected", what, text.size(), kMaxControl));
  }
  while (!trimmed(text).empty()) {
    std::string_view item = take_part(&text, ";");
    if (item.empty()) continue;
    const std::string_view whole = item;
    const std::string_view resource = take_part(&item, "=");
    item = trimmed(item);
    if (resource.find('/') == std::string_view::npos || item.empty())
      return invalid_argument(fmt::format("{}: \"{}\": {}", what, whole.substr(0, 80), expected));
    GF_RETURN_IF_ERROR(read(resource, item));
  }
  return Status();
}

std::string resources_of(const DeviceSetup& setup) {
  std::string out;
  for (const auto& model : setup.models) out += (out.empty() ? "" : ", ") + model->resource();
  return out.empty() ? "none" : out;
}

uint32_t count_in(const ResourcePairs& capacity, std::string_view name) {
  for (const auto& [resource, quantity] : capacity) {
    uint32_t count = 0;
    if (resource == name && read_number(quantity, UINT32_MAX, &count)) return count;
  }
  return 0;
}

bool is_absent(const DeviceConfig& config, std::string_view resource) {
  return std::find(config.absent.begin(), config.absent.end(), resource) != config.absent.end();
}

NeuronConfig neuron_config(const DeviceConfig& config, const DeviceHardware& hardware, const ResourcePairs& capacity) {
  NeuronConfig out;
  out.contiguity = config.contiguity;
  out.numa_nodes = hardware.numa_nodes;
  out.chips = std::max(count_in(capacity, kNeuronResource), count_in(capacity, kNeuronDeviceResource));
  const uint32_t cores = count_in(capacity, kNeuronCoreResource);
  out.cores_per_chip = hardware.cores_per_chip;
  if (out.chips > 0 && cores > 0 && cores % out.chips == 0) out.cores_per_chip = cores / out.chips;
  if (out.cores_per_chip == 0) out.cores_per_chip = 2;
  if (out.chips == 0) out.chips = (cores + out.cores_per_chip - 1) / out.cores_per_chip;
  return out;
}

// The model of one resource with `count` devices.
std::shared_ptr<const PluginModel> model_of(const std::string& resource, uint32_t count, const NeuronConfig& neuron,
                                            const DeviceHardware& hardware) {
  auto model = neuron_plugin(resource, neuron);
  if (model != nullptr && model->count() == count) return model;
  if (resource == "vpc.amazonaws.com/efa") return efa_plugin(count, hardware.numa_nodes);
  return plain_plugin(resource, count);
}

}  // namespace

bool is_device_resource(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || name.starts_with("requests.")) return false;
  const std::string_view domain = name.substr(0, slash);
  if (domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")) return false;
  // Written by the VPC resource controller.
  return name != "vpc.amazonaws.com/pod-eni" && name != "vpc.amazonaws.com/PrivateIPv4Address";
}

Result<std::vector<DeviceManager::Fault>> parse_faults(std::string_view text) {
  std::vector<DeviceManager::Fault> out;
  const auto read = [&](std::string_view resource, std::string_view values) {
    while (!values.empty()) {
      const std::string_view value = take_part(&values, ",");
      std::string_view rest = value;
      const std::string_view number = take_part(&rest, ":");
      DeviceManager::Fault fault{std::string(resource), 0, -1};
      uint32_t code = 0;
      const bool coded = value.find(':') != std::string_view::npos;
      if (!read_number(number, DeviceManager::kMaxDevices, &fault.number) ||
          (coded && !read_number(trimmed(rest), kMaxXid, &code))) {
        return invalid_argument(
            fmt::format("unhealthy devices of {}: \"{}\": the number of a device, from 0, is "
                        "expected, or NUMBER:XID",
                        resource, value));
      }
      if (coded) fault.code = static_cast<int>(code);
      if (std::find(out.begin(), out.end(), fault) == out.end()) out.push_back(std::move(fault));
    }
    return Status();
  };
  GF_RETURN_IF_ERROR(
      each_item(text, "unhealthy devices", "RESOURCE=NUMBER,... is expected, as in nvidia.com/gpu=0,3", read));
  return out;
}

Result<std::vector<PluginOutage>> parse_outages(std::string_view text) {
  std::vector<PluginOutage> out;
  const auto read = [&](std::string_view resource, std::string_view value) {
    if (value != "gone" && value != "lost")
      return invalid_argument(fmt::format("device plugins: {}: \"{}\": gone or lost is expected", resource, value));
    out.push_back({std::string(resource), value == "lost"});
    return Status();
  };
  GF_RETURN_IF_ERROR(each_item(text, "device plugins", "RESOURCE=gone or RESOURCE=lost is expected", read));
  return out;
}

Status check_faults(const DeviceSetup& setup, const std::vector<DeviceManager::Fault>& faults) {
  for (const DeviceManager::Fault& fault : faults) {
    uint32_t numbers = 0;
    for (const auto& model : setup.models) numbers = std::max(numbers, model->fault_numbers(fault.resource));
    if (numbers == 0) {
      return invalid_argument(fmt::format("unhealthy devices: no device plugin of this node gives {}; there are: {}",
                                          fault.resource, resources_of(setup)));
    }
    if (fault.number >= numbers) {
      return invalid_argument(
          fmt::format("unhealthy devices of {}: \"{}\": 0 to {} are there", fault.resource, fault.number, numbers - 1));
    }
  }
  return Status();
}

Status check_outages(const DeviceSetup& setup, const std::vector<PluginOutage>& outages) {
  for (const PluginOutage& outage : outages) {
    const auto gives = [&](const auto& model) { return model->resource() == outage.resource; };
    if (std::any_of(setup.models.begin(), setup.models.end(), gives)) continue;
    return invalid_argument(fmt::format("device plugins: no device plugin of this node gives {}; there are: {}",
                                        outage.resource, resources_of(setup)));
  }
  return Status();
}

Status check_absent(const std::vector<std::string>& absent, const std::vector<const DeviceSetup*>& setups) {
  const auto leaves_out = [](const DeviceSetup* setup, const std::string& resource) {
    return std::find(setup->absent.begin(), setup->absent.end(), resource) != setup->absent.end();
  };
  for (const std::string& resource : absent) {
    if (std::any_of(setups.begin(), setups.end(), [&](const auto* setup) { return leaves_out(setup, resource); }))
      continue;
    std::vector<std::string> there;
    for (const DeviceSetup* setup : setups) {
      for (const auto& model : setup->models) there.push_back(model->resource());
      there.insert(there.end(), setup->absent.begin(), setup->absent.end());
    }
    std::sort(there.begin(), there.end());
    there.erase(std::unique(there.begin(), there.end()), there.end());
    return invalid_argument(fmt::format("devices.absentPlugins: \"{}\": no device plugin gives it; there are: {}",
                                        resource, there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", "))));
  }
  return Status();
}

Result<DeviceSetup> make_device_setup(const DeviceConfig& config, const DeviceHardware& hardware,
                                      ResourcePairs* capacity) {
  DeviceSetup setup;
  setup.topology = config.topology;
  setup.scope = config.scope;
  NvidiaConfig nvidia{.gpus = count_in(*capacity, kGpuResource),
                      .gpu = hardware.gpu,
                      .memory_mib = hardware.gpu_memory_mib,
                      .numa_nodes = hardware.numa_nodes,
                      .mig = config.mig,
                      .mig_layout = config.mig_layout,
                      .replicas = config.replicas,
                      .rename_shared = config.rename_shared,
                      .refuse_more_than_one = config.refuse_more_than_one,
                      .xids = config.xids};
  auto gpus = nvidia_plugins(nvidia);
  if (!gpus.ok()) return gpus.error();
  const NeuronConfig neuron = neuron_config(config, hardware, *capacity);
  ResourcePairs listed;
  for (const auto& [resource, quantity] : *capacity) {
    if (resource == kGpuResource) continue;
    uint32_t count = 0;
    const bool devices = is_device_resource(resource) && read_number(quantity, DeviceManager::kMaxDevices, &count);
    if (devices && is_absent(config, resource)) {
      setup.absent.push_back(resource);
      continue;
    }
    if (devices && count > 0) setup.models.push_back(model_of(resource, count, neuron, hardware));
    listed.emplace_back(resource, quantity);
  }
  for (const auto& model : *gpus) {
    if (model->count() > DeviceManager::kMaxDevices) {
      return invalid_argument(fmt::format("{}: {} devices: at most {} are expected", model->resource(), model->count(),
                                          DeviceManager::kMaxDevices));
    }
    if (is_absent(config, model->resource())) {
      setup.absent.push_back(model->resource());
      continue;
    }
    listed.emplace_back(model->resource(), std::to_string(model->count()));
    setup.models.push_back(model);
  }
  *capacity = std::move(listed);
  return setup;
}

}  // namespace ghostfleet::agent
