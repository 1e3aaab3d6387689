// Preemption: whom a pod that fits nowhere may send away. Source: the DefaultPreemption plugin of kube-scheduler 1.36
// (kubernetes.io, Pod Priority and Preemption).
#include <algorithm>

#include "controlplane/scheduler/engine.h"

namespace ghostfleet::controlplane::scheduling {

namespace {

int64_t at(const std::vector<int64_t>& amounts, int id) {
  return static_cast<size_t>(id) < amounts.size() ? amounts[static_cast<size_t>(id)] : 0;
}

void add(std::vector<int64_t>* amounts, const PodNeeds& needs, int64_t times) {
  for (const auto& [id, amount] : needs.requests) {
    if (static_cast<size_t>(id) >= amounts->size()) amounts->resize(static_cast<size_t>(id) + 1, 0);
    (*amounts)[static_cast<size_t>(id)] += amount * times;
  }
}

// For how many more such pods there is room.
int64_t room(const PodNeeds& needs, const std::vector<int64_t>& used, const std::vector<int64_t>& allocatable) {
  int64_t most = INT64_MAX;
  for (const auto& [id, amount] : needs.requests) {
    if (amount > 0) most = std::min(most, (at(allocatable, id) - at(used, id)) / amount);
    if (at(used, id) > at(allocatable, id)) return 0;
  }
  return most;
}

bool collides(const PodNeeds& a, const PodNeeds& b) {
  return std::any_of(a.ports.begin(), a.ports.end(), [&b](const HostPort& port) {
    return std::any_of(b.ports.begin(), b.ports.end(), [&port](const HostPort& other) { return port.collides(other); });
  });
}

}  // namespace

Engine::Preemption Engine::preempt(ClassId id, const std::string& pin) {
  Class& c = *classes_[id];
  if (assigned_.empty() || assigned_.begin()->first >= c.needs.priority) return {};
  if (c.needs.has_pod_rules() || concerns_others(c.needs)) return {};
  const uint64_t now = log_start_ + log_.size();
  if (pin.empty() && c.no_victims_at == now) return {};
  Preemption best;
  BudgetsOf budgets;
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].live || (!pin.empty() && nodes_[node].name != pin) || !verdict(c, nodes_[node]).ok) continue;
    Preemption one = victims_on(c.needs, node, &budgets);
    if (one.node == kNoNode || (best.node != kNoNode && one.cost >= best.cost)) continue;
    best = std::move(one);
  }
  if (best.node == kNoNode && pin.empty()) c.no_victims_at = now;
  return best;
}

void Engine::remove_budget(std::string_view key) {
  const auto it = budgets_.find(key);
  if (it != budgets_.end()) budgets_.erase(it);
}

const std::vector<const Engine::Budget*>& Engine::budgets_of(ClassId id, BudgetsOf* known) const {
  const auto [it, fresh] = known->try_emplace(id);
  if (!fresh) return it->second;
  const PodNeeds& pod = classes_[id]->needs;
  const auto label = [&pod](std::string_view key) { return find_label(pod.labels, key); };
  for (const auto& [key, budget] : budgets_) {
    if (budget.ns != pod.ns || pod.labels.empty() || budget.selector.empty()) continue;
    if (budget.selector.matches_lookup(label)) it->second.push_back(&budget);
  }
  return it->second;
}

// Each pod, in order, takes one disruption of all its budgets; those that find one used up violate it.
void Engine::find_violating(std::vector<Potential>* lower, BudgetsOf* known) const {
  if (budgets_.empty()) return;
  std::map<const Budget*, int64_t> left;
  for (Potential& p : *lower) {
    int64_t allowed = p.count;
    for (const Budget* budget : budgets_of(p.pod_class, known)) {
      int64_t& rest = left.try_emplace(budget, budget->allowed).first->second;
      allowed = std::min(allowed, std::max<int64_t>(rest, 0));
      rest -= p.count;
    }
    p.violating = p.count - static_cast<uint32_t>(allowed);
  }
}

// All pods of lower priority leave; then those that fit beside the new one come back: first those that a budget speaks
// for, the most important first.
Engine::Preemption Engine::victims_on(const PodNeeds& needs, NodeId node_id, BudgetsOf* known) const {
  const Node& node = nodes_[node_id];
  std::vector<int64_t> used = node.used;
  std::vector<Potential> lower;
  for (const auto& [id, count] : node.pods) {
    const PodNeeds& theirs = classes_[id]->needs;
    if (theirs.priority < needs.priority) {
      lower.push_back({.pod_class = id, .count = count});
      add(&used, theirs, -static_cast<int64_t>(count));
    } else if (collides(theirs, needs)) {
      return {};
    }
  }
  if (lower.empty() || room(needs, used, node.allocatable) < 1) return {};
  add(&used, needs, 1);
  std::sort(lower.begin(), lower.end(), [this](const Potential& a, const Potential& b) {
    const int32_t left = priority(a.pod_class);
    const int32_t right = priority(b.pod_class);
    return left != right ? left > right : a.pod_class < b.pod_class;
  });
  find_violating(&lower, known);
  // How many of so many have to leave all the same.
  const auto leave = [&](ClassId id, uint32_t count) {
    const PodNeeds& theirs = classes_[id]->needs;
    const int64_t fit = collides(theirs, needs) ? 0 : room(theirs, used, node.allocatable);
    const auto stay = static_cast<uint32_t>(std::clamp<int64_t>(fit, 0, count));
    add(&used, theirs, stay);
    return count - stay;
  };
  for (Potential& p : lower) p.leaving_violating = leave(p.pod_class, p.violating);
  for (Potential& p : lower) p.leaving = p.leaving_violating + leave(p.pod_class, p.count - p.violating);
  return plan_of(lower, node_id);
}

Engine::Preemption Engine::plan_of(const std::vector<Potential>& lower, NodeId node) const {
  Preemption out;
  uint32_t violating = 0;
  int32_t highest = INT32_MIN;
  int64_t sum = 0;
  uint32_t number = 0;
  for (const Potential& p : lower) {
    if (p.leaving == 0) continue;
    out.victims.emplace_back(p.pod_class, p.leaving);
    violating += p.leaving_violating;
    highest = std::max(highest, priority(p.pod_class));
    sum += p.leaving * (int64_t{priority(p.pod_class)} + INT32_MAX);  // negative ones count too
    number += p.leaving;
  }
  if (out.victims.empty()) return {};
  out.node = node;
  out.cost = {violating, highest, sum, number};
  return out;
}

}  // namespace ghostfleet::controlplane::scheduling
