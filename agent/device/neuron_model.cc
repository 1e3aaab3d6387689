#include "agent/device/neuron_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace ghostfleet::agent {
namespace {

// "0-3,8-11"
std::string ranges_of(const std::vector<uint32_t>& sorted) {
  std::string out;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", sorted[i]);
    if (last > i) out += fmt::format("-{}", sorted[last]);
    i = last + 1;
  }
  return out;
}

std::vector<uint32_t> sorted(std::vector<uint32_t> list) {
  std::sort(list.begin(), list.end());
  return list;
}

// Length of the run of set bits around each.
std::vector<uint32_t> runs_of(const DeviceBits& bits) {
  std::vector<uint32_t> out(bits.size());
  for (size_t i = 0; i < bits.size();) {
    size_t end = i;
    while (end < bits.size() && bits[end]) ++end;
    std::fill(out.begin() + static_cast<ptrdiff_t>(i), out.begin() + static_cast<ptrdiff_t>(end),
              static_cast<uint32_t>(end - i));
    i = std::max(end, i + 1);
  }
  return out;
}

class NeuronPlugin final : public PluginModel {
 public:
  // `each`: devices of this resource on one chip.
  NeuronPlugin(std::string resource, const NeuronConfig& config, uint32_t each)
      : PluginModel(std::move(resource), config.chips * each), config_(config), each_(each) {}

  PluginOptions options() const override { return {false, true}; }
  std::string id(std::string_view /*node*/, uint32_t index) const override {
    return fmt::format("{}-{}", std::string_view(resource()).substr(resource().find('/') + 1), index);
  }
  uint64_t numa_nodes(uint32_t index) const override {
    const uint32_t nodes = std::clamp(config_.numa_nodes, 1u, kMaxNumaNodes);
    return uint64_t{1} << (uint64_t{chip(index)} * nodes / config_.chips);
  }
  std::string_view hardware() const override { return "neuron"; }
  uint32_t chip(uint32_t index) const override { return index / each_; }

  // Neighbours by number, on as few chips as can be, from the gap that fits best; where there are none, the lowest
  // that nobody has through the other resource.
  std::vector<uint32_t> prefer(const DeviceChoice& choice) const override {
    DeviceBits good = choice.available;
    for (uint32_t i = 0; i < good.size(); ++i) {
      if (chip(i) < choice.others.size() && choice.others[chip(i)]) good[i] = false;
    }
    if (std::optional<uint32_t> from = best_window(good, choice)) {
      std::vector<uint32_t> out(choice.size);
      for (uint32_t i = 0; i < choice.size; ++i) out[i] = *from + i;
      return out;
    }
    std::vector<uint32_t> out = choice.must_include;
    for (const DeviceBits* from : std::initializer_list<const DeviceBits*>{&good, &choice.available}) {
      for (uint32_t i = 0; i < from->size() && out.size() < choice.size; ++i) {
        if ((*from)[i] && std::find(out.begin(), out.end(), i) == out.end()) out.push_back(i);
      }
    }
    return out;
  }

  Result<AllocateResponse> allocate(std::string_view /*node*/, const std::vector<uint32_t>& indexes,
                                    const DeviceBits& others) const override {
    const std::vector<uint32_t> all = sorted(indexes);
    AllocateResponse r;
    std::vector<uint32_t> chips, cores;
    for (const uint32_t i : all) {
      const uint32_t c = chip(i);
      if (c < others.size() && others[c]) {
        return invalid_argument(
            fmt::format("neuron device {} is in use as {}", c, is_core() ? kNeuronResource : kNeuronCoreResource));
      }
      if (chips.empty() || chips.back() != c) chips.push_back(c);
      if (is_core()) {
        cores.push_back(i);
      } else {
        for (uint32_t core = 0; core < config_.cores_per_chip; ++core)
          cores.push_back(c * config_.cores_per_chip + core);
      }
    }
    r.envs.emplace_back("NEURON_RT_VISIBLE_CORES", ranges_of(cores));
    for (const uint32_t c : chips) {
      std::string path = fmt::format("/dev/neuron{}", c);
      r.nodes.push_back({path, path, "rwm"});
    }
    return r;
  }

