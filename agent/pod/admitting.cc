// Whether the node takes a pod, and what follows from it.
#include "agent/pod/admission.h"
#include "agent/pod/manager.h"

namespace ghostfleet::agent {

using kube::Json;

void Manager::accept(Pod& pod, const Json& json) {
  // A pod that is being deleted before it ran is only brought to its end.
  if (kube::find_path(json, "metadata.deletionTimestamp") == nullptr) {
    judge(pod, json, !full());
  } else {
    begin_life(pod);
  }
}

void Manager::judge(Pod& pod, const Json& json, bool node_is_fresh) {
  if (pressure() == 0 && wants_devices(pod)) return take_devices(pod, json, node_is_fresh);
  judge_rest(pod, json, node_is_fresh);
}

void Manager::judge_rest(Pod& pod, const Json& json, bool node_is_fresh) {
  const std::shared_ptr<const Json> node = node_for(pod);
  auto bad = admit(json, *pod.spec, node.get(), node_.name, templates_beside(pod), is_static(pod) ? 0 : pressure());
  if (!bad) {
    begin_life(pod);
    return;
  }
  if (bad->reason == "NodeAffinity" && !node_is_fresh) {
    // Perhaps the node's labels changed a moment ago.
    pod.work = Work::kAdmitting;
    pod.more().json = std::make_unique<Json>(json);
    ApiRequest request;
    request.tag = tag_of(pod, Call::kNode);
    request.target = "/api/v1/nodes/" + node_.name;
    host_.send(std::move(request));
    return;
  }
  const bool critical = is_critical(pod) && !bad->shortages.empty();
  if (critical && make_room(pod, bad->shortages)) return;
  if (critical) {
    std::string list;
    for (const Shortage& s : bad->shortages)
      list += "(res: " + s.resource + ", q: " + std::to_string(s.missing) + "), ";
    reject(pod, "UnexpectedAdmissionError",
           "Unexpected error while attempting to recover from admission "
           "failure: preemption: error finding a set of pods "
           "to preempt: no set of running pods found to reclaim resources: [" +
               list + "]");
    return;
  }
  reject(pod, std::move(bad->reason), bad->message);
}

void Manager::on_fresh_node(Pod& pod, const ApiResponse& response) {
  if (pod.work != Work::kAdmitting || pod.extras == nullptr || pod.extras->json == nullptr) return;
  const std::unique_ptr<Json> json = std::move(pod.extras->json);
  pod.work = Work::kNone;
  const auto node = response.ok() ? kube::parse_json(response.body) : Result<Json>(unavailable("no answer"));
  if (node.ok() && matches_node(*json, *node, node_.name)) {
    begin_life(pod);
  } else {
    judge(pod, *json, true);
  }
}

void Manager::tell_problems(Pod& pod) {
  for (const auto& [annotation, problem] : pod.spec->problems) {
    tell(pod, true, "InvalidBehavior", "annotation " + annotation + ": " + problem);
  }
}

void Manager::begin_life(Pod& pod) {
  tell_problems(pod);
  sync(pod);
}

void Manager::reject(Pod& pod, std::string reason, const std::string& message) {
  give_back_devices(pod);
  tell(pod, true, reason, message);
  pod.more().reason = std::move(reason);
  pod.more().message = "Pod was rejected: " + message;
  pod.rejected = true;
  pod.stage = Stage::kFinished;
  pod.start_time = host_.wall_now().seconds();
  pod.shown = Phase::kFailed;
  pod.dirty = true;
}

}  // namespace ghostfleet::agent
