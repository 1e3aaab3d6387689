// IpamCheckpoint: which pod has which address, as the address daemon keeps it over its restarts. Data only: who keeps
// the bytes (a file, a table, nobody) is the host's affair.
//
// Format: {"version":"vpc-cni-ipam/1","allocations":[{"networkName","containerID","ifName","ipv4" or "ipv6",
// "allocationTimestamp" (ns), "metadata":{"k8sPodNamespace","k8sPodName","interfacesCount"}}]}.
// Thread rule: plain values. Limits: kMaxBytes, kMaxAllocations. Errors: another version, text that is no checkpoint:
// the field, its value and what is expected. Source: amazon-vpc-cni-k8s v1.23 (ipam.json).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/network/address_pool.h"
#include "base/status.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kCheckpointVersion = "vpc-cni-ipam/1";

struct IpamAllocation {
  IpamHolder holder;
  Ip ip;
};

struct IpamCheckpoint {
  static constexpr size_t kMaxBytes = 4 << 20;
  static constexpr size_t kMaxAllocations = 20000;

  std::vector<IpamAllocation> allocations;
};

std::string render_checkpoint(const IpamCheckpoint& checkpoint);
Result<IpamCheckpoint> parse_checkpoint(std::string_view text);
// Drops what belongs to pods that are no longer there: `alive(namespace, name)`. An entry that does not name its pod
// stays.
template <class Alive>
void prune_checkpoint(IpamCheckpoint* checkpoint, Alive&& alive) {
  std::erase_if(checkpoint->allocations, [&](const IpamAllocation& a) {
    const IpamHolder& h = a.holder;
    return !h.pod_namespace.empty() && !h.pod_name.empty() && !alive(h.pod_namespace, h.pod_name);
  });
}

}  // namespace ghostfleet::agent
