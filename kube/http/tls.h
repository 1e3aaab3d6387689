// TLS by OpenSSL over memory BIOs: contexts made from PEM, and a byte engine without a socket.
//
// Thread rule: a TlsContext is immutable and shared; a TlsEngine belongs to one connection on one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kube/http/message.h"

namespace ghostfleet::kube::http {

struct TlsClientConfig {
  std::string ca_pem;           // empty: the system's store
  bool insecure = false;        // no verification at all
  std::string client_cert_pem;  // chain
  std::string client_key_pem;
  std::string server_name;  // for SNI and verification; empty: the host dialled
  std::vector<std::string> alpn = {"h2", "http/1.1"};
};

struct TlsServerConfig {
  std::string cert_pem;  // chain
  std::string key_pem;
  std::string
      client_ca_pem;  // empty: client certificates are not asked for. A bad one fails the handshake; none is fine
  std::vector<std::string> alpn = {"h2", "http/1.1"};
  // A client certificate that does not verify counts as none instead of failing the handshake: what Kubernetes' own
  // servers do, so that such a client may still show a token, or is told 401.
  bool bad_client_is_none = false;
};

// Who a client says it is, for connections that share one context: a fleet has a context, and each of its nodes an
// identity. Kept as PEM text and parsed for each handshake: an idle connection holds neither certificate nor key.
struct TlsIdentity {
  std::string cert_pem;  // chain
  std::string key_pem;
};
// Both parse and belong together.
Status check_identity(const TlsIdentity& identity);

class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> client(const TlsClientConfig& config);
  static Result<std::shared_ptr<const TlsContext>> server(const TlsServerConfig& config);
  ~TlsContext();

 private:
  friend class TlsEngine;
  TlsContext();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Bytes in, bytes out.
class TlsEngine {
 public:
  // `host` is what a client verifies and names in SNI (unless the context names another).
  // `identity` goes before the context's certificate; null: none. `only_alpn`: what a client offers instead of the
  // context's list.
  TlsEngine(std::shared_ptr<const TlsContext> context, bool is_server, std::string_view host,
            const TlsIdentity* identity = nullptr, std::string_view only_alpn = {});
  ~TlsEngine();

  // Feeds bytes from the socket; appends decrypted bytes to `plain`. An error is final; its message says what was wrong
  // with the certificate ("certificate has expired", "unable to get local issuer certificate", "host name mismatch").
  Status feed(std::string_view from_socket, std::string* plain);
  // Encrypts; the bytes to send appear in take_output().
  Status write(std::string_view plain);
  // write() and take_output() in one, straight into `out`.
  Status encrypt(std::string_view plain, std::string* out);
  // Appends what must be sent to the socket.
  void take_output(std::string* out);
  void close_notify();

  bool handshake_done() const;
  bool peer_closed() const;       // close_notify received
  std::string_view alpn() const;  // empty before the handshake is done or when none was agreed
  std::shared_ptr<const PeerCertificate> peer_certificate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ghostfleet::kube::http
