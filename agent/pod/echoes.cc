// Most of what a watch tells a node about its pods is what the node itself wrote a moment ago.
#include <charconv>

#include "agent/node/json_scan.h"
#include "agent/pod/manager.h"
#include "base/hash.h"

namespace ghostfleet::agent {

namespace {

uint32_t hash_labels(std::string_view labels, std::string_view annotations) {
  return static_cast<uint32_t>(hash_text(annotations, hash_text(labels)));
}

}  // namespace

// Of the labels and annotations of a pod: a kubelet looks at the pod again when they change.
uint32_t Manager::labels_of(const kube::Json& pod) {
  const auto text = [&](std::string_view path) {
    const kube::Json* found = kube::find_path(pod, path);
    return found != nullptr ? kube::to_json(*found) : std::string();
  };
  return hash_labels(text("metadata.labels"), text("metadata.annotations"));
}

void Manager::on_pod_text(std::string_view text) {
  const std::string_view metadata = scan_member(text, "metadata");
  const std::string_view uid = scan_string(scan_member(metadata, "uid"));
  Pod* known = uid.empty() ? nullptr : find(uid);
  if (known != nullptr && take_echo(*known, metadata, scan_member(text, "status"))) {
    settle(*known);
    return;
  }
  const Result<kube::Json> pod = kube::parse_json(text);
  if (pod.ok()) on_pod(*pod);
}

// True when only the status can have changed, and nothing in it asks for more than writing ours again.
bool Manager::take_echo(Pod& pod, std::string_view metadata, std::string_view status) {
  if (status.empty() || !pod.spec->readiness_gates.empty()) return false;
  if (pod.claims() != nullptr && !pod.sandbox) return false;  // the status may name a claim that it waits for
  const std::string_view generation = scan_member(metadata, "generation");
  int64_t number = 1;
  const char* end = generation.data() + generation.size();
  if (!generation.empty() && std::from_chars(generation.data(), end, number).ptr != end) return false;
  if (number != pod.generation) return false;
  const uint32_t labels = hash_labels(scan_member(metadata, "labels"), scan_member(metadata, "annotations"));
  if (labels != pod.labels) return false;
  if (!pod.deleting && !scan_member(metadata, "deletionTimestamp").empty()) return false;
  const std::string_view phase = scan_string(scan_member(status, "phase"));
  uint8_t drift = phase == phase_name(pod.shown) ? 0 : 1U << kConditions;
  for (int type = 0; type < kConditions; ++type) {
    if (pod.conditions[type].set) drift |= static_cast<uint8_t>(1U << type);
  }
  ArrayScan conditions(scan_member(status, "conditions"));
  for (std::string_view c; conditions.next(&c);) {
    const std::string_view name = scan_string(scan_member(c, "type"));
    for (int type = 0; type < kConditions; ++type) {
      const Condition& mine = pod.conditions[type];
      if (name != condition_name(type)) continue;
      const bool same = scan_string(scan_member(c, "status")) == (mine.status ? "True" : "False") &&
                        (type == kScheduled || scan_string(scan_member(c, "reason")) == condition_reason(mine.reason));
      if (same) drift &= static_cast<uint8_t>(~(1U << type));
    }
  }
  const std::string_view version = scan_string(scan_member(metadata, "resourceVersion"));
  std::from_chars(version.data(), version.data() + version.size(), pod.resource_version);
  note_drift(pod, drift);
  return true;
}

}  // namespace ghostfleet::agent
