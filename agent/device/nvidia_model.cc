#include "agent/device/nvidia_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ghostfleet::agent {
namespace {

// Gigabytes in the names of the profiles: one memory slice, two, four, and all eight.
struct MigKind {
  std::string_view gpu;
  int64_t least_mib;  // of the GPU's memory
  int slice, two, four, all;
};
// NVIDIA MIG user guide, supported profiles. The entry with most memory that fits counts.
constexpr MigKind kMigKinds[] = {{"a100", 0, 5, 10, 20, 40},   {"a100", 70000, 10, 20, 40, 80},
                                 {"h100", 0, 10, 20, 40, 80},  {"h200", 0, 18, 35, 71, 141},
                                 {"b200", 0, 23, 45, 90, 180}, {"b300", 0, 34, 67, 135, 269},
                                 {"gb200", 0, 23, 47, 93, 186}};

std::string list_of(const std::vector<MigProfile>& profiles) {
  std::string out;
  for (const MigProfile& p : profiles) out += (out.empty() ? "" : ", ") + p.name;
  return out;
}

const MigProfile* profile_of(const std::vector<MigProfile>& profiles, std::string_view name) {
  const auto at = std::find_if(profiles.begin(), profiles.end(), [&](const MigProfile& p) { return p.name == name; });
  return at == profiles.end() ? nullptr : &*at;
}

// What of `available` is free, one entry for each physical device.
std::vector<uint32_t> in_use(const DeviceBits& available, uint32_t replicas) {
  std::vector<uint32_t> used((available.size() + replicas - 1) / replicas, replicas);
  for (size_t i = 0; i < available.size(); ++i) used[i / replicas] -= available[i] ? 1 : 0;
  return used;
}

// Devices of one resource: `parts` of each GPU, each of them `replicas` times.
class NvidiaPlugin final : public PluginModel {
 public:
  NvidiaPlugin(std::string resource, const NvidiaConfig& config, std::string profile, uint32_t parts)
      : PluginModel(std::move(resource), config.gpus * parts * std::max(config.replicas, 1u)),
        profile_(std::move(profile)),
        gpus_(config.gpus),
        parts_(parts),
        replicas_(std::max(config.replicas, 1u)),
        numa_(std::clamp(config.numa_nodes, 1u, kMaxNumaNodes)),
        refuse_more_than_one_(config.refuse_more_than_one),
        xids_(config.xids) {}

  PluginOptions options() const override { return {false, true}; }
  std::string id(std::string_view node, uint32_t index) const override {
    std::string out = physical_id(node, index / replicas_);
    if (replicas_ > 1) out += fmt::format("::{}", index % replicas_);
    return out;
  }
  uint64_t numa_nodes(uint32_t index) const override { return uint64_t{1} << (uint64_t{chip(index)} * numa_ / gpus_); }
  std::string_view hardware() const override { return "nvidia"; }
  uint32_t chip(uint32_t index) const override { return index / (parts_ * replicas_); }

  std::vector<uint32_t> prefer(const DeviceChoice& choice) const override {
    if (replicas_ > 1) return spread(choice);
    return profile_.empty() ? near(choice) : lowest(choice);
  }

  Result<AllocateResponse> allocate(std::string_view node, const std::vector<uint32_t>& indexes,
                                    const DeviceBits& /*others*/) const override {
    if (replicas_ > 1 && refuse_more_than_one_ && indexes.size() > 1) {
      return invalid_argument(
          fmt::format("invalid allocation request for \"{}\": invalid request: maximum request size for shared "
                      "resources is 1; found {}",
                      resource(), indexes.size()));
    }
    std::vector<uint32_t> physical;
    for (const uint32_t i : indexes) {
      if (std::find(physical.begin(), physical.end(), i / replicas_) == physical.end())
        physical.push_back(i / replicas_);
    }
    std::string visible;
    for (const uint32_t p : physical) visible += (visible.empty() ? "" : ",") + physical_id(node, p);
    AllocateResponse r;
    r.envs.emplace_back("NVIDIA_VISIBLE_DEVICES", std::move(visible));
    return r;
  }

