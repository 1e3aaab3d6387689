// ReplicaSetController: as many pods as spec.replicas says; also ReplicationControllers, which are the same with an
// older selector.
//
// Thread rule: the controllers' loop.
#pragma once

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/owned_pods.h"

namespace ghostfleet::controlplane::controllers {

struct ReplicaCounts {
  int64_t replicas = 0, fully_labeled = 0, ready = 0, available = 0, terminating = 0;
};
// What a set's status counts, of its pods. `template_labels` decides fully_labeled.
ReplicaCounts count_replicas(const std::vector<const PodInfo*>& pods, const kube::JsonObject* template_labels,
                             int64_t min_ready_seconds, WallTime now);

class ReplicaSetController : public Controller {
 public:
  explicit ReplicaSetController(Context& context)
      : ReplicaSetController(context, "replicaset-controller", "apps", "replicasets") {}
  void start() override;

 protected:
  ReplicaSetController(Context& context, const char* component, std::string_view group, std::string_view resource);

 private:
  void wake(std::string_view key);
  SyncResult sync(const std::string& key);
  // More or fewer pods; the outcome says when to look again. `problem` gets the words for condition ReplicaFailure.
  SyncResult manage(const kube::Json& set, std::vector<const PodInfo*> active, std::string* reason,
                    std::string* problem);
  SyncResult grow(const kube::Json& set, int missing, std::string* reason, std::string* problem);
  SyncResult shrink(const kube::Json& set, std::vector<const PodInfo*> active, int surplus);
  void write_status(const kube::Json& set, const ReplicaCounts& counts, const std::string& reason,
                    const std::string& problem);

  Context& context_;
  const std::string component_;
  const Resource& resource_;
  KindWatch& sets_;
  WorkQueue queue_;
  OwnedPods pods_;
  StringMap<int> batch_;     // size of the last batch that went well, by key, while a set grows
  StringMap<size_t> sizes_;  // pods at the last look
};

class ReplicationController final : public ReplicaSetController {
 public:
  explicit ReplicationController(Context& context)
      : ReplicaSetController(context, "replication-controller", "", "replicationcontrollers") {}
};

}  // namespace ghostfleet::controlplane::controllers
