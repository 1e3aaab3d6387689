// JobController: runs pods to completion. Finished pods keep a finalizer until they were counted: their uids go into
// status.uncountedTerminatedPods, then the finalizer goes, then the counters grow. TtlController deletes finished Jobs
// after spec.ttlSecondsAfterFinished.
//
// Left out: podReplacementPolicy Failed, successPolicy, managedBy.
// Thread rule: the controllers' loop.
#pragma once

#include <set>

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/job_plan.h"
#include "controlplane/controllers/owned_pods.h"

namespace ghostfleet::controlplane::controllers {

class JobController final : public Controller {
 public:
  explicit JobController(Context& context);
  void start() override;

 private:
  struct Work {
    kube::Json job;
    std::vector<const PodInfo*> pods;
    bool indexed = false;
    int64_t parallelism = 1, completions = -1, backoff_limit = 6;
    int64_t succeeded = 0, failed = 0;  // counted for good, with those counted in this pass
    std::set<int64_t> done_indexes;
    std::vector<const PodInfo*> active;
    int64_t ready = 0, terminating = 0;
    int64_t last_failure_ns = 0;
    std::string fail_reason, fail_message;
  };

  SyncResult sync(const std::string& key);
  void load(Work* work);
  void group(Work* work);
  bool count_finished(Work* work);
  bool release_pods(Work* work, const std::vector<const PodInfo*>& pods);
  std::string policy_action(const Work& work, const PodInfo& pod, std::string* message) const;
  void judge(Work* work);
  SyncResult manage(Work* work);
  bool remove_active(Work* work, size_t keep);
  bool make_pods(Work* work, int64_t count);
  bool end_job(Work* work, bool success);
  bool write_status(Work* work, const std::function<void(kube::Json&)>& more);

  Context& context_;
  const Resource& resource_;
  KindWatch& jobs_;
  WorkQueue queue_;
  OwnedPods pods_;
};

class TtlController final : public Controller {
 public:
  explicit TtlController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& key);
  Context& context_;
  const Resource& resource_;
  WorkQueue queue_;
};

bool job_finished(const kube::Json& job);

}  // namespace ghostfleet::controlplane::controllers