  std::vector<uint32_t> hit_by(std::string_view of, uint32_t number, int code) const override {
    std::vector<uint32_t> out;
    if (number >= fault_numbers(of) || (code >= 0 && !xids_.is_fatal(code))) return out;
    const uint32_t each = parts_ * replicas_;
    for (uint32_t i = number * each; i < (number + 1) * each; ++i) out.push_back(i);
    return out;
  }
  uint32_t fault_numbers(std::string_view of) const override {
    return of == kGpuResource || of == resource() ? gpus_ : 0;
  }
  bool heals() const override { return false; }

 private:
  std::string physical_id(std::string_view node, uint32_t index) const {
    return profile_.empty() ? device_uuid("GPU-", node, kGpuResource, index)
                            : device_uuid("MIG-", node, profile_, index);
  }

  static std::vector<uint32_t> lowest(const DeviceChoice& choice) {
    std::vector<uint32_t> out = choice.must_include;
    for (uint32_t i = 0; i < choice.available.size() && out.size() < choice.size; ++i) {
      if (choice.available[i] && std::find(out.begin(), out.end(), i) == out.end()) out.push_back(i);
    }
    return out;
  }

  // Of time-sliced ones, each from whichever has fewest users.
  std::vector<uint32_t> spread(const DeviceChoice& choice) const {
    DeviceBits free = choice.available;
    std::vector<uint32_t> used = in_use(free, replicas_), out = choice.must_include;
    for (const uint32_t i : out) free[i] = false;
    while (out.size() < choice.size) {
      uint32_t best = count();
      for (uint32_t i = 0; i < free.size(); ++i) {
        if (free[i] && (best == count() || used[i / replicas_] < used[best / replicas_])) best = i;
      }
      if (best == count()) break;
      free[best] = false;
      ++used[best / replicas_];
      out.push_back(best);
    }
    return out;
  }

  // All of one NUMA node, of the one with fewest left over; every pair of GPUs is equally near behind NVSwitch.
  std::vector<uint32_t> near(const DeviceChoice& choice) const {
    std::vector<DeviceBits> of_node(numa_, DeviceBits(choice.available.size()));
    std::vector<uint32_t> left(numa_);
    for (uint32_t i = 0; i < choice.available.size(); ++i) {
      const uint32_t node = static_cast<uint32_t>(uint64_t{i} * numa_ / gpus_);
      of_node[node][i] = choice.available[i];
      left[node] += choice.available[i] ? 1 : 0;
    }
    uint32_t best = numa_;
    for (uint32_t node = 0; node < numa_; ++node) {
      const auto elsewhere = [&](uint32_t i) { return !of_node[node][i]; };
      if (left[node] < choice.size || std::any_of(choice.must_include.begin(), choice.must_include.end(), elsewhere))
        continue;
      if (best == numa_ || left[node] < left[best]) best = node;
    }
    if (best == numa_) return lowest(choice);
    return lowest({std::move(of_node[best]), choice.must_include, choice.size, {}});
  }

  std::string profile_;  // of MIG; empty: whole GPUs
  uint32_t gpus_, parts_, replicas_, numa_;
  bool refuse_more_than_one_;
  XidRules xids_;
};

Status check_layout(const NvidiaConfig& config, const std::vector<MigProfile>& profiles) {
  uint32_t compute = 0, memory = 0;
  for (const auto& [name, count] : config.mig_layout) {
    const MigProfile* p = profile_of(profiles, name);
    if (p == nullptr) {
      return invalid_argument(fmt::format("mig profile \"{}\": {} has {}", name, config.gpu, list_of(profiles)));
    }
    if (count == 0 || count > p->most)
      return invalid_argument(fmt::format("mig profile {}: {} a GPU: 1 to {} are expected", name, count, p->most));
    compute += count * p->compute;
    memory += count * p->memory;
  }
  if (compute == 0) return invalid_argument("mig: at least one profile is expected: " + list_of(profiles));
  if (compute <= 7 && memory <= 8) return Status();
  return invalid_argument(
      fmt::format("mig layout: {} compute and {} memory slices: a GPU has 7 and 8", compute, memory));
}

Result<std::vector<int>> parse_xids(std::string_view text) {
  std::vector<int> out;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    int xid = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), xid);
    if (error != std::errc() || end != word.data() + word.size() || xid < 0)
      return invalid_argument(fmt::format("\"{}\": all, xids, or XID numbers like 79,94 are expected", word));
    out.push_back(xid);
  }
  return out;
}

}  // namespace

