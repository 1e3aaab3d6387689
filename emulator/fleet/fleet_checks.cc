#include "emulator/fleet/fleet_checks.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "agent/node/json_scan.h"
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

Result<bool> probe_node(const kube::ClientConfig& config, const std::string& name) {
  auto result = ask(config, "/api/v1/nodes/" + name);
  if (!result.ok()) return result.error();
  if (result->status == 404) return false;
  Status status = result->to_status("get node " + name);
  if (!status.ok()) return status;
  return true;
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
