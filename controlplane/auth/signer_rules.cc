// What each built-in signer demands of a request. Words of the signing controller of Kubernetes.
#include <algorithm>

#include "controlplane/auth/pki.h"

namespace ghostfleet::controlplane {
namespace {

using Usages = std::vector<std::string>;

bool only_of(const Usages& usages, const Usages& allowed) {
  return std::all_of(usages.begin(), usages.end(), [&](const std::string& u) {
    return std::find(allowed.begin(), allowed.end(), u) != allowed.end();
  });
}

bool has(const Usages& usages, const char* usage) {
  return std::find(usages.begin(), usages.end(), usage) != usages.end();
}

std::string check_client(const Usages& usages) {
  const Usages allowed = {"digital signature", "key encipherment", "client auth"};
  return has(usages, "client auth") && only_of(usages, allowed) ? "" : "usages did not match [client auth]";
}

std::string check_node_subject(const CertificateRequest& request) {
  if (request.subject.organizations != std::vector<std::string>{"system:nodes"}) {
    return "subject organization is not system:nodes";
  }
  if (request.subject.common_name.rfind("system:node:", 0) != 0) {
    return "subject common name does not begin with system:node: ";
  }
  return "";
}

std::string check_kubelet_client(const CertificateRequest& request, const Usages& usages) {
  if (std::string bad = check_node_subject(request); !bad.empty()) return bad;
  if (!request.dns_names.empty()) return "DNS subjectAltNames are not allowed";
  if (!request.ips.empty()) return "IP subjectAltNames are not allowed";
  if (!request.emails.empty()) return "Email subjectAltNames are not allowed";
  if (!request.uris.empty()) return "URI subjectAltNames are not allowed";
  return check_client(usages);
}

std::string check_kubelet_serving(const CertificateRequest& request, const Usages& usages) {
  if (std::string bad = check_node_subject(request); !bad.empty()) return bad;
  if (request.dns_names.empty() && request.ips.empty()) return "DNS or IP subjectAltName is required";
  if (!request.emails.empty()) return "Email subjectAltNames are not allowed";
  if (!request.uris.empty()) return "URI subjectAltNames are not allowed";
  const Usages allowed = {"digital signature", "key encipherment", "server auth"};
  return has(usages, "server auth") && only_of(usages, allowed) ? "" : "usages did not match [server auth]";
}

}  // namespace

std::string check_signer_rules(std::string_view signer, const CertificateRequest& request, const Usages& usages) {
  if (signer == "kubernetes.io/kube-apiserver-client") {
    const std::vector<std::string>& groups = request.subject.organizations;
    if (std::find(groups.begin(), groups.end(), "system:masters") != groups.end()) {
      return "subject may not include organization system:masters";
    }
    return check_client(usages);
  }
  if (signer == "kubernetes.io/kube-apiserver-client-kubelet") return check_kubelet_client(request, usages);
  if (signer == "kubernetes.io/kubelet-serving") return check_kubelet_serving(request, usages);
  if (signer == "kubernetes.io/legacy-unknown") return "";
  return "no such signer here: " + std::string(signer);
}

}  // namespace ghostfleet::controlplane
