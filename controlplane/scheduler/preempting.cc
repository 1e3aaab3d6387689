// A pod that fits nowhere sends less important ones away, and has their room kept until they are gone.
#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/json_scan.h"
#include "controlplane/scheduler/scheduler_impl.h"

namespace ghostfleet::controlplane {

using kube::Json;
using scheduling::Engine;

// Pods that the API server has sent away already (status.disruptedPods) are still counted by status.disruptionsAllowed,
// which it has lowered for them.
void Scheduler::Impl::on_budget(const ObjectRef& old, const ObjectRef& now) {
  if (!now) return engine.remove_budget(old->key);
  const auto budget = kube::parse_json(now->json);
  if (!budget.ok()) return;
  auto selector = kube::LabelSelector::from_json(kube::find_path(*budget, "spec.selector"));
  if (!selector.ok()) return engine.remove_budget(now->key);
  engine.set_budget(
      now->key, {std::string(now->ns()), std::move(*selector), kube::get_int(*budget, "status.disruptionsAllowed")});
}

// False: nobody can be sent away for it.
bool Scheduler::Impl::preempt(const std::string& key, PodRecord& record, const std::string& message) {
  if (record.never_preempts) return false;
  const Engine::Preemption plan = engine.preempt(record.pod_class, record.pin);
  if (plan.node == Engine::kNoNode) return false;
  unschedulable.add();
  preemptions.add();
  record.state = PodRecord::State::kNominated;
  record.node = plan.node;
  engine.assign(record.pod_class, plan.node);
  tell_unschedulable(record, message, engine.node_name(plan.node));
  for (const std::string& victim : pick_victims(plan)) {
    const std::string uid = records.find(victim)->second.uid;
    if (!evict(victim, record)) continue;
    victims_total.add();
    awaited[uid].push_back(key);
    ++record.victims;
  }
  if (record.victims > 0) return true;
  // Whoever should have left is gone already, or cannot be deleted: once more, but not at once.
  refuse(key, record, kube::internal_api_error("no victim could be deleted"));
  return true;
}

// Those that leave already come first, then those made last.
std::vector<std::string> Scheduler::Impl::pick_victims(const Engine::Preemption& plan) const {
  struct Pick {
    bool stays = true;
    std::string created;
    const std::string* key = nullptr;
  };
  std::vector<std::string> out;
  for (const auto& [pod_class, count] : plan.victims) {
    std::vector<Pick> picks;
    for (const auto& [key, record] : records) {
      if (record.node != plan.node || record.pod_class != pod_class || record.state != PodRecord::State::kAssigned)
        continue;
      const std::string_view metadata = json_member(record.object->json, "metadata");
      picks.push_back({json_member(metadata, "deletionTimestamp").empty(),
                       json_text(json_member(metadata, "creationTimestamp")), &key});
    }
    std::sort(picks.begin(), picks.end(), [](const Pick& a, const Pick& b) {
      if (a.stays != b.stays) return !a.stays;
      return a.created != b.created ? a.created > b.created : *a.key < *b.key;
    });
    for (size_t i = 0; i < std::min<size_t>(count, picks.size()); ++i) out.push_back(*picks[i].key);
  }
  return out;
}

// False: it is gone, or cannot be deleted.
bool Scheduler::Impl::evict(const std::string& victim, const PodRecord& preemptor) {
  const PodRecord& record = records.find(victim)->second;
  const std::string ns(record.object->ns()), name(record.object->name()), uid = record.uid;
  context.warnings.clear();
  const auto noted = api.modify(
      *pods_resource, ns, name, "status",
      [&](Json& live) -> kube::ApiResult<bool> {
        if (kube::get_string(live, "metadata.uid") != uid) return false;
        kube::JsonArray& conditions = kube::ensure_array(live, "status.conditions");
        if (std::any_of(conditions.begin(), conditions.end(),
                        [](const Json& c) { return kube::get_string(c, "type") == "DisruptionTarget"; }))
          return false;
        conditions.push_back(kube::JsonObject{
            {"type", "DisruptionTarget"},
            {"status", "True"},
            {"lastProbeTime", nullptr},
            {"lastTransitionTime", format_time(api.clock().wall_now())},
            {"reason", "PreemptionByScheduler"},
            {"message", options.scheduler_name + ": preempting to accommodate a higher priority pod"}});
        return true;
      },
      context);
  if (!noted.ok()) return false;
  const auto removed = api.remove(*pods_resource, ns, name, {.uid_precondition = uid}, context);
  if (!removed.ok()) return false;
  if (options.events) {
    events.record_action(
        {"v1", "Pod", ns, name, uid, ""}, "Normal", "Preempted", "Preempting",
        fmt::format("Preempted by pod {} on node {}", preemptor.uid, engine.node_name(preemptor.node)));
  }
  return true;
}

void Scheduler::Impl::victim_left(const std::string& uid) {
  const auto it = awaited.find(uid);
  if (it == awaited.end()) return;
  const std::vector<std::string> keys = std::move(it->second);
  awaited.erase(it);
  for (const std::string& key : keys) {
    const auto waiting = records.find(key);
    if (waiting == records.end() || waiting->second.state != PodRecord::State::kNominated) continue;
    PodRecord& record = waiting->second;
    if (--record.victims > 0) continue;
    engine.unassign(record.pod_class, record.node);
    record.node = Engine::kNoNode;
    record.state = PodRecord::State::kQueued;
    queue[engine.priority(record.pod_class)].push_front(key);
    schedule_run();
  }
}

}  // namespace ghostfleet::controlplane
