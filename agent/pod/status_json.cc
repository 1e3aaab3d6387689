// The JSON of a pod's status, in the key order in which a kubelet's patches come.
#include <fmt/format.h>

#include <iterator>

#include "agent/pod/hash.h"
#include "agent/pod/images.h"
#include "agent/pod/status.h"

namespace ghostfleet::agent {

using kube::append_json_string;

namespace {

void add_text(std::string_view key, std::string_view value, std::string* out) {
  *out += '"';
  *out += key;
  *out += "\":";
  append_json_string(value, out);
}

std::string time_or_null(WallTime t) { return t.ns == 0 ? "null" : "\"" + format_time(t) + "\""; }

void add_ended(const Pod& pod, size_t index, const Ended& end, const PodOptions& options, std::string* out) {
  *out += "{\"terminated\":{";
  if (end.located) {
    add_text("containerID", container_id(pod, index, end.attempt, options.runtime_name), out);
    *out += ",";
  }
  *out += fmt::format("\"exitCode\":{},\"finishedAt\":{},", end.code, time_or_null(end.finished));
  if (!end.located) {
    add_text("message", kLostMessage, out);
    *out += ",";
  }
  add_text("reason", !end.located ? "ContainerStatusUnknown" : end.code == 0 ? "Completed" : "Error", out);
  *out += fmt::format(",\"startedAt\":{}}}}}", time_or_null(end.started));
}

void add_state(const Pod& pod, size_t index, const PodOptions& options, std::string* out) {
  const Look& look = pod.runs[index].shown;
  if (look.state == RunState::kRunning) {
    *out += fmt::format("{{\"running\":{{\"startedAt\":{}}}}}", time_or_null(look.started_at));
  } else if (look.why != Why::kNone) {
    *out += "{\"waiting\":{";
    add_text("message", waiting_message(pod, index, options), out);
    *out += ",";
    add_text("reason", waiting_reason(look.why), out);
    *out += "}}";
  } else if (look.state == RunState::kExited) {
    add_ended(pod, index, look.end, options, out);
  } else {
    *out += "{\"waiting\":{";
    add_text("reason", pod.spec->init_count > 0 ? "PodInitializing" : "ContainerCreating", out);
    *out += "}}";
  }
}

void add_mounts(const Pod& pod, const std::string& mounts, std::string* out) {
  for (const char c : mounts) {
    if (c == kSuffixMark) {
      *out += pod.token_suffix();
    } else {
      *out += c;
    }
  }
}

// While a resize is not yet in force, the resources are those of before it.
const ContainerSpec& resources_of(const Pod& pod, size_t index) {
  const bool resizing =
      pod.extras != nullptr && pod.extras->resize_from != nullptr && index < pod.extras->resize_from->containers.size();
  return resizing ? pod.extras->resize_from->containers[index] : pod.spec->containers[index];
}

void add_container(const Pod& pod, size_t index, const PodOptions& options, std::string* out) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const Look& look = pod.runs[index].shown;
  const bool created = look.state != RunState::kAbsent && (look.state != RunState::kExited || look.end.located);
  *out += "{";
  if (created && !spec.allocated.empty()) *out += "\"allocatedResources\":" + spec.allocated + ",";
  if (created) {
    add_text("containerID", container_id(pod, index, look.attempt, options.runtime_name), out);
    *out += ",";
  }
  add_text("image", created ? normal_image_name(spec.image) : spec.image, out);
  *out += ",";
  add_text("imageID", created ? image_id(spec.image) : "", out);
  *out += ",\"lastState\":";
  if (look.state == RunState::kExited && look.why != Why::kNone) {
    add_ended(pod, index, look.end, options, out);
  } else if (look.last.known) {
    add_ended(pod, index, look.last, options, out);
  } else {
    *out += "{}";
  }
  *out += ",";
  add_text("name", spec.name, out);
  *out += look.ready ? ",\"ready\":true" : ",\"ready\":false";
  if (created) *out += ",\"resources\":" + resources_of(pod, index).resources;
  *out += fmt::format(",\"restartCount\":{},\"started\":{},\"state\":", look.attempt, look.started);
  add_state(pod, index, options, out);
  if (!spec.mounts.empty()) {
    *out += ",\"volumeMounts\":";
    add_mounts(pod, spec.mounts, out);
  }
  *out += "}";
}

void add_regular(const Pod& pod, const PodOptions& options, std::string* out) {
  *out += "\"containerStatuses\":[";
  bool first = true;
  for (const uint32_t i : pod.spec->by_name) {
    if (!first) *out += ",";
    first = false;
    add_container(pod, i, options, out);
  }
  *out += "]";
}

void add_inits(const Pod& pod, const PodOptions& options, std::string* out) {
  *out += "\"initContainerStatuses\":[";
  for (size_t i = 0; i < pod.spec->init_count; ++i) {
    if (i > 0) *out += ",";
    add_container(pod, i, options, out);
  }
  *out += "]";
}

// With `nulls`, what the condition has not is said to be gone.
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
  *out += fmt::format("\"observedGeneration\":{},", pod.generation);
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

void add_resize(const Pod& pod, bool nulls, std::string* out) {
  const Extras* more = pod.extras.get();
  if (more != nullptr && more->resize_generation != 0) {
    const std::string since = time_or_null({more->resize_since * 1000000000});
    *out += fmt::format(
        "{{\"lastProbeTime\":{},\"lastTransitionTime\":{},\"observedGeneration\":{},\"status\":\"True\",\"type\":"
        "\"PodResizeInProgress\"}}",
        since, since, more->resize_generation);
  } else if (nulls) {
    *out += "{\"$patch\":\"delete\",\"type\":\"PodResizeInProgress\"}";
  }
}

void add_addresses(std::string_view field, std::string_view list, std::string_view ip, std::string* out) {
  add_text(field, ip, out);
  *out += fmt::format(",\"{}\":[{{\"ip\":\"{}\"}}]", list, ip);
}

std::string pod_ip(const Pod& pod, const NodeFacts& node) {
  if (pod.spec->host_network) return node.host_ip;
  if (!pod.ip_shown) return {};
  if (pod.extras != nullptr && !pod.extras->ip.empty()) return pod.extras->ip;
  return node.pod_ip && pod.ip_index != UINT32_MAX ? node.pod_ip(pod.ip_index) : std::string();
}

bool has_reason(const Pod& pod) { return pod.extras != nullptr && !pod.extras->reason.empty(); }

void add_phase(const Pod& pod, bool nulls, std::string* out) {
  if (has_reason(pod) && is_terminal(pod.shown)) {
    add_text("message", pod.extras->message, out);
    *out += ",";
    add_text("phase", phase_name(pod.shown), out);
    *out += ",";
    add_text("reason", pod.extras->reason, out);
    return;
  }
  add_text("phase", phase_name(pod.shown), out);
  if (nulls && has_reason(pod)) *out += ",\"message\":null,\"reason\":null";
}

void add_pod_resources(const Pod& pod, std::string* out) {
  if (!pod.spec->allocated.empty()) *out += "\"allocatedResources\":" + pod.spec->allocated + ",";
  const bool resizing = pod.extras != nullptr && pod.extras->resize_from != nullptr;
  *out += "\"resources\":" + (resizing ? *pod.extras->resize_from : *pod.spec).resources;
}

// Pieces of a patch, by number; 9.. are the conditions.
enum Piece { kPhase, kHost, kIp, kStart, kGeneration, kResources, kRegular, kInits, kResize, kFirstCondition };

void add_piece(const Pod& pod, int piece, bool first_time, const StatusContext& context, std::string* out) {
  switch (piece) {
    case kPhase: add_phase(pod, !first_time, out); return;
    case kHost:
      if (!context.node.host_ip.empty()) add_addresses("hostIP", "hostIPs", context.node.host_ip, out);
      return;
    case kIp: {
      const std::string ip = pod_ip(pod, context.node);
      if (!ip.empty()) add_addresses("podIP", "podIPs", ip, out);
      return;
    }
    case kStart: *out += fmt::format("\"startTime\":{}", time_or_null({pod.start_time * 1000000000})); return;
    case kGeneration: *out += fmt::format("\"observedGeneration\":{}", pod.generation); return;
    case kResources: add_pod_resources(pod, out); return;
    case kRegular: add_regular(pod, context.options, out); return;
    case kInits:
      if (pod.spec->init_count > 0) add_inits(pod, context.options, out);
      return;
    case kResize: add_resize(pod, !first_time, out); return;
    default: add_condition(pod, piece - kFirstCondition, !first_time, out); return;
  }
}

uint64_t hash_end(uint64_t h, const Ended& end) {
  h = hash_mix(h, static_cast<uint64_t>(end.code) << 2 | (end.known ? 2 : 0) | (end.located ? 1 : 0));
  return hash_mix(hash_mix(h, static_cast<uint64_t>(end.started.seconds())),
                  static_cast<uint64_t>(end.finished.seconds()));
}

uint64_t hash_looks(const Pod& pod, size_t from, size_t to) {
  uint64_t h = hash_mix(reinterpret_cast<uintptr_t>(pod.spec.get()), to);
  if (pod.extras != nullptr) h = hash_mix(h, reinterpret_cast<uintptr_t>(pod.extras->resize_from.get()));
  for (size_t i = from; i < to; ++i) {
    const Look& look = pod.runs[i].shown;
    const uint64_t flags = (look.ready ? 2 : 0) | (look.started ? 1 : 0);
    h = hash_mix(h, static_cast<uint64_t>(look.state) << 32 | static_cast<uint64_t>(look.why) << 24 |
                        static_cast<uint64_t>(look.detail) << 8 | flags);
    h = hash_mix(h, static_cast<uint64_t>(look.attempt) << 32 | look.backoff_seconds);
    h = hash_end(hash_end(hash_mix(h, static_cast<uint64_t>(look.started_at.seconds())), look.end), look.last);
  }
  return h;
}

uint64_t hash_condition(const Pod& pod, int type) {
  const Condition& c = pod.conditions[type];
  uint64_t h = hash_mix(static_cast<uint64_t>(c.since), static_cast<uint64_t>(c.reason) << 1 | (c.status ? 1 : 0));
  h = hash_mix(h, static_cast<uint64_t>(pod.generation));
  return c.reason == ConditionReason::kNone ? h : hash_text(condition_message(pod, type), h);
}

// What a piece would say, as a number that is never 0; 0: nothing. Nothing is rendered for it.
uint32_t piece_state(const Pod& pod, int piece, const StatusContext& context) {
  const Extras* more = pod.extras.get();
  uint64_t h = 0;
  switch (piece) {
    case kPhase:
      h = static_cast<uint64_t>(pod.shown);
      if (has_reason(pod)) h = hash_text(pod.extras->message, h);
      break;
    case kHost:
      if (context.node.host_ip.empty()) return 0;
      h = hash_text(context.node.host_ip);
      break;
    case kIp:
      if (!pod.spec->host_network && !pod.ip_shown) return 0;
      h = pod.spec->host_network ? hash_text(context.node.host_ip) : pod.ip_index;
      break;
    case kStart: h = static_cast<uint64_t>(pod.start_time); break;
    case kGeneration: h = static_cast<uint64_t>(pod.generation); break;
    case kResources:
      h = reinterpret_cast<uintptr_t>(more != nullptr && more->resize_from ? more->resize_from.get() : pod.spec.get());
      break;
    case kRegular: h = hash_looks(pod, pod.spec->init_count, pod.runs.size()); break;
    case kInits:
      if (pod.spec->init_count == 0) return 0;
      h = hash_looks(pod, 0, pod.spec->init_count);
      break;
    case kResize:
      if (more != nullptr && more->resize_generation != 0) {
        h = static_cast<uint64_t>(more->resize_generation);
      } else if (pod.sent[kResize] == 0) {
        return 0;  // never was
      }
      break;
    default: h = hash_condition(pod, piece - kFirstCondition); break;
  }
  const uint32_t low = static_cast<uint32_t>(hash_mix(static_cast<uint64_t>(piece), h));
  return low == 0 ? 1 : low;
}

bool only_when_rejected(int piece) { return piece == kPhase || piece == kStart || piece == kGeneration; }

constexpr std::string_view kConditionOrder =
    "\"$setElementOrder/conditions\":[{\"type\":\"PodReadyToStartContainers\"},{\"type\":\"Initialized\"},{\"type\":"
    "\"Ready\"},{\"type\":\"ContainersReady\"},{\"type\":\"PodScheduled\"}]";

// What a rejected pod loses.
void add_removed(const Pod& pod, std::string* out) {
  if (!pod.scheduled_by_other) return;
  *out += ",\"conditions\":[{\"$patch\":\"delete\",\"type\":\"PodScheduled\"}]";
}

}  // namespace

