// Status: heartbeat patches, and what a watch tells of the node.
#include <algorithm>

#include "agent/node/node_reconcile.h"
#include "agent/node/node_requests.h"

namespace ghostfleet::agent {
namespace {

constexpr unsigned kHeartbeatTries = 5;
constexpr Duration kStatusBase = std::chrono::milliseconds(200);
constexpr Duration kImageLook = std::chrono::seconds(30);

void scan_conditions(std::string_view conditions, NodeView* view) {
  ArrayScan scan(conditions);
  std::string_view item;
  while (scan.next(&item)) {
    const std::string_view type = scan_string(scan_member(item, "type"));
    for (int i = 0; i < kNodeConditions; ++i) {
      const ConditionText text = condition_text(static_cast<NodeCondition>(i), true);
      if (type != text.type) continue;
      const bool right = scan_string(scan_member(item, "status")) == text.status;
      if (!right) view->unhealthy |= 1u << i;
      if (static_cast<NodeCondition>(i) == NodeCondition::kReady) view->ready = right;
    }
  }
}

}  // namespace

bool scan_node(std::string_view json, const NodeTemplate& node_template, NodeView* out) {
  *out = {};
  const std::string_view metadata = scan_member(json, "metadata");
  if (!NodeUid::parse(scan_string(scan_member(metadata, "uid")), &out->uid)) return false;
  out->version = scan_version(json);
  const std::string_view labels = scan_member(metadata, "labels");
  out->labels_differ = scan_string(scan_member(labels, "kubernetes.io/os")) != node_template.operating_system ||
                       scan_string(scan_member(labels, "kubernetes.io/arch")) != node_template.architecture;
  scan_conditions(scan_path(json, {"status", "conditions"}), out);
  return true;
}

void NodeMachine::on_node_seen(NodeHost& host, std::string_view node_json) {
  if (phase_ == Phase::kGone) return come_back(host, node_json);
  NodeView view;
  if (phase_ < Phase::kBecomingReady || phase_ > Phase::kRunning) return;
  if (!scan_node(node_json, host.node_class().node_template(), &view)) return;
  if (view.uid != uid_) {  // deleted and made again while we were not looking
    uid_ = view.uid;
    lease_version_ = status_version_ = 0;
  }
  note_pod_cidr(host, node_json);
  if (view.version < status_version_ || phase_ != Phase::kRunning) return;
  follow_capacity(host, node_json);
  const bool waited = dirty_ != 0 || reread_;
  dirty_ |= static_cast<uint8_t>(view.unhealthy ^ pressure_);
  reread_ = reread_ || view.labels_differ;
  // A kubelet notices at its next tick; the moment within the period is drawn, so that a fleet spreads.
  if (!waited && (dirty_ != 0 || reread_) && !patching_) {
    host.arm(kWorkTimer, host.now() + host.rng().between(Duration(0), host.node_class().options().status_period));
  }
}

// A kubelet that sees another podCIDR tells its runtime, and writes its status at the next tick though nothing in it
// has changed. (A fleet in light fidelity does not: a controller that numbers nodes would cost one write for each.)
void NodeMachine::note_pod_cidr(NodeHost& host, std::string_view node_json) {
  if (!host.node_class().options().full_fidelity) return;
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : scan_string(scan_path(node_json, {"spec", "podCIDR"}))) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  const uint32_t before = std::exchange(pod_cidr_, hash);
  if (before == 0 || before == hash || phase_ != Phase::kRunning || patching_) return;
  report_due_ = host.now() + host.rng().between(Duration(0), host.node_class().options().status_period);
  host.arm(kWorkTimer, report_due_);
}

void NodeMachine::status_due(NodeHost& host) {
  if (patching_) return;
  if (!reread_) return patch_status(host);
  host.send(get_request(kTagReread, NodeClass::node_path(host.name()), Priority::kStatus));
}

void NodeMachine::reread(NodeHost& host, const ApiResponse& r) {
  if (phase_ != Phase::kRunning || patching_) return;
  if (r.status == 404) return gone(host);
  if (!r.ok()) return retry_work(host, r);
  reread_ = false;
  const auto node = kube::parse_json(r.body);
  std::string patch;
  if (node.ok()) {
    patch = reconcile_patch(*node, host.node_class(), host.identity(), host.wall_now(),
                            {.ready = true, .pressure = pressure_, .images = host.images()});
  }
  if (patch.empty()) return patch_status(host);
  tell_pressure(host);
  dirty_ = 0;
  images_sent_ = std::exchange(images_differ_, false);
  send_status(host, std::move(patch));
}

void NodeMachine::patch_status(NodeHost& host) {
  tell_pressure(host);
  images_sent_ = std::exchange(images_differ_, false);
  const std::string images = images_sent_ ? host.images() : std::string();
  send_status(host, host.node_class().status_patch(host.wall_now(), dirty_, pressure_, images));
}

void NodeMachine::tell_pressure(NodeHost& host) {
  const unsigned changed = std::exchange(told_pressure_, pressure_) ^ pressure_;
  for (int i = 0; i < kNodeConditions; ++i) {
    if ((changed >> i & 1) == 0) continue;
    node_event(host, pressure_event(static_cast<NodeCondition>(i), (pressure_ >> i & 1) == 0), Weight::kRare);
  }
}

void NodeMachine::set_pressure(NodeHost& host, unsigned pressure) {
  const unsigned changed = std::exchange(pressure_, static_cast<uint8_t>(pressure)) ^ pressure;
  if (changed == 0) return;
  const bool waited = dirty_ != 0 || reread_;
  dirty_ |= static_cast<uint8_t>(changed);
  if (waited || patching_ || phase_ != Phase::kRunning) return;
  host.arm(kWorkTimer, host.now() + host.rng().between(Duration(0), host.node_class().options().status_period));
}

