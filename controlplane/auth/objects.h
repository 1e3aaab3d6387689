// How authentication and authorization read the cluster: by the storage name of a kind ("serviceaccounts", "pods",
// "roles.rbac.authorization.k8s.io"), so that they need no kind table of their own.
//
// Thread rule: plain values; what they point at must outlive them.
#pragma once

#include <functional>
#include <string_view>

#include "controlplane/store/store.h"

namespace ghostfleet::controlplane {

struct ClusterObjects {
  Store* store = nullptr;
  // The kind registered under that storage name; kNoKind when it is not served.
  std::function<KindId(std::string_view storage_resource)> kind_of;
  // Index into Object::fields of pods where spec.nodeName stands; -1: not indexed (it is then looked for in the bytes).
  int pod_node_name_field = -1;

  static constexpr KindId kNoKind = ~KindId(0);
  // Null when there is no such object or kind.
  ObjectRef get(std::string_view storage_resource, std::string_view ns, std::string_view name) const;
};

}  // namespace ghostfleet::controlplane
