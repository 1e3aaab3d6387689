// Bytes to the HTTP/2 client engine with three calls under way. Seeds are what our own server engine writes.
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "kube/http/client_session.h"
#include "kube/http/server_session.h"

namespace {

using namespace ghostfleet::kube::http;

struct Ignore : ClientSessionEvents, ResponseHandler {
  void on_head(ClientCall*, int, const HeaderList&) override {}
  void on_body(ClientCall*, std::string_view) override {}
  void on_end(ClientCall* call) override { call->handler = nullptr; }
  void on_failed(ClientCall* call, const ghostfleet::Status&, bool) override { call->handler = nullptr; }
  void on_released(ClientCall*) override {}
  void on_head(CallId, int, const HeaderList&) override {}
  void on_body(CallId, std::string_view) override {}
  void on_end(CallId) override {}
  void on_error(CallId, const ghostfleet::Status&, bool) override {}
};

struct Client {
  explicit Client(uint32_t header_table) {
    config.authority = "localhost";
    config.header_table_bytes = header_table;
    session = make_h2_client_session(&config, &ignore);
    for (const size_t body : {size_t{0}, size_t{5}, size_t{100000}}) {
      ClientCall& call = calls.emplace_back();
      call.store("PUT", "/api/v1/nodes", nullptr, std::string(body, 'b'));
      call.handler = &ignore;
      session->submit(&call);
    }
    session->pull(&out, 1 << 20);
  }
  Ignore ignore;
  ClientSessionConfig config;
  std::deque<ClientCall> calls;
  std::unique_ptr<ClientSession> session;
  std::string out;
};

struct Answerer : ServerSessionEvents {
  ServerSession* session = nullptr;
  void on_request(ServerStream* stream, Request&& request) override {
    if (request.body.empty()) return session->respond(stream, 200, {{"x", "y"}}, ghostfleet::share("ok"));
    session->start(stream, 200, {{"content-type", "application/grpc"}});
    session->write(stream, ghostfleet::share("piece"));
    session->finish_with(stream, {{"grpc-status", "0"}});
  }
  void on_closed(ServerStream*, bool) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const uint32_t table : {0u, kDefaultHeaderTable}) {
    Client client(table);
    for (const std::string_view piece : {bytes.substr(0, size / 2), bytes.substr(size / 2)}) {
      if (!client.session->feed(piece).ok()) break;
      client.out.clear();
      client.session->pull(&client.out, 1 << 16);
      if (client.calls[1].handler != nullptr) client.session->cancel(&client.calls[1]);
      client.calls[1].handler = nullptr;
    }
    client.session->fail_all(ghostfleet::unavailable("over"));
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const uint32_t table : {0u, kDefaultHeaderTable}) {
    Client client(table);
    Answerer answerer;
    const auto server = make_h2_server_session(Limits{}, &answerer, {}, false);
    answerer.session = server.get();
    (void)server->feed(client.out, {});
    std::string out;
    server->pull(&out, 1 << 16);
    seeds.push_back(std::move(out));
  }
  return seeds;
}
