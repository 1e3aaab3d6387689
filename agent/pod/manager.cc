#include "agent/pod/manager.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "agent/pod/static_pod.h"
#include "base/hash.h"

namespace ghostfleet::agent {

using kube::get_int;
using kube::get_string;
using kube::Json;

namespace {

constexpr size_t kMaxName = 253;

// Names become parts of paths.
bool plain_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
           c == '_' || c == ':';
  });
}

Qos read_qos(const Json& json) {
  const std::string_view text = get_string(json, "status.qosClass");
  return text == "Guaranteed" ? Qos::kGuaranteed : text == "BestEffort" ? Qos::kBestEffort : Qos::kBurstable;
}

uint64_t read_version(const Json& json) {
  uint64_t v = 0;
  for (const char c : get_string(json, "metadata.resourceVersion")) {
    if (c < '0' || c > '9') return 0;
    v = v * 10 + static_cast<uint64_t>(c - '0');
  }
  return v;
}

}  // namespace

std::unique_ptr<PodManager> PodManager::create(const NodeFacts& node, std::shared_ptr<const PodOptions> options,
                                               Host& host) {
  return std::make_unique<Manager>(node, std::move(options), host);
}

Manager::Manager(const NodeFacts& node, std::shared_ptr<const PodOptions> options, Host& host)
    : node_(node),
      options_(std::move(options)),
      host_(host),
      own_images_(*options_),
      images_(node.puller != nullptr ? *node.puller : own_images_) {
  phase_ns_ = static_cast<int64_t>(hash_text(node.name) % 1000) * 1000000;
}

// ---- the table

Pod* Manager::find(std::string_view uid) {
  const uint64_t hash = hash_text(uid);
  for (Slot& slot : slots_) {
    if (slot.uid_hash == hash && slot.pod != nullptr && slot.pod->uid() == uid) return slot.pod.get();
  }
  return nullptr;
}

// Bits: 63 pods, 56..59 call, 48..55 index, 32..47 serial, 0..31 slot. Indexes beyond 255 share the last.
Tag Manager::tag_of(const Pod& pod, Call call, size_t index) {
  return kPodTagBit | static_cast<Tag>(call) << 56 | static_cast<Tag>(std::min<size_t>(index, 255)) << 48 |
         static_cast<Tag>(pod.serial) << 32 | pod.slot;
}

Pod* Manager::by_tag(Tag tag, Call call) {
  const size_t slot = tag & UINT32_MAX;
  if (slot >= slots_.size() || static_cast<Call>(tag >> 56 & 15) != call) return nullptr;
  Pod* pod = slots_[slot].pod.get();
  return pod != nullptr && pod->serial == (tag >> 32 & UINT16_MAX) ? pod : nullptr;
}

Pod& Manager::add_slot() {
  size_t at = 0;
  while (at < slots_.size() && slots_[at].pod != nullptr) ++at;
  if (at == slots_.size()) slots_.emplace_back();
  slots_[at].pod = std::make_unique<Pod>();
  slots_[at].due = kNever;
  Pod& pod = *slots_[at].pod;
  pod.slot = static_cast<uint32_t>(at);
  pod.serial = next_serial_++;
  ++count_;
  return pod;
}

void Manager::remove(Pod& pod) {
  if (pod.acked == Phase::kRunning) --running_;
  if (is_terminal(pod.acked)) --finished_;
  free_ip(pod);
  if (node_.devices != nullptr) node_.devices->forget(pod.uid());
  forget_claims(pod);
  forget_events(pod);
  --count_;
  const size_t at = pod.slot;
  slots_[at].uid_hash = 0;
  slots_[at].due = kNever;
  slots_[at].pod.reset();
  while (!slots_.empty() && slots_.back().pod == nullptr) slots_.pop_back();
  arm();
}

void Manager::take_number(Pod& pod) {
  if (pod.ip_index != UINT32_MAX || pod.spec->host_network || (pod.extras != nullptr && !pod.extras->ip.empty()))
    return;
  uint32_t at = next_ip_;
  // As a CNI's allocator does, go on behind the last one given out, and begin again when twice as many are unused.
  if (at >= 2 * count_ + 8) at = 0;
  while (at < ips_.size() && ips_[at]) ++at;
  if (at >= ips_.size()) ips_.resize(at + 1);
  ips_[at] = true;
  pod.ip_index = at;
  next_ip_ = at + 1;
}

