// A VPC file: reading never crashes; what is accepted makes a network, and what
// is refused says why.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "emulator/profile/vpc_file.h"
#include "emulator/vpc/vpc.h"

using namespace ghostfleet::emulator;

std::vector<std::string> fuzz_seeds() {
  return {R"(apiVersion: ghostfleet.dev/v1alpha1
kind: VPC
metadata: {name: a}
spec:
  cidrs: [10.0.0.0/16]
  ipv6Cidrs: ["fd00:10::/56"]
  subnets:
  - {name: s1, zone: us-west-2a, cidr: 10.0.4.0/24, ipv6Cidr: "fd00:10::/64", occupied: [10.0.4.8], occupiedShare: 0.1,
     reservations: [{cidr: 10.0.4.128/26, type: prefix}]}
  - {name: s2, zone: us-west-2a, cidr: 10.0.5.0/24, cniTag: true, placement: lowest}
  quotas: {multiplier: 10, interfaces: 100k}
  latency: {assign: 1s}
  prefixesAtLaunch: 1
  ipam: {enablePrefixDelegation: true, warmPrefixTarget: 1, ipCooldownPeriod: 30s}
)",
          R"(apiVersion: ghostfleet.dev/v1alpha1
kind: VPC
metadata: {name: b}
spec:
  cidrs: [10.1.0.0/16, 10.1.0.0/20]
  subnets:
  - {name: s1, zone: z, cidr: 10.1.0.1/24}
  - {name: s1, zone: z, cidr: 10.1.0.0/28}
  - {name: s2, zone: z, cidr: 10.2.0.0/24, reservations: [{cidr: 10.3.0.0/28}]}
  ipam: {eniConfig: {subnet: nowhere}, enableIPv6: true}
)"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto spec = parse_vpc_file({reinterpret_cast<const char*>(data), size}, "vpc.yaml");
  if (!spec.ok()) {
    if (spec.error().message().empty()) std::abort();
    return 0;
  }
  if (!Vpc::create(*spec).ok()) std::abort();
  return 0;
}