std::string render_status(const Pod& pod, const StatusContext& context) {
  std::string out = "{";
  for (int piece = 0; piece < kResize; ++piece) {
    if (pod.rejected && !only_when_rejected(piece)) continue;
    const size_t before = out.size();
    if (before > 1) out += ",";
    const size_t comma = out.size();
    add_piece(pod, piece, true, context, &out);
    if (out.size() == comma) out.resize(before);
  }
  if (pod.rejected) return out + "}";
  out += ",\"conditions\":[";
  const size_t begin = out.size();
  add_resize(pod, false, &out);
  for (int type = 0; type < kConditions; ++type) {
    if (out.size() > begin) out += ",";
    add_condition(pod, type, false, &out);
  }
  return out + "]}";
}

std::string render_patch(Pod& pod, const StatusContext& context) {
  std::string body, conditions;
  // What never was there need not be removed.
  const bool fresh = pod.sent[kStart] == 0 && !pod.api_conditions;
  for (int piece = 0; piece < kPieces; ++piece) {
    if (pod.rejected && !only_when_rejected(piece)) continue;
    const uint32_t state = piece_state(pod, piece, context);
    if (state == 0 || state == pod.sent[piece]) continue;
    std::string& to = piece >= kResize ? conditions : body;
    const size_t before = to.size();
    if (before > 0) to += ",";
    const size_t comma = to.size();
    add_piece(pod, piece, fresh && piece != kResize, context, &to);
    if (to.size() == comma) to.resize(before);
    pod.sent[piece] = state;
  }
  if (body.empty() && conditions.empty()) return {};
  if (pod.rejected) add_removed(pod, &body);
  if (!conditions.empty()) {
    if (!body.empty()) body += ",";
    if (fresh) body += std::string(kConditionOrder) + ",";
    body += "\"conditions\":[" + conditions + "]";
  }
  return fmt::format("{{\"metadata\":{{\"uid\":\"{}\"}},\"status\":{{{}}}}}", pod.uid(), body);
}

void assume_sent(Pod& pod, const StatusContext& context) {
  for (int piece = 0; piece < kPieces; ++piece) pod.sent[piece] = piece_state(pod, piece, context);
}

}  // namespace ghostfleet::agent
