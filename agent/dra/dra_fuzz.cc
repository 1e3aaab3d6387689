// Feeds the readers of faults and of claims with any bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/dra/claims.h"
#include "agent/dra/slices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet::agent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  DraDevices devices;
  devices.count = 8;
  if (const auto faults = parse_faults(text, devices); faults.ok()) {
    const SliceNode node{"n", "u", "z", "f"};
    if (!ghostfleet::kube::parse_json(render_slice(devices, node, *faults, 1, 0)).ok()) __builtin_trap();
  }
  const auto json = ghostfleet::kube::parse_json(text);
  if (!json.ok()) return 0;
  const DraDriver driver{&devices, "n", {}};
  const PodRef pod{"ns", "p", "u1"};
  ClaimCache cache;
  PodClaims claims(read_claims(*json));
  claims.begin();
  std::string name;
  while (claims.next(pod, &name) == PodClaims::Next::kFetch) {
    if (!claims.take(pod, 200, text, &driver).empty()) break;
  }
  claims.prepare(pod, &driver, &cache);
  claims.adopt(pod, *json, &driver, &cache);
  claims.forget(pod, &cache);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"gpu-0=xid:79; gpu-3=gpu-lost@NoExecute; driver=down",
          R"({"metadata":{"uid":"c","ownerReferences":[{"controller":true,"uid":"u1"}]},"spec":{"resourceClaims":[)"
          R"({"name":"a","resourceClaimName":"x"},{"name":"b"}]},"status":{"resourceClaimStatuses":[{"name":"b",)"
          R"("resourceClaimName":"y"}],"extendedResourceClaimStatus":{"resourceClaimName":"z","requestMappings":[{}]},)"
          R"("reservedFor":[{"uid":"u1"}],"allocation":{"devices":{"results":[{"request":"r/s","driver":)"
          R"("gpu.nvidia.com","pool":"n","device":"gpu-1"}]}},"containerStatuses":[{"allocatedResourcesStatus":[)"
          R"({"name":"claim:a/r","resources":[{"resourceID":"k8s.gpu.nvidia.com/device=gpu-1"}]}]}]}})"};
}
