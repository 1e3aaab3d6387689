// The network of a pod's sandbox: its address, from the node's PodNetwork where there is one.
#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {
constexpr Duration kNotReadyDelay = std::chrono::seconds(1);

PodNetwork::Sandbox sandbox_of(const Pod& pod) { return {pod.ns(), pod.name(), pod.uid()}; }
}  // namespace

bool Manager::needs_network(const Pod& pod) const { return node_.network != nullptr && !pod.spec->host_network; }

// False: there is no address, which is told; the pass has failed.
bool Manager::connect(Pod& pod) {
  take_number(pod);
  if (!needs_network(pod)) return true;
  std::optional<PodNetwork::Refusal> refusal = node_.network->add(pod.ip_index, sandbox_of(pod));
  if (!refusal) return true;
  tell(pod, true, refusal->reason, std::move(refusal->message));
  const Duration delay = refusal->soon ? host_.rng().between(kNotReadyDelay, kNotReadyDelay * 3 / 2) : error_delay();
  pod.pass_delay = pod.pass_failed ? std::min(pod.pass_delay, delay) : delay;
  pod.pass_failed = true;
  return false;
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
