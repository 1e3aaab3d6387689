#include "controlplane/controllers/taint_eviction.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::controlplane::controllers {

using kube::get_string;
using kube::Json;

namespace {
constexpr const char* kName = "taint-eviction-controller";
constexpr const char* kOutOfService = "node.kubernetes.io/out-of-service";

std::vector<Taint> no_execute_of(const NodeInfo& node) {
  std::vector<Taint> taints;
  for (const Taint& taint : node.taints) {
    if (taint.effect == "NoExecute") taints.push_back(taint);
  }
  return taints;
}

ObjectReference about(const PodInfo& pod) {
  return {"v1", "Pod", std::string(pod.ns()), std::string(pod.name()), pod.uid, ""};
}

}  // namespace

Duration stay(const std::vector<Taint>& no_execute, const std::vector<Toleration>& tolerations) {
  Duration shortest(-1);
  for (const Taint& taint : no_execute) {
    bool tolerated = false;
    for (const Toleration& t : tolerations) {
      if (!t.tolerates(taint)) continue;
      tolerated = true;
      if (!t.has_seconds) continue;
      const Duration d = std::chrono::seconds(std::max<int64_t>(0, t.seconds));
      if (shortest.count() < 0 || d < shortest) shortest = d;
    }
    if (!tolerated) return Duration(0);
  }
  return shortest;
}

bool mark_disrupted(Context& context, std::string_view component, const std::string& ns, const std::string& name,
                    std::string_view reason, std::string_view message, bool fail) {
  const auto done =
      context.modify(component, context.pod_resource(), ns, name, "status", [&](Json& live) -> kube::ApiResult<bool> {
        const std::string_view phase = get_string(live, "status.phase");
        bool changed = set_condition(live, "DisruptionTarget", "True", reason, message, context.now());
        if (fail && phase != "Succeeded" && phase != "Failed") {
          kube::set_path(live, "status.phase", "Failed");
          changed = true;
        }
        return changed;
      });
  return done.ok();
}

TaintEvictionController::TaintEvictionController(Context& context)
    : context_(context),
      nodes_(context.nodes()),
      queue_(context.loop(), [this](const std::string& key) { return evict(key); }) {}

void TaintEvictionController::start() {
  context_.pods().subscribe([this](const PodInfo* old, const PodInfo* now) {
    if (now == nullptr) {
      plans_.erase(old->object->key);
      return;
    }
    if (old != nullptr && old->node == now->node && old->uid == now->uid && old->deleting == now->deleting) return;
    judge(*now);
  });
  nodes_.subscribe([this](const NodeInfo* old, const NodeInfo* now) {
    if (now == nullptr || (old != nullptr && old->taints == now->taints)) return;
    if (no_execute_of(*now).empty() && (old == nullptr || no_execute_of(*old).empty())) return;
    for (const PodInfo* pod : context_.pods().on_node(now->name())) judge(*pod);
  });
  for (const auto& [key, pod] : context_.pods().all()) judge(*pod);
}

void TaintEvictionController::judge(const PodInfo& pod) {
  const NodeInfo* node = pod.node.empty() ? nullptr : nodes_.find(pod.node);
  if (node == nullptr || pod.deleting || pod.finished()) {
    plans_.erase(pod.object->key);
    return;
  }
  const std::vector<Taint> taints = no_execute_of(*node);
  if (taints.empty()) return cancel(pod);
  const Duration wait = stay(taints, tolerations_of(parse_object(pod.object)));
  if (wait.count() < 0) return cancel(pod);
  const TimePoint now = context_.loop().now();
  const auto [it, fresh] = plans_.try_emplace(pod.object->key, Plan{pod.uid, now, now + wait});
  Plan& plan = it->second;
  if (!fresh && plan.uid != pod.uid) plan = Plan{pod.uid, now, now + wait};
  plan.due = wait.count() == 0 ? now : plan.start + wait;
  queue_.add_after(pod.object->key, std::max(plan.due - now, Duration(0)));
}

void TaintEvictionController::cancel(const PodInfo& pod) {
  if (plans_.erase(pod.object->key) == 0) return;
  context_.events().record(about(pod), "Normal", "TaintManagerEviction",
                           fmt::format("Cancelling deletion of Pod {}", pod.object->key), kName);
}

