#include "agent/device/plugin_model.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace ghostfleet::agent {

std::optional<uint32_t> PluginModel::find(std::string_view node, std::string_view id_text) const {
  for (uint32_t i = 0; i < count_; ++i) {
    if (id(node, i) == id_text) return i;
  }
  return std::nullopt;
}

std::vector<uint32_t> PluginModel::prefer(const DeviceChoice& /*choice*/) const { return {}; }

std::vector<uint32_t> PluginModel::hit_by(std::string_view resource, uint32_t number, int /*code*/) const {
  if (resource != resource_ || number >= count_) return {};
  return {number};
}

uint32_t PluginModel::fault_numbers(std::string_view resource) const { return resource == resource_ ? count_ : 0; }

std::string device_uuid(std::string_view prefix, std::string_view node, std::string_view resource, uint32_t index) {
  const uint64_t a = hash_text(node, hash_text(resource, index)), b = hash_mix(a, index + 1);
  return fmt::format("{}{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", prefix, a >> 32, a >> 16 & 0xffff, a & 0xfff,
                     b >> 48 & 0xfff, b & 0xffffffffffff);
}

namespace {

// "radio-0" of example.test/radio, with a device node for each.
class PlainPlugin : public PluginModel {
 public:
  PlainPlugin(std::string resource, uint32_t count) : PluginModel(std::move(resource), count) {}
  std::string id(std::string_view /*node*/, uint32_t index) const override {
    return fmt::format("{}-{}", kind(), index);
  }
  Result<AllocateResponse> allocate(std::string_view /*node*/, const std::vector<uint32_t>& indexes,
                                    const DeviceBits& /*others*/) const override {
    AllocateResponse r;
    for (const uint32_t i : indexes) {
      std::string path = device_node(i);
      r.nodes.push_back({path, path, "rw"});
    }
    return r;
  }

 protected:
  virtual std::string device_node(uint32_t index) const { return fmt::format("/dev/{}{}", kind(), index); }

 private:
  std::string_view kind() const { return std::string_view(resource()).substr(resource().find('/') + 1); }
};

class EfaPlugin final : public PlainPlugin {
 public:
  EfaPlugin(uint32_t count, uint32_t numa_nodes)
      : PlainPlugin("vpc.amazonaws.com/efa", count), numa_(std::max(numa_nodes, 1u)) {}
  uint64_t numa_nodes(uint32_t index) const override { return uint64_t{1} << (uint64_t{index} * numa_ / count()); }

 protected:
  std::string device_node(uint32_t index) const override { return fmt::format("/dev/infiniband/uverbs{}", index); }

 private:
  uint32_t numa_;
};

}  // namespace

std::shared_ptr<const PluginModel> plain_plugin(std::string resource, uint32_t count) {
  return std::make_shared<PlainPlugin>(std::move(resource), count);
}

std::shared_ptr<const PluginModel> efa_plugin(uint32_t count, uint32_t numa_nodes) {
  return std::make_shared<EfaPlugin>(count, numa_nodes);
}

}  // namespace ghostfleet::agent
