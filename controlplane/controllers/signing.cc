#include "controlplane/controllers/signing.h"

#include <algorithm>
#include <set>

#include "controlplane/controllers/base64.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_string;
using kube::Json;

namespace {

bool decided(const Json& request) {
  return find_condition(request, "Approved") != nullptr || find_condition(request, "Denied") != nullptr;
}

bool known_signer(std::string_view signer) {
  return signer == "kubernetes.io/kube-apiserver-client" || signer == "kubernetes.io/kube-apiserver-client-kubelet" ||
         signer == "kubernetes.io/kubelet-serving" || signer == "kubernetes.io/legacy-unknown";
}

}  // namespace

bool is_node_client_request(const Json& request) {
  if (get_string(request, "spec.signerName") != "kubernetes.io/kube-apiserver-client-kubelet") return false;
  std::set<std::string> usages;
  if (const kube::JsonArray* list = get_array(request, "spec.usages")) {
    for (const Json& u : *list) {
      if (u.is_string()) usages.emplace(u.get_string());
    }
  }
  usages.erase("key encipherment");
  if (usages != std::set<std::string>{"client auth", "digital signature"}) return false;
  const std::string_view user = get_string(request, "spec.username");
  if (user.starts_with("system:bootstrap:") || user.starts_with("system:node:")) return true;
  const kube::JsonArray* groups = get_array(request, "spec.groups");
  return groups != nullptr && std::any_of(groups->begin(), groups->end(), [](const Json& g) {
           return g.is_string() && (g.get_string() == "system:bootstrappers" || g.get_string() == "system:masters");
         });
}

CertificateApprover::CertificateApprover(Context& context)
    : context_(context),
      resource_(*context.find("certificates.k8s.io", "v1", "certificatesigningrequests")),
      queue_(context.loop(), [this](const std::string& name) { return sync(name); }) {}

void CertificateApprover::start() {
  context_.watch(resource_).subscribe([this](const ObjectRef&, const ObjectRef& now) {
    if (now) queue_.add(now->key);
  });
}

SyncResult CertificateApprover::sync(const std::string& name) {
  const ObjectRef object = context_.watch(resource_).get(name);
  if (!object) return SyncResult::done();
  const Json request = parse_object(object);
  if (decided(request) || !is_node_client_request(request)) return SyncResult::done();
  const auto done =
      context_.modify("csrapproving", resource_, "", name, "approval", [&](Json& live) -> kube::ApiResult<bool> {
        if (decided(live)) return false;
        set_condition(live, "Approved", "True", "AutoApproved",
                      "Auto approving kubelet client certificate after SubjectAccessReview.", context_.now(), true);
        return true;
      });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

CertificateSigner::CertificateSigner(Context& context)
    : context_(context),
      resource_(*context.find("certificates.k8s.io", "v1", "certificatesigningrequests")),
      queue_(context.loop(), [this](const std::string& name) { return sync(name); }) {}

void CertificateSigner::start() {
  if (!context_.options().sign_certificate) return;
  context_.watch(resource_).subscribe([this](const ObjectRef&, const ObjectRef& now) {
    if (now) queue_.add(now->key);
  });
}

SyncResult CertificateSigner::sync(const std::string& name) {
  const ObjectRef object = context_.watch(resource_).get(name);
  if (!object) return SyncResult::done();
  const Json request = parse_object(object);
  const bool approved = condition_text(request, "Approved", "status") == "True";
  if (!approved || find_condition(request, "Denied") != nullptr || find_condition(request, "Failed") != nullptr ||
      !get_string(request, "status.certificate").empty() || !known_signer(get_string(request, "spec.signerName"))) {
    return SyncResult::done();
  }
  const Result<std::string> certificate = context_.options().sign_certificate(request);
  const auto done =
      context_.modify("csrsigning", resource_, "", name, "status", [&](Json& live) -> kube::ApiResult<bool> {
        if (!certificate.ok()) {
          return set_condition(live, "Failed", "True", "SignerValidationFailure", certificate.error().message(),
                               context_.now(), true);
        }
        kube::set_path(live, "status.certificate", Json(base64(*certificate)));
        return true;
      });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

}  // namespace ghostfleet::controlplane::controllers
