#include "agent/kubelet_api/usage.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "agent/pod/pod_resources.h"
#include "base/hash.h"
#include "kube/api/json.h"

namespace ghostfleet::kubelet_api {
namespace {

constexpr double kMean = 0.30, kSlow = 0.08, kFast = 0.02;  // shares of what is asked for: 20 to 40 %
constexpr double kSlowPeriod = 600, kFastPeriod = 97;       // seconds
constexpr int64_t kUntoldDisk = int64_t{80} << 30;
constexpr double kMemorySwing = 0.05, kMemoryPeriod = 3600;

double phase(uint64_t seed, int which) {
  return 2 * std::numbers::pi * static_cast<double>(hash_mix(seed, static_cast<uint64_t>(which)) >> 11) * 0x1p-53;
}

double seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }

double wave(double t, double period, double at) { return std::sin(2 * std::numbers::pi * t / period + at); }
// The integral of wave from 0 to t.
double wave_sum(double t, double period, double at) {
  const double w = 2 * std::numbers::pi / period;
  return (std::cos(at) - std::cos(w * t + at)) / w;
}

Usage usage_of(uint64_t seed, double cores, double memory, WallTime since, WallTime now) {
  const double t = std::max(0.0, seconds(now - since));
  const double a = phase(seed, 1);
  const double b = phase(seed, 2);
  Usage u;
  u.cpu_cores = cores * (kMean + kSlow * wave(t, kSlowPeriod, a) + kFast * wave(t, kFastPeriod, b));
  u.cpu_seconds = cores * (kMean * t + kSlow * wave_sum(t, kSlowPeriod, a) + kFast * wave_sum(t, kFastPeriod, b));
  u.working_set = static_cast<int64_t>(memory * (kMean + kMemorySwing * wave(t, kMemoryPeriod, a)));
  u.usage = u.working_set + u.working_set / 8;
  u.rss = u.working_set - u.working_set / 5;
  u.page_faults = static_cast<uint64_t>(2000 + t * 3);
  u.major_page_faults = static_cast<uint64_t>(4 + t / 600);
  return u;
}

// What the words of a behaviour say goes over the model.
void follow_script(const agent::Script& script, double cores, double memory, Duration age, Usage* u) {
  if (!script.cpu.empty()) {
    const double unit = script.cpu.share ? cores : 1;
    u->cpu_cores = unit * script.cpu.at(age);
    u->cpu_seconds = unit * script.cpu.sum(age);
  }
  if (script.memory.empty()) return;
  u->working_set = static_cast<int64_t>((script.memory.share ? memory : 1) * script.memory.at(age));
  u->usage = u->working_set + u->working_set / 8;
  u->rss = u->working_set - u->working_set / 5;
}

class DefaultUsage final : public UsageModel {
 public:
  Usage container(const NodeInfo& node, const agent::PodView& pod, const agent::ContainerView& container,
                  WallTime now) const override {
    const Amounts a = amounts_of(container);
    const int64_t millis = a.cpu_request_millis > 0 ? a.cpu_request_millis
                           : a.cpu_limit_millis > 0 ? a.cpu_limit_millis
                                                    : 17;
    const int64_t memory = a.memory_request > 0 ? a.memory_request : a.memory_limit > 0 ? a.memory_limit : 110 << 20;
    const uint64_t seed = hash_mix(hash_text(pod.uid, node.seed), hash_text(container.name));
    const double cores = static_cast<double>(millis) / 1000;
    Usage u = usage_of(seed, cores, static_cast<double>(memory), container.current.started, now);
    follow_script(container.script, cores, static_cast<double>(memory), now - container.current.started, &u);
    return u;
  }
  Usage system(const NodeInfo& node, WallTime now) const override {
    const double cores = 0.2 + 0.005 * static_cast<double>(capacity_of(node, "cpu")) / 1000;
    const double memory = 1.5e9 + 0.01 * static_cast<double>(capacity_of(node, "memory"));
    return usage_of(hash_text(node.identity.name, node.seed), cores, memory, node.started, now);
  }
};

int64_t amount_at(const kube::Json& resources, const char* list, std::string_view resource) {
  const kube::JsonObject* amounts = kube::get_object(resources, list);
  const kube::Json* amount = amounts == nullptr ? nullptr : amounts->if_contains(resource);
  if (amount == nullptr || !amount->is_string()) return 0;
  return agent::amount_of(resource, std::string_view(amount->get_string()));
}

int64_t amount_in(const agent::StringPairs& amounts, std::string_view resource) {
  for (const auto& [name, quantity] : amounts) {
    if (name == resource) return agent::amount_of(resource, quantity);
  }
  return 0;
}

// What is over uses nothing of its node any more.
bool is_over(const agent::PodView& pod) { return pod.phase == "Succeeded" || pod.phase == "Failed"; }

}  // namespace

std::shared_ptr<const UsageModel> default_usage_model() { return std::make_shared<DefaultUsage>(); }

Amounts amounts_of(const agent::ContainerView& container) {
  if (container.resources.size() <= 2) return {};
  const auto resources = kube::parse_json(container.resources);
  if (!resources.ok()) return {};
  return {amount_at(*resources, "requests", "cpu"), amount_at(*resources, "limits", "cpu"),
          amount_at(*resources, "requests", "memory"), amount_at(*resources, "limits", "memory")};
}

int64_t capacity_of(const NodeInfo& node, std::string_view resource) {
  return amount_in(node.node->capacity, resource);
}

void add_usage(Usage* sum, const Usage& more) {
  sum->cpu_cores += more.cpu_cores;
  sum->cpu_seconds += more.cpu_seconds;
  sum->working_set += more.working_set;
  sum->usage += more.usage;
  sum->rss += more.rss;
  sum->page_faults += more.page_faults;
  sum->major_page_faults += more.major_page_faults;
}

double seconds_since(WallTime since, WallTime now) { return std::max(0.0, seconds(now - since)); }

agent::ResourceUse use_of(const std::vector<agent::PodView>& pods) {
  agent::ResourceUse sum;
  for (const agent::PodView& pod : pods) {
    if (!is_over(pod)) sum += pod.use();
  }
  return sum;
}

const agent::EvictionRules& eviction_of(const NodeInfo& node) {
  static const agent::EvictionRules kDefault;
  return node.eviction == nullptr ? kDefault : *node.eviction;
}

Disk disk_of(const NodeInfo& node, const std::vector<agent::PodView>& pods) {
  constexpr std::string_view kDisk = "ephemeral-storage";
  agent::NodeAmounts capacity{0, capacity_of(node, kDisk)};
  agent::NodeAmounts allocatable{0, node.allocatable == nullptr ? 0 : amount_in(*node.allocatable, kDisk)};
  if (capacity.storage == 0) capacity.storage = kUntoldDisk;
  if (allocatable.storage == 0) allocatable.storage = capacity.storage;
  const agent::Observations seen = observations_of(eviction_of(node), capacity, allocatable, use_of(pods));
  const auto& bytes = *seen[static_cast<size_t>(agent::EvictionSignal::kNodeFs)];
  const auto& inodes = *seen[static_cast<size_t>(agent::EvictionSignal::kNodeInodes)];
  if (node.disk) return {node.disk->capacity, node.disk->available, inodes.capacity, inodes.available};
  return {bytes.capacity, bytes.available, inodes.capacity, inodes.available};
}

}  // namespace ghostfleet::kubelet_api
