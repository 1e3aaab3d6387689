#include "controlplane/apiserver/strategies/cluster_state.h"

#include "controlplane/apiserver/strategies/service_allocator.h"

namespace ghostfleet::controlplane {

ClusterState::ClusterState() : services_(std::make_unique<ServiceAllocator>()) {}
ClusterState::~ClusterState() = default;

namespace {

struct KindPath {
  std::string_view group, version, resource;
};

constexpr KindPath kKnown[] = {
    {"", "v1", "namespaces"},
    {"", "v1", "pods"},
    {"", "v1", "nodes"},
    {"", "v1", "services"},
    {"", "v1", "serviceaccounts"},
    {"", "v1", "secrets"},
    {"", "v1", "limitranges"},
    {"", "v1", "resourcequotas"},
    {"scheduling.k8s.io", "v1", "priorityclasses"},
    {"node.k8s.io", "v1", "runtimeclasses"},
    {"storage.k8s.io", "v1", "storageclasses"},
    {"policy", "v1", "poddisruptionbudgets"},
    {"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"},
    {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"},
};
static_assert(std::size(kKnown) == static_cast<size_t>(KnownKind::kCount));

}  // namespace

const Resource* ClusterState::known(Api& api, KnownKind kind) {
  auto index = static_cast<size_t>(kind);
  const Resource* found = known_[index].load(std::memory_order_acquire);
  if (found != nullptr) return found;
  const KindPath& path = kKnown[index];
  found = api.find(path.group, path.version, path.resource);
  known_[index].store(found, std::memory_order_release);
  return found;
}

Api::Api() : cluster_state_(std::make_shared<ClusterState>()) {}
Api::~Api() = default;

}  // namespace ghostfleet::controlplane
