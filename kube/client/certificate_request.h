// CertificateRequest: one attempt to have a certificate signed by the cluster, with the requests a kubelet makes for
// it: POST of a CertificateSigningRequest, one LIST of it, then a watch, until it is approved and carries a
// certificate.
//
// Denied, Failed, deleted, or replaced by another of its name: an error that says so. Not signed within `patience`: an
// error (DeadlineExceeded).
// Thread rule: the client's loop. Ownership: client and approver outlive it. The callback comes once, from the loop and
// never from inside start(); it may destroy the request.
// Source: the signing requests of a kubelet 1.36; docs/identity.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kube/client/client.h"

namespace ghostfleet::kube {

inline constexpr std::string_view kKubeletClientSigner = "kubernetes.io/kube-apiserver-client-kubelet";
inline constexpr std::string_view kKubeletServingSigner = "kubernetes.io/kubelet-serving";
inline constexpr std::string_view kSigningRequests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

struct CertificateRequestOptions {
  std::string name;  // empty: the server makes one, beginning with "csr-". An existing one of a given name is used
  std::string signer;
  std::vector<std::string> usages;
  std::string request_pem;
  Duration patience = std::chrono::minutes(15);
  KubeClient* approver = nullptr;  // not null: approves the request with its own credentials
  uint64_t seed = 1;
};

class CertificateRequest {
 public:
  using Done = std::function<void(Result<std::string> certificate_pem)>;
  static std::unique_ptr<CertificateRequest> start(KubeClient& client, CertificateRequestOptions options, Done done);
  virtual ~CertificateRequest() = default;  // no further callback
};

}  // namespace ghostfleet::kube
