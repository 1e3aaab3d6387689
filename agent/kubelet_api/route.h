// Route: what a request to a node's server is about, told from its path and method.
//
// Thread rule: pure functions.
// Source: the server of a kubelet 1.36.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ghostfleet::kubelet_api {

enum class Endpoint : unsigned char {
  kUnknown,
  kHealthz,
  kPods,
  kRunningPods,
  kContainerLogs,
  kExec,
  kAttach,
  kPortForward,
  kRun,
  kCheckpoint,
  kStatsSummary,
  kMetrics,
  kMetricsResource,
  kMetricsCadvisor,
  kMetricsProbes,
  kConfigz,
  kDisabled,  // what a kubelet has, but only when it is told to
};

struct Route {
  Endpoint endpoint = Endpoint::kUnknown;
  std::string ns, pod, uid, container;
  std::string rest;  // of /healthz/...
};

Route parse_route(std::string_view path);

// What a SubjectAccessReview is asked about; one that is allowed is enough.
std::vector<std::string> subresources_of(std::string_view path);
// "get" for GET, "create" for POST and so on; empty for methods a kubelet does not know.
std::string verb_of(std::string_view method);
// Whether an endpoint knows the method.
bool method_allowed(Endpoint endpoint, std::string_view method);

}  // namespace ghostfleet::kubelet_api
