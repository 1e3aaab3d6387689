// The network of a pod's sandbox: its address, from the node's PodNetwork where there is one.
#include <fmt/format.h>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {
constexpr Duration kNotReadyDelay = std::chrono::seconds(1);

PodNetwork::Sandbox sandbox_of(const Pod& pod) { return {pod.ns(), pod.name(), pod.uid()}; }
}  // namespace

bool Manager::needs_network(const Pod& pod) const { return node_.network != nullptr && !pod.spec->host_network; }

// The kernel's names of machines have an end.
std::string Manager::hostname_problem(const Pod& pod) const {
  constexpr size_t kLongestName = 64, kLongestLabel = 63;
  const FullHostname& full = pod.spec->full_hostname;
  if (!full.wanted) return {};
  std::string name = full.hostname.empty() ? std::string(pod.name().substr(0, kLongestLabel)) : full.hostname;
  if (!full.subdomain.empty()) name += fmt::format(".{}.{}.svc.{}", full.subdomain, pod.ns(), options_->cluster_domain);
  if (name.size() <= kLongestName) return {};
  return fmt::format(
      "failed to construct FQDN from pod hostname and cluster domain, FQDN {} is too long ({} characters "
      "is the max, {} characters requested)",
      name, kLongestName, name.size());
}

// False: there is no sandbox or no address, which is told; the pass has failed.
bool Manager::connect(Pod& pod) {
  if (const std::string problem = hostname_problem(pod); !problem.empty()) {
    tell(pod, true, "FailedCreatePodSandBox", "Failed to create pod sandbox: " + problem);
    fail_pass(pod, error_delay());
    return false;
  }
  take_number(pod);
  if (!needs_network(pod)) return true;
  std::optional<PodNetwork::Refusal> refusal = node_.network->add(pod.ip_index, sandbox_of(pod));
  if (!refusal) return true;
  tell(pod, true, refusal->reason, std::move(refusal->message));
  fail_pass(pod, refusal->soon ? host_.rng().between(kNotReadyDelay, kNotReadyDelay * 3 / 2) : error_delay());
  return false;
}

// The worker tries again after the shortest delay of what failed.
void Manager::fail_pass(Pod& pod, Duration delay) {
  pod.pass_delay = pod.pass_failed ? std::min(pod.pass_delay, delay) : delay;
  pod.pass_failed = true;
}

void Manager::disconnect(Pod& pod) {
  if (node_.network != nullptr && pod.ip_index != UINT32_MAX) node_.network->remove(pod.ip_index);
}

// False: it has none.
bool Manager::adopt_from_network(Pod& pod, std::string_view ip) {
  if (!pod.sandbox || ip.empty()) return false;
  take_number(pod);
  return node_.network->adopt(pod.ip_index, sandbox_of(pod), ip);
}

}  // namespace ghostfleet::agent
