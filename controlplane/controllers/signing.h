// Certificate signing requests: CertificateApprover approves those of kubelets for their own client certificate,
// CertificateSigner has approved ones signed (by Options::sign_certificate) and writes the certificate.
//
// Thread rule: the controllers' loop.
#pragma once

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

// A request a node may have approved by itself: signer kube-apiserver-client-kubelet, usages of a client certificate,
// and asked for by a bootstrap token or by the node itself. (That the names inside are system:node:... the API server
// checks.)
bool is_node_client_request(const kube::Json& request);

class CertificateApprover final : public Controller {
 public:
  explicit CertificateApprover(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& name);
  Context& context_;
  const Resource& resource_;
  WorkQueue queue_;
};

class CertificateSigner final : public Controller {
 public:
  explicit CertificateSigner(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& name);
  Context& context_;
  const Resource& resource_;
  WorkQueue queue_;
};

}  // namespace ghostfleet::controlplane::controllers
