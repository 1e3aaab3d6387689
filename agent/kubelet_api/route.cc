#include "agent/kubelet_api/route.h"

#include <algorithm>

#include "kube/http/message.h"

namespace ghostfleet::kubelet_api {
namespace {

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const size_t end = std::min(path.find('/'), path.size());
    parts.push_back(kube::http::percent_decode(path.substr(0, end), false));
    path.remove_prefix(end);
  }
  return parts;
}

// The path itself or something below it.
bool is_below(std::string_view path, std::string_view root) {
  return path == root || (path.starts_with(root) && path[root.size()] == '/');
}

// /exec/{ns}/{pod}[/{uid}]/{container}
Route container_route(Endpoint endpoint, std::vector<std::string> parts, bool with_container) {
  Route r;
  const size_t least = with_container ? 4 : 3;
  if (parts.size() < least || parts.size() > least + 1) return r;
  if (std::any_of(parts.begin(), parts.end(), [](const std::string& p) { return p.empty(); })) return r;
  r.endpoint = endpoint;
  r.ns = parts[1];
  r.pod = parts[2];
  if (parts.size() > least) r.uid = parts[3];
  if (with_container) r.container = parts.back();
  return r;
}

}  // namespace

Route parse_route(std::string_view path) {
  Route r;
  if (path.empty() || path[0] != '/') return r;
  if (is_below(path, "/healthz")) {
    r.endpoint = Endpoint::kHealthz;
    if (path.size() > 9) r.rest = path.substr(9);
    return r;
  }
  static constexpr std::pair<std::string_view, Endpoint> kPlain[] = {
      {"/pods", Endpoint::kPods},
      {"/pods/", Endpoint::kPods},
      {"/runningpods", Endpoint::kRunningPods},
      {"/runningpods/", Endpoint::kRunningPods},
      {"/stats/summary", Endpoint::kStatsSummary},
      {"/stats/summary/", Endpoint::kStatsSummary},
      {"/metrics", Endpoint::kMetrics},
      {"/metrics/resource", Endpoint::kMetricsResource},
      {"/metrics/cadvisor", Endpoint::kMetricsCadvisor},
      {"/metrics/probes", Endpoint::kMetricsProbes},
      {"/configz", Endpoint::kConfigz},
  };
  for (const auto& [text, endpoint] : kPlain) {
    if (path != text) continue;
    r.endpoint = endpoint;
    return r;
  }
  std::vector<std::string> parts = split_path(path);
  const std::string& first = parts[0];
  if (first == "exec") return container_route(Endpoint::kExec, std::move(parts), true);
  if (first == "attach") return container_route(Endpoint::kAttach, std::move(parts), true);
  if (first == "run") return container_route(Endpoint::kRun, std::move(parts), true);
  if (first == "portForward") return container_route(Endpoint::kPortForward, std::move(parts), false);
  if (first == "containerLogs" && parts.size() == 4)
    return container_route(Endpoint::kContainerLogs, std::move(parts), true);
  if (first == "checkpoint" && parts.size() == 4) return container_route(Endpoint::kCheckpoint, std::move(parts), true);
  if (first == "logs" || first == "debug" || first == "flagz" || first == "statusz") r.endpoint = Endpoint::kDisabled;
  return r;
}

std::vector<std::string> subresources_of(std::string_view path) {
  if (is_below(path, "/stats")) return {"stats"};
  if (is_below(path, "/metrics")) return {"metrics"};
  if (is_below(path, "/logs")) return {"log"};
  if (is_below(path, "/checkpoint")) return {"checkpoint"};
  if (is_below(path, "/statusz")) return {"statusz"};
  if (is_below(path, "/flagz")) return {"configz"};
  if (path == "/pods" || path == "/pods/" || path == "/runningpods" || path == "/runningpods/")
    return {"pods", "proxy"};
  if (is_below(path, "/healthz")) return {"healthz", "proxy"};
  if (path == "/configz") return {"configz", "proxy"};
  return {"proxy"};
}

std::string verb_of(std::string_view method) {
  if (method == "GET" || method == "HEAD") return "get";
  if (method == "POST") return "create";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  if (method == "DELETE") return "delete";
  return {};
}

bool method_allowed(Endpoint endpoint, std::string_view method) {
  const bool get = method == "GET" || method == "HEAD";
  const bool post = method == "POST";
  switch (endpoint) {
    case Endpoint::kExec:
    case Endpoint::kAttach:
    case Endpoint::kPortForward:
    case Endpoint::kStatsSummary: return get || post;
    case Endpoint::kRun:
    case Endpoint::kCheckpoint: return post;
    case Endpoint::kUnknown:
    case Endpoint::kDisabled: return true;
    default: return get;
  }
}

}  // namespace ghostfleet::kubelet_api
