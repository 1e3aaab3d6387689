// A device checkpoint: reading never crashes, and what was read is written to a text that reads as the same again. The
// checksum of the input is made right first, or nothing behind it would ever be reached.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/device/allocate_response.h"
#include "agent/device/device_checkpoint.h"

using namespace ghostfleet::agent;

std::vector<std::string> fuzz_seeds() {
  return {R"({"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"nvidia.com/gpu",)"
          R"("DeviceIDs":{"-1":["tegra"],"0":["a","b"]},"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],)"
          R"("RegisteredDevices":{"nvidia.com/gpu":["tegra"],"a/b":[]}},"Checksum":1})",
          R"({"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":2})",
          R"({"Data":{"PodDeviceEntries":[{"PodUID":"","DeviceIDs":{"x":1}}]},"Checksum":3})"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  (void)decode_response(text);
  auto first = parse_device_checkpoint(text);
  if (!first.ok()) {
    const std::string& why = first.error().message();
    const std::string mark = " is expected", sum = "Checksum: \"";
    if (why.empty()) std::abort();
    const size_t at = why.find(sum);
    const size_t colon = text.rfind("\"Checksum\":");
    if (at == std::string::npos || !why.ends_with(mark) || colon == std::string::npos) return 0;
    const size_t number = why.rfind(' ', why.size() - mark.size() - 1) + 1;
    text = text.substr(0, colon) + "\"Checksum\":" + why.substr(number, why.size() - mark.size() - number) + "}";
    first = parse_device_checkpoint(text);
    if (!first.ok()) return 0;
  }
  for (const DeviceCheckpoint::Entry& entry : first->entries) {
    const auto response = decode_response(entry.response);
    if (response.ok() && decode_response(encode_response(*response)).value() != *response) std::abort();
  }
  const std::string rendered = render_checkpoint(*first);
  auto second = parse_device_checkpoint(rendered);
  if (!second.ok() || render_checkpoint(*second) != rendered) std::abort();
  return 0;
}
