// OwnedPods: how every workload controller finds, adopts, releases, makes and deletes its pods; and hears of their
// changes.
//
// Thread rule: the controllers' loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/selector_index.h"

namespace ghostfleet::controlplane::controllers {

class OwnedPods {
 public:
  // `kind` owns pods; `wake` gets the key of the owner (or of a workload that selects an orphan) when a pod changes.
  OwnedPods(Context& context, std::string component, const Resource& resource,
            std::function<void(std::string_view)> wake);

  // The pods of `owner` (decoded). Pods that stopped matching are released, orphans that match adopted, unless the
  // owner is being deleted.
  std::vector<const PodInfo*> claim(const kube::Json& owner, const kube::LabelSelector& selector);

  // Makes a pod from `template` (spec.template) with `owner` as its controller. An empty name: generateName "OWNER-".
  // The event SuccessfulCreate or FailedCreate is recorded.
  kube::ApiResult<ObjectRef> create(const kube::Json& owner, kube::Json pod);
  // False when it failed for another reason than that the pod is gone.
  bool remove(const kube::Json& owner, const PodInfo& pod);

 private:
  void adopt(const kube::Json& owner, const PodInfo& pod);
  void release(const kube::Json& owner, const PodInfo& pod);
  void on_pod(const PodInfo* old, const PodInfo* now);

  Context& context_;
  std::string component_;
  const Resource& resource_;
  SelectorIndex selectors_;
  std::function<void(std::string_view)> wake_;
};

// What a workload selects; a ReplicationController has plain labels there.
kube::LabelSelector pod_selector_of(const kube::Json& workload);

// A pod object from a PodTemplateSpec: apiVersion, kind, the template's labels, annotations, finalizers and spec.
kube::Json pod_from_template(const kube::Json& pod_template);

// The order in which pods are taken away: the first is the first to go. `same_node` counts the owner's pods per node.
bool goes_before(const PodInfo& a, const PodInfo& b, int a_on_node, int b_on_node, WallTime now);
void sort_for_deletion(std::vector<const PodInfo*>* pods, WallTime now);

// How many to make in the next batch: 1, 2, 4, ... as long as all goes well, never more than what is left or the burst.
int next_batch(int previous, int left);
inline constexpr int kBurstReplicas = 500;

}  // namespace ghostfleet::controlplane::controllers
