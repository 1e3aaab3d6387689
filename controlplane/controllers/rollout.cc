#include "controlplane/controllers/rollout.h"

#include <algorithm>

#include "controlplane/controllers/meta.h"

namespace ghostfleet::controlplane::controllers {

using kube::Json;

namespace {

constexpr const char* kHashLabel = "pod-template-hash";

Json without_hash(const Json& pod_template) {
  Json copy = pod_template;
  if (Json* labels = kube::find_path(copy, "metadata.labels"); labels != nullptr && labels->is_object()) {
    labels->get_object().erase(kHashLabel);
    if (labels->get_object().empty()) kube::erase_path(copy, "metadata.labels");
  }
  if (Json* metadata = kube::find_path(copy, "metadata"); metadata != nullptr && metadata->is_object()) {
    metadata->get_object().erase("creationTimestamp");
    if (metadata->get_object().empty()) kube::erase_path(copy, "metadata");
  }
  return copy;
}

// The same text for equal values, whatever the order of keys.
void append_canonical(const Json& value, std::string* out) {
  if (const kube::JsonObject* object = value.if_object()) {
    std::vector<std::pair<std::string_view, const Json*>> members;
    for (const auto& [key, member] : *object) members.emplace_back(key, &member);
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    out->push_back('{');
    for (const auto& [key, member] : members) {
      kube::append_json_string(key, out);
      out->push_back(':');
      append_canonical(*member, out);
      out->push_back(',');
    }
    out->push_back('}');
  } else if (const kube::JsonArray* array = value.if_array()) {
    out->push_back('[');
    for (const Json& item : *array) {
      append_canonical(item, out);
      out->push_back(',');
    }
    out->push_back(']');
  } else {
    kube::append_json(value, out);
  }
}

}  // namespace

RollingLimits rolling_limits(const Json& deployment) {
  const int64_t replicas = kube::get_int(deployment, "spec.replicas", 1);
  RollingLimits limits;
  limits.max_surge =
      int_or_percent(kube::find_path(deployment, "spec.strategy.rollingUpdate.maxSurge"), replicas, true, 1);
  limits.max_unavailable =
      int_or_percent(kube::find_path(deployment, "spec.strategy.rollingUpdate.maxUnavailable"), replicas, false, 0);
  if (limits.max_surge == 0 && limits.max_unavailable == 0) limits.max_unavailable = 1;
  limits.max_unavailable = std::min(limits.max_unavailable, replicas);
  return limits;
}

int64_t next_new_size(int64_t replicas, const RollingLimits& limits, int64_t new_wanted, int64_t total_wanted) {
  if (new_wanted >= replicas) return replicas;
  const int64_t room = replicas + limits.max_surge - total_wanted;
  if (room <= 0) return new_wanted;
  return new_wanted + std::min(room, replicas - new_wanted);
}

std::vector<int64_t> next_old_sizes(int64_t replicas, const RollingLimits& limits, const SetSize& new_set,
                                    const std::vector<SetSize>& old_sets) {
  std::vector<int64_t> sizes;
  int64_t total = new_set.wanted, available = new_set.available;
  for (const SetSize& set : old_sets) {
    sizes.push_back(set.wanted);
    total += set.wanted;
    available += set.available;
  }
  const int64_t min_available = replicas - limits.max_unavailable;
  int64_t may_go = total - min_available - (new_set.wanted - new_set.available);
  for (size_t i = 0; i < old_sets.size() && may_go > 0; ++i) {
    const int64_t unhealthy = std::min(std::max<int64_t>(0, sizes[i] - old_sets[i].available), may_go);
    sizes[i] -= unhealthy;
    may_go -= unhealthy;
  }
  int64_t spare = std::min(available - min_available, may_go);
  for (size_t i = 0; i < old_sets.size() && spare > 0; ++i) {
    const int64_t gone = std::min(sizes[i], spare);
    sizes[i] -= gone;
    spare -= gone;
  }
  return sizes;
}

std::vector<int64_t> proportional_sizes(const std::vector<int64_t>& sizes, const std::vector<int64_t>& annotated,
                                        int64_t allowed_total, int64_t max_replicas) {
  std::vector<int64_t> next = sizes;
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  const int64_t change = allowed_total - total;
  int64_t given = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t reference = annotated[i] > 0 ? annotated[i] : std::max<int64_t>(total, 1);
    const double ideal = static_cast<double>(sizes[i] * max_replicas) / static_cast<double>(reference);
    int64_t fraction = static_cast<int64_t>(ideal + 0.5) - sizes[i];
    const int64_t left = change - given;
    fraction = change > 0 ? std::clamp<int64_t>(fraction, 0, left) : std::clamp<int64_t>(fraction, left, 0);
    next[i] += fraction;
    given += fraction;
  }
  if (!next.empty()) next[0] = std::max<int64_t>(0, next[0] + change - given);
  return next;
}

std::string template_hash(const Json& pod_template, int64_t collision_count) {
  std::string text;
  append_canonical(without_hash(pod_template), &text);
  if (collision_count > 0) text += std::to_string(collision_count);
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  static constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  std::string name = std::to_string(hash);
  for (char& c : name) c = kAlphabet[static_cast<size_t>(c) % kAlphabet.size()];
  return name;
}

bool same_template(const Json& a, const Json& b) { return kube::json_equal(without_hash(a), without_hash(b)); }

}  // namespace ghostfleet::controlplane::controllers
