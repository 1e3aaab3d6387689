// Certificate signing requests: CertificateApprover approves those of kubelets for their client certificate when
// Options::authorizer lets the requester have that (a refused one is asked about again, as a grant may follow),
// CertificateSigner has approved ones signed (by Options::sign_certificate) and writes the certificate.
//
// Thread rule: the controllers' loop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

// The rights that let a request be approved by itself, in the order they are asked for: the requester must be allowed
// to `create` that subresource of certificatesigningrequests. For a kubelet's client certificate (by its signer,
// subject, usages, and no other names) that is `nodeclient`; before it `selfnodeclient` when the node named inside
// asks. Empty for every other request.
std::vector<std::string> approval_rights(const kube::Json& request);

class CertificateApprover final : public Controller {
 public:
  explicit CertificateApprover(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& name);
  SyncResult approve(const std::string& name, std::string_view right);
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
