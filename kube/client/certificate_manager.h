// CertificateManager: keeps one certificate of a node valid, as a kubelet does: takes the one that is stored, else
// requests one; renews it at notBefore + lifetime x U[0.7, 0.9), each time with a new key; after a failure tries again
// after 2, 4, 8 and 16 s (times [1, 1.1)), then every 32 s for ever.
//
// Thread rule: the host's loop. Ownership: the host outlives it; it may be destroyed at any time outside of its
// callbacks. Source: the certificate manager of a kubelet 1.36; docs/identity.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "kube/client/certificate_request.h"
#include "kube/client/signing_request.h"
#include "kube/http/tls.h"

namespace ghostfleet::kube {

class CertificateHost {
 public:
  virtual ~CertificateHost() = default;
  virtual EventLoop& loop() = 0;
  virtual Rng& rng() = 0;
  // The client for the next request: the one of the bootstrap credentials while no valid certificate is held.
  virtual KubeClient& signing_client(bool have_certificate) = 0;
  // The one that approves, with CertificateManagerOptions::approve.
  virtual KubeClient& approving_client() = 0;
  virtual SigningSubject subject() = 0;
  // The stored certificate with its key in one PEM text; NotFound when there is none.
  virtual Result<std::string> load() = 0;
  virtual Status save(const std::string& pem) = 0;
  // A valid certificate is held: at the start, and after each renewal (`renewed`).
  virtual void certificate_ready(const std::shared_ptr<const http::TlsIdentity>& identity, bool renewed) = 0;
  virtual void certificate_expired() {}
  // An attempt failed and will be repeated; for messages.
  virtual void certificate_failed(const Status& why) = 0;
};

struct CertificateManagerOptions {
  std::string signer;
  std::vector<std::string> usages;
  bool rotate = true;
  bool approve = false;
  // The request's name is a digest of what it asks for, and all attempts ask with one key: what a kubelet does that
  // does not rotate.
  bool digested_name = false;
  Duration patience = std::chrono::minutes(15);  // of one attempt
  // Signed lifetimes shorter than this are taken as this when the renewal is planned, so that a broken signer does not
  // make a loop of requests.
  Duration least_lifetime = std::chrono::seconds(1);
};

// What a kubelet asks for: "digital signature" and "client auth" or "server auth".
CertificateManagerOptions kubelet_client_certificate();
CertificateManagerOptions kubelet_serving_certificate();

// A PEM text with a certificate chain and a key, taken apart. InvalidArgument when one is missing or they do not match.
Result<http::TlsIdentity> split_identity(const std::string& pem);

class CertificateManager {
 public:
  CertificateManager(const CertificateManagerOptions* options, CertificateHost& host);
  ~CertificateManager();
  CertificateManager(const CertificateManager&) = delete;
  CertificateManager& operator=(const CertificateManager&) = delete;

  // Calls back from the loop.
  void start();
  bool valid() const { return valid_; }
  WallTime expires() const { return not_after_; }

 private:
  void begin();
  bool take(const std::string& pem, bool renewed);
  void plan();
  void arm(Duration delay, void (CertificateManager::*next)());
  void request();
  void signed_or_not(Result<std::string> certificate);
  void failed(const Status& why);
  void expired();
  bool covers(const SigningSubject& have, const SigningSubject& wanted) const;

  const CertificateManagerOptions* options_;
  CertificateHost& host_;
  WallTime not_before_, not_after_;
  bool valid_ = false;
  int failures_ = 0;
  std::string key_pem_;  // of the request on its way
  std::unique_ptr<CertificateRequest> request_;
  EventLoop::TimerId timer_ = 0, expiry_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ghostfleet::kube
