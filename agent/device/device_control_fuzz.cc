// Annotations about devices: reading never crashes, and complains in words.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/device/device_control.h"

using namespace ghostfleet::agent;

std::vector<std::string> fuzz_seeds() {
  return {"nvidia.com/gpu=0,3:79; aws.amazon.com/neuron=1", "nvidia.com/gpu=gone;a/b=lost", ";;=,", "a/b=4096:"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto faults = parse_faults(text);
  const auto outages = parse_outages(text);
  if (!faults.ok() && faults.error().message().empty()) std::abort();
  if (!outages.ok() && outages.error().message().empty()) std::abort();
  ResourcePairs capacity = {{"nvidia.com/gpu", "4"}, {"aws.amazon.com/neuron", std::string(text.substr(0, 8))}};
  const auto setup = make_device_setup({}, {}, &capacity);
  if (!setup.ok()) std::abort();
  if (faults.ok()) (void)check_faults(*setup, *faults);
  if (outages.ok()) (void)check_outages(*setup, *outages);
  return 0;
}