SyncResult TaintEvictionController::evict(const std::string& key) {
  const auto it = plans_.find(key);
  const PodInfo* pod = context_.pods().find(key);
  if (it == plans_.end() || pod == nullptr || pod->uid != it->second.uid) return SyncResult::done();
  const Duration left = it->second.due - context_.loop().now();
  if (left.count() > 0) return SyncResult::again(left);
  const std::string ns(pod->ns()), name(pod->name()), uid = pod->uid;
  context_.events().record(about(*pod), "Normal", "TaintManagerEviction",
                           fmt::format("Marking for deletion Pod {}", key), kName);
  if (!mark_disrupted(context_, kName, ns, name, "DeletionByTaintManager",
                      "Taint manager: deleting due to NoExecute taint", false)) {
    return SyncResult::retry();
  }
  const auto removed = context_.remove(kName, context_.pod_resource(), ns, name, {.uid_precondition = uid});
  if (!removed.ok() && removed.error().code != 404 && removed.error().code != 409) return SyncResult::retry();
  plans_.erase(key);
  return SyncResult::done();
}

PodGcController::PodGcController(Context& context) : context_(context), nodes_(context.nodes()) {
  (void)context.pods();
}

void PodGcController::start() {
  context_.when_synced([this] { tick(); });
}

void PodGcController::tick() {
  collect_orphans();
  collect_out_of_service();
  collect_finished();
  context_.loop().run_after(context_.options().pod_gc_period, [this] { tick(); });
}

void PodGcController::force_delete(const PodInfo& pod, std::string_view why) {
  const std::string ns(pod.ns()), name(pod.name()), uid = pod.uid;
  if (!why.empty()) {
    (void)mark_disrupted(context_, "pod-garbage-collector", ns, name, "DeletionByPodGC", why, true);
  }
  DeleteOptions options;
  options.grace_period_seconds = 0;
  options.uid_precondition = uid;
  (void)context_.remove("pod-garbage-collector", context_.pod_resource(), ns, name, options);
}

void PodGcController::collect_orphans() {
  const TimePoint now = context_.loop().now();
  std::vector<std::string> lost, unbound;
  for (const auto& [node, pods] : context_.pods().nodes()) {
    if (nodes_.find(node) != nullptr) {
      missing_since_.erase(node);
      continue;
    }
    const TimePoint since = missing_since_.try_emplace(node, now).first->second;
    if (now - since < context_.options().pod_gc_quarantine) continue;
    for (const PodInfo* pod : pods) lost.push_back(pod->object->key);
  }
  std::erase_if(missing_since_, [&](const auto& m) { return context_.pods().on_node(m.first).empty(); });
  for (const auto& [key, pod] : context_.pods().all()) {
    if (pod->deleting && pod->node.empty()) unbound.push_back(key);
  }
  for (const std::string& key : lost) {
    if (const PodInfo* pod = context_.pods().find(key)) force_delete(*pod, "PodGC: node no longer exists");
  }
  for (const std::string& key : unbound) {
    if (const PodInfo* pod = context_.pods().find(key)) force_delete(*pod, "");
  }
}

void PodGcController::collect_out_of_service() {
  std::vector<std::string> keys;
  for (const auto& [name, node] : nodes_.all()) {
    if (node->ready == ConditionState::kTrue || node->taints.empty()) continue;
    const bool out =
        std::any_of(node->taints.begin(), node->taints.end(), [](const Taint& t) { return t.key == kOutOfService; });
    if (!out) continue;
    for (const PodInfo* pod : context_.pods().on_node(name)) {
      if (pod->deleting) keys.push_back(pod->object->key);
    }
  }
  for (const std::string& key : keys) {
    if (const PodInfo* pod = context_.pods().find(key)) force_delete(*pod, "");
  }
}

void PodGcController::collect_finished() {
  const int threshold = context_.options().terminated_pod_gc_threshold;
  if (threshold <= 0 || context_.pods().size() <= static_cast<size_t>(threshold)) return;
  std::vector<const PodInfo*> finished;
  for (const auto& [key, pod] : context_.pods().all()) {
    if (pod->finished()) finished.push_back(pod.get());
  }
  if (finished.size() <= static_cast<size_t>(threshold)) return;
  std::sort(finished.begin(), finished.end(), [](const PodInfo* a, const PodInfo* b) {
    return a->created_ns != b->created_ns ? a->created_ns < b->created_ns : a->object->key < b->object->key;
  });
  finished.resize(finished.size() - static_cast<size_t>(threshold));
  std::vector<std::string> keys;
  for (const PodInfo* pod : finished) keys.push_back(pod->object->key);
  for (const std::string& key : keys) {
    if (const PodInfo* pod = context_.pods().find(key)) force_delete(*pod, "");
  }
}

}  // namespace ghostfleet::controlplane::controllers
