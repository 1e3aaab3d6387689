// What TlsContext and TlsEngine share inside kube/http. OpenSSL's types are named here, its headers are not included.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/http/certificate_pool.h"
#include "kube/http/tls.h"

struct ssl_ctx_st;
struct ssl_st;
struct x509_st;

namespace ghostfleet::kube::http {

struct TlsContext::Impl {
  CertificatePool certificates;  // of servers
  ssl_ctx_st* ctx = nullptr;
  bool insecure = false;
  bool bad_client_is_none = false;
  std::string server_name;
  std::string alpn_wire;  // length-prefixed names
  ~Impl();
};

// Presents `identity` in the handshake of one connection.
Status use_identity(ssl_st* ssl, const TlsIdentity& identity);

// The texts of OpenSSL's error queue, which is emptied: "reason; reason".
std::string take_openssl_errors();

// Subject of a verified certificate.
std::shared_ptr<const PeerCertificate> subject_of(x509_st* certificate);
// "DNS:a, DNS:b, IP Address:127.0.0.1": the names a certificate is for.
std::string names_of(x509_st* certificate);

}  // namespace ghostfleet::kube::http
