#include "controlplane/apiserver/proxy/backend.h"

#include <cctype>

namespace ghostfleet::controlplane {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(30);
// HTTP/2 would answer its own PINGs late while a body is held back.
const std::vector<std::string> kProtocols = {"http/1.1"};

struct Phrase {
  const char *ours, *theirs;
};
// Ends of the client's messages, and what Go says there.
constexpr Phrase kDialing[] = {{"connection refused", "connect: connection refused"},
                               {"no route to host", "connect: no route to host"},
                               {"network is unreachable", "connect: network is unreachable"},
                               {"no connection within", "i/o timeout"},
                               {"timed out", "i/o timeout"}};
constexpr Phrase kVerifying[] = {
    {"unable to get local issuer certificate", "x509: certificate signed by unknown authority"},
    {"self-signed certificate", "x509: certificate signed by unknown authority"},
    {"self signed certificate", "x509: certificate signed by unknown authority"},
    {"unable to verify the first certificate", "x509: certificate signed by unknown authority"},
    {"certificate has expired", "x509: certificate has expired or is not yet valid"},
    {"certificate is not yet valid", "x509: certificate has expired or is not yet valid"},
    {"host name mismatch", "x509: certificate is not valid for the name it was asked under"}};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string Backend::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<NodeTls> make_node_tls(const Pki* pki, const std::string& kubelet_ca_pem) {
  NodeTls made;
  kube::http::TlsClientConfig config;
  config.insecure = true;
  config.alpn = kProtocols;
  auto stranger = kube::http::TlsContext::client(config);
  if (!stranger.ok()) return stranger.error();
  made.stranger = std::move(*stranger);
  if (pki) {
    config.client_cert_pem = pki->kubelet_client().cert_pem;
    config.client_key_pem = pki->kubelet_client().key_pem;
  }
  auto blind = kube::http::TlsContext::client(config);
  if (!blind.ok()) return blind.error().with_context("the client certificate for kubelets");
  made.blind = std::move(*blind);
  config.insecure = kubelet_ca_pem.empty();
  config.ca_pem = kubelet_ca_pem;
  auto verified = kube::http::TlsContext::client(config);
  if (!verified.ok()) return verified.error().with_context("the authority of the kubelets");
  made.verified = std::move(*verified);
  return made;
}

std::unique_ptr<kube::http::HttpClient> client_for(EventLoop& loop, const Backend& backend) {
  kube::http::HttpClientOptions options;
  options.host = backend.host;
  options.port = backend.port;
  options.use_tls = backend.tls != nullptr;
  options.tls = backend.tls;
  options.max_connections = 1;
  options.connect_timeout = kConnectTimeout;
  return kube::http::HttpClient::create(loop, std::move(options));
}

std::string dial_text(const Backend& backend, const Status& error) {
  const std::string text = lower(error.message());
  for (const Phrase& phrase : kVerifying) {
    if (text.find(phrase.ours) != std::string::npos) {
      return std::string("tls: failed to verify certificate: ") + phrase.theirs;
    }
  }
  if (const size_t at = text.find("look up host"); at != std::string::npos) {
    return "dial tcp: lookup " + backend.host + ": no such host";
  }
  if (error.code() == Code::kDeadlineExceeded) return "dial tcp " + backend.authority() + ": i/o timeout";
  for (const Phrase& phrase : kDialing) {
    if (text.find(phrase.ours) != std::string::npos) return "dial tcp " + backend.authority() + ": " + phrase.theirs;
  }
  if (text.find("the peer closed the connection") != std::string::npos) return "EOF";
  return error.message();
}

}  // namespace ghostfleet::controlplane
