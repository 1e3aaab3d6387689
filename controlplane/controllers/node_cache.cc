#include "controlplane/controllers/node_cache.h"

#include "controlplane/apiserver/json_scan.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_string;
using kube::Json;

std::vector<Taint> taints_of(const Json& node) {
  std::vector<Taint> taints;
  if (const kube::JsonArray* list = get_array(node, "spec.taints")) {
    for (const Json& t : *list) {
      taints.push_back({std::string(get_string(t, "key")), std::string(get_string(t, "value")),
                        std::string(get_string(t, "effect"))});
    }
  }
  return taints;
}

std::vector<Toleration> tolerations_of(const Json& pod) {
  std::vector<Toleration> tolerations;
  const kube::JsonArray* list = get_array(pod, "spec.tolerations");
  if (list == nullptr) return tolerations;
  for (const Json& t : *list) {
    const Json* seconds = kube::find_key(t, "tolerationSeconds");
    const bool has_seconds = seconds != nullptr && seconds->is_int64();
    tolerations.push_back({std::string(get_string(t, "key")), std::string(get_string(t, "operator")),
                           std::string(get_string(t, "value")), std::string(get_string(t, "effect")), has_seconds,
                           has_seconds ? seconds->get_int64() : 0});
  }
  return tolerations;
}

bool Toleration::tolerates(const Taint& taint) const {
  if (!effect.empty() && effect != taint.effect) return false;
  if (!key.empty() && key != taint.key) return false;
  if (op == "Exists") return true;
  return (op.empty() || op == "Equal") && !key.empty() && value == taint.value;
}

bool NodeInfo::has_taint(std::string_view key, std::string_view effect) const {
  for (const Taint& taint : taints) {
    if (taint.key == key && taint.effect == effect) return true;
  }
  return false;
}

namespace {

ConditionState state_of(const Json& node, std::string_view type) {
  const std::string_view status = condition_text(node, type, "status");
  if (status == "True") return ConditionState::kTrue;
  if (status == "False") return ConditionState::kFalse;
  return status.empty() ? ConditionState::kMissing : ConditionState::kUnknown;
}

}  // namespace

NodeInfo parse_node(const ObjectRef& object) {
  NodeInfo info;
  info.object = object;
  // Images, addresses and ownership, most of a node's bytes, are passed over.
  const Json node = pick_json(object->json, {{"metadata", {"uid", "labels", "creationTimestamp"}},
                                             {"spec", {"taints", "unschedulable"}},
                                             {"status", {"conditions"}}});
  info.uid = get_string(node, "metadata.uid");
  const std::string_view region = label(node, "topology.kubernetes.io/region");
  const std::string_view zone = label(node, "topology.kubernetes.io/zone");
  if (!region.empty() || !zone.empty()) info.zone = std::string(region) + ":" + std::string(zone);
  info.heartbeat = condition_text(node, "Ready", "lastHeartbeatTime");
  info.taints = taints_of(node);
  info.ready = state_of(node, "Ready");
  info.memory_pressure = state_of(node, "MemoryPressure");
  info.disk_pressure = state_of(node, "DiskPressure");
  info.pid_pressure = state_of(node, "PIDPressure");
  info.network_unavailable = state_of(node, "NetworkUnavailable");
  info.unschedulable = kube::get_bool(node, "spec.unschedulable");
  info.created_ns = time_at(node, "metadata.creationTimestamp");
  return info;
}

NodeCache::NodeCache(KindWatch& watch) {
  watch.subscribe([this](const ObjectRef& old, const ObjectRef& now) {
    const std::string_view key = now ? std::string_view(now->key) : std::string_view(old->key);
    auto it = nodes_.find(key);
    std::unique_ptr<NodeInfo> before;
    if (it != nodes_.end()) before = std::move(it->second);
    const NodeInfo* current = nullptr;
    if (now) {
      auto parsed = std::make_unique<NodeInfo>(parse_node(now));
      current = parsed.get();
      if (it != nodes_.end()) {
        it->second = std::move(parsed);
      } else {
        nodes_.emplace(std::string(key), std::move(parsed));
      }
    } else if (it != nodes_.end()) {
      nodes_.erase(it);
    }
    for (const Change& change : changes_) change(before.get(), current);
  });
}

const NodeInfo* NodeCache::find(std::string_view name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : it->second.get();
}

}  // namespace ghostfleet::controlplane::controllers
