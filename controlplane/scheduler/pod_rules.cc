// The engine's rules about other pods: topology spread, affinity and anti-affinity, required and preferred.
#include <algorithm>
#include <limits>

#include "controlplane/scheduler/engine.h"

namespace ghostfleet::controlplane::scheduling {

namespace {
constexpr const char* kNoSpread = "node(s) didn't match pod topology spread constraints";
constexpr const char* kNoSpreadLabel = "node(s) didn't match pod topology spread constraints (missing required label)";
constexpr const char* kNoAffinity = "node(s) didn't match pod affinity rules";
constexpr const char* kNoAntiAffinity = "node(s) didn't match pod anti-affinity rules";
constexpr const char* kExistingAnti = "node(s) didn't satisfy existing pods anti-affinity rules";
constexpr const char* kHostname = "kubernetes.io/hostname";

int count_in(const std::unordered_map<std::string, int>& by_domain, const std::string& domain) {
  const auto it = by_domain.find(domain);
  return it == by_domain.end() ? 0 : it->second;
}
}  // namespace

struct Engine::Complex {
  struct Spread {
    const SpreadConstraint* rule = nullptr;
    const Counter* counter = nullptr;
    int self = 0;     // the pod counts itself
    int minimum = 0;  // over the eligible domains
  };
  std::vector<Spread> spread;
  std::vector<std::pair<const PodTerm*, const Counter*>> affinity, anti, preferred, preferred_anti;
  std::vector<bool> first_of_its_kind;  // by affinity term: nobody matches yet, but the pod itself does
  std::vector<const Carried*> carried;  // required anti-affinity of others that concerns this pod
  std::vector<const Carried*> carried_soft;
};

// Shapes leave a node's own name out of the hostname label.
const std::string* Engine::domain(const Node& node, const std::string& key) const {
  const std::string* value = find_label(shapes_[node.shape].labels, key);
  return value != nullptr && key == kHostname && shapes_[node.shape].own_hostname ? &node.name : value;
}

PodTerm Engine::spread_term(const PodNeeds& needs, const SpreadConstraint& c) const {
  PodTerm term;
  term.key = c.key;
  term.namespaces = {needs.ns};
  term.selector = c.selector;
  term.selector_text = c.selector_text;
  return term;
}

Engine::Counter& Engine::counter(const PodTerm& term) {
  PodTerm plain = term;
  plain.weight = 0;
  const auto [it, fresh] = counters_.try_emplace(plain.identity());
  Counter& counter = it->second;
  if (!fresh) return counter;
  counter.term = std::move(plain);
  for (const auto& [name, id] : by_name_) {
    const Node& node = nodes_[id];
    const std::string* where = node.pods.empty() ? nullptr : domain(node, counter.term.key);
    if (where == nullptr) continue;
    for (const auto& [pod_class, count] : node.pods) {
      const PodNeeds& needs = classes_[pod_class]->needs;
      if (!counter.term.matches(needs.ns, needs.labels)) continue;
      counter.by_domain[*where] += static_cast<int>(count);
      counter.total += static_cast<int>(count);
    }
  }
  return counter;
}

void Engine::count_pod(const PodNeeds& needs, const Node& node, int by) {
  if (!node.live) return;  // a recount is due anyway
  for (auto& [identity, counter] : counters_) {
    const std::string* where = domain(node, counter.term.key);
    if (where == nullptr || !counter.term.matches(needs.ns, needs.labels)) continue;
    counter.by_domain[*where] += by;
    counter.total += by;
  }
  const auto carry = [&](const PodTerm& term, bool required, int weight) {
    PodTerm weighted = term;
    weighted.weight = weight;
    Carried& c = carried_[(required ? "r" : "p") + weighted.identity()];
    c.term = std::move(weighted);
    c.required = required;
    const std::string* where = domain(node, term.key);
    if (where == nullptr) return;
    c.by_domain[*where] += by;
    c.total += by;
  };
  for (const PodTerm& term : needs.anti_affinity) carry(term, true, 0);
  for (const PodTerm& term : needs.affinity) carry(term, false, 1);  // hardPodAffinityWeight
  for (const PodTerm& term : needs.preferred_affinity_terms) carry(term, false, term.weight);
  for (const PodTerm& term : needs.preferred_anti_terms) carry(term, false, -term.weight);
}

// A node with pods changed its labels or went: everything is counted again.
void Engine::recount() {
  recount_needed_ = false;
  for (auto& [identity, counter] : counters_) {
    counter.by_domain.clear();
    counter.total = 0;
  }
  carried_.clear();
  for (const auto& [name, id] : by_name_) {
    const Node& node = nodes_[id];
    for (const auto& [pod_class, count] : node.pods)
      count_pod(classes_[pod_class]->needs, node, static_cast<int>(count));
  }
}

bool Engine::concerns_others(const PodNeeds& needs) const {
  return std::any_of(carried_.begin(), carried_.end(), [&](const auto& entry) {
    const Carried& c = entry.second;
    return c.required && c.total > 0 && c.term.matches(needs.ns, needs.labels);
  });
}

std::shared_ptr<Engine::Complex> Engine::prepare(Class& c) {
  if (recount_needed_) recount();
  auto x = std::make_shared<Complex>();
  const PodNeeds& needs = c.needs;
  for (const SpreadConstraint& rule : needs.spread) {
    Complex::Spread s{.rule = &rule, .counter = &counter(spread_term(needs, rule))};
    s.self = s.counter->term.matches(needs.ns, needs.labels) ? 1 : 0;
    int minimum = std::numeric_limits<int>::max();
    std::unordered_map<std::string, bool> domains;
    for (const auto& [name, id] : by_name_) {
      const Verdict& v = verdict(c, nodes_[id]);
      if ((rule.honor_affinity && !v.affinity_ok) || (rule.honor_taints && !v.taints_ok)) continue;
      const std::string* where = domain(nodes_[id], rule.key);
      if (where == nullptr || !domains.emplace(*where, true).second) continue;
      minimum = std::min(minimum, count_in(s.counter->by_domain, *where));
    }
    s.minimum = domains.empty() || static_cast<int>(domains.size()) < rule.min_domains ? 0 : minimum;
    x->spread.push_back(s);
  }
  for (const PodTerm& term : needs.affinity) {
    x->affinity.emplace_back(&term, &counter(term));
    x->first_of_its_kind.push_back(term.matches(needs.ns, needs.labels));
  }
  // The exception for the first pod of a group holds only when no term has a match anywhere.
  const bool nobody =
      std::all_of(x->affinity.begin(), x->affinity.end(), [](const auto& a) { return a.second->total == 0; });
  const bool self = std::all_of(x->first_of_its_kind.begin(), x->first_of_its_kind.end(), [](bool b) { return b; });
  x->first_of_its_kind.assign(x->affinity.size(), nobody && self);
  for (const PodTerm& term : needs.anti_affinity) x->anti.emplace_back(&term, &counter(term));
  for (const PodTerm& term : needs.preferred_affinity_terms) x->preferred.emplace_back(&term, &counter(term));
  for (const PodTerm& term : needs.preferred_anti_terms) x->preferred_anti.emplace_back(&term, &counter(term));
  for (const auto& [identity, carried] : carried_) {
    if (carried.total <= 0 || !carried.term.matches(needs.ns, needs.labels)) continue;
    (carried.required ? x->carried : x->carried_soft).push_back(&carried);
  }
  return x;
}

std::string Engine::check_rules(const Complex& x, const Class&, const Node& node) const {
  for (const Complex::Spread& s : x.spread) {
    if (!s.rule->hard) continue;
    const std::string* where = domain(node, s.rule->key);
    if (where == nullptr) return kNoSpreadLabel;
    if (count_in(s.counter->by_domain, *where) + s.self - s.minimum > s.rule->max_skew) return kNoSpread;
  }
  for (const Carried* carried : x.carried) {
    const std::string* where = domain(node, carried->term.key);
    if (where != nullptr && count_in(carried->by_domain, *where) > 0) return kExistingAnti;
  }
  for (size_t i = 0; i < x.affinity.size(); ++i) {
    const std::string* where = domain(node, x.affinity[i].first->key);
    if (where == nullptr) return kNoAffinity;
    if (!x.first_of_its_kind[i] && count_in(x.affinity[i].second->by_domain, *where) == 0) return kNoAffinity;
  }
  for (const auto& [term, counter] : x.anti) {
    const std::string* where = domain(node, term->key);
    if (where != nullptr && count_in(counter->by_domain, *where) > 0) return kNoAntiAffinity;
  }
  return "";
}

// Higher is better; the caller brings it to 0..100 over the nodes it looked at.
double Engine::soft_score(const Complex& x, const Class&, const Node& node) const {
  double score = 0;
  for (const Complex::Spread& s : x.spread) {
    const std::string* where = domain(node, s.rule->key);
    if (where == nullptr) {
      score -= s.rule->hard ? 0 : 1000;
      continue;
    }
    score -= count_in(s.counter->by_domain, *where);
  }
  const auto add = [&](const auto& terms, int sign) {
    for (const auto& [term, counter] : terms) {
      const std::string* where = domain(node, term->key);
      if (where != nullptr) score += sign * term->weight * count_in(counter->by_domain, *where);
    }
  };
  add(x.preferred, 1);
  add(x.preferred_anti, -1);
  for (const Carried* carried : x.carried_soft) {
    const std::string* where = domain(node, carried->term.key);
    if (where != nullptr) score += carried->term.weight * count_in(carried->by_domain, *where);
  }
  return score;
}

// As kube-scheduler's adaptive percentageOfNodesToScore.
size_t Engine::sample_size() const {
  const size_t n = by_name_.size();
  if (n < 100) return n;
  const size_t percent = std::max<int64_t>(5, 50 - static_cast<int64_t>(n) / 125);
  return std::max<size_t>(100, n * percent / 100);
}

// Whether the node would do but for the filter; else why not.
bool Engine::would_do(const Complex& x, Class& c, const Node& node, const Wish& wish,
                      std::map<std::string, int>* reasons) {
  const Verdict& v = verdict(c, node);
  std::vector<std::string> why;
  if (!v.ok) {
    ++(*reasons)[v.reason];
  } else if (!fits(c.needs, node, &why, wish.lenient)) {
    for (const std::string& reason : why) ++(*reasons)[reason];
  } else if (std::string reason = check_rules(x, c, node); !reason.empty()) {
    ++(*reasons)[reason];
  } else {
    return true;
  }
  return false;
}

// The best of them first; equal ones in any order.
void Engine::rank(std::vector<Found>* found) {
  const auto [low, high] =
      std::minmax_element(found->begin(), found->end(), [](const Found& a, const Found& b) { return a.soft < b.soft; });
  const double bottom = low->soft, range = high->soft - low->soft;
  for (Found& f : *found) {
    f.total = f.hard + (range > 0 ? 2 * 100.0 * 100.0 * (f.soft - bottom) / range : 0);
    f.tie = rng_.next();
  }
  std::sort(found->begin(), found->end(),
            [](const Found& a, const Found& b) { return a.total != b.total ? a.total > b.total : a.tie < b.tie; });
}

// A filter may be dear: it is asked of the best nodes first, and of others only when those do not pass.
Engine::Placement Engine::place_complex(Class& c, ClassId id, const Wish& wish) {
  const auto x = prepare(c);
  std::vector<Found> found;
  std::map<std::string, int> reasons;
  const size_t wanted = sample_size();
  const size_t count = nodes_.size();
  const NodeId start = next_start_;
  for (size_t seen = 0; seen < count;) {
    const NodeId n = static_cast<NodeId>((start + seen++) % count);
    const Node& node = nodes_[n];
    if (node.live && would_do(*x, c, node, wish, &reasons)) {
      found.push_back({.node = n,
                       .hard = static_cast<double>(score(c, id, node, verdict(c, node))),
                       .soft = soft_score(*x, c, node)});
    }
    if (found.empty() || (found.size() < wanted && seen < count)) continue;
    next_start_ = static_cast<NodeId>((start + seen) % count);
    rank(&found);
    for (const Found& f : found) {
      const std::string reason = wish.filter ? wish.filter(f.node) : std::string();
      if (reason.empty()) return {f.node, ""};
      ++reasons[reason];
    }
    found.clear();
  }
  return {kNoNode, summary(reasons)};
}

}  // namespace ghostfleet::controlplane::scheduling
