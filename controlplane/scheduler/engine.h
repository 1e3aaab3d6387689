// Engine: decides which node a pod goes to. Pure: told of nodes and pods, asked for places; no store, thread or clock.
//
// Shapes and cost: pods with equal needs form a class. A class without rules about other pods keeps a heap of its
// feasible nodes by score; a change of a node is noted once in a log, which classes read when they are next used, so
// that one placement costs O(log nodes). Classes with topology spread or pod (anti-)affinity, and pods that existing
// anti-affinity concerns, look at nodes one by one, at most as many as kube-scheduler would (percentageOfNodesToScore).
// Source of the semantics: kube-scheduler 1.36 and its default plugins.
// Deviations: preemption minds no rules about other pods, and budgets as far as classes tell pods apart (not by the
// labels that each pod of a StatefulSet or indexed Job has for itself); no ImageLocality, default spreading over nodes
// only (not zones). Thread rule: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "controlplane/scheduler/requirements.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane::scheduling {

class Engine {
 public:
  using ClassId = uint32_t;
  using NodeId = uint32_t;
  static constexpr NodeId kNoNode = UINT32_MAX;

  explicit Engine(uint64_t seed) : rng_(seed) {}

  ResourceNames& resources() { return names_; }

  void set_node(NodeOffer offer);
  void remove_node(std::string_view name);
  NodeId find_node(std::string_view name) const;
  const std::string& node_name(NodeId id) const { return nodes_[id].name; }
  size_t node_count() const { return by_name_.size(); }

  // The class of a pod with these needs; kept as long as it is used.
  ClassId class_of(PodNeeds needs);
  int32_t priority(ClassId id) const { return classes_[id]->needs.priority; }
  void hold(ClassId id) { ++classes_[id]->users; }
  void release(ClassId id);
  size_t class_count() const { return by_signature_.size(); }

  struct Placement {
    NodeId node = kNoNode;
    std::string message;  // why not, when there is no node
  };
  // Where a pod of that class may go now; nothing changes. `pin`: the only node that is allowed.
  Placement place(ClassId id, const std::string& pin);
  // The same of a pod for whom a node must also pass `filter`, which says why it does not (empty: it does). A node that
  // has nothing at all of the `lenient` resources need not have them: the filter looks after these.
  using Filter = std::function<std::string(NodeId node)>;
  struct Wish {
    Filter filter;
    std::vector<int> lenient;
  };
  Placement place_if(ClassId id, const std::string& pin, const Wish& wish);
  // Whether something happened since the class was last found infeasible that may help it.
  bool may_fit_now(ClassId id);

  // How many pods of a selection may be disrupted (policy/v1 PodDisruptionBudget). `key`: NAMESPACE/NAME.
  struct Budget {
    std::string ns;
    kube::LabelSelector selector;  // an empty one selects nothing here, as kube-scheduler has it
    int64_t allowed = 0;           // status.disruptionsAllowed
  };
  void set_budget(const std::string& key, Budget budget) { budgets_.insert_or_assign(key, std::move(budget)); }
  void remove_budget(std::string_view key);

  // What would have to leave, so that a pod of the class has room: of pods with a lower priority the least important,
  // and as few as possible; pods that would violate a budget only where the others do not do. No node: nothing helps.
  // Nothing changes.
  struct Preemption {
    NodeId node = kNoNode;
    std::vector<std::pair<ClassId, uint32_t>> victims;  // how many of which class
    // What it costs, by weight: victims that violate a budget, the highest priority among all, the sum of all, their
    // number.
    std::tuple<uint32_t, int32_t, int64_t, uint32_t> cost;
  };
  Preemption preempt(ClassId id, const std::string& pin);

  // A pod of the class is on the node (from now on), or no longer.
  void assign(ClassId id, NodeId node);
  void unassign(ClassId id, NodeId node);

  struct Free {
    int64_t allocatable = 0, used = 0;
  };
  Free free_of(NodeId node, int resource) const;

