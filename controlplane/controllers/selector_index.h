// SelectorIndex: which objects of a kind (workloads, services, budgets) select pods in a namespace, with their
// selectors parsed once. It answers "whose business is this pod?" without a look at every workload.
//
// Thread rule: the controllers' loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "controlplane/controllers/meta.h"
#include "controlplane/informer/kind_watch.h"

namespace ghostfleet::controlplane::controllers {

class SelectorIndex {
 public:
  using Extract = std::function<kube::LabelSelector(const kube::Json& object)>;

  // `watch` is followed from now on.
  SelectorIndex(KindWatch& watch, Extract extract);

  // Keys of objects in the namespace of `pod` that select it.
  std::vector<std::string> matching(const Object& pod) const;

 private:
  StringMap<StringMap<kube::LabelSelector>> by_namespace_;
  Extract extract_;
};

}  // namespace ghostfleet::controlplane::controllers
