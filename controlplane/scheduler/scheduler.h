// Scheduler: puts pods on nodes, as kube-scheduler's default profile does, preemption included, with cost per pod that
// does not grow with the number of nodes: pods that ask for the same form a class, and a class keeps its feasible nodes
// ordered by score.
//
// Thread rule: start() and stop() from any one thread; metrics() from any. One thread and event loop of its own.
// Ownership: the Api must outlive it.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "controlplane/apiserver/api.h"

namespace ghostfleet::controlplane {

class Scheduler {
 public:
  struct Options {
    std::string scheduler_name = "default-scheduler";
    // Another scheduler that holds this Lease makes us stand by. Empty name: never look.
    std::string lease_namespace = "kube-system";
    std::string lease_name = "kube-scheduler";
    bool events = true;  // Scheduled and FailedScheduling
    uint64_t seed = 0;   // ties between equal nodes; 0: from the clock
  };

  static Result<std::unique_ptr<Scheduler>> start(Api& api, Options options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  void stop();
  const MetricsRegistry& metrics() const;

 private:
  struct Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ghostfleet::controlplane
