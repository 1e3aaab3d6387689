// ClaimPlan: what the claims of one pod come to on the nodes that are tried for it, the claim for its extended
// resources included (DRAExtendedResource): a container's nvidia.com/gpu is given by a plugin where the node has it,
// else by devices of the class that names it.
//
// Thread rule: one owner; lives as long as one try to place a pod. Ownership: the book outlives it and does not change
// meanwhile. Source: kube-scheduler 1.36.
// Deviation: an init container's devices are its own, not shared with the containers that run after it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/scheduler/devices.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane::scheduling {

// So many of a resource with a domain, of one container.
struct ExtendedRequest {
  std::string container, resource;
  int resource_id = 0;  // of the engine
  int64_t count = 0;
  std::string name;  // of the request in the claim: "container-0-request-0"
};
// Of all containers of a pod's spec; `id_of` numbers resources.
std::vector<ExtendedRequest> extended_requests(const kube::Json& spec,
                                               const std::function<int(std::string_view resource)>& id_of);

class ClaimPlan {
 public:
  using HasPlugin = std::function<bool(int resource_id)>;

  // Of `extended` those count whose resource a device class names.
  ClaimPlan(const DeviceBook& book, std::vector<kube::Json> claims, const std::vector<ExtendedRequest>& extended);
  ~ClaimPlan();
  ClaimPlan(const ClaimPlan&) = delete;
  ClaimPlan& operator=(const ClaimPlan&) = delete;

  const std::vector<kube::Json>& claims() const { return claims_; }
  // Equal for pods that fare alike.
  std::string signature() const;

  // Why the node will not do; empty: it does.
  std::string try_node(const std::string& node, const HasPlugin& has_plugin);
  // What is wrong wherever the pod goes; empty: nothing.
  const std::string& error() const { return error_; }

  // Of a node that did: status.allocation of each claim that had none, in their order.
  struct Found {
    std::vector<kube::Json> allocations;
    kube::Json extended_spec, extended_allocation;  // null: no claim is needed for extended resources
    kube::JsonArray mappings;                       // status.extendedResourceClaimStatus.requestMappings
  };
  const Found* found(const std::string& node) const;

 private:
  struct Variant;  // which extended requests devices are to satisfy
  Variant& variant(uint64_t mask);

  const DeviceBook& book_;
  std::vector<kube::Json> claims_;
  std::vector<ExtendedRequest> extended_;
  std::vector<const kube::Json*> open_;
  std::map<uint64_t, std::unique_ptr<Variant>> variants_;
  std::map<std::string, Found> found_;
  std::string error_;
};

}  // namespace ghostfleet::controlplane::scheduling