std::vector<MigProfile> mig_profiles(std::string_view gpu, int64_t memory_mib) {
  const MigKind* kind = nullptr;
  for (const MigKind& k : kMigKinds) {
    if (k.gpu == gpu && memory_mib >= k.least_mib) kind = &k;
  }
  if (kind == nullptr) return {};
  const auto name = [](int compute, int gb) { return fmt::format("{}g.{}gb", compute, gb); };
  return {{name(1, kind->slice), 1, 1, 7}, {name(1, kind->two), 1, 2, 4},  {name(2, kind->two), 2, 2, 3},
          {name(3, kind->four), 3, 4, 2},  {name(4, kind->four), 4, 4, 1}, {name(7, kind->all), 7, 8, 1}};
}

std::vector<std::string> mig_gpus() {
  std::vector<std::string> out;
  for (const MigKind& kind : kMigKinds) {
    if (out.empty() || out.back() != kind.gpu) out.emplace_back(kind.gpu);
  }
  return out;
}

Result<XidRules> XidRules::parse(std::string_view disabled, std::string_view enabled) {
  XidRules rules;
  if (disabled == "all" || disabled == "xids") {
    rules.none_ = true;
  } else {
    auto more = parse_xids(disabled);
    if (!more.ok()) return more.error().with_context("disableHealthChecks");
    rules.ignored_.insert(rules.ignored_.end(), more->begin(), more->end());
  }
  const auto back = parse_xids(enabled);
  if (!back.ok()) return back.error().with_context("enableHealthChecks");
  std::erase_if(rules.ignored_, [&](int xid) { return std::find(back->begin(), back->end(), xid) != back->end(); });
  return rules;
}

bool XidRules::is_fatal(int xid) const {
  return !none_ && std::find(ignored_.begin(), ignored_.end(), xid) == ignored_.end();
}

Result<std::vector<std::shared_ptr<const PluginModel>>> nvidia_plugins(const NvidiaConfig& config) {
  std::vector<std::shared_ptr<const PluginModel>> out;
  if (config.gpus == 0) return out;
  if (config.replicas == 0 || config.replicas > kMaxReplicas) {
    return invalid_argument(
        fmt::format("time-slicing: {} replicas: 1 to {} are expected", config.replicas, kMaxReplicas));
  }
  const std::string suffix = config.rename_shared && config.replicas > 1 ? ".shared" : "";
  if (config.mig == MigStrategy::kNone) {
    out.push_back(std::make_shared<NvidiaPlugin>(std::string(kGpuResource) + suffix, config, "", 1));
    return out;
  }
  const std::vector<MigProfile> profiles = mig_profiles(config.gpu, config.memory_mib);
  if (profiles.empty()) {
    return invalid_argument(fmt::format("mig: \"{}\" has no MIG; a100, h100, h200, b200, b300 and gb200 have",
                                        config.gpu.empty() ? "GPU" : config.gpu));
  }
  GF_RETURN_IF_ERROR(check_layout(config, profiles));
  const bool single = config.mig == MigStrategy::kSingle;
  if (single && config.mig_layout.size() != 1)
    return invalid_argument("mig: strategy single wants all devices of one profile; mixed takes several");
  for (const auto& [name, count] : config.mig_layout) {
    const std::string resource = single ? std::string(kGpuResource) : "nvidia.com/mig-" + name;
    out.push_back(std::make_shared<NvidiaPlugin>(resource + suffix, config, name, count));
  }
  return out;
}

}  // namespace ghostfleet::agent