void Manager::free_ip(Pod& pod) {
  if (pod.ip_index == UINT32_MAX) return;
  disconnect(pod);
  if (node_.network != nullptr) node_.network->forget(pod.ip_index);
  if (pod.ip_index < ips_.size()) ips_[pod.ip_index] = false;
  pod.ip_index = UINT32_MAX;
}

// ---- doors

void Manager::on_pod(const Json& json) {
  const std::string_view uid = get_string(json, "metadata.uid");
  if (Pod* known = find(uid)) {
    update_pod(*known, json);
    return;
  }
  std::string_view ns = get_string(json, "metadata.namespace");
  if (ns.empty()) ns = "default";
  const std::string_view name = get_string(json, "metadata.name");
  if (!plain_name(uid) || !plain_name(name) || !plain_name(ns)) return;
  if (mirror_hash(json).empty()) {
    add_pod(json, ns, name, uid);
  } else {
    on_mirror(json, ns, name, uid);
  }
}

void Manager::read_meta(Pod& pod, const Json& json) {
  pod.resource_version = read_version(json);
  pod.generation = std::max<int64_t>(get_int(json, "metadata.generation", 1), 1);
}

// A pod of the same name with another uid: the deletion of the earlier one was missed.
void Manager::replace_namesake(std::string_view ns, std::string_view name) {
  for (const Slot& slot : slots_) {
    if (slot.pod == nullptr || slot.pod->gone || slot.pod->name() != name || slot.pod->ns() != ns) continue;
    if (is_static(*slot.pod)) continue;
    const std::string uid(slot.pod->uid());
    on_pod_deleted(ns, name, uid);
    return;
  }
}

Pod& Manager::new_pod(const Json& json, std::string_view ns, std::string_view name, std::string_view uid) {
  Pod& pod = add_slot();
  slots_[pod.slot].uid_hash = hash_text(uid);
  pod.key.reserve(ns.size() + name.size() + uid.size());
  pod.key.append(ns).append(name).append(uid);
  pod.ns_size = static_cast<uint16_t>(ns.size());
  pod.name_size = static_cast<uint16_t>(name.size());
  read_meta(pod, json);
  const std::string_view suffix = token_suffix(json);
  std::copy(suffix.begin(), suffix.end(), pod.suffix.begin());
  pod.spec = intern_template(json, options_->commands, options_->behaviors.get());
  pod.runs = std::vector<ContainerRun>(pod.spec->containers.size());
  pod.qos = read_qos(json);
  pod.labels = labels_of(json);
  take_claims(pod, json);
  return pod;
}

void Manager::add_pod(const Json& json, std::string_view ns, std::string_view name, std::string_view uid) {
  replace_namesake(ns, name);
  Pod& pod = new_pod(json, ns, name, uid);
  read_conditions(pod, json);
  const std::string_view phase = get_string(json, "status.phase");
  if (phase == "Succeeded" || phase == "Failed") {
    adopt_finished(pod, phase == "Failed" ? Phase::kFailed : Phase::kSucceeded);
  } else if (!get_string(json, "status.startTime").empty()) {
    adopt(pod, json);
  } else {
    accept(pod, json);
  }
  take_deletion(pod, json);
  if (pod.stage != Stage::kFinished) watch_use(pod);
  settle(pod);
}

void Manager::update_pod(Pod& pod, const Json& json) {
  const int64_t before = pod.generation;
  const uint32_t labels = std::exchange(pod.labels, labels_of(json));
  const bool relabelled = labels != pod.labels;
  read_meta(pod, json);
  // What has ended is not looked at again.
  if (pod.stage == Stage::kFinished && !pod.rejected) pod.generation = before;
  const auto gates_of = [](const Pod& p) { return std::tuple(p.gates_true, p.gates_known, p.gates_unknown); };
  const auto gates = gates_of(pod);
  read_conditions(pod, json);
  take_deletion(pod, json);
  take_claims(pod, json);
  const bool takes_specs = pod.stage == Stage::kActive && !pod.deleting && pod.work != Work::kAdmitting;
  const bool changed = pod.generation != before || relabelled;
  if (takes_specs && changed) meet_new_spec(pod, json);
  if (pod.stage == Stage::kFinished && !pod.deleting) look_at_ended(pod, json, changed);
  if (pod.stage == Stage::kActive && gates_of(pod) != gates) request_sync(pod, host_.now());
  note_drift(pod, find_drift(pod, json));
  settle(pod);
}

