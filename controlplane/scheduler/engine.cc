#include "controlplane/scheduler/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ghostfleet::controlplane::scheduling {

namespace {

constexpr size_t kMaxLog = 400000;
constexpr size_t kIdleClasses = 512;
constexpr const char* kHostname = "kubernetes.io/hostname";
constexpr const char* kUnschedulableTaint = "node.kubernetes.io/unschedulable";
constexpr const char* kNoAffinity = "node(s) didn't match Pod's node affinity/selector";
constexpr const char* kNoPorts = "node(s) didn't have free ports for the requested pod ports";

int64_t at(const std::vector<int64_t>& amounts, int id) {
  return static_cast<size_t>(id) < amounts.size() ? amounts[static_cast<size_t>(id)] : 0;
}
int64_t& grow(std::vector<int64_t>* amounts, int id) {
  if (static_cast<size_t>(id) >= amounts->size()) amounts->resize(static_cast<size_t>(id) + 1, 0);
  return (*amounts)[static_cast<size_t>(id)];
}

}  // namespace

uint32_t Engine::intern_shape(NodeOffer* offer) {
  std::sort(offer->labels.begin(), offer->labels.end());
  std::string key(offer->unschedulable ? "u" : "");
  // The hostname label would make every node a shape of its own: it is looked up by the node's name instead.
  for (const auto& [k, v] : offer->labels) {
    if (k == kHostname && v == offer->name) continue;
    key += fmt::format("{}={},", k, v);
  }
  for (const Taint& t : offer->taints) key += fmt::format("|{}={}:{}", t.key, t.value, t.effect);
  const std::string* hostname = find_label(offer->labels, kHostname);
  const bool own_hostname = hostname != nullptr && *hostname == offer->name;
  key += own_hostname ? "|h" : "|";
  const auto [it, fresh] = shape_ids_.try_emplace(key, static_cast<uint32_t>(shapes_.size()));
  if (fresh) shapes_.push_back({offer->labels, offer->taints, offer->unschedulable, own_hostname});
  return it->second;
}

void Engine::touch(NodeId id) {
  ++nodes_[id].version;
  log_.push_back(id);
  if (log_.size() <= kMaxLog) return;
  log_start_ += log_.size();  // classes that are behind build anew
  log_.clear();
}

void Engine::set_node(NodeOffer offer) {
  const auto known = by_name_.find(offer.name);
  NodeId id = 0;
  if (known != by_name_.end()) {
    id = known->second;
  } else if (!free_ids_.empty()) {
    id = free_ids_.back();
    free_ids_.pop_back();
  } else {
    id = static_cast<NodeId>(nodes_.size());
    nodes_.emplace_back();
  }
  Node& node = nodes_[id];
  const uint32_t shape = intern_shape(&offer);
  if (node.live && node.shape != shape && !node.pods.empty()) recount_needed_ = true;
  if (known == by_name_.end()) {
    node = Node{.name = offer.name, .live = true, .version = node.version};
    by_name_.emplace(offer.name, id);
  }
  std::vector<int64_t> allocatable;
  for (const auto& [resource, amount] : offer.allocatable) grow(&allocatable, resource) = amount;
  if (known != by_name_.end() && node.shape == shape && node.allocatable == allocatable) return;  // a heartbeat
  node.shape = shape;
  node.allocatable = std::move(allocatable);
  touch(id);
}

void Engine::remove_node(std::string_view name) {
  const auto it = by_name_.find(std::string(name));
  if (it == by_name_.end()) return;
  const NodeId id = it->second;
  Node& node = nodes_[id];
  node.live = false;
  recount_needed_ |= !node.pods.empty();
  touch(id);
  by_name_.erase(it);
  // With pods still on it the id is used again only when the last of them is unassigned.
  if (node.pods.empty()) free_ids_.push_back(id);
}

Engine::NodeId Engine::find_node(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? kNoNode : it->second;
}

Engine::ClassId Engine::class_of(PodNeeds needs) {
  std::string signature = needs.signature() + fmt::format("|{}", needs.priority);
  const auto known = by_signature_.find(signature);
  if (known != by_signature_.end()) return known->second;
  ClassId id = 0;
  if (!free_classes_.empty()) {
    id = free_classes_.back();
    free_classes_.pop_back();
  } else {
    id = static_cast<ClassId>(classes_.size());
    classes_.emplace_back();
  }
  classes_[id] = std::make_unique<Class>();
  classes_[id]->needs = std::move(needs);
  classes_[id]->needs.pin.clear();
  classes_[id]->per_node = reads_node_name(classes_[id]->needs);
  classes_[id]->signature = signature;
  by_signature_.emplace(std::move(signature), id);
  for (const SpreadConstraint& c : classes_[id]->needs.spread) counter(spread_term(classes_[id]->needs, c));
  for (const auto* list : {&classes_[id]->needs.affinity, &classes_[id]->needs.anti_affinity,
                           &classes_[id]->needs.preferred_affinity_terms, &classes_[id]->needs.preferred_anti_terms}) {
    for (const PodTerm& term : *list) counter(term);
  }
  return id;
}

