// Feeds the readers of faults, claims, checkpoints and messages of drivers with any bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/dra/claims.h"
#include "agent/dra/driver_messages.h"
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
  if (const auto answers = decode_prepare_answers(text); answers.ok()) {
    if (decode_prepare_answers(encode_prepare_answers(*answers)).value() != *answers) __builtin_trap();
  }
  if (const auto health = decode_health(text); health.ok()) (void)decode_health(encode_health(*health)).value();
  (void)decode_unprepare_answers(text);
  (void)decode_claim_names(text);
  (void)parse_claim_checkpoint(text);
  const auto json = ghostfleet::kube::parse_json(text);
  if (!json.ok()) return 0;
  const DraDriver driver{&devices, "n", {}};
  const PodRef pod{"ns", "p", "u1"};
  ClaimCache cache;
  PodClaims claims(read_claims(*json));
  claims.begin();
  std::string name;
  const NodeDrivers drivers{&driver, nullptr};
  while (claims.next(pod, &name) == PodClaims::Next::kFetch) {
    if (!claims.take(pod, 200, text, drivers).empty()) break;
  }
  if (claims.note(pod, &cache).empty()) {
    while (claims.batch() != nullptr && claims.take_prepared(pod, claims.answer_of(driver), &cache).empty()) {
    }
    claims.done(pod, &cache);
  }
  claims.adopt(pod, *json, drivers, &cache);
  (void)parse_claim_checkpoint(render_claim_checkpoint(cache));
  claims.forget(pod, &cache);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  using namespace ghostfleet::agent;
  ClaimCache cache;
  cache.add("ns", "x") = {"u", {"p"}, {"d"}, {{"d", "n", "gpu-1", {"r"}, {"d/x=1"}, "s"}}, true};
  return {encode_prepare_answers({{"u", {"e", {{{"r"}, "p", "d", {"d/x=1"}, "s"}}}}}),
          encode_health({{"p", "d", DeviceHealth::kHealthy, 5, "m"}}), render_claim_checkpoint(cache),
          "gpu-0=xid:79; gpu-3=gpu-lost@NoExecute; driver=down",
          R"({"metadata":{"uid":"c","ownerReferences":[{"controller":true,"uid":"u1"}]},"spec":{"resourceClaims":[)"
          R"({"name":"a","resourceClaimName":"x"},{"name":"b"}]},"status":{"resourceClaimStatuses":[{"name":"b",)"
          R"("resourceClaimName":"y"}],"extendedResourceClaimStatus":{"resourceClaimName":"z","requestMappings":[{}]},)"
          R"("reservedFor":[{"uid":"u1"}],"allocation":{"devices":{"results":[{"request":"r/s","driver":)"
          R"("gpu.nvidia.com","pool":"n","device":"gpu-1"}]}},"containerStatuses":[{"allocatedResourcesStatus":[)"
          R"({"name":"claim:a/r","resources":[{"resourceID":"k8s.gpu.nvidia.com/device=gpu-1"}]}]}]}})"};
}
