// Conditions in a pod's status.
#include <fmt/format.h>

#include "agent/pod/status_parts.h"

namespace ghostfleet::agent {

void add_condition(const Pod& pod, int type, bool nulls, std::string* out) {
  const Condition& c = pod.conditions[type];
  // The one who bound the pod wrote this condition; only the generation is the node's.
  const bool time = type != kScheduled || !pod.scheduled_by_other;
  *out += "{";
  if (time) {
    *out += fmt::format("\"lastProbeTime\":null,\"lastTransitionTime\":{},", time_or_null({c.since * 1000000000}));
  }
  const std::string message = condition_message(pod, type);
  if (!message.empty()) {
    add_text("message", message, out);
    *out += ",";
  } else if (nulls && time) {
    *out += "\"message\":null,";
  }
  if (type != kAllRestarting && pod.generation > 0) *out += fmt::format("\"observedGeneration\":{},", pod.generation);
  if (c.reason != ConditionReason::kNone) {
    add_text("reason", condition_reason(c.reason), out);
    *out += ",";
  } else if (nulls && time) {
    *out += "\"reason\":null,";
  }
  *out += c.status ? "\"status\":\"True\"," : "\"status\":\"False\",";
  add_text("type", condition_name(type), out);
  *out += "}";
}

const Note* note_of(const Pod& pod, std::string_view type) {
  const Extras* more = pod.extras.get();
  if (more == nullptr) return nullptr;
  const Note* note = type == "DisruptionTarget"   ? &more->disruption
                     : more->resizing == nullptr  ? nullptr
                     : type == "PodResizePending" ? &more->resizing->pending
                                                  : &more->resizing->progress;
  if (note == nullptr || note->generation == 0) return nullptr;
  // An eviction is told together with the end it leads to.
  return type == "DisruptionTarget" && !is_terminal(pod.shown) ? nullptr : note;
}

void add_note(const Pod& pod, std::string_view type, bool nulls, std::string* out) {
  const Note* note = note_of(pod, type);
  if (note == nullptr) {
    if (nulls) *out += fmt::format("{{\"$patch\":\"delete\",\"type\":\"{}\"}}", type);
    return;
  }
  const std::string since = time_or_null({note->since * 1000000000});
  *out += fmt::format("{{\"lastProbeTime\":{},\"lastTransitionTime\":{},", type == "DisruptionTarget" ? "null" : since,
                      since);
  if (!note->message.empty()) {
    add_text("message", note->message, out);
    *out += ",";
  } else if (nulls) {
    *out += "\"message\":null,";
  }
  *out += fmt::format("\"observedGeneration\":{},", note->generation);
  if (!note->reason.empty()) {
    add_text("reason", note->reason, out);
    *out += ",";
  } else if (nulls) {
    *out += "\"reason\":null,";
  }
  *out += fmt::format("\"status\":\"True\",\"type\":\"{}\"}}", type);
}

}  // namespace ghostfleet::agent
