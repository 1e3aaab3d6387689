// ClusterState: what strategies, admission and subresources remember between requests of one Api.
//
// Thread rule: any thread; every member locks for itself. Options are set before the first request.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "controlplane/apiserver/api.h"

namespace ghostfleet::controlplane {

// What a service account token is asked for.
struct TokenSpec {
  std::string ns, service_account, service_account_uid;
  std::vector<std::string> audiences;  // never empty
  int64_t expiration_seconds = 3600;
  // Object the token is bound to: kind "Pod", "Node", "Secret" or empty.
  std::string bound_kind, bound_name, bound_uid;
  std::string node_name, node_uid;  // of a bound pod
};

struct IssuedToken {
  std::string token;
  std::string expires;  // RFC 3339, seconds
};

struct ClusterOptions {
  std::string service_cidr = "10.96.0.0/16";
  int node_port_first = 30000, node_port_last = 32767;
  // Audience of tokens when the request names none; also the issuer.
  std::string default_audience = "https://kubernetes.default.svc.cluster.local";
  // As kube-apiserver's --allow-privileged.
  bool allow_privileged = false;
  // Signs tokens; unset: TokenRequests are answered with 500.
  std::function<kube::ApiResult<IssuedToken>(const TokenSpec&)> issue_token;
};

class ServiceAllocator;

// Kinds that admission and subresources look into for every request.
enum class KnownKind : unsigned char {
  kNamespaces,
  kPods,
  kNodes,
  kServices,
  kServiceAccounts,
  kSecrets,
  kLimitRanges,
  kResourceQuotas,
  kPriorityClasses,
  kRuntimeClasses,
  kStorageClasses,
  kDisruptionBudgets,
  kMutatingWebhooks,
  kValidatingWebhooks,
  kCount
};

class ClusterState {
 public:
  ClusterState();
  ~ClusterState();

  ClusterOptions options;
  ServiceAllocator& services() { return *services_; }

  // The served resource, looked up once; null pointer when it is not served.
  const Resource* known(Api& api, KnownKind kind);

 private:
  std::array<std::atomic<const Resource*>, static_cast<size_t>(KnownKind::kCount)> known_{};
  std::unique_ptr<ServiceAllocator> services_;
};

}  // namespace ghostfleet::controlplane
