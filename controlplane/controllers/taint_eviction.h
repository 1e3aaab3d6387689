// TaintEvictionController: deletes pods from nodes with NoExecute taints they do not tolerate, or when the time they
// tolerate them is over. PodGcController: removes what nobody else will: pods of nodes that are gone, deleted pods that
// never had a node, pods of nodes declared out of service, and too many finished ones.
//
// Thread rule: the controllers' loop.
#pragma once

#include <string>
#include <vector>

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

// How long a pod may stay: at once (0), a time, or for ever (negative).
Duration stay(const std::vector<Taint>& no_execute, const std::vector<Toleration>& tolerations);

class TaintEvictionController final : public Controller {
 public:
  explicit TaintEvictionController(Context& context);
  void start() override;

 private:
  struct Plan {
    std::string uid;
    TimePoint start, due;
  };
  void judge(const PodInfo& pod);
  void cancel(const PodInfo& pod);
  SyncResult evict(const std::string& key);

  Context& context_;
  NodeCache& nodes_;
  WorkQueue queue_;
  StringMap<Plan> plans_;
};

class PodGcController final : public Controller {
 public:
  explicit PodGcController(Context& context);
  void start() override;

 private:
  void tick();
  void collect_orphans();
  void collect_out_of_service();
  void collect_finished();
  void force_delete(const PodInfo& pod, std::string_view why);

  Context& context_;
  NodeCache& nodes_;
  StringMap<TimePoint> missing_since_;  // nodes that pods name and that do not exist
};

// Sets condition DisruptionTarget on a pod; with `fail` also phase Failed.
bool mark_disrupted(Context& context, std::string_view component, const std::string& ns, const std::string& name,
                    std::string_view reason, std::string_view message, bool fail);

}  // namespace ghostfleet::controlplane::controllers
