// Bytes to all decoders; what was understood is written and read again, and must be the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/device/plugin_messages.h"

namespace {

using namespace ghostfleet::agent;

// Decoded, encoded, decoded and encoded again: the two encodings are the same bytes.
template <class Decode, class Encode>
void turn(std::string_view bytes, const Decode& decode, const Encode& encode) {
  const auto first = decode(bytes);
  if (!first.ok()) return;
  const std::string written = encode(*first);
  const auto second = decode(written);
  if (!second.ok() || encode(*second) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  turn(bytes, decode_register_request, encode_register_request);
  turn(bytes, decode_plugin_options, encode_plugin_options);
  turn(bytes, decode_device_list, encode_device_list);
  turn(bytes, decode_preferred_request, encode_preferred_request);
  turn(bytes, decode_preferred_response, encode_preferred_response);
  turn(bytes, decode_allocate_answers, encode_allocate_answers);
  turn(bytes, decode_pre_start_request, encode_pre_start_request);
  turn(bytes, decode_pod_resources_list, encode_pod_resources_list);
  turn(bytes, decode_allocatable, encode_allocatable);
  turn(bytes, decode_pod_resources, encode_pod_resources);
  turn(bytes, decode_pod_resources_request,
       [](const auto& pair) { return encode_pod_resources_request(pair.first, pair.second); });
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      encode_register_request({"v1beta1", "nvidia-gpu.sock", "nvidia.com/gpu", {false, true}}),
      encode_device_list({{"GPU-0", "Healthy", {0}}, {"GPU-1", "Unhealthy", {1, 2}}, {"", "", {}}}),
      encode_preferred_request({{{"a", "b"}, {"a"}, 1}}),
      encode_allocate_request({{"a", "b"}, {}}),
      encode_allocate_answers({"x", ""}),
      encode_pod_resources_list({{"p", "ns", {{"c", {{"nvidia.com/gpu", {"GPU-0"}, 5}}}}}}),
      encode_allocatable({{"nvidia.com/gpu", {"GPU-0", "GPU-1"}, 1}}),
  };
}
