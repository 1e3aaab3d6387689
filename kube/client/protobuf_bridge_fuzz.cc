// Bytes as frames of a watch, in two pieces, and as an object.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kube/api/codec.h"
#include "kube/client/protobuf_bridge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet::kube;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ProtobufWatchDecoder decoder(4096);
  const auto take = [](std::string_view, std::string_view envelope) {
    (void)json_of_protobuf(envelope);
    (void)metadata_of_protobuf(envelope);
    return true;
  };
  if (decoder.feed(bytes.substr(0, size / 2), take).ok()) (void)decoder.feed(bytes.substr(size / 2), take);
  (void)json_of_protobuf(bytes);
  (void)protobuf_of_json(bytes);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  using namespace ghostfleet::kube;
  const std::string pod =
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b"},"spec":{"containers":[{"name":"c"}]}})";
  const std::string binary = *protobuf_of_json(pod);
  std::string stream;
  append_protobuf_watch_frame("ADDED", binary, &stream);
  append_protobuf_watch_frame("MODIFIED", binary, &stream);
  return {pod, binary, stream};
}
