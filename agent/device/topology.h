// The topology manager of a kubelet, as far as device plugins have a say in it: on which NUMA nodes a container could
// have the devices it asks for, which choice suits all its resources, and whether the node's policy takes that.
//
// Thread rule: pure functions. Limits: of more than kMostTopologyNodes NUMA nodes the lowest count, as a kubelet with
// more does not start with a policy; time grows with 2^nodes, not with the number of resources.
// Source: a kubelet 1.36 (topologyManagerPolicy, topologyManagerScope; no policy options).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ghostfleet::agent {

// Sets of NUMA nodes are bits: node 0 is 1.
using NumaNodes = uint64_t;
inline constexpr int kMostTopologyNodes = 8;

enum class TopologyPolicy : unsigned char { kNone, kBestEffort, kRestricted, kSingleNumaNode };
// "none", "best-effort", "restricted", "single-numa-node".
const std::vector<std::string>& topology_policy_names();
TopologyPolicy topology_policy(std::string_view name);  // of these names; else none
// Whether containers are looked at one by one, or the pod as a whole: "container", "pod".
enum class TopologyScope : unsigned char { kContainer, kPod };
const std::vector<std::string>& topology_scope_names();
TopologyScope topology_scope(std::string_view name);  // of these names; else kContainer

struct TopologyHint {
  NumaNodes nodes = 0;
  bool preferred = false;  // no smaller set of nodes would have enough, were all devices free
  friend bool operator==(const TopologyHint&, const TopologyHint&) = default;
};
// Of one resource. Not there: it does not care. Empty: nowhere are enough.
using TopologyHints = std::optional<std::vector<TopologyHint>>;

// A device as hints see it.
struct TopologyDevice {
  NumaNodes nodes = 0;     // 0: not told
  bool available = false;  // healthy, and free or to be reused
  bool reused = false;     // of an init container of the same pod: it is part of the choice in any case
};

// The lowest kMostTopologyNodes of these.
NumaNodes topology_nodes(NumaNodes nodes);
// Of the nodes that these devices are on. Without a device that tells its nodes: not there.
TopologyHints topology_hints(const std::vector<TopologyDevice>& devices, uint32_t count);

struct TopologyChoice {
  bool admitted = true;
  NumaNodes nodes = 0;  // where devices are to be taken first; 0: anywhere
};
TopologyChoice choose_topology(TopologyPolicy policy, NumaNodes machine, const std::vector<TopologyHints>& resources);

// What the status of a refused pod says, with the reason TopologyAffinityError.
inline constexpr std::string_view kTopologyRefusal = "Resources cannot be allocated with Topology locality";

}  // namespace ghostfleet::agent
