// The JSON of a pod's status: whole, or as the patch of its pieces that changed.
#include <fmt/format.h>

#include "agent/pod/status_parts.h"
#include "base/hash.h"

namespace ghostfleet::agent {

void add_text(std::string_view key, std::string_view value, std::string* out) {
  *out += '"';
  *out += key;
  *out += "\":";
  kube::append_json_string(value, out);
}

std::string time_or_null(WallTime t) { return t.ns == 0 ? "null" : "\"" + format_time(t) + "\""; }

namespace {

// `second`: of the other address family; empty: none.
void add_addresses(std::string_view field, std::string_view list, std::string_view ip, std::string_view second,
                   std::string* out) {
  add_text(field, ip, out);
  *out += fmt::format(",\"{}\":[{{\"ip\":\"{}\"}}", list, ip);
  if (!second.empty()) *out += fmt::format(",{{\"ip\":\"{}\"}}", second);
  *out += "]";
}

}  // namespace

std::string pod_ip(const Pod& pod, const NodeFacts& node) {
  if (pod.spec->host_network) return node.host_ip;
  if (!pod.ip_shown) return {};
  if (pod.extras != nullptr && !pod.extras->ip.empty()) return pod.extras->ip;
  return node.pod_ip && pod.ip_index != UINT32_MAX ? node.pod_ip(pod.ip_index) : std::string();
}

std::string second_pod_ip(const Pod& pod, const NodeFacts& node) {
  if (pod.spec->host_network) return node.second_host_ip;
  if (!pod.ip_shown) return {};
  if (pod.extras != nullptr && !pod.extras->ip.empty()) return pod.extras->second_ip;
  return node.second_pod_ip && pod.ip_index != UINT32_MAX ? node.second_pod_ip(pod.ip_index) : std::string();
}

namespace {

// That of an eviction goes with a failure alone.
bool has_reason(const Pod& pod) {
  return pod.extras != nullptr && !pod.extras->reason.empty() && !(pod.evicted && pod.shown == Phase::kSucceeded);
}

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
  if (nulls) *out += ",\"message\":null,\"reason\":null";
}

void add_pod_resources(const Pod& pod, std::string* out) {
  if (!pod.granted().allocated.empty()) *out += "\"allocatedResources\":" + pod.granted().allocated + ",";
  *out += "\"resources\":" + pod.in_force().resources;
}

// Pieces of a patch, by number; the last are the conditions.
enum Piece {
  kPhase,
  kHost,
  kIp,
  kStart,
  kGeneration,
  kResources,
  kRegular,
  kInits,
  kEphemeral,
  kResizePending,
  kResizeInProgress,
  kDisruption,
  kFirstCondition
};
static_assert(kFirstCondition + static_cast<int>(kConditions) == kPieces);

std::string_view note_name(int piece) {
  return piece == kResizePending      ? "PodResizePending"
         : piece == kResizeInProgress ? "PodResizeInProgress"
                                      : "DisruptionTarget";
}

void add_piece(const Pod& pod, int piece, bool first_time, const StatusContext& context, std::string* out) {
  switch (piece) {
    // When all is sent anew, somebody may have given it a reason.
    case kPhase: add_phase(pod, !first_time && pod.sent[kStart] == 0, out); return;
    case kHost:
      if (!context.node.host_ip.empty())
        add_addresses("hostIP", "hostIPs", context.node.host_ip, context.node.second_host_ip, out);
      return;
    case kIp: {
      const std::string ip = pod_ip(pod, context.node);
      if (!ip.empty()) add_addresses("podIP", "podIPs", ip, second_pod_ip(pod, context.node), out);
      return;
    }
    case kStart: *out += fmt::format("\"startTime\":{}", time_or_null({pod.start_time * 1000000000})); return;
    case kGeneration:
      if (pod.generation > 0) *out += fmt::format("\"observedGeneration\":{}", pod.generation);
      return;
    case kResources: add_pod_resources(pod, out); return;
    case kRegular: add_container_list(pod, "containerStatuses", pod.spec->by_name, context, out); return;
    case kInits:
      if (pod.spec->init_count > 0) add_init_containers(pod, context, out);
      return;
    case kEphemeral:
      if (pod.spec->ephemeral_count > 0) {
        add_container_list(pod, "ephemeralContainerStatuses", pod.spec->ephemeral, context, out);
      }
      return;
    case kResizePending:
    case kResizeInProgress:
    case kDisruption: add_note(pod, note_name(piece), !first_time, out); return;
    default: add_condition(pod, piece - kFirstCondition, !first_time, out); return;
  }
}

uint64_t hash_end(uint64_t h, const Ended& end) {
  h = hash_mix(h, static_cast<uint64_t>(end.code) << 2 | (end.known ? 2 : 0) | (end.located ? 1 : 0));
  if (end.reset) h = hash_mix(h, 1);
  if (end.at_boot) h = hash_mix(h, 2);
  return hash_mix(hash_mix(h, static_cast<uint64_t>(end.started.seconds())),
                  static_cast<uint64_t>(end.finished.seconds()));
}

uint64_t hash_looks(const Pod& pod, size_t from, size_t to) {
  uint64_t h = hash_mix(reinterpret_cast<uintptr_t>(pod.spec.get()), to);
  h = hash_mix(h, reinterpret_cast<uintptr_t>(&pod.granted()) ^ reinterpret_cast<uintptr_t>(&pod.in_force()) << 1);
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

uint64_t hash_devices(const Pod& pod, const StatusContext& context, uint64_t h) {
  const auto add_claim = [&h](const std::string&, const std::string& device, const DeviceState& state) {
    h = hash_text(state.message, hash_mix(hash_text(device, h), static_cast<uint64_t>(state.health)));
  };
  for (size_t i = pod.spec->init_count; i < pod.spec->regular_end(); ++i) for_each_claimed(pod, i, context, add_claim);
  for (size_t i = pod.spec->init_count; context.node.devices != nullptr && i < pod.spec->regular_end(); ++i) {
    const ContainerSpec& spec = pod.spec->containers[i];
    if (!spec.devices.empty()) h = hash_mix(h, context.node.devices->look_of(pod.uid(), spec.name));
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
    case kGeneration:
      if (pod.generation == 0) return 0;
      h = static_cast<uint64_t>(pod.generation);
      break;
    case kResources:
      h = hash_mix(reinterpret_cast<uintptr_t>(&pod.granted()), reinterpret_cast<uintptr_t>(&pod.in_force()));
      break;
    case kRegular:
      h = hash_devices(pod, context, hash_looks(pod, pod.spec->init_count, pod.spec->regular_end()));
      break;
    case kEphemeral:
      if (pod.spec->ephemeral_count == 0) return 0;
      h = hash_looks(pod, pod.spec->regular_end(), pod.runs.size());
      break;
    case kInits:
      if (pod.spec->init_count == 0) return 0;
      h = hash_looks(pod, 0, pod.spec->init_count);
      break;
    case kResizePending:
    case kResizeInProgress:
    case kDisruption: {
      const Note* note = note_of(pod, note_name(piece));
      if (note == nullptr && pod.sent[static_cast<size_t>(piece)] == 0) return 0;  // never was
      if (note != nullptr)
        h = hash_text(note->message, hash_text(note->reason, static_cast<uint64_t>(note->generation)));
      break;
    }
    default:
      if (!pod.conditions[static_cast<size_t>(piece - kFirstCondition)].set) return 0;
      h = hash_condition(pod, piece - kFirstCondition);
      break;
  }
  const uint32_t low = static_cast<uint32_t>(hash_mix(static_cast<uint64_t>(piece), h));
  return low == 0 ? 1 : low;
}

bool only_when_rejected(int piece) { return piece == kPhase || piece == kStart || piece == kGeneration; }

std::string condition_order(const Pod& pod) {
  std::string out = "\"$setElementOrder/conditions\":[";
  for (int piece = kResizePending; piece < kPieces; ++piece) {
    const bool note = piece < kFirstCondition;
    if (note ? note_of(pod, note_name(piece)) == nullptr
             : !pod.conditions[static_cast<size_t>(piece - kFirstCondition)].set) {
      continue;
    }
    if (out.back() != '[') out += ",";
    out += fmt::format("{{\"type\":\"{}\"}}", note ? note_name(piece) : condition_name(piece - kFirstCondition));
  }
  return out + "]";
}

// What a rejected pod loses.
void add_removed(const Pod& pod, std::string* out) {
  if (!pod.scheduled_by_other) return;
  *out += ",\"conditions\":[{\"$patch\":\"delete\",\"type\":\"PodScheduled\"}]";
}

}  // namespace

std::string render_status(const Pod& pod, const StatusContext& context) {
  std::string out = "{";
  for (int piece = 0; piece < kResizePending; ++piece) {
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
  for (int piece = kResizePending; piece < kPieces; ++piece) {
    if (piece >= kFirstCondition && !pod.conditions[static_cast<size_t>(piece - kFirstCondition)].set) continue;
    const size_t before = out.size();
    if (before > begin) out += ",";
    const size_t comma = out.size();
    add_piece(pod, piece, true, context, &out);
    if (out.size() == comma) out.resize(before);
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
    std::string& to = piece >= kResizePending ? conditions : body;
    const size_t before = to.size();
    if (before > 0) to += ",";
    const size_t comma = to.size();
    add_piece(pod, piece, fresh, context, &to);
    if (to.size() == comma) to.resize(before);
    pod.sent[piece] = state;
  }
  if (body.empty() && conditions.empty()) return {};
  if (pod.rejected) add_removed(pod, &body);
  if (!conditions.empty()) {
    if (!body.empty()) body += ",";
    if (fresh) body += condition_order(pod) + ",";
    body += "\"conditions\":[" + conditions + "]";
  }
  return fmt::format("{{\"metadata\":{{\"uid\":\"{}\"}},\"status\":{{{}}}}}", pod.api_uid(), body);
}

void assume_sent(Pod& pod, const StatusContext& context) {
  for (int piece = 0; piece < kPieces; ++piece) pod.sent[piece] = piece_state(pod, piece, context);
}

}  // namespace ghostfleet::agent
