// NodeCache: what controllers need of every node, parsed once per version; a few hundred bytes a node.
//
// Thread rule: the controllers' loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controlplane/controllers/meta.h"
#include "controlplane/informer/kind_watch.h"

namespace ghostfleet::controlplane::controllers {

struct Taint {
  std::string key, value, effect;
  friend bool operator==(const Taint&, const Taint&) = default;
};
std::vector<Taint> taints_of(const kube::Json& node);

struct Toleration {
  std::string key, op, value, effect;
  bool has_seconds = false;
  int64_t seconds = 0;
  bool tolerates(const Taint& taint) const;
};
std::vector<Toleration> tolerations_of(const kube::Json& pod);

enum class ConditionState : unsigned char { kMissing, kTrue, kFalse, kUnknown };

struct NodeInfo {
  ObjectRef object;
  std::string uid;
  std::string zone;  // region and zone labels, "" when the node has none
  std::string heartbeat;
  std::vector<Taint> taints;
  ConditionState ready = ConditionState::kMissing;
  ConditionState memory_pressure = ConditionState::kMissing, disk_pressure = ConditionState::kMissing,
                 pid_pressure = ConditionState::kMissing, network_unavailable = ConditionState::kMissing;
  bool unschedulable = false;
  int64_t created_ns = 0;

  std::string_view name() const { return object->name(); }
  bool has_taint(std::string_view key, std::string_view effect) const;
};
NodeInfo parse_node(const ObjectRef& object);

class NodeCache {
 public:
  using Change = std::function<void(const NodeInfo* old, const NodeInfo* now)>;
  explicit NodeCache(KindWatch& watch);
  void subscribe(Change change) { changes_.push_back(std::move(change)); }
  const NodeInfo* find(std::string_view name) const;
  const StringMap<std::unique_ptr<NodeInfo>>& all() const { return nodes_; }

 private:
  StringMap<std::unique_ptr<NodeInfo>> nodes_;
  std::vector<Change> changes_;
};

}  // namespace ghostfleet::controlplane::controllers
