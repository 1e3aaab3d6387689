#include "controlplane/controllers/node_lifecycle.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::controlplane::controllers {

using kube::get_string;
using kube::Json;
using kube::JsonObject;

namespace {
constexpr const char* kName = "node-lifecycle-controller";
constexpr const char* kNotReady = "node.kubernetes.io/not-ready";
constexpr const char* kUnreachable = "node.kubernetes.io/unreachable";
constexpr Duration kSlice = std::chrono::milliseconds(5);
constexpr Duration kPaceEvery = std::chrono::milliseconds(100);

const std::vector<std::string>& managed_keys() {
  static const std::vector<std::string> kKeys = {kNotReady,
                                                 kUnreachable,
                                                 "node.kubernetes.io/memory-pressure",
                                                 "node.kubernetes.io/disk-pressure",
                                                 "node.kubernetes.io/pid-pressure",
                                                 "node.kubernetes.io/network-unavailable",
                                                 "node.kubernetes.io/unschedulable"};
  return kKeys;
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool is_managed(std::string_view key, std::string_view effect) {
  if (effect == "NoSchedule") return contains(managed_keys(), key);
  return effect == "NoExecute" && (key == kNotReady || key == kUnreachable);
}

}  // namespace

std::vector<std::string> condition_taints(const NodeInfo& node) {
  std::vector<std::string> keys;
  if (node.ready == ConditionState::kFalse) keys.push_back(kNotReady);
  if (node.ready == ConditionState::kUnknown) keys.push_back(kUnreachable);
  if (node.memory_pressure == ConditionState::kTrue) keys.push_back("node.kubernetes.io/memory-pressure");
  if (node.disk_pressure == ConditionState::kTrue) keys.push_back("node.kubernetes.io/disk-pressure");
  if (node.pid_pressure == ConditionState::kTrue) keys.push_back("node.kubernetes.io/pid-pressure");
  if (node.network_unavailable == ConditionState::kTrue) keys.push_back("node.kubernetes.io/network-unavailable");
  if (node.unschedulable) keys.push_back("node.kubernetes.io/unschedulable");
  return keys;
}

NodeLifecycleController::NodeLifecycleController(Context& context)
    : context_(context),
      nodes_resource_(*context.find("", "v1", "nodes")),
      leases_(context.find("coordination.k8s.io", "v1", "leases")),
      nodes_(context.nodes()),
      taint_queue_(context.loop(), [this](const std::string& name) { return fix_taints(name); }),
      pacer_({context.options().node_eviction_rate, context.options().secondary_node_eviction_rate,
              context.options().large_cluster_size_threshold, context.options().unhealthy_zone_threshold}) {
  (void)context.pods();
}

void NodeLifecycleController::start() {
  started_ = context_.loop().now();
  nodes_.subscribe([this](const NodeInfo* old, const NodeInfo* now) { on_node(old, now); });
  for (const auto& [name, node] : nodes_.all()) on_node(nullptr, node.get());
  context_.when_synced([this] {
    tick();
    pace();
  });
}

void NodeLifecycleController::on_node(const NodeInfo* old, const NodeInfo* now) {
  if (now == nullptr) {
    const std::string name(old->name());
    health_.erase(name);
    due_for_no_execute_.erase(name);
    pacer_.cancel(old->zone, name);
    return;
  }
  Health& health = health_[std::string(now->name())];
  if (!health.known || old == nullptr || old->heartbeat != now->heartbeat || old->uid != now->uid) {
    health.known = true;
    health.heard = context_.loop().now();
  }
  if (now->ready == ConditionState::kTrue) {
    health.pods_marked = false;
    due_for_no_execute_.erase(std::string(now->name()));
    pacer_.cancel(now->zone, std::string(now->name()));
  }
  if (old != nullptr && old->taints == now->taints && condition_taints(*old) == condition_taints(*now)) return;
  taint_queue_.add(now->name());
}

void NodeLifecycleController::tick() {
  if (round_next_ >= round_.size()) {  // else the last round still runs
    round_.clear();
    for (const auto& [name, node] : nodes_.all()) round_.push_back(name);
    round_next_ = 0;
    monitor_slice();
  }
  context_.loop().run_after(context_.options().node_monitor_period, [this] { tick(); });
}

void NodeLifecycleController::monitor_slice() {
  const TimePoint end = context_.loop().now() + kSlice;
  while (round_next_ < round_.size()) {
    if (const NodeInfo* node = nodes_.find(round_[round_next_++])) look_at(*node);
    if (round_next_ % 64 == 0 && context_.loop().now() >= end) {
      context_.loop().post([this] { monitor_slice(); });
      return;
    }
  }
  end_of_round();
}

void NodeLifecycleController::look_at(const NodeInfo& node) {
  const std::string name(node.name());
  Health& health = health_[name];
  const TimePoint now = context_.loop().now();
  const ObjectRef lease =
      leases_ == nullptr ? nullptr : context_.store().get(leases_->store_kind, key_of("kube-node-lease", name));
  if (lease && lease->revision != health.lease) {
    health.lease = lease->revision;
    health.heard = now;
  }
  const auto& options = context_.options();
  const Duration grace =
      node.ready == ConditionState::kMissing ? options.node_startup_grace_period : options.node_monitor_grace_period;
  if (now - health.heard > grace && node.ready != ConditionState::kUnknown) {
    mark_unknown(node);
  }
  const NodeInfo* current = nodes_.find(name);
  if (current == nullptr || current->ready == ConditionState::kTrue || current->ready == ConditionState::kMissing)
    return;
  if (!health_[name].pods_marked) mark_pods(*current);
  const std::string wanted = wanted_no_execute(*current);
  if (!wanted.empty() && !current->has_taint(wanted, "NoExecute") && !all_down_) {
    const std::string other = wanted == kNotReady ? kUnreachable : kNotReady;
    if (current->has_taint(other, "NoExecute")) {
      due_for_no_execute_[name] = true;  // only the reason changes: at once
      taint_queue_.add(name);
    } else if (!due_for_no_execute_.contains(name)) {
      pacer_.enqueue(current->zone, name);
    }
  }
}

void NodeLifecycleController::mark_unknown(const NodeInfo& node) {
  const std::string name(node.name());
  const auto done =
      context_.modify(kName, nodes_resource_, "", name, "status", [&](Json& live) -> kube::ApiResult<bool> {
        if (get_string(live, "metadata.uid") != node.uid) return false;
        bool changed = false;
        for (const char* type : {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}) {
          const bool never = find_condition(live, type) == nullptr;
          if (!never && condition_text(live, type, "status") == "Unknown") continue;
          changed |= set_condition(live, type, "Unknown", never ? "NodeStatusNeverUpdated" : "NodeStatusUnknown",
                                   never ? "Kubelet never posted node status." : "Kubelet stopped posting node status.",
                                   context_.now());
          if (never) {
            auto* c = const_cast<JsonObject*>(find_condition(live, type));
            (*c)["lastHeartbeatTime"] = get_string(live, "metadata.creationTimestamp");
          }
        }
        return changed;
      });
  if (!done.ok()) return;  // looked at again in the next round
  context_.metrics().counter("ghostfleet_nodes_marked_unknown_total", "nodes that fell silent").add();
}

void NodeLifecycleController::mark_pods(const NodeInfo& node) {
  const std::string name(node.name());
  ObjectReference about{"v1", "Node", "", name, node.uid, ""};
  context_.events().record(about, "Normal", "NodeNotReady", fmt::format("Node {} status is now: NodeNotReady", name),
                           "node-controller");
  bool all = true;
  std::vector<std::string> keys;
  for (const PodInfo* pod : context_.pods().on_node(name)) {
    if (pod->ready) keys.push_back(pod->object->key);
  }
  for (const std::string& key : keys) {
    const auto [ns, pod_name] = split_key(key);
    const auto done = context_.modify(kName, context_.pod_resource(), ns, pod_name, "status",
                                      [&](Json& live) -> kube::ApiResult<bool> {
                                        if (condition_text(live, "Ready", "status") != "True") return false;
                                        auto* c = const_cast<JsonObject*>(find_condition(live, "Ready"));
                                        (*c)["status"] = "False";
                                        (*c)["lastTransitionTime"] = format_time(context_.now());
                                        return true;
                                      });
    if (done.ok()) {
      context_.events().record(reference_to(parse_object(*done)), "Warning", "NodeNotReady", "Node is not ready",
                               "node-controller");
    } else {
      all &= is_moot(done.error());
    }
  }
  health_[name].pods_marked = all;
}

std::string NodeLifecycleController::wanted_no_execute(const NodeInfo& node) const {
  if (node.ready == ConditionState::kFalse) return kNotReady;
  return node.ready == ConditionState::kUnknown ? kUnreachable : "";
}

void NodeLifecycleController::end_of_round() {
  std::map<std::string, ZoneCount> zones;
  for (const auto& [name, node] : nodes_.all()) {
    ZoneCount& count = zones[node->zone];
    ++(node->ready == ConditionState::kTrue ? count.ready : count.not_ready);
  }
  switch (pacer_.update(zones)) {
    case ZonePacer::Verdict::kSame: return;
    case ZonePacer::Verdict::kAllDown:
      all_down_ = true;
      due_for_no_execute_.clear();
      break;
    case ZonePacer::Verdict::kBackFromAllDown:
      all_down_ = false;
      for (auto& [name, health] : health_) health.heard = context_.loop().now();
      break;
  }
  for (const auto& [name, node] : nodes_.all()) taint_queue_.add(name);
}

void NodeLifecycleController::pace() {
  for (const std::string& name : pacer_.take_due(context_.loop().now())) {
    due_for_no_execute_[name] = true;
    taint_queue_.add(name);
  }
  context_.loop().run_after(kPaceEvery, [this] { pace(); });
}

SyncResult NodeLifecycleController::fix_taints(const std::string& name) {
  const NodeInfo* node = nodes_.find(name);
  if (node == nullptr) return SyncResult::done();
  const std::vector<std::string> no_schedule = condition_taints(*node);
  const std::string no_execute = wanted_no_execute(*node);
  const bool evict = !no_execute.empty() && !all_down_ &&
                     (due_for_no_execute_.contains(name) || node->has_taint(no_execute, "NoExecute"));
  const auto wanted = [&](std::string_view key, std::string_view effect) {
    return effect == "NoSchedule" ? contains(no_schedule, key) : evict && key == no_execute;
  };
  bool right = !evict || node->has_taint(no_execute, "NoExecute");
  for (const std::string& key : no_schedule) right &= node->has_taint(key, "NoSchedule");
  for (const Taint& t : node->taints) right &= !is_managed(t.key, t.effect) || wanted(t.key, t.effect);
  if (right) return SyncResult::done();
  const std::string now = format_time(context_.now());
  const auto done = context_.modify(kName, nodes_resource_, "", name, "", [&](Json& live) -> kube::ApiResult<bool> {
    if (get_string(live, "metadata.uid") != nodes_.find(name)->uid) return false;
    kube::JsonArray kept;
    std::vector<std::string> have;  // NoSchedule keys that stay
    bool have_no_execute = false;
    for (Json& t : kube::ensure_array(live, "spec.taints")) {
      const std::string key(get_string(t, "key")), effect(get_string(t, "effect"));
      if (is_managed(key, effect) && !wanted(key, effect)) continue;
      if (effect == "NoSchedule") have.push_back(key);
      have_no_execute |= effect == "NoExecute" && key == no_execute;
      kept.push_back(std::move(t));
    }
    for (const std::string& key : no_schedule) {
      if (!contains(have, key)) kept.push_back(JsonObject{{"key", key}, {"effect", "NoSchedule"}, {"timeAdded", now}});
    }
    if (evict && !have_no_execute) {
      kept.push_back(JsonObject{{"key", no_execute}, {"effect", "NoExecute"}, {"timeAdded", now}});
    }
    if (kept.empty()) {
      kube::erase_path(live, "spec.taints");
    } else {
      kube::set_path(live, "spec.taints", std::move(kept));
    }
    return true;
  });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

}  // namespace ghostfleet::controlplane::controllers
