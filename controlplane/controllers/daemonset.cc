#include "controlplane/controllers/daemonset.h"

#include <fmt/format.h>

#include <algorithm>

#include "controlplane/controllers/node_match.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {
constexpr const char* kName = "daemonset-controller";
constexpr Duration kSlice = std::chrono::milliseconds(10);
constexpr Duration kCoalesce = std::chrono::milliseconds(50);
constexpr const char* kRequired = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";

void tolerate(Json* pod, const char* key, const char* effect) {
  JsonArray& list = kube::ensure_array(*pod, "spec.tolerations");
  for (const Json& t : list) {
    if (get_string(t, "key") == key && get_string(t, "effect") == effect && get_string(t, "operator") == "Exists")
      return;
  }
  list.push_back(JsonObject{{"key", key}, {"operator", "Exists"}, {"effect", effect}});
}

}  // namespace

void pin_to_node(Json* pod, std::string_view node) {
  const JsonObject field{{"key", "metadata.name"}, {"operator", "In"}, {"values", JsonArray{Json(node)}}};
  Json* required = kube::find_path(*pod, kRequired);
  const bool has_terms = required != nullptr && kube::get_array(*required, "nodeSelectorTerms") != nullptr &&
                         !kube::get_array(*required, "nodeSelectorTerms")->empty();
  if (!has_terms) {
    JsonObject term;
    term["matchFields"] = JsonArray{field};
    kube::set_path(*pod, std::string(kRequired) + ".nodeSelectorTerms", JsonArray{std::move(term)});
    return;
  }
  for (Json& term : kube::ensure_array(*required, "nodeSelectorTerms")) {
    if (term.is_object()) term.get_object()["matchFields"] = JsonArray{field};
  }
}

std::string pinned_node(const Json& pod) {
  const JsonArray* terms = kube::get_array(pod, std::string(kRequired) + ".nodeSelectorTerms");
  if (terms == nullptr) return "";
  for (const Json& term : *terms) {
    const JsonArray* fields = kube::get_array(term, "matchFields");
    if (fields == nullptr) continue;
    for (const Json& f : *fields) {
      const JsonArray* values = kube::get_array(f, "values");
      if (get_string(f, "key") == "metadata.name" && values != nullptr && values->size() == 1 &&
          (*values)[0].is_string()) {
        return std::string((*values)[0].get_string());
      }
    }
  }
  return "";
}

DaemonRule daemon_rule(const Json& set) {
  const Json* pod_template = kube::find_path(set, "spec.template");
  DaemonRule rule;
  rule.pod = pod_from_template(pod_template == nullptr ? Json() : *pod_template);
  tolerate(&rule.pod, "node.kubernetes.io/not-ready", "NoExecute");
  tolerate(&rule.pod, "node.kubernetes.io/unreachable", "NoExecute");
  tolerate(&rule.pod, "node.kubernetes.io/disk-pressure", "NoSchedule");
  tolerate(&rule.pod, "node.kubernetes.io/memory-pressure", "NoSchedule");
  tolerate(&rule.pod, "node.kubernetes.io/pid-pressure", "NoSchedule");
  tolerate(&rule.pod, "node.kubernetes.io/unschedulable", "NoSchedule");
  if (kube::get_bool(rule.pod, "spec.hostNetwork")) {
    tolerate(&rule.pod, "node.kubernetes.io/network-unavailable", "NoSchedule");
  }
  rule.tolerations = tolerations_of(rule.pod);
  rule.node_name = get_string(rule.pod, "spec.nodeName");
  return rule;
}

DaemonVerdict daemon_verdict(const DaemonRule& rule, const NodeInfo& node) {
  if (!rule.node_name.empty() && rule.node_name != node.name()) return {};
  if (!matches_node_selector(rule.pod, node) || !matches_required_affinity(rule.pod, node)) return {};
  DaemonVerdict verdict{true, true};
  for (const Taint& taint : node.taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") continue;
    const bool tolerated = std::any_of(rule.tolerations.begin(), rule.tolerations.end(),
                                       [&](const Toleration& t) { return t.tolerates(taint); });
    if (tolerated) continue;
    verdict.should_run = false;
    if (taint.effect == "NoExecute") verdict.may_continue = false;
  }
  return verdict;
}

