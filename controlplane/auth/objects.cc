#include "controlplane/auth/objects.h"

namespace ghostfleet::controlplane {

ObjectRef ClusterObjects::get(std::string_view storage_resource, std::string_view ns, std::string_view name) const {
  if (store == nullptr || !kind_of) return nullptr;
  const KindId kind = kind_of(storage_resource);
  if (kind == kNoKind) return nullptr;
  std::string key(ns);
  if (!ns.empty()) key += '/';
  key += name;
  return store->get(kind, key);
}

}  // namespace ghostfleet::controlplane
