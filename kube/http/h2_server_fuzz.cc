// Bytes to the HTTP/2 server engine, with bodies whole and streamed. Seeds are what our own client engine writes.
#include <cstdint>
#include <string>
#include <vector>

#include "kube/http/client_session.h"
#include "kube/http/h2_core.h"
#include "kube/http/server_session.h"

namespace {

using namespace ghostfleet::kube::http;

struct Answerer : ServerSessionEvents {
  ServerSession* session = nullptr;
  int n = 0;
  void on_request(ServerStream* stream, Request&&) override {
    switch (n++ % 3) {
      case 0: return session->respond(stream, 200, {{"x", "y"}}, ghostfleet::share("ok"));
      case 1: return session->abort(stream);
      default:
        session->start(stream, 200, {});
        session->write(stream, ghostfleet::share("piece"));
        session->finish_with(stream, {{"grpc-status", "0"}});
    }
  }
  void on_body(ServerStream* stream, std::string_view piece) override {
    if (n % 2 == 0) session->consume(stream, piece.size(), piece.size() / 2);
  }
  void on_closed(ServerStream*, bool) override {}
};

struct Ignore : ClientSessionEvents {
  void on_head(ClientCall*, int, const HeaderList&) override {}
  void on_body(ClientCall*, std::string_view) override {}
  void on_end(ClientCall*) override {}
  void on_failed(ClientCall*, const ghostfleet::Status&, bool) override {}
  void on_released(ClientCall*) override {}
};

}  // namespace

namespace {

void serve(std::string_view bytes, bool stream_bodies) {
  Answerer answerer;
  Limits limits;
  limits.max_header_bytes = 4096;
  limits.max_body_bytes = 4096;
  const auto session = make_h2_server_session(limits, &answerer, {}, stream_bodies);
  answerer.session = session.get();
  std::string out;
  for (const std::string_view piece : {bytes.substr(0, bytes.size() / 2), bytes.substr(bytes.size() / 2)}) {
    if (!session->feed(piece, {}).ok()) break;
    out.clear();
    session->pull(&out, 1 << 16);
  }
  (void)session->sweep({INT64_MAX / 4});
  session->close_all();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  serve(bytes, false);
  serve(bytes, true);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const size_t body : {size_t{0}, size_t{5}, size_t{5000}}) {
    Ignore ignore;
    ClientSessionConfig config;
    config.authority = "localhost";
    ClientCall first, second;
    HeaderList headers{{"accept", "application/json"}, {"authorization", "Bearer abc"}};
    first.store("GET", "/api/v1/nodes", &headers, "");
    second.store("PUT", "/b", &headers, std::string(body, 'b'));
    const auto session = make_h2_client_session(&config, &ignore);
    session->submit(&first);
    session->submit(&second);
    std::string out;
    session->pull(&out, 1 << 16);
    session->cancel(&first);
    session->ping();
    session->pull(&out, 1 << 16);
    seeds.push_back(std::move(out));
  }
  seeds.emplace_back(kH2Preface);
  return seeds;
}