void Engine::release(ClassId id) {
  Class& c = *classes_[id];
  if (--c.users > 0) return;
  c.heap.clear();
  c.heap.shrink_to_fit();
  c.verdicts.clear();
  c.verdicts.shrink_to_fit();
  c.built = false;
  if (by_signature_.size() < kIdleClasses) return;
  by_signature_.erase(c.signature);
  classes_[id].reset();
  free_classes_.push_back(id);
}

bool Engine::reads_node_name(const PodNeeds& needs) {
  const auto by_name = [](const NodeTerm& term) {
    return !term.fields.empty() || std::any_of(term.labels.begin(), term.labels.end(),
                                               [](const NodeRequirement& r) { return r.key == kHostname; });
  };
  return std::any_of(needs.node_selector.begin(), needs.node_selector.end(),
                     [](const auto& s) { return s.first == kHostname; }) ||
         std::any_of(needs.required_affinity.begin(), needs.required_affinity.end(), by_name) ||
         std::any_of(needs.preferred_affinity.begin(), needs.preferred_affinity.end(),
                     [&](const WeightedNodeTerm& t) { return by_name(t.term); });
}

const Engine::Verdict& Engine::verdict(Class& c, const Node& node) {
  const uint32_t shape = node.shape;
  if (c.per_node) {
    Shape own = shapes_[shape];
    for (auto& [key, value] : own.labels) {
      if (key == kHostname && own.own_hostname) value = node.name;
    }
    c.scratch = judge(c.needs, own, node.name);
    c.max_prefer = std::max(c.max_prefer, c.scratch.prefer_no_schedule);
    c.max_preferred = std::max(c.max_preferred, c.scratch.preferred);
    return c.scratch;
  }
  if (shape >= c.verdicts.size()) c.verdicts.resize(shapes_.size());
  Verdict& v = c.verdicts[shape];
  if (!v.known) {
    v = judge(c.needs, shapes_[shape], "");
    v.known = true;
    c.max_prefer = std::max(c.max_prefer, v.prefer_no_schedule);
    c.max_preferred = std::max(c.max_preferred, v.preferred);
  }
  return v;
}

