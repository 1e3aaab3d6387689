// Bytes to the WebSocket engine as server and as client, in two pieces. Whatever comes in, a message is never larger
// than the limit.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/stream/websocket.h"

namespace {

using namespace ghostfleet::kube::stream;

constexpr size_t kLimit = 4096;

struct Answerer : WebSocketEvents {
  WebSocket* engine = nullptr;
  void on_message(bool text, std::string_view payload) override {
    if (payload.size() > kLimit) std::abort();
    engine->send(text, payload);
  }
  void on_close(uint16_t, std::string_view) override {}
  void on_output(ghostfleet::SharedBytes) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto role : {WebSocket::Role::kServer, WebSocket::Role::kClient}) {
    Answerer answerer;
    WebSocket engine(role, {.max_message_bytes = kLimit, .max_fragments = 16}, &answerer, 1);
    answerer.engine = &engine;
    if (engine.feed(bytes.substr(0, size / 2)).ok()) (void)engine.feed(bytes.substr(size / 2));
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      std::string("\x82\x85\x11\x22\x33\x44\x11\x4a\x5a\x28\x7e", 11),
      std::string("\x01\x83\x00\x00\x00\x00Hel\x80\x82\x00\x00\x00\x00lo", 17),
      std::string("\x89\x81\x01\x02\x03\x04p\x88\x82\x00\x00\x00\x00\x03\xe8", 15),
      std::string("\x82\xfe\x01\x00\x00\x00\x00\x00", 8) + std::string(256, 'x'),
      std::string("\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00", 14),
      std::string("\x81\x03\xe2\x82\xac\x82\x00", 7),
  };
}
