// Feeds the reader of unhealthy devices with any bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/pod/device_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet;
  const auto read = agent::parse_unhealthy({reinterpret_cast<const char*>(data), size});
  if (!read.ok()) return 0;
  agent::DeviceTable table;
  table.set_unhealthy(*read);
  for (const auto& [resource, indexes] : *read) {
    for (const uint32_t i : indexes) {
      if (table.healthy(resource, i)) __builtin_trap();
    }
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"nvidia.com/gpu=0,3; aws.amazon.com/neuron=1", "a/b=", "=1", ";;a/b=1,1,2;", "a/b=4096"};
}