  std::string start_failure(const std::vector<uint32_t>& indexes) const override {
    if (config_.contiguity != Contiguity::kFault || is_contiguous(sorted(indexes))) return {};
    return fmt::format("nrt_init failed: {} {} are not contiguous", is_core() ? "NeuronCores" : "Neuron devices",
                       ranges_of(sorted(indexes)));
  }
  bool acceptable(const std::vector<uint32_t>& indexes) const override { return is_contiguous(sorted(indexes)); }
  bool insists() const override { return config_.contiguity == Contiguity::kExtension; }

  std::vector<uint32_t> hit_by(std::string_view of, uint32_t number, int /*code*/) const override {
    if (number >= fault_numbers(of)) return {};
    const bool core = of == kNeuronCoreResource;
    const uint32_t c = core ? number / config_.cores_per_chip : number;
    if (core && is_core()) return {number};
    std::vector<uint32_t> out(each_);
    for (uint32_t i = 0; i < each_; ++i) out[i] = c * each_ + i;
    return out;
  }
  uint32_t fault_numbers(std::string_view of) const override {
    if (of == kNeuronCoreResource) return config_.chips * config_.cores_per_chip;
    return of == kNeuronResource || of == kNeuronDeviceResource ? config_.chips : 0;
  }

 private:
  bool is_core() const { return resource() == kNeuronCoreResource; }
  std::optional<uint32_t> best_window(const DeviceBits& good, const DeviceChoice& choice) const {
    const uint32_t size = choice.size;
    if (size == 0 || size > good.size()) return std::nullopt;
    const std::vector<uint32_t> runs = runs_of(good);
    std::optional<std::tuple<uint32_t, uint32_t, uint32_t>> best;  // chips, run, first
    for (uint32_t from = 0; from + size <= good.size(); ++from) {
      const auto outside = [&](uint32_t i) { return i < from || i >= from + size; };
      bool all = true;
      for (uint32_t i = from; i < from + size; ++i) all = all && good[i];
      if (!all || std::any_of(choice.must_include.begin(), choice.must_include.end(), outside)) continue;
      const std::tuple candidate(chip(from + size - 1) - chip(from), runs[from], from);
      if (!best || candidate < *best) best = candidate;
    }
    return best ? std::optional(std::get<2>(*best)) : std::nullopt;
  }

  NeuronConfig config_;
  uint32_t each_;
};

}  // namespace

std::shared_ptr<const PluginModel> neuron_plugin(std::string_view resource, const NeuronConfig& given) {
  if (given.chips == 0) return nullptr;
  NeuronConfig config = given;
  config.cores_per_chip = std::max(config.cores_per_chip, 1u);
  if (resource == kNeuronCoreResource)
    return std::make_shared<NeuronPlugin>(std::string(resource), config, config.cores_per_chip);
  if (resource != kNeuronResource && resource != kNeuronDeviceResource) return nullptr;
  return std::make_shared<NeuronPlugin>(std::string(resource), config, 1);
}

bool is_contiguous(const std::vector<uint32_t>& list) {
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i] != list[i - 1] + 1) return false;
  }
  return true;
}

// On a torus of four by four, or on a ring.
std::vector<uint32_t> neuron_neighbours(uint32_t chip, uint32_t chips) {
  std::vector<uint32_t> out;
  if (chips == 16) {
    const uint32_t x = chip % 4, y = chip / 4;
    out = {(y + 3) % 4 * 4 + x, y * 4 + (x + 3) % 4, (y + 1) % 4 * 4 + x, y * 4 + (x + 1) % 4};
  } else if (chips > 1) {
    out = {(chip + chips - 1) % chips, (chip + 1) % chips};
  }
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace ghostfleet::agent
