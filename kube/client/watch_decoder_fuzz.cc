// Bytes to the watch decoder, in three pieces.
#include <cstdint>
#include <string>
#include <vector>

#include "kube/client/json_skim.h"
#include "kube/client/watch_decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet::kube;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  WatchDecoder decoder(4096);
  const auto line = [](std::string_view text) {
    WatchEvent event;
    ObjectView object;
    if (parse_watch_event(text, &event)) {
      (void)view_object(event.object, &object);
      (void)ends_initial_events(event.object);
      (void)json_string_member(event.object, "message");
    }
    return true;
  };
  const size_t a = size / 3, b = 2 * size / 3;
  for (const std::string_view piece : {bytes.substr(0, a), bytes.substr(a, b - a), bytes.substr(b)}) {
    if (!decoder.feed(piece, line).ok()) break;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"7"}}})"
      "\n"
      R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}})"
      "\n",
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old \"\u00e9\ud83d\ude00\\"}})"
      "\r\n",
      R"([1,-2.5e3,true,null,"\\"])",
  };
}
