// Preemption: whom a pod that fits nowhere may send away.
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
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].live || (!pin.empty() && nodes_[node].name != pin) || !verdict(c, nodes_[node]).ok) continue;
    Preemption one = victims_on(c.needs, node);
    if (one.node == kNoNode || (best.node != kNoNode && one.cost >= best.cost)) continue;
    best = std::move(one);
  }
  if (best.node == kNoNode && pin.empty()) c.no_victims_at = now;
  return best;
}

// All pods of lower priority leave; then those that fit beside the new one come back, the most important first.
Engine::Preemption Engine::victims_on(const PodNeeds& needs, NodeId node_id) const {
  const Node& node = nodes_[node_id];
  std::vector<int64_t> used = node.used;
  std::vector<std::pair<ClassId, uint32_t>> lower;
  for (const auto& [id, count] : node.pods) {
    const PodNeeds& theirs = classes_[id]->needs;
    if (theirs.priority < needs.priority) {
      lower.emplace_back(id, count);
      add(&used, theirs, -static_cast<int64_t>(count));
    } else if (collides(theirs, needs)) {
      return {};
    }
  }
  if (lower.empty() || room(needs, used, node.allocatable) < 1) return {};
  add(&used, needs, 1);
  std::sort(lower.begin(), lower.end(), [this](const auto& a, const auto& b) {
    const int32_t left = priority(a.first);
    const int32_t right = priority(b.first);
    return left != right ? left > right : a.first < b.first;
  });
  Preemption out;
  int32_t highest = INT32_MIN;
  int64_t sum = 0;
  uint32_t number = 0;
  for (const auto& [id, count] : lower) {
    const PodNeeds& theirs = classes_[id]->needs;
    const int64_t fit = collides(theirs, needs) ? 0 : room(theirs, used, node.allocatable);
    const auto stay = static_cast<uint32_t>(std::clamp<int64_t>(fit, 0, count));
    add(&used, theirs, stay);
    if (stay == count) continue;
    out.victims.emplace_back(id, count - stay);
    highest = std::max(highest, theirs.priority);
    sum += (count - stay) * (int64_t{theirs.priority} + INT32_MAX);  // negative ones count too
    number += count - stay;
  }
  if (out.victims.empty()) return {};
  out.node = node_id;
  out.cost = {highest, sum, number};
  return out;
}

}  // namespace ghostfleet::controlplane::scheduling
