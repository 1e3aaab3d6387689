// Bytes to the HTTP/1.1 server engine, in two pieces.
#include <cstdint>
#include <string>
#include <vector>

#include "kube/http/server_session.h"

namespace {

using namespace ghostfleet::kube::http;

struct Answerer : ServerSessionEvents {
  ServerSession* session = nullptr;
  void on_request(ServerStream* stream, Request&& request) override {
    if (request.body.size() % 2 == 0) return session->respond(stream, 200, {}, ghostfleet::share("ok"));
    session->start(stream, 200, {});
    session->write(stream, ghostfleet::share("piece"));
    session->finish(stream);
  }
  void on_closed(ServerStream*, bool) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Answerer answerer;
  Limits limits;
  limits.max_header_bytes = 4096;
  limits.max_body_bytes = 4096;
  const auto session = make_h1_server_session(limits, &answerer, {});
  answerer.session = session.get();
  std::string out;
  for (const std::string_view piece : {bytes.substr(0, size / 2), bytes.substr(size / 2)}) {
    if (!session->feed(piece, {}).ok()) break;
    session->pull(&out, 1 << 16);
    for (int i = 0; session->has_pending_input() && i < 100; ++i) {
      (void)session->feed({}, {});
      session->pull(&out, 1 << 20);
    }
  }
  session->close_all();
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "GET /api/v1/nodes?limit=500 HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n",
      "PUT /a HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: y\r\nConnection: "
      "close\r\n\r\n",
      "POST /c HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n0\r\nTrailer: v\r\n\r\n",
      "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
      "GET http://a.example/path HTTP/1.1\nHost: x\n\n",
  };
}
