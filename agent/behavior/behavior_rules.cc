#include "agent/behavior/behavior_rules.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/glob.h"

namespace ghostfleet::agent {

using kube::get_string;
using kube::Json;

namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::string_view controller_kind(const Json& pod) {
  const kube::JsonArray* owners = kube::get_array(pod, "metadata.ownerReferences");
  if (owners == nullptr) return "None";
  for (const Json& owner : *owners) {
    if (kube::get_bool(owner, "controller")) return get_string(owner, "kind");
  }
  return "None";
}

bool glob_fits(const std::string& glob, std::string_view text) { return glob.empty() || glob_match(glob, text); }

}  // namespace

bool BehaviorMatch::fits(const Json& pod, const Json& container_json) const {
  std::string_view pod_ns = get_string(pod, "metadata.namespace");
  if (pod_ns.empty()) pod_ns = "default";
  if (!glob_fits(ns, pod_ns) || !glob_fits(container, get_string(container_json, "name"))) return false;
  if (!glob_fits(image, get_string(container_json, "image"))) return false;
  if (!owner.empty() && owner != controller_kind(pod)) return false;
  return labels.empty() || labels.matches(kube::get_object(pod, "metadata.labels"));
}

BehaviorRules::BehaviorRules(std::vector<BehaviorRule> rules, Histograms histograms)
    : rules_(std::move(rules)), histograms_(std::move(histograms)), id_(next_id()) {}

int BehaviorRules::find(const Json& pod, const Json& container) const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].match.fits(pod, container)) return static_cast<int>(i);
  }
  return -1;
}

Script BehaviorRules::apply(int rule, Script defaults) const {
  if (rule < 0) return defaults;
  ScriptReader reader(std::move(defaults), &histograms_);
  bool after = false;
  for (const auto& [key, value] : rules_[static_cast<size_t>(rule)].words) {
    reader.take(key, value);
    after |= key == "after";
  }
  Script script = reader.finish();
  if (after && script.exits.empty()) script.exits = {0};
  return script;
}

bool BehaviorRules::tells_course(int rule) const {
  if (rule < 0) return false;
  constexpr std::array<std::string_view, 6> kCourse = {"exit", "after", "stop", "stop-after", "crash", "read"};
  const auto& words = rules_[static_cast<size_t>(rule)].words;
  return std::any_of(words.begin(), words.end(), [&](const auto& word) {
    return std::find(kCourse.begin(), kCourse.end(), word.first) != kCourse.end();
  });
}

}  // namespace ghostfleet::agent
