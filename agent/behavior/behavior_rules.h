// BehaviorRules: what the containers of many pods do, told by a list of rules; the first whose match fits a container
// counts. A rule is made of the words of the annotation (behavior.h) and stands between the two others: what a pod's
// own annotation says goes over it, the defaults of its kind lie under it.
//
// Thread rule: immutable once it is shared; any thread may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/behavior/behavior.h"
#include "kube/api/json.h"
#include "kube/api/selector.h"

namespace ghostfleet::agent {

// Everything that is given must fit; an empty text fits all. * and ? in globs.
struct BehaviorMatch {
  std::string ns;         // glob of the pod's namespace
  std::string owner;      // kind of its controller: Job, ReplicaSet, ...; "None": it has none
  std::string image;      // glob of the container's image
  std::string container;  // glob of its name
  kube::LabelSelector labels;

  bool fits(const kube::Json& pod, const kube::Json& container_json) const;
};

struct BehaviorRule {
  BehaviorMatch match;
  std::vector<std::pair<std::string, std::string>> words;  // "after", "exponential(10m)"; already checked
};

class BehaviorRules {
 public:
  static constexpr size_t kMaxRules = 1000;

  BehaviorRules(std::vector<BehaviorRule> rules, Histograms histograms);

  // The number of the rule that counts for a container; -1: none.
  int find(const kube::Json& pod, const kube::Json& container) const;
  // What the rule makes of the defaults. A rule that says how long an attempt runs, and not how it ends, means exit 0.
  Script apply(int rule, Script defaults) const;
  // Whether it says how an attempt goes on and ends, so that the command line need not.
  bool tells_course(int rule) const;
  const Histograms& histograms() const { return histograms_; }
  // Differs between any two of this process.
  uint64_t id() const { return id_; }

 private:
  std::vector<BehaviorRule> rules_;
  Histograms histograms_;
  uint64_t id_;
};

}  // namespace ghostfleet::agent