 private:
  struct Node {
    std::string name;
    bool live = false;
    uint32_t version = 0;
    uint32_t shape = 0;  // interned labels + taints + unschedulable
    std::vector<int64_t> allocatable, used;
    int64_t scored_cpu = 0, scored_memory = 0;
    std::vector<HostPort> ports;
    std::vector<std::pair<ClassId, uint32_t>> pods;  // how many of which class
  };
  struct Shape {
    Labels labels;
    std::vector<Taint> taints;
    bool unschedulable = false;
    bool own_hostname = false;  // kubernetes.io/hostname is each node's own name
  };
  // What a class thinks of a shape, once and for all.
  struct Verdict {
    bool known = false;
    bool ok = false;
    bool affinity_ok = false;  // selector and affinity alone
    bool taints_ok = false;
    std::string reason;
    int prefer_no_schedule = 0;  // untolerated
    int preferred = 0;           // weights met
  };
  struct Candidate {
    int32_t score = 0;
    uint32_t tie = 0;
    NodeId node = 0;
    uint32_t version = 0;
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return a.score != b.score ? a.score < b.score : a.tie < b.tie;
    }
  };
  struct Class {
    PodNeeds needs;
    std::string signature;
    uint32_t users = 0;
    bool built = false;
    std::vector<Candidate> heap;
    uint64_t log_position = 0;
    std::vector<Verdict> verdicts;  // by shape
    bool per_node = false;          // selects by the node's own name: no verdict holds for a whole shape
    Verdict scratch;
    int max_prefer = 0, max_preferred = 0;
    bool infeasible = false;  // as of infeasible_at in the log
    uint64_t infeasible_at = 0;
    std::optional<uint64_t> no_victims_at;  // the same of preemption
    std::string message;
  };
  // Pods that match a selector, counted by the value of a node label.
  struct Counter {
    PodTerm term;
    std::unordered_map<std::string, int> by_domain;
    int total = 0;
  };
  // Required anti-affinity (and preferred terms) that existing pods carry.
  struct Carried {
    PodTerm term;
    bool required = false;
    std::unordered_map<std::string, int> by_domain;
    int total = 0;
  };
  struct Complex;  // scratch of one look at all nodes

  uint32_t intern_shape(NodeOffer* offer);
  void touch(NodeId id);
  const Verdict& verdict(Class& c, const Node& node);
  static bool reads_node_name(const PodNeeds& needs);
  Verdict judge(const PodNeeds& needs, const Shape& shape, std::string_view node_name) const;
  bool fits(const PodNeeds& needs, const Node& node, std::vector<std::string>* reasons,
            const std::vector<int>& lenient = {}) const;
  int32_t score(const Class& c, ClassId id, const Node& node, const Verdict& v) const;
  void build(Class& c, ClassId id);
  void catch_up(Class& c, ClassId id);
  bool push(Class& c, ClassId id, NodeId node);
  uint32_t count_on(const Node& node, ClassId id) const;
  bool concerns_others(const PodNeeds& needs) const;
  Placement place_pinned(Class& c, const std::string& pin, const Wish& wish = {});
  Placement place_simple(Class& c, ClassId id);
  Placement place_complex(Class& c, ClassId id, const Wish& wish = {});
  void explain(Class& c, ClassId id);
  std::string summary(const std::map<std::string, int>& reasons) const;

  // preemption.cc
  // Pods of one class on one node that could leave, and how many of them a budget speaks for.
  struct Potential {
    ClassId pod_class = 0;
    uint32_t count = 0, violating = 0;
    uint32_t leaving = 0, leaving_violating = 0;  // what was found
  };
  // Budgets by class, as far as they were looked up.
  using BudgetsOf = std::unordered_map<ClassId, std::vector<const Budget*>>;
  Preemption victims_on(const PodNeeds& needs, NodeId node, BudgetsOf* known) const;
  const std::vector<const Budget*>& budgets_of(ClassId id, BudgetsOf* known) const;
  Preemption plan_of(const std::vector<Potential>& lower, NodeId node) const;
  void find_violating(std::vector<Potential>* lower, BudgetsOf* known) const;

  // pod_rules.cc
  Counter& counter(const PodTerm& term);
  PodTerm spread_term(const PodNeeds& needs, const SpreadConstraint& c) const;
  void count_pod(const PodNeeds& needs, const Node& node, int by);
  void recount();
  std::shared_ptr<Complex> prepare(Class& c);
  std::string check_rules(const Complex& x, const Class& c, const Node& node) const;
  double soft_score(const Complex& x, const Class& c, const Node& node) const;
  size_t sample_size() const;
  // A node that would do, and how well.
  struct Found {
    NodeId node = kNoNode;
    double hard = 0, soft = 0, total = 0;
    uint64_t tie = 0;
  };
  bool would_do(const Complex& x, Class& c, const Node& node, const Wish& wish, std::map<std::string, int>* reasons);
  void rank(std::vector<Found>* found);
  const std::string* domain(const Node& node, const std::string& key) const;

  ResourceNames names_;
  Rng rng_;
  std::deque<Node> nodes_;
  std::vector<NodeId> free_ids_;
  std::unordered_map<std::string, NodeId> by_name_;
  std::vector<Shape> shapes_;
  std::unordered_map<std::string, uint32_t> shape_ids_;
  std::deque<std::unique_ptr<Class>> classes_;
  std::vector<ClassId> free_classes_;
  std::unordered_map<std::string, ClassId> by_signature_;
  std::vector<NodeId> log_;  // changed nodes, in order
  uint64_t log_start_ = 0;   // position of log_[0]
  std::map<std::string, Counter> counters_;
  std::map<std::string, Carried> carried_;
  bool recount_needed_ = false;
  NodeId next_start_ = 0;
  std::map<int32_t, size_t> assigned_;  // pods on nodes, by priority
  std::map<std::string, Budget, std::less<>> budgets_;
};

}  // namespace ghostfleet::controlplane::scheduling