void Manager::take_deletion(Pod& pod, const Json& json) {
  const Json* stamp = kube::find_path(json, "metadata.deletionTimestamp");
  if (stamp == nullptr || stamp->is_null() || pod.deleting) return;
  pod.deleting = true;
  pod.deletion_grace =
      std::clamp<int64_t>(get_int(json, "metadata.deletionGracePeriodSeconds", pod.spec->grace_seconds), 0, 1000000000);
  if (pod.stage == Stage::kFinished) {
    show_rejected(pod);
    consider_delete(pod);
  } else if (pod.stage == Stage::kActive) {
    retry_pending_resize(pod);
    stop_when_possible(pod);
  }
}

// A pod that has ended is looked at once more when it changes, which only shows what was never looked at.
void Manager::look_at_ended(Pod& pod, const Json& json, bool changed) {
  tell_late_resize(pod, json);
  if (changed) show_rejected(pod);
}

// What a rejected pod says of itself is little, until its worker has to do with it.
void Manager::show_rejected(Pod& pod) {
  if (!pod.rejected) return;
  pod.rejected = false;
  pod.was_refused = true;
  pod.was_initialized = has_initialized(pod);
  mark_lost(pod);
  compute_status(pod, host_.wall_now());
}

// A pull goes on, and so does what it leads to.
void Manager::stop_when_possible(Pod& pod) {
  const Work w = pod.work;
  const bool busy = w == Work::kPulling || w == Work::kStarting || w == Work::kKilling || w == Work::kHook ||
                    w == Work::kHookStop || w == Work::kFetching || w == Work::kPreparing;
  if (busy) {
    pod.stop_pending = true;
  } else if (w == Work::kMounting && all_mounted(pod)) {
    // Its wait ends well, and the pod runs for a moment.
    pod.stop_pending = true;
    pod.work_due = kNever;
    mounted(pod);
  } else {
    terminate(pod, Cause::kDeleted);
  }
}

void Manager::on_pod_deleted(std::string_view ns, std::string_view name, std::string_view uid) {
  std::erase_if(strange_mirrors_, [uid](const StrangeMirror& m) { return m.uid == uid; });
  Pod* pod = find(uid);
  if (pod == nullptr) {
    Pod* mirrored = find_static(ns, name);
    if (mirrored != nullptr && mirrored->api_uid() == uid) mirror_lost(*mirrored);
    return;
  }
  pod->gone = true;
  const bool runs = std::any_of(pod->runs.begin(), pod->runs.end(),
                                [](const ContainerRun& r) { return r.now.state == RunState::kRunning; });
  if (pod->stage == Stage::kFinished || (!runs && pod->work != Work::kPulling)) {
    remove(*pod);
    room_was_made();
    wake_others();
    return;
  }
  // Deleted by force: its containers are still stopped as the pod wished, then it is forgotten.
  pod->deletion_grace = pod->spec->grace_seconds;
  if (pod->stage == Stage::kActive) stop_when_possible(*pod);
  settle(*pod);
}

void Manager::on_response(Tag tag, const ApiResponse& response) {
  const Call call = static_cast<Call>(tag >> 56 & 15);
  Pod* pod = by_tag(tag, call);
  if (pod == nullptr) return;
  const size_t index = tag >> 48 & 255;
  switch (call) {
    case Call::kStatusGet: on_status_get(*pod, response); break;
    case Call::kStatusPatch: on_status_patch(*pod, response); break;
    case Call::kEvent: on_event_answer(*pod, response); break;
    case Call::kDelete: on_delete(*pod, response); break;
    case Call::kToken: on_volume_answer(*pod, index, response); break;
    case Call::kVolumeObject: on_volume_answer(*pod, pod->spec->tokens.size() + index, response); break;
    case Call::kVariable: on_variable_answer(*pod, index, response); break;
    case Call::kNode: on_fresh_node(*pod, response); break;
    case Call::kPullSecret: on_pull_secret(*pod, index, response); break;
    case Call::kReadSecret: on_read_secret(*pod, index, response); break;
    case Call::kMirrorCreate: on_mirror_answer(*pod, false, response); break;
    case Call::kMirrorDelete: on_mirror_answer(*pod, true, response); break;
    case Call::kClaim: on_claim_answer(*pod, response); break;
    default: return;
  }
  settle(*pod);
}

}  // namespace ghostfleet::agent
