// DaemonSetController: one pod on every node that may have it; rolling updates and ControllerRevisions.
//
// Thread rule: the controllers' loop. Cost: a sync looks at every node, so syncs of one set are coalesced.
#pragma once

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/owned_pods.h"
#include "controlplane/controllers/revisions.h"

namespace ghostfleet::controlplane::controllers {

// What a DaemonSet's pod needs of a node, without the node being full: selector, required affinity, taints.
struct DaemonRule {
  kube::Json pod;  // as it is made, without the pin to one node
  std::vector<Toleration> tolerations;
  std::string node_name;
};
DaemonRule daemon_rule(const kube::Json& set);
struct DaemonVerdict {
  bool should_run = false;    // a pod is to be made
  bool may_continue = false;  // one that runs already may stay
};
DaemonVerdict daemon_verdict(const DaemonRule& rule, const NodeInfo& node);
// Pins a pod to a node by required affinity on metadata.name.
void pin_to_node(kube::Json* pod, std::string_view node);
std::string pinned_node(const kube::Json& pod);

class DaemonSetController final : public Controller {
 public:
  explicit DaemonSetController(Context& context);
  void start() override;

 private:
  struct Counts {
    int64_t desired = 0, current = 0, misscheduled = 0, ready = 0, available = 0, updated = 0;
  };
  SyncResult sync(const std::string& key);
  const std::string& target_node(const PodInfo& pod);
  SyncResult roll(const kube::Json& set, const DaemonRule& rule, const std::string& hash,
                  const StringMap<std::vector<const PodInfo*>>& by_node);
  SyncResult write_status(const kube::Json& set, const Counts& counts);

  Context& context_;
  const Resource& resource_;
  KindWatch& sets_;
  NodeCache& nodes_;
  WorkQueue queue_;
  OwnedPods pods_;
  Revisions revisions_;
  StringMap<std::string> pinned_;  // uid of an unbound pod: the node it is meant for
};

}  // namespace ghostfleet::controlplane::controllers
