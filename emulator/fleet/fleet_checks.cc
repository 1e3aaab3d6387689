#include "emulator/fleet/fleet_checks.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "agent/node/json_scan.h"
#include "agent/node/node_class.h"
#include "kube/api/json.h"
#include "kube/client/client.h"

namespace ghostfleet::emulator {

namespace {

Result<kube::ApiCallResult> ask(const kube::ClientConfig& config, std::string target) {
  auto client = kube::SyncClient::create(config);
  if (!client.ok()) return client.error();
  kube::ApiCall call;
  call.target = std::move(target);
  call.max_tries = 3;
  call.timeout = std::chrono::seconds(30);
  return (*client)->call_sync(std::move(call));
}

}  // namespace

Result<bool> probe_server(const kube::ClientConfig& config, const std::string& fleet) {
  std::string target = "/api/v1/nodes?limit=1";
  if (!fleet.empty()) target += fmt::format("&labelSelector={}%3D{}", "ghostfleet.dev%2Ffleet", fleet);
  auto result = ask(config, std::move(target));
  if (!result.ok()) return result.error();
  Status status = result->to_status("list nodes");
  if (!status.ok()) return status;
  agent::ArrayScan items(agent::scan_member(result->body, "items"));
  std::string_view item;
  return items.next(&item);
}

bool is_ghostfleet(const kube::ClientConfig& config) {
  const auto version = ask(config, "/version");
  return version.ok() && version->ok() &&
         agent::scan_member(version->body, "gitVersion").find("+ghostfleet") != std::string_view::npos;
}

Result<bool> probe_node(const kube::ClientConfig& config, const std::string& name, std::string* owner) {
  auto result = ask(config, "/api/v1/nodes/" + name);
  if (!result.ok()) return result.error();
  if (result->status == 404) return false;
  Status status = result->to_status("get node " + name);
  if (!status.ok()) return status;
  *owner = agent::scan_string(agent::scan_path(result->body, {"metadata", "labels", agent::kFleetLabel}));
  return true;
}

Result<std::string> take_from_fleet(const kube::ClientConfig& config, const std::string& name,
                                    const std::string& fleet) {
  const auto lease = ask(config, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + name);
  if (!lease.ok()) return lease.error();
  const auto spec = lease->ok() ? kube::parse_json(agent::scan_member(lease->body, "spec"))
                                : Result<kube::Json>(not_found("no lease"));
  WallTime renewed;
  const bool known = spec.ok() && parse_time(kube::get_string(*spec, "renewTime"), &renewed);
  const Duration lasts = std::chrono::seconds(known ? kube::get_int(*spec, "leaseDurationSeconds", 40) : 0);
  const Duration ago = SystemClock::instance().wall_now() - renewed;
  if (known && ago < lasts) {
    return Status(Code::kAlreadyExists,
                  fmt::format("node {} belongs to fleet {}, which runs: its lease was renewed {} s ago; stop that "
                              "fleet, choose another --node-name, or take the node from it with --adopt",
                              name, fleet, std::max<int64_t>(ago / std::chrono::seconds(1), 0)));
  }
  return fmt::format(
      "node {} belongs to fleet {}, which does not renew its lease: it is taken over, and 'ghostfleet "
      "down --fleet {}' still removes it",
      name, fleet, fleet);
}

Status probe_reachable(const kube::ClientConfig& config) {
  auto result = ask(config, "/version");
  if (!result.ok()) return result.error();
  return result->status == 403 ? Status() : result->to_status("asking for the version of the API server");
}

Status ensure_open_files(uint64_t connections) {
  const rlim_t need = connections + 256;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need) return Status::ok_status();
  rlimit raised = limit;
  raised.rlim_cur = need;
  raised.rlim_max = std::max(limit.rlim_max, need);
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return Status::ok_status();
  raised = limit;
  raised.rlim_cur = std::min<rlim_t>(need, limit.rlim_max);
  if (raised.rlim_cur >= need && setrlimit(RLIMIT_NOFILE, &raised) == 0) return Status::ok_status();
  return {
      Code::kResourceExhausted,
      fmt::format("a connection for each node needs {} open files, the limit is {}: run `ulimit -n {}` first, or use "
                  "--connections shared",
                  need, limit.rlim_max, need)};
}

}  // namespace ghostfleet::emulator