void NodeMachine::report_devices(NodeHost& host, const std::vector<DeviceCount>& counts, std::string_view node_json) {
  if (!registered() || scan_version(node_json) < status_version_) return;
  const std::string_view capacity = scan_path(node_json, {"status", "capacity"});
  const std::string_view allocatable = scan_path(node_json, {"status", "allocatable"});
  std::vector<DeviceCount> differ;
  for (const DeviceCount& count : counts) {
    const bool same = scan_string(scan_member(capacity, count.resource)) == std::to_string(count.capacity) &&
                      scan_string(scan_member(allocatable, count.resource)) == std::to_string(count.allocatable);
    if (!same) differ.push_back(count);
  }
  send_devices(host, device_patch(differ));
}

// A resource that somebody gave the Node by hand has no plugin behind it: what is there can be had, as a kubelet says
// with its next status.
void NodeMachine::follow_capacity(NodeHost& host, std::string_view node_json) {
  const StringPairs& own = host.node_class().node_template().capacity;
  const std::string_view allocatable = scan_path(node_json, {"status", "allocatable"});
  ObjectScan capacity(scan_path(node_json, {"status", "capacity"}));
  std::string_view name;
  std::string_view quantity;
  const auto counts = host.device_counts();
  const auto is_counted = [&](std::string_view resource) {
    return counts && std::any_of(counts->begin(), counts->end(), [&](const auto& c) { return c.resource == resource; });
  };
  std::string patch;
  while (capacity.next(&name, &quantity)) {
    const bool ours = std::any_of(own.begin(), own.end(), [&](const auto& pair) { return pair.first == name; });
    if (ours || !is_extended_resource(name) || scan_member(allocatable, name) == quantity) continue;
    if (is_counted(name)) continue;
    patch += (patch.empty() ? "\"" : ",\"") + std::string(name) + "\":" + std::string(quantity);
  }
  if (!patch.empty()) send_devices(host, R"({"status":{"allocatable":{)" + patch + "}}}");
}

void NodeMachine::reclaiming(NodeHost& host, std::string_view resource) {
  event(host, "EvictionThresholdMet", "Attempting to reclaim " + std::string(resource), true, Weight::kRare);
}

// A kubelet looks at its runtime's images every 30 s, and at its status every period.
Duration NodeMachine::images_delay(NodeHost& host) {
  return host.rng().between(Duration(0), kImageLook) +
         host.rng().between(Duration(0), host.node_class().options().status_period);
}

void NodeMachine::images_changed(NodeHost& host) {
  const bool waited = dirty_ != 0 || reread_ || images_differ_;
  images_differ_ = true;
  if (waited || patching_ || phase_ != Phase::kRunning) return;
  host.arm(kWorkTimer, std::min(report_due_, host.now() + images_delay(host)));
}

void NodeMachine::warn(NodeHost& host, std::string_view reason, std::string message) {
  event(host, reason, std::move(message), true, Weight::kRare);
}

void NodeMachine::send_status(NodeHost& host, std::string body) {
  if (phase_ != Phase::kCsiNode) {
    sent_ = dirty_;
    dirty_ = 0;
  }
  patching_ = true;
  host.send({Verb::kPatch, BodyType::kStrategicMergePatch, Priority::kStatus, kTagStatus,
             NodeClass::node_path(host.name()) + "/status?timeout=10s", std::move(body), kHeartbeatTimeout});
}

void NodeMachine::status_patched(NodeHost& host, const ApiResponse& r) {
  if (!patching_) return;
  patching_ = false;
  if (phase_ == Phase::kGone || phase_ == Phase::kPosting) return;
  if (phase_ == Phase::kCsiNode) return begin_csi_node(host);
  if (r.status == 404) return gone(host);
  if (!r.ok()) {
    dirty_ |= sent_;
    images_differ_ = images_differ_ || images_sent_;
    const bool full = host.node_class().options().full_fidelity;
    if (full && work_tries_ > 0) host.heartbeat_failed();
    if (full && ++work_tries_ < kHeartbeatTries) return patch_status(host);
    const Duration cap = host.node_class().options().status_period;
    const Duration wait = full ? cap : backoff(host, work_tries_++, r, kStatusBase, cap, true);
    work_tries_ = full ? 0 : std::min<uint8_t>(work_tries_, 20);
    host.arm(kWorkTimer, host.now() + wait);
    return;
  }
  work_tries_ = 0;
  remember_version(r.body);
  if (phase_ == Phase::kBecomingReady) return became_ready(host, sent_ != 0);
  plan_report(host, sent_ != 0);
}

void NodeMachine::became_ready(NodeHost& host, bool transition) {
  phase_ = Phase::kRunning;
  dirty_ = 0;
  ready_ = true;
  plan_report(host, true);
  if (announced_) return;
  announced_ = true;
  if (transition) node_event(host, "NodeReady");
  host.notice(NodeNotice::kReady, {});
}

// When the next write is due though nothing changed: the period, shifted by up to half of it after a change.
void NodeMachine::plan_report(NodeHost& host, bool changed) {
  const Duration period = host.node_class().options().status_report_period;
  report_due_ = host.now() + period;
  if (changed || first_write_) report_due_ = report_due_ + host.rng().between(-period / 2, period / 2);
  first_write_ = false;
  arm_status(host);
}

void NodeMachine::arm_status(NodeHost& host) {
  TimePoint at = report_due_;
  if (dirty_ != 0 || reread_) {
    at = std::min(at, host.now() + host.rng().between(Duration(0), host.node_class().options().status_period));
  }
  if (images_differ_) at = std::min(at, host.now() + images_delay(host));
  host.arm(kWorkTimer, at);
}

}  // namespace ghostfleet::agent
