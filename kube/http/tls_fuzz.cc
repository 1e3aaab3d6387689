// Bytes to both ends of the TLS engine, before and after the handshake.
#include <cstdint>
#include <string>
#include <vector>

#include "kube/http/tls.h"
#include "tests/support/test_pki.h"

namespace {

using namespace ghostfleet::kube::http;

struct Contexts {
  std::shared_ptr<const TlsContext> client, server;
};

const Contexts& contexts() {
  static const Contexts made = [] {
    const ghostfleet::testing::TestPki pki;
    const auto pair = pki.server();
    TlsClientConfig client;
    client.ca_pem = pki.ca_pem();
    TlsServerConfig server;
    server.cert_pem = pair.certificate_pem;
    server.key_pem = pair.key_pem;
    server.client_ca_pem = pki.ca_pem();
    return Contexts{TlsContext::client(client).value(), TlsContext::server(server).value()};
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool server : {false, true}) {
    TlsEngine engine(server ? contexts().server : contexts().client, server, "localhost");
    std::string plain, out;
    if (engine.feed(bytes.substr(0, size / 2), &plain).ok()) (void)engine.feed(bytes.substr(size / 2), &plain);
    engine.take_output(&out);
    engine.close_notify();
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  TlsEngine client(contexts().client, false, "localhost");
  TlsEngine server(contexts().server, true, "");
  std::string hello, answer, plain;
  client.take_output(&hello);
  (void)server.feed(hello, &plain);
  server.take_output(&answer);
  return {hello, answer, "GET / HTTP/1.1\r\n\r\n"};
}
