// EndpointSliceController and EndpointsController: the addresses behind a service with a selector.
// DisruptionController: the status of PodDisruptionBudgets.
//
// Changes are gathered for a while, so that a roll-out of thousands of pods writes a slice a few times a second.
// Thread rule: the controllers' loop.
#pragma once

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/selector_index.h"

namespace ghostfleet::controlplane::controllers {

// A port of a service as its endpoints have it, for one pod: named target ports are looked up in the pod.
kube::JsonArray endpoint_ports(const kube::Json& service, const kube::Json* pod);

class EndpointSliceController final : public Controller {
 public:
  explicit EndpointSliceController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& key);
  std::vector<kube::Json> wanted_slices(const kube::Json& service);
  Context& context_;
  const Resource& services_;
  const Resource& slices_;
  SelectorIndex selectors_;
  WorkQueue queue_;
};

class EndpointsController final : public Controller {
 public:
  explicit EndpointsController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& key);
  Context& context_;
  const Resource& services_;
  const Resource& endpoints_;
  SelectorIndex selectors_;
  WorkQueue queue_;
};

struct BudgetCounts {
  int64_t expected = 0, desired = 0, healthy = 0, allowed = 0;
};
// `expected` pods by their controllers' scale (or their number), of which `healthy` are ready.
BudgetCounts budget_counts(const kube::Json& budget, int64_t expected, int64_t pods, int64_t healthy);

class DisruptionController final : public Controller {
 public:
  explicit DisruptionController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& key);
  int64_t expected_pods(const std::vector<const PodInfo*>& pods);
  Context& context_;
  const Resource& budgets_;
  SelectorIndex selectors_;
  WorkQueue queue_;
};

}  // namespace ghostfleet::controlplane::controllers
