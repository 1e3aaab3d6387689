// Copies out what a pod looks like now.
#include "agent/pod/pod_view.h"

#include "agent/pod/manager.h"
#include "agent/pod/status_parts.h"

namespace ghostfleet::agent {
namespace {

AttemptView ended_view(const Ended& end) {
  return {end.known, end.known, end.attempt, end.started, end.finished, end.code};
}

ContainerView container_view(const Pod& pod, size_t index, const PodOptions& options) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const Look& look = pod.runs[index].now;
  ContainerView v;
  v.name = spec.name;
  v.image = spec.image;
  v.init = spec.init;
  v.sidecar = spec.sidecar;
  v.script = pod.runs[index].drawn != nullptr ? *pod.runs[index].drawn : spec.script;
  v.resources = spec.resources;
  v.previous = ended_view(look.last);
  if (look.state == RunState::kAbsent) {
    v.waiting_reason = waiting_reason(pod.runs[index].shown.why);
    if (v.waiting_reason.empty()) v.waiting_reason = pod.spec->init_count > 0 ? "PodInitializing" : "ContainerCreating";
    return v;
  }
  v.id = container_id(pod, index, look.attempt, options.runtime_name);
  if (look.state == RunState::kRunning) {
    v.state = ContainerState::kRunning;
    v.current = {true, false, look.attempt, look.started_at, {}, 0};
    return v;
  }
  v.current = ended_view(look.end);
  v.state = ContainerState::kExited;
  if (pod.runs[index].shown.why == Why::kNone) return v;
  v.state = ContainerState::kWaiting;
  v.waiting_reason = waiting_reason(pod.runs[index].shown.why);
  return v;
}

}  // namespace

const ContainerView* PodView::find(std::string_view container) const {
  for (const ContainerView& c : containers) {
    if (c.name == container) return &c;
  }
  return nullptr;
}

ResourceUse PodView::use() const {
  ResourceUse sum;
  for (const ContainerView& c : containers) sum += c.use;
  for (const VolumeView& v : volumes) sum.storage += v.used;
  return sum;
}

PodView Manager::view_of(const Pod& pod) const {
  PodView v;
  v.ns = pod.ns();
  v.name = pod.name();
  v.uid = pod.uid();
  v.host_network = pod.spec->host_network;
  v.terminating = pod.deleting || pod.stage == Stage::kTerminating;
  v.start_time = {pod.start_time * 1000000000};
  v.phase = phase_name(pod.shown);
  v.ip = pod_ip(pod, node_);
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    v.containers.push_back(container_view(pod, i, *options_));
    v.containers.back().probes = tallies_of(pod, i);
    v.containers.back().use = use_of(pod, i);
    for (AttemptView* attempt : {&v.containers.back().current, &v.containers.back().previous})
      attempt->last_words = last_words(pod, i, attempt->attempt);
    v.containers.back().claims = claims_in_use(pod, i, context());
    if (node_.devices == nullptr || pod.spec->containers[i].devices.empty()) continue;
    v.containers.back().devices = node_.devices->held(pod.uid(), pod.spec->containers[i].name);
    v.containers.back().given = node_.devices->response_of(pod.uid(), pod.spec->containers[i].name);
  }
  for (size_t i = 0; i < pod.spec->empty_dirs.size(); ++i)
    v.volumes.push_back({pod.spec->empty_dirs[i].name, volume_use(pod, i)});
  return v;
}

std::vector<PodView> Manager::describe(const PodPick& pick) const {
  std::vector<PodView> out;
  for (const Slot& slot : slots_) {
    if (slot.pod == nullptr || slot.pod->gone) continue;
    const bool wanted = pick.name.empty() || (slot.pod->name() == pick.name && slot.pod->ns() == pick.ns);
    if (wanted) out.push_back(view_of(*slot.pod));
  }
  return out;
}

}  // namespace ghostfleet::agent
