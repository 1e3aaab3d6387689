#include "agent/device/topology.h"

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>

namespace ghostfleet::agent {
namespace {

// Calls `visit(nodes)` for each set of these nodes but the empty one.
template <class Visit>
void each_set(NumaNodes all, Visit&& visit) {
  for (NumaNodes set = all; set != 0; set = (set - 1) & all) visit(set);
}

int size_of(NumaNodes nodes) { return std::popcount(nodes); }

// Whether `a` is fewer nodes than `b`, or as many that are lower.
bool narrower(NumaNodes a, NumaNodes b) { return std::pair(size_of(a), a) < std::pair(size_of(b), b); }

uint32_t count_in(NumaNodes set, const std::vector<TopologyDevice>& devices, bool available_only) {
  return static_cast<uint32_t>(std::count_if(devices.begin(), devices.end(), [&](const TopologyDevice& device) {
    return (device.nodes & set) != 0 && (device.available || !available_only);
  }));
}

// A choice of hints, one of each resource, as far as more resources matter to it: what they have in common, and while
// all are preferred and the same, which one that is (0: none has said anything yet).
struct Merged {
  NumaNodes nodes = 0, all = 0;
  bool preferred = true;
  friend auto operator<=>(const Merged&, const Merged&) = default;
};

// `any`: the hint of a resource that does not care.
Merged with(Merged merged, const TopologyHint& hint, bool any) {
  if (!hint.preferred) merged.preferred = false;
  if (any) return merged;
  merged.nodes &= hint.nodes;
  if (merged.all != 0 && merged.all != hint.nodes) merged.preferred = false;
  merged.all = merged.preferred ? hint.nodes : 0;
  return merged;
}

// Between two choices that are not preferred, the one that is nearest to what the greediest resource needs at least.
bool nearer(NumaNodes a, NumaNodes b, int wanted) {
  const auto rank = [wanted](NumaNodes nodes) {
    const int size = size_of(nodes);
    if (size == wanted) return std::tuple(0, 0, nodes);
    return size < wanted ? std::tuple(1, -size, nodes) : std::tuple(2, size, nodes);
  };
  return rank(a) < rank(b);
}

int greediest(const std::vector<std::vector<TopologyHint>>& resources) {
  int most = 0;
  for (const std::vector<TopologyHint>& hints : resources) {
    int least = kMostTopologyNodes + 1;
    for (const TopologyHint& hint : hints) least = std::min(least, size_of(hint.nodes));
    if (least <= kMostTopologyNodes) most = std::max(most, least);
  }
  return most;
}

// What remains for a policy that knows single nodes only.
void keep_single_nodes(std::vector<std::vector<TopologyHint>>* resources) {
  for (std::vector<TopologyHint>& hints : *resources)
    std::erase_if(hints, [](const TopologyHint& hint) { return !hint.preferred || size_of(hint.nodes) > 1; });
}

// A hint without nodes is of a resource that does not care, or that is nowhere.
TopologyHint best_of(NumaNodes machine, const std::vector<std::vector<TopologyHint>>& resources) {
  std::set<Merged> choices{Merged{machine, 0, true}};
  for (const std::vector<TopologyHint>& hints : resources) {
    std::set<Merged> next;
    for (const Merged& choice : choices) {
      for (const TopologyHint& hint : hints) next.insert(with(choice, hint, hint.nodes == 0));
    }
    choices = std::move(next);
  }
  const int wanted = greediest(resources);
  std::optional<TopologyHint> best;
  for (const Merged& choice : choices) {
    if (choice.nodes == 0 || (best && best->preferred && !choice.preferred)) continue;
    const bool better = !best || (choice.preferred ? !best->preferred || narrower(choice.nodes, best->nodes)
                                                   : nearer(choice.nodes, best->nodes, wanted));
    if (better) best = {choice.nodes, choice.preferred};
  }
  return best.value_or(TopologyHint{machine, false});
}

}  // namespace

const std::vector<std::string>& topology_policy_names() {
  static const std::vector<std::string> names{"none", "best-effort", "restricted", "single-numa-node"};
  return names;
}

TopologyPolicy topology_policy(std::string_view name) {
  const std::vector<std::string>& names = topology_policy_names();
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? TopologyPolicy::kNone : static_cast<TopologyPolicy>(at - names.begin());
}

const std::vector<std::string>& topology_scope_names() {
  static const std::vector<std::string> names{"container", "pod"};
  return names;
}

TopologyScope topology_scope(std::string_view name) {
  return name == "pod" ? TopologyScope::kPod : TopologyScope::kContainer;
}

NumaNodes topology_nodes(NumaNodes nodes) {
  while (size_of(nodes) > kMostTopologyNodes) nodes &= ~std::bit_floor(nodes);
  return nodes;
}

TopologyHints topology_hints(const std::vector<TopologyDevice>& devices, uint32_t count) {
  NumaNodes all = 0;
  for (const TopologyDevice& device : devices) all |= device.nodes;
  if (all == 0) return std::nullopt;
  std::vector<TopologyHint> hints;
  const auto ready = std::count_if(devices.begin(), devices.end(), [](const auto& device) { return device.available; });
  if (static_cast<uint64_t>(ready) < count) return hints;
  int least = size_of(all);
  each_set(all, [&](NumaNodes set) {
    if (size_of(set) < least && count_in(set, devices, false) >= count) least = size_of(set);
    const bool leaves_one_out = std::any_of(devices.begin(), devices.end(), [&](const TopologyDevice& device) {
      return device.reused && device.nodes != 0 && (device.nodes & set) == 0;
    });
    if (!leaves_one_out && count_in(set, devices, true) >= count) hints.push_back({set, false});
  });
  for (TopologyHint& hint : hints) hint.preferred = size_of(hint.nodes) == least;
  return hints;
}

TopologyChoice choose_topology(TopologyPolicy policy, NumaNodes machine, const std::vector<TopologyHints>& resources) {
  if (policy == TopologyPolicy::kNone) return {};
  std::vector<std::vector<TopologyHint>> hints;
  for (const TopologyHints& of_resource : resources) {
    if (!of_resource) {
      hints.push_back({{0, true}});
    } else if (of_resource->empty()) {
      hints.push_back({{0, false}});
    } else {
      hints.push_back(*of_resource);
    }
  }
  if (policy == TopologyPolicy::kSingleNumaNode) keep_single_nodes(&hints);
  const TopologyHint best = best_of(machine, hints);
  if (policy == TopologyPolicy::kBestEffort) return {true, best.nodes};
  if (!best.preferred) return {false, 0};
  // One that may lie anywhere on the machine is no single node.
  if (policy == TopologyPolicy::kSingleNumaNode && best.nodes == machine) return {true, 0};
  return {true, best.nodes};
}

}  // namespace ghostfleet::agent
