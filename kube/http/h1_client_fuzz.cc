// Bytes to the HTTP/1.1 client engine that waits for an answer.
#include <cstdint>
#include <string>
#include <vector>

#include "kube/http/client_session.h"

namespace {

using namespace ghostfleet::kube::http;

struct Ignore : ClientSessionEvents, ResponseHandler {
  void on_head(ClientCall*, int, const HeaderList&) override {}
  void on_body(ClientCall*, std::string_view) override {}
  void on_end(ClientCall*) override {}
  void on_failed(ClientCall*, const ghostfleet::Status&, bool) override {}
  void on_released(ClientCall*) override {}
  void on_head(CallId, int, const HeaderList&) override {}
  void on_body(CallId, std::string_view) override {}
  void on_end(CallId) override {}
  void on_error(CallId, const ghostfleet::Status&, bool) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Ignore ignore;
  ClientSessionConfig config;
  const auto session = make_h1_client_session(&config, &ignore);
  ClientCall call;
  call.store("GET", "/", nullptr, "");
  call.handler = &ignore;
  session->submit(&call);
  std::string out;
  session->pull(&out, 1 << 16);
  if (session->feed(bytes.substr(0, size / 2)).ok() && session->feed(bytes.substr(size / 2)).ok()) session->on_eof();
  session->fail_all(ghostfleet::unavailable("over"));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      "HTTP/1.0 200 OK\r\n\r\nuntil the end",
      "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
  };
}
