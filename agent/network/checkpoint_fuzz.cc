// A checkpoint: reading never crashes, and what was read is written to a text that reads as the same again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/network/ipam_checkpoint.h"

using namespace ghostfleet::agent;

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"version":"vpc-cni-ipam/1","allocations":[{"networkName":"aws-cni","containerID":"abc","ifName":"eth0","ipv4":"10.0.0.1",)"
      R"("allocationTimestamp":1700000000000000000,"metadata":{"k8sPodNamespace":"default","k8sPodName":"a","interfacesCount":2}}]})",
      R"({"version":"vpc-cni-ipam/1","allocations":[{"containerID":"x","ipv6":"fd00::1","metadata":{}}]})",
      R"({"version":"vpc-cni-ipam/1"})", R"({"version":"vpc-cni-ipam/0","allocations":null})",
      R"({"version":"vpc-cni-ipam/1","allocations":[{"containerID":"x","ipv4":"::1"}]})"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto first = parse_checkpoint({reinterpret_cast<const char*>(data), size});
  if (!first.ok()) {
    if (first.error().message().empty()) std::abort();
    return 0;
  }
  const std::string text = render_checkpoint(*first);
  auto second = parse_checkpoint(text);
  if (!second.ok() || render_checkpoint(*second) != text) std::abort();
  return 0;
}
