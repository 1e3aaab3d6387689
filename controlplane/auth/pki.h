// Pki: the certificates of a control plane: an authority, the server's certificate, an administrator's, what the API
// server shows to kubelets and to aggregated API servers, the key that signs service account tokens; and the signing of
// certificate requests.
//
// Keys are ECDSA P-256. Everything is PEM. Files are written with mode 0600 in a directory of mode 0700.
// Thread rule: immutable after creation; sign_request may be called from any thread.
// Errors: kInvalidArgument (a request that cannot be parsed or that its signer may not sign), kDataLoss (files that do
// not fit together), kInternal (the crypto library).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::controlplane {

struct CertificateSubject {
  std::string common_name;
  std::vector<std::string> organizations;
};

struct CertificateUse {
  bool client_auth = false;
  bool server_auth = false;
  std::vector<std::string> dns_names;
  std::vector<std::string> ips;
};

struct KeyAndCertificate {
  std::string key_pem;
  std::string cert_pem;
};

struct PkiOptions {
  std::vector<std::string> extra_names;  // further SANs of the server: host names or addresses
  std::string service_ip = "10.96.0.1";  // first address of the service range
  Duration ca_lifetime = std::chrono::hours(24 * 3650);
  Duration lifetime = std::chrono::hours(24 * 365);
  std::string admin_name = "kubernetes-admin";  // CN of the administrator, O=system:masters
};

// What a certificate request asks for, as its signer and admission need to know it.
struct CertificateRequest {
  CertificateSubject subject;
  std::vector<std::string> dns_names, ips, emails, uris;
};
Result<CertificateRequest> parse_certificate_request(std::string_view pem);
// True when the text holds at least one CERTIFICATE block.
bool has_certificate_block(std::string_view pem);
// The end of validity of the first certificate; for warnings.
Result<WallTime> certificate_expiry(std::string_view pem);

inline constexpr const char* kKubeletClientName = "kube-apiserver-kubelet-client";
inline constexpr const char* kFrontProxyClientName = "front-proxy-client";

std::string generate_key_pem();  // ECDSA P-256, PKCS#8; empty when the crypto library fails

class Pki {
 public:
  // A new authority with everything below it.
  static Result<Pki> create(const PkiOptions& options, WallTime now);
  // Reads what create() saved. Missing files are kNotFound, but for the API server's client certificates: those of an
  // older directory are empty.
  static Result<Pki> load(const std::string& directory);
  // load(), or create() and save() when the directory holds none; a server certificate that lacks a wanted name or
  // expires within 30 days is made anew by the same authority, as are client certificates of the API server that are
  // missing or expire.
  static Result<Pki> load_or_create(const std::string& directory, const PkiOptions& options, WallTime now);
  Status save(const std::string& directory) const;

  const KeyAndCertificate& ca() const { return ca_; }
  const KeyAndCertificate& server() const { return server_; }
  const KeyAndCertificate& admin() const { return admin_; }
  // What the API server shows to kubelets: CN=kube-apiserver-kubelet-client, signed by ca().
  const KeyAndCertificate& kubelet_client() const { return kubelet_client_; }
  // An authority of its own, and what it signs for the API server: whoever shows that certificate
  // (CN=front-proxy-client) to an aggregated API server speaks for the users named in X-Remote-*.
  const KeyAndCertificate& front_proxy_ca() const { return front_proxy_ca_; }
  const KeyAndCertificate& front_proxy_client() const { return front_proxy_client_; }
  // PEM of the key for service account tokens.
  const std::string& service_account_key() const { return service_account_key_; }
  // 43 characters of base64url; the administrator's bearer token.
  const std::string& admin_token() const { return admin_token_; }

  // A client or server certificate with a new key (node identities, components).
  Result<KeyAndCertificate> issue(const CertificateSubject& subject, const CertificateUse& use, Duration lifetime,
                                  WallTime now) const;
  // Signs the request of a CertificateSigningRequest (PEM) for one of the signers kubernetes.io/kube-apiserver-client,
  // kube-apiserver-client-kubelet, kubelet-serving, legacy-unknown; `usages` are those of its spec. Answers the PEM
  // certificate. A signer's own rules (subject, usages, SANs) are checked: kInvalidArgument says what is wrong.
  Result<std::string> sign_request(std::string_view request_pem, std::string_view signer,
                                   const std::vector<std::string>& usages, Duration lifetime, WallTime now) const;

 private:
  Status complete(const PkiOptions& options, WallTime now, bool* added);

  KeyAndCertificate ca_, server_, admin_, kubelet_client_, front_proxy_ca_, front_proxy_client_;
  std::string service_account_key_;
  std::string admin_token_;
};

// Does this signer accept such a request? The empty text when it does, else why not (the words of the controller).
std::string check_signer_rules(std::string_view signer, const CertificateRequest& request,
                               const std::vector<std::string>& usages);

}  // namespace ghostfleet::controlplane
