// DeploymentController: one ReplicaSet per pod template, and the roll-out from the old ones to the newest.
//
// Thread rule: the controllers' loop.
#pragma once

#include <unordered_set>

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/rollout.h"

namespace ghostfleet::controlplane::controllers {

class DeploymentController final : public Controller {
 public:
  explicit DeploymentController(Context& context);
  void start() override;

 private:
  // A deployment being synced: decoded, with its sets (decoded, oldest first).
  struct Work {
    kube::Json deployment;
    std::vector<kube::Json> sets;
    int newest = -1;  // index in sets of the one with the current template
    std::string failure_reason, failure;
    bool progressed = false;
    std::string progress_reason, progress_message;
  };

  SyncResult sync(const std::string& key);
  void claim_sets(Work* work);
  void find_newest(Work* work);
  // Makes the newest set when it is missing, and brings revisions and annotations in line. False: try again.
  bool ensure_newest(Work* work);
  bool create_newest(Work* work, int64_t revision);
  bool refresh_newest(Work* work, int64_t revision);
  bool note_revision(Work* work, int64_t revision);
  bool roll(Work* work);
  bool recreate(Work* work);
  bool scale_evenly(Work* work);
  bool needs_scaling(const Work& work) const;
  bool resize(Work* work, size_t index, int64_t size);
  void clean_up(Work* work);
  SyncResult write_status(Work* work);
  SyncResult finish(Work* work, bool ok);
  bool complete(const Work& work) const;
  void fill_progress(kube::Json* status_of, const Work& work, bool complete_now);
  Duration deadline_left(const kube::Json& deployment) const;
  int64_t total_wanted(const Work& work) const;

  Context& context_;
  const Resource& resource_;
  const Resource& set_resource_;
  KindWatch& deployments_;
  KindWatch& sets_;
  WorkQueue queue_;
  StringMap<std::unordered_set<std::string>> sets_by_owner_;  // uid of the controller: keys
  StringMap<std::unordered_set<std::string>> orphan_sets_;    // namespace: keys
  StringMap<std::string> owner_of_set_;                       // key of a set: uid of its controller, or empty
};

}  // namespace ghostfleet::controlplane::controllers
