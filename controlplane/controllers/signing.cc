#include "controlplane/controllers/signing.h"

#include <set>

#include "base/digest.h"
#include "controlplane/auth/authorizer.h"
#include "controlplane/auth/pki.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_string;
using kube::Json;

namespace {

constexpr const char* kKubeletClientSigner = "kubernetes.io/kube-apiserver-client-kubelet";
constexpr const char* kNodeClient = "nodeclient";
constexpr const char* kSelfNodeClient = "selfnodeclient";
// Between two questions about a request whose requester has no right yet; those of kube-controller-manager.
constexpr Duration kMinBackoff = std::chrono::milliseconds(200);
constexpr Duration kMaxBackoff = std::chrono::seconds(1000);

bool decided(const Json& request) {
  return find_condition(request, "Approved") != nullptr || find_condition(request, "Denied") != nullptr;
}

bool known_signer(std::string_view signer) {
  return signer == "kubernetes.io/kube-apiserver-client" || signer == "kubernetes.io/kube-apiserver-client-kubelet" ||
         signer == "kubernetes.io/kubelet-serving" || signer == "kubernetes.io/legacy-unknown";
}

std::vector<std::string> strings_at(const Json& object, std::string_view path) {
  std::vector<std::string> out;
  if (const kube::JsonArray* list = get_array(object, path)) {
    for (const Json& item : *list) {
      if (item.is_string()) out.emplace_back(item.get_string());
    }
  }
  return out;
}

// With "key encipherment" (RSA keys) or without it, and nothing else.
bool are_client_usages(const std::vector<std::string>& usages) {
  std::set<std::string> set(usages.begin(), usages.end());
  set.erase("key encipherment");
  return set == std::set<std::string>{"client auth", "digital signature"};
}

bool may_create(const Authorizer& authorizer, const Json& request, const std::string& subresource) {
  UserInfo user;
  user.name = get_string(request, "spec.username");
  user.uid = get_string(request, "spec.uid");
  user.groups = strings_at(request, "spec.groups");
  Attributes asked;
  asked.user = &user;
  asked.verb = "create";
  asked.group = "certificates.k8s.io";
  asked.version = "*";
  asked.resource = "certificatesigningrequests";
  asked.subresource = subresource;
  return authorizer.authorize(asked).allowed();
}

}  // namespace

std::vector<std::string> approval_rights(const Json& request) {
  const std::vector<std::string> usages = strings_at(request, "spec.usages");
  if (get_string(request, "spec.signerName") != kKubeletClientSigner || !are_client_usages(usages)) return {};
  std::string pem;
  if (!base64_decode(get_string(request, "spec.request"), &pem)) return {};
  const Result<CertificateRequest> inside = parse_certificate_request(pem);
  if (!inside.ok() || !check_signer_rules(kKubeletClientSigner, *inside, usages).empty()) return {};
  if (get_string(request, "spec.username") != inside->subject.common_name) return {kNodeClient};
  return {kSelfNodeClient, kNodeClient};
}

CertificateApprover::CertificateApprover(Context& context)
    : context_(context),
      resource_(*context.find("certificates.k8s.io", "v1", "certificatesigningrequests")),
      queue_(
          context.loop(), [this](const std::string& name) { return sync(name); }, kMinBackoff, kMaxBackoff) {}

void CertificateApprover::start() {
  if (context_.options().authorizer == nullptr) return;
  context_.watch(resource_).subscribe([this](const ObjectRef&, const ObjectRef& now) {
    if (now) queue_.add(now->key);
  });
}

SyncResult CertificateApprover::sync(const std::string& name) {
  const ObjectRef object = context_.watch(resource_).get(name);
  if (!object) return SyncResult::done();
  const Json request = parse_object(object);
  if (decided(request) || !get_string(request, "status.certificate").empty()) return SyncResult::done();
  const std::vector<std::string> rights = approval_rights(request);
  for (const std::string& right : rights) {
    if (may_create(*context_.options().authorizer, request, right)) return approve(name, right);
  }
  return rights.empty() ? SyncResult::done() : SyncResult::retry();
}

SyncResult CertificateApprover::approve(const std::string& name, std::string_view right) {
  const char* message = right == kSelfNodeClient
                            ? "Auto approving self kubelet client certificate after SubjectAccessReview."
                            : "Auto approving kubelet client certificate after SubjectAccessReview.";
  const auto done =
      context_.modify("csrapproving", resource_, "", name, "approval", [&](Json& live) -> kube::ApiResult<bool> {
        if (decided(live)) return false;
        set_condition(live, "Approved", "True", "AutoApproved", message, context_.now(), true);
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
        kube::set_path(live, "status.certificate", Json(base64_encode(*certificate)));
        return true;
      });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

}  // namespace ghostfleet::controlplane::controllers
