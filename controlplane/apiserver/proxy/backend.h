// Backend: a server this API server is a client of: a node's kubelet, an aggregated API server. And the words in which
// a real API server says that one cannot be reached.
//
// Thread rule: plain values; a TlsContext is shared.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "controlplane/auth/pki.h"
#include "kube/http/client.h"

namespace ghostfleet::controlplane {

struct Backend {
  std::string host;
  uint16_t port = 0;
  std::shared_ptr<const kube::http::TlsContext> tls;  // null: plain HTTP

  // "10.0.0.1:10250", "[::1]:10250"
  std::string authority() const;
};

// What is shown to nodes and how they are verified. Without a Pki nothing is shown.
struct NodeTls {
  std::shared_ptr<const kube::http::TlsContext> verified;  // verified only when an authority was given
  std::shared_ptr<const kube::http::TlsContext> blind;     // shows our certificate, verifies nothing
  std::shared_ptr<const kube::http::TlsContext> stranger;  // shows nothing, verifies nothing
};
Result<NodeTls> make_node_tls(const Pki* pki, const std::string& kubelet_ca_pem);

// A client for one call to it, on the call's loop. HTTP/1.1, so that a body that is not read makes the backend wait.
std::unique_ptr<kube::http::HttpClient> client_for(EventLoop& loop, const Backend& backend);

// "dial tcp 127.0.0.1:10250: connect: connection refused", of an error of that client.
std::string dial_text(const Backend& backend, const Status& error);

}  // namespace ghostfleet::controlplane