Engine::Verdict Engine::judge(const PodNeeds& needs, const Shape& shape, std::string_view node_name) const {
  Verdict v;
  v.affinity_ok = true;
  for (const auto& [key, value] : needs.node_selector) {
    const std::string* have = find_label(shape.labels, key);
    v.affinity_ok &= have != nullptr && *have == value;
  }
  if (needs.has_required_affinity) {
    v.affinity_ok &= std::any_of(needs.required_affinity.begin(), needs.required_affinity.end(),
                                 [&](const NodeTerm& t) { return t.meets(shape.labels, node_name); });
  }
  v.taints_ok = true;
  for (const Taint& taint : shape.taints) {
    if (tolerated(needs.tolerations, taint)) continue;
    if (taint.effect == "PreferNoSchedule") {
      ++v.prefer_no_schedule;
    } else if (v.taints_ok) {
      v.taints_ok = false;
      v.reason = fmt::format("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value);
    }
  }
  if (shape.unschedulable && !tolerated(needs.tolerations, {kUnschedulableTaint, "", "NoSchedule"})) {
    v.taints_ok = false;
    v.reason = "node(s) were unschedulable";
  } else if (v.taints_ok && !v.affinity_ok) {
    v.reason = kNoAffinity;
  }
  for (const WeightedNodeTerm& t : needs.preferred_affinity) {
    if (t.term.meets(shape.labels, node_name)) v.preferred += t.weight;
  }
  v.ok = v.affinity_ok && v.taints_ok;
  return v;
}

bool Engine::fits(const PodNeeds& needs, const Node& node, std::vector<std::string>* reasons,
                  const std::vector<int>& lenient) const {
  bool ok = true;
  for (const HostPort& port : needs.ports) {
    if (std::none_of(node.ports.begin(), node.ports.end(), [&](const HostPort& p) { return p.collides(port); }))
      continue;
    if (reasons == nullptr) return false;
    reasons->push_back(kNoPorts);
    return false;
  }
  for (const auto& [id, amount] : needs.requests) {
    if (at(node.used, id) + amount <= at(node.allocatable, id)) continue;
    const bool optional = std::find(lenient.begin(), lenient.end(), id) != lenient.end();
    if (optional && at(node.allocatable, id) == 0) continue;
    if (reasons == nullptr) return false;
    ok = false;
    reasons->push_back(id == kPods ? "Too many pods" : fmt::format("Insufficient {}", names_.name(id)));
  }
  return ok;
}

uint32_t Engine::count_on(const Node& node, ClassId id) const {
  for (const auto& [known, count] : node.pods) {
    if (known == id) return count;
  }
  return 0;
}

// Weights as in kube-scheduler's default profile; in hundredths of a point.
int32_t Engine::score(const Class& c, ClassId id, const Node& node, const Verdict& v) const {
  const PodNeeds& needs = c.needs;
  const auto left = [](int64_t allocatable, int64_t wanted) {
    return allocatable <= 0 || wanted > allocatable
               ? 0.0
               : static_cast<double>(allocatable - wanted) * 100.0 / static_cast<double>(allocatable);
  };
  const int64_t cpu = at(node.allocatable, kCpu), memory = at(node.allocatable, kMemory);
  const double least =
      (left(cpu, node.scored_cpu + needs.scored_cpu) + left(memory, node.scored_memory + needs.scored_memory)) / 2;
  const auto share = [](int64_t wanted, int64_t allocatable) {
    return allocatable <= 0 ? 1.0 : std::min(1.0, static_cast<double>(wanted) / static_cast<double>(allocatable));
  };
  const double deviation = std::abs(share(node.scored_cpu + needs.scored_cpu, cpu) -
                                    share(node.scored_memory + needs.scored_memory, memory)) /
                           2;
  double total = least + (1 - deviation) * 100;
  total += 3 * (c.max_prefer == 0 ? 100.0 : 100.0 * (c.max_prefer - v.prefer_no_schedule) / c.max_prefer);
  if (c.max_preferred > 0) total += 2 * 100.0 * v.preferred / c.max_preferred;
  if (!needs.owner_uid.empty()) total += 2 * 100.0 / (1 + count_on(node, id));  // default spreading over nodes
  return static_cast<int32_t>(total * 100);
}

bool Engine::push(Class& c, ClassId id, NodeId node_id) {
  const Node& node = nodes_[node_id];
  if (!node.live) return false;
  const Verdict& v = verdict(c, node);
  if (!v.ok || !fits(c.needs, node, nullptr)) return false;
  c.heap.push_back({score(c, id, node, v), static_cast<uint32_t>(rng_.next()), node_id, node.version});
  return true;
}

void Engine::build(Class& c, ClassId id) {
  c.heap.clear();
  for (const auto& shape : by_name_) (void)verdict(c, nodes_[shape.second]);  // the maxima come first
  for (NodeId n = 0; n < nodes_.size(); ++n) push(c, id, n);
  std::make_heap(c.heap.begin(), c.heap.end());
  c.log_position = log_start_ + log_.size();
  c.built = true;
}

void Engine::catch_up(Class& c, ClassId id) {
  const uint64_t end = log_start_ + log_.size();
  if (!c.built || c.log_position < log_start_ || end - c.log_position > nodes_.size() ||
      c.heap.size() > 4 * nodes_.size() + 1024) {
    return build(c, id);
  }
  for (; c.log_position < end; ++c.log_position) {
    if (push(c, id, log_[c.log_position - log_start_])) std::push_heap(c.heap.begin(), c.heap.end());
  }
}

Engine::Placement Engine::place(ClassId id, const std::string& pin) {
  Class& c = *classes_[id];
  if (!pin.empty()) return place_pinned(c, pin);
  if (c.infeasible && c.infeasible_at == log_start_ + log_.size()) return {kNoNode, c.message};
  c.infeasible = false;
  Placement p = c.needs.has_pod_rules() || concerns_others(c.needs) ? place_complex(c, id) : place_simple(c, id);
  if (p.node == kNoNode) {
    c.infeasible = true;
    c.infeasible_at = log_start_ + log_.size();
    c.message = p.message;
  }
  return p;
}

Engine::Placement Engine::place_if(ClassId id, const std::string& pin, const Wish& wish) {
  Class& c = *classes_[id];
  return pin.empty() ? place_complex(c, id, wish) : place_pinned(c, pin, wish);
}

bool Engine::may_fit_now(ClassId id) {
  Class& c = *classes_[id];
  if (!c.infeasible || c.needs.has_pod_rules() || concerns_others(c.needs)) {
    return !c.infeasible || c.infeasible_at != log_start_ + log_.size();
  }
  if (c.infeasible_at == log_start_ + log_.size()) return false;
  catch_up(c, id);
  while (!c.heap.empty()) {
    const Candidate& top = c.heap.front();
    if (nodes_[top.node].live && nodes_[top.node].version == top.version) return true;
    std::pop_heap(c.heap.begin(), c.heap.end());
    c.heap.pop_back();
  }
  c.infeasible_at = log_start_ + log_.size();
  return false;
}

Engine::Placement Engine::place_simple(Class& c, ClassId id) {
  catch_up(c, id);
  while (!c.heap.empty()) {
    const Candidate& top = c.heap.front();
    // A newer entry of the same node is in the heap, or it has become infeasible.
    if (nodes_[top.node].live && nodes_[top.node].version == top.version) return {top.node, ""};
    std::pop_heap(c.heap.begin(), c.heap.end());
    c.heap.pop_back();
  }
  explain(c, id);
  return {kNoNode, c.message};
}

Engine::Placement Engine::place_pinned(Class& c, const std::string& pin, const Wish& wish) {
  std::map<std::string, int> reasons;
  const NodeId id = find_node(pin);
  const int others = static_cast<int>(by_name_.size()) - (id == kNoNode ? 0 : 1);
  if (others > 0) reasons["node(s) didn't satisfy plugin(s) [NodeAffinity]"] = others;
  if (id == kNoNode || !would_do(*prepare(c), c, nodes_[id], wish, &reasons)) return {kNoNode, summary(reasons)};
  const std::string reason = wish.filter ? wish.filter(id) : std::string();
  if (reason.empty()) return {id, ""};
  ++reasons[reason];
  return {kNoNode, summary(reasons)};
}

void Engine::explain(Class& c, ClassId) {
  std::map<std::string, int> reasons;
  std::vector<std::string> why;
  for (const auto& [name, id] : by_name_) {
    const Verdict& v = verdict(c, nodes_[id]);
    why.clear();
    if (!v.ok) {
      ++reasons[v.reason];
    } else {
      fits(c.needs, nodes_[id], &why);
      for (const std::string& reason : why) ++reasons[reason];
    }
  }
  c.message = summary(reasons);
}

std::string Engine::summary(const std::map<std::string, int>& reasons) const {
  if (by_name_.empty()) return "no nodes available to schedule pods";
  std::vector<std::string> parts;
  for (const auto& [reason, count] : reasons) parts.push_back(fmt::format("{} {}", count, reason));
  std::sort(parts.begin(), parts.end());
  return fmt::format("0/{} nodes are available: {}.", by_name_.size(), fmt::join(parts, ", "));
}

void Engine::assign(ClassId id, NodeId node_id) {
  hold(id);
  Node& node = nodes_[node_id];
  const PodNeeds& needs = classes_[id]->needs;
  for (const auto& [resource, amount] : needs.requests) grow(&node.used, resource) += amount;
  node.scored_cpu += needs.scored_cpu;
  node.scored_memory += needs.scored_memory;
  node.ports.insert(node.ports.end(), needs.ports.begin(), needs.ports.end());
  const auto known = std::find_if(node.pods.begin(), node.pods.end(), [&](const auto& p) { return p.first == id; });
  if (known == node.pods.end()) {
    node.pods.emplace_back(id, 1);
  } else {
    ++known->second;
  }
  count_pod(needs, node, 1);
  ++assigned_[needs.priority];
  touch(node_id);
}

void Engine::unassign(ClassId id, NodeId node_id) {
  Node& node = nodes_[node_id];
  const PodNeeds& needs = classes_[id]->needs;
  const auto known = std::find_if(node.pods.begin(), node.pods.end(), [&](const auto& p) { return p.first == id; });
  if (known == node.pods.end()) return;
  for (const auto& [resource, amount] : needs.requests) grow(&node.used, resource) -= amount;
  node.scored_cpu -= needs.scored_cpu;
  node.scored_memory -= needs.scored_memory;
  for (const HostPort& port : needs.ports) {
    const auto it = std::find_if(node.ports.begin(), node.ports.end(), [&](const HostPort& p) {
      return p.port == port.port && p.protocol == port.protocol && p.ip == port.ip;
    });
    if (it != node.ports.end()) node.ports.erase(it);
  }
  if (--known->second == 0) node.pods.erase(known);
  count_pod(needs, node, -1);
  if (const auto it = assigned_.find(needs.priority); --it->second == 0) assigned_.erase(it);
  touch(node_id);
  if (!node.live && node.pods.empty()) free_ids_.push_back(node_id);
  release(id);
}

Engine::Free Engine::free_of(NodeId node, int resource) const {
  return {at(nodes_[node].allocatable, resource), at(nodes_[node].used, resource)};
}

}  // namespace ghostfleet::controlplane::scheduling