DaemonSetController::DaemonSetController(Context& context)
    : context_(context),
      resource_(*context.find("apps", "v1", "daemonsets")),
      sets_(context.watch(resource_)),
      nodes_(context.nodes()),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }),
      pods_(context, kName, resource_, [this](std::string_view key) { queue_.add_after(key, kCoalesce); }),
      revisions_(context, kName) {}

void DaemonSetController::start() {
  queue_.hold(true);
  sets_.subscribe([this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  context_.pods().subscribe([this](const PodInfo* old, const PodInfo* now) {
    if (now == nullptr) pinned_.erase(old->uid);
  });
  nodes_.subscribe([this](const NodeInfo* old, const NodeInfo* now) {
    if (old != nullptr && now != nullptr && old->taints == now->taints && old->object->labels == now->object->labels) {
      return;
    }
    for (const auto& [key, set] : sets_.objects()) queue_.add_after(key, kCoalesce);
  });
  context_.when_synced([this] { queue_.hold(false); });
}

const std::string& DaemonSetController::target_node(const PodInfo& pod) {
  if (!pod.node.empty()) return pod.node;
  const auto it = pinned_.find(pod.uid);
  if (it != pinned_.end()) return it->second;
  return pinned_.emplace(pod.uid, pinned_node(parse_object(pod.object))).first->second;
}

SyncResult DaemonSetController::sync(const std::string& key) {
  const ObjectRef object = sets_.get(key);
  if (!object) return SyncResult::done();
  const Json set = parse_object(object);
  if (is_deleting(set)) return SyncResult::done();
  const TimePoint end = context_.loop().now() + kSlice;
  const DaemonRule rule = daemon_rule(set);
  const auto entries = revisions_.bring_up(set);
  if (entries.empty()) return SyncResult::retry();
  const std::string hash = entries.back().hash;
  StringMap<std::vector<const PodInfo*>> by_node;
  std::vector<std::string> used, doomed;
  for (const PodInfo* pod : pods_.claim(set, selector_of(kube::find_path(set, "spec.selector")))) {
    by_node[target_node(*pod)].push_back(pod);
    if (const std::string* h = label_of(*pod->object, kRevisionLabel)) used.push_back(*h);
  }
  Counts counts;
  std::vector<const NodeInfo*> missing;
  const int64_t min_ready = get_int(set, "spec.minReadySeconds");
  for (const auto& [name, node] : nodes_.all()) {
    const DaemonVerdict verdict = daemon_verdict(rule, *node);
    const auto here = by_node.find(name);
    const PodInfo* best = nullptr;
    if (here != by_node.end()) {
      for (const PodInfo* pod : here->second) {
        if (pod->deleting) continue;
        const bool keep = verdict.may_continue && pod->phase != PodPhase::kFailed && pod->phase != PodPhase::kSucceeded;
        if (!keep || best != nullptr) {
          if (!verdict.may_continue || pod->finished() || best != nullptr) doomed.push_back(pod->object->key);
          continue;
        }
        best = pod;
      }
    }
    if (verdict.should_run) {
      ++counts.desired;
      if (best != nullptr) {
        ++counts.current;
        if (best->ready) ++counts.ready;
        if (best->available(min_ready, context_.now())) ++counts.available;
        const std::string* h = label_of(*best->object, kRevisionLabel);
        if (h != nullptr && *h == hash) ++counts.updated;
      } else if (here == by_node.end()) {
        missing.push_back(node.get());
      }
    } else if (best != nullptr) {
      ++counts.misscheduled;
    }
  }
  for (const auto& [name, pods] : by_node) {
    if (nodes_.find(name) != nullptr) continue;
    for (const PodInfo* pod : pods) {
      if (pod->node.empty() && !pod->deleting) doomed.push_back(pod->object->key);  // meant for a node that is gone
    }
  }
  SyncResult result = SyncResult::done();
  for (const NodeInfo* node : missing) {
    Json pod = rule.pod;
    pin_to_node(&pod, node->name());
    set_label(pod, kRevisionLabel, hash);
    set_label(pod, "pod-template-generation", std::to_string(get_int(set, "metadata.generation")));
    const std::string node_name(node->name());
    const auto made = pods_.create(set, std::move(pod));
    if (!made.ok()) {
      result = is_moot(made.error()) ? SyncResult::done() : SyncResult::retry();
      break;
    }
    ++counts.current;
    ++counts.updated;
    if (context_.loop().now() >= end) return SyncResult::again(Duration(0));
  }
  for (const std::string& pod_key : doomed) {
    if (const PodInfo* pod = context_.pods().find(pod_key)) (void)pods_.remove(set, *pod);
  }
  if (missing.empty() && doomed.empty()) {
    const SyncResult rolled = roll(set, rule, hash, by_node);
    if (rolled.failed) result = rolled;
  }
  used.push_back(hash);
  revisions_.prune(entries, get_string(set, "metadata.namespace"), get_int(set, "spec.revisionHistoryLimit", 10), used);
  const SyncResult written = write_status(set, counts);
  if (result.failed) return result;
  if (min_ready > 0 && counts.ready > counts.available) return SyncResult::again(std::chrono::milliseconds(500));
  return written;
}

SyncResult DaemonSetController::roll(const Json& set, const DaemonRule& rule, const std::string& hash,
                                     const StringMap<std::vector<const PodInfo*>>& by_node) {
  if (get_string(set, "spec.updateStrategy.type") == "OnDelete") return SyncResult::done();
  const int64_t min_ready = get_int(set, "spec.minReadySeconds");
  int64_t desired = 0, unavailable = 0;
  std::vector<const PodInfo*> old_ready, old_unready;
  for (const auto& [name, node] : nodes_.all()) {
    if (!daemon_verdict(rule, *node).should_run) continue;
    ++desired;
    const auto here = by_node.find(name);
    const PodInfo* pod = nullptr;
    if (here != by_node.end()) {
      for (const PodInfo* p : here->second) {
        if (p->active()) pod = p;
      }
    }
    const bool available = pod != nullptr && pod->available(min_ready, context_.now());
    if (!available) ++unavailable;
    if (pod == nullptr) continue;
    const std::string* h = label_of(*pod->object, kRevisionLabel);
    if (h == nullptr || *h != hash) (available ? old_ready : old_unready).push_back(pod);
  }
  const int64_t limit =
      int_or_percent(kube::find_path(set, "spec.updateStrategy.rollingUpdate.maxUnavailable"), desired, true, 1);
  const int64_t room = std::max<int64_t>(0, std::max<int64_t>(1, limit) - unavailable);
  std::vector<std::string> keys;
  for (const PodInfo* pod : old_unready) keys.push_back(pod->object->key);
  for (size_t i = 0; i < old_ready.size() && static_cast<int64_t>(i) < room; ++i) {
    keys.push_back(old_ready[i]->object->key);
  }
  for (const std::string& key : keys) {
    const PodInfo* pod = context_.pods().find(key);
    if (pod != nullptr && !pods_.remove(set, *pod)) return SyncResult::retry();
  }
  return SyncResult::done();
}

SyncResult DaemonSetController::write_status(const Json& set, const Counts& counts) {
  const int64_t generation = get_int(set, "metadata.generation");
  const auto fill = [&](Json& o) {
    kube::ensure_object(o, "status");
    const std::string before = kube::to_json(*kube::find_path(o, "status"));
    kube::set_path(o, "status.currentNumberScheduled", counts.current);
    kube::set_path(o, "status.numberMisscheduled", counts.misscheduled);
    kube::set_path(o, "status.desiredNumberScheduled", counts.desired);
    kube::set_path(o, "status.numberReady", counts.ready);
    kube::set_path(o, "status.observedGeneration", generation);
    const auto optional = [&](const char* path, int64_t value) {
      if (value == 0) {
        kube::erase_path(o, path);
      } else {
        kube::set_path(o, path, value);
      }
    };
    optional("status.updatedNumberScheduled", counts.updated);
    optional("status.numberAvailable", counts.available);
    optional("status.numberUnavailable", counts.desired - counts.available);
    return kube::to_json(*kube::find_path(o, "status")) != before;
  };
  Json probe = set;
  if (!fill(probe)) return SyncResult::done();
  const auto done =
      context_.modify(kName, resource_, get_string(set, "metadata.namespace"), get_string(set, "metadata.name"),
                      "status", [&](Json& live) -> kube::ApiResult<bool> { return fill(live); });
  return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
}

}  // namespace ghostfleet::controlplane::controllers
