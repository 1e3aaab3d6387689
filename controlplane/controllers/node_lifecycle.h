// NodeLifecycleController: notices nodes that went silent, marks them Unknown and their pods not ready, and keeps the
// taints that conditions call for. Taints added and removed on recovery go in one write, so that no pod comes back to a
// node that still evicts.
//
// A node was heard from when its lease in kube-node-lease has another version than at the last look, or its Ready
// heartbeat moved. Leases are looked up, not parsed and not watched: 100,000 look-ups every monitor period.
// Thread rule: the controllers' loop.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/zone_pacer.h"

namespace ghostfleet::controlplane::controllers {

// The NoSchedule taints the conditions of a node call for (keys only).
std::vector<std::string> condition_taints(const NodeInfo& node);

class NodeLifecycleController final : public Controller {
 public:
  explicit NodeLifecycleController(Context& context);
  void start() override;

 private:
  struct Health {
    Revision lease = 0;
    TimePoint heard;
    bool known = false;
    bool pods_marked = false;  // told its pods are not ready, since it last was Ready
  };

  void on_node(const NodeInfo* old, const NodeInfo* now);
  void tick();
  void monitor_slice();
  void end_of_round();
  void look_at(const NodeInfo& node);
  void mark_unknown(const NodeInfo& node);
  void mark_pods(const NodeInfo& node);
  void pace();
  SyncResult fix_taints(const std::string& name);
  std::string wanted_no_execute(const NodeInfo& node) const;

  Context& context_;
  const Resource& nodes_resource_;
  const Resource* leases_;
  NodeCache& nodes_;
  WorkQueue taint_queue_;  // node names
  ZonePacer pacer_;
  StringMap<Health> health_;
  StringMap<bool> due_for_no_execute_;  // their turn has come
  bool all_down_ = false;
  TimePoint started_;
  std::vector<std::string> round_;
  size_t round_next_ = 0;
};

}  // namespace ghostfleet::controlplane::controllers
