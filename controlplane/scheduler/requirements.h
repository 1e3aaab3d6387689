// What a pod asks of nodes, compiled from its spec, and what a node offers: the words of the scheduler's engine.
//
// Units: cpu in millicores, everything else in its own unit (bytes, counts). Resources are numbered by ResourceNames.
// Thread rule: plain values; ResourceNames belongs to one engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kube/api/json.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane::scheduling {

using Labels = std::vector<std::pair<std::string, std::string>>;
const std::string* find_label(const Labels& labels, std::string_view key);

inline constexpr int kCpu = 0, kMemory = 1, kEphemeral = 2, kPods = 3;

class ResourceNames {
 public:
  ResourceNames();
  int id(std::string_view name);
  const std::string& name(int id) const { return names_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> ids_;
};

struct Taint {
  std::string key, value, effect;
};
struct Toleration {
  std::string key, op, value, effect;
  bool tolerates(const Taint& taint) const;
};
// Those of a pod's spec, or of a request for devices.
std::vector<Toleration> read_tolerations(const kube::Json& owner);
bool tolerated(const std::vector<Toleration>& tolerations, const Taint& taint);

struct NodeRequirement {
  std::string key;
  std::string op;  // In NotIn Exists DoesNotExist Gt Lt
  std::vector<std::string> values;
  bool meets(const std::string* value) const;
};
struct NodeTerm {
  std::vector<NodeRequirement> labels, fields;  // fields: metadata.name
  bool meets(const Labels& node_labels, std::string_view node_name) const;
};
struct WeightedNodeTerm {
  int weight = 0;
  NodeTerm term;
};

struct HostPort {
  std::string ip, protocol;
  int port = 0;
  bool collides(const HostPort& other) const;
};

struct SpreadConstraint {
  std::string key;
  int max_skew = 1;
  int min_domains = 1;
  bool hard = true;  // DoNotSchedule
  bool honor_affinity = true, honor_taints = false;
  kube::LabelSelector selector;
  std::string selector_text;
};

struct PodTerm {
  std::string key;  // topologyKey
  std::vector<std::string> namespaces;
  bool all_namespaces = false;  // an empty namespaceSelector
  kube::LabelSelector selector;
  std::string selector_text;
  int weight = 0;  // of a preferred term
  bool matches(std::string_view ns, const Labels& labels) const;
  std::string identity() const;
};

// Everything the engine wants to know of a pod, but its name.
struct PodNeeds {
  std::string ns;
  Labels labels;
  std::string owner_uid;  // of its controller
  int32_t priority = 0;
  std::vector<std::pair<int, int64_t>> requests;  // by resource id, not zero; pods: 1 is always there
  int64_t scored_cpu = 0, scored_memory = 0;      // with the defaults that scoring takes for missing requests
  std::vector<std::pair<std::string, std::string>> node_selector;
  bool has_required_affinity = false;
  std::vector<NodeTerm> required_affinity;
  std::vector<WeightedNodeTerm> preferred_affinity;
  std::vector<Toleration> tolerations;
  std::vector<HostPort> ports;
  std::vector<SpreadConstraint> spread;
  std::vector<PodTerm> affinity, anti_affinity, preferred_affinity_terms, preferred_anti_terms;
  std::string pin;  // the only node it may go to (DaemonSet pods), empty: any

  bool has_pod_rules() const {
    return !spread.empty() || !affinity.empty() || !anti_affinity.empty() || !preferred_affinity_terms.empty() ||
           !preferred_anti_terms.empty();
  }
  // Equal for pods that any node treats alike; without `pin`.
  std::string signature() const;
};

// `spec` is the decoded spec of the pod.
PodNeeds needs_of(const kube::Json& spec, std::string_view ns, const Labels& labels, std::string_view owner_uid,
                  ResourceNames& names);

struct NodeOffer {
  std::string name;
  Labels labels;
  std::vector<Taint> taints;
  bool unschedulable = false;
  std::vector<std::pair<int, int64_t>> allocatable;
};
NodeOffer offer_of(const kube::Json& node, ResourceNames& names);

}  // namespace ghostfleet::controlplane::scheduling
