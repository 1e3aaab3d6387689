// Registration: POST, or what exists already, then CSINode.
#include "agent/node/node_machine.h"

#include "agent/node/node_reconcile.h"
#include "agent/node/node_requests.h"

namespace ghostfleet::agent {
namespace {

constexpr Duration kRegisterBase = std::chrono::milliseconds(100);
constexpr Duration kRegisterCap = std::chrono::seconds(7);
constexpr Duration kCsiBase = std::chrono::milliseconds(30);
constexpr uint8_t kGoneTries = 4;

std::string csi_path(std::string_view name) { return "/apis/storage.k8s.io/v1/csinodes/" + std::string(name); }

// What a kubelet says of a node whose CSINode is still to be made.
constexpr std::string_view kNotYetReady = "CSINode is not yet initialized";

std::string_view message_of(const ApiResponse& r) { return scan_string(scan_member(r.body, "message")); }

}  // namespace

void NodeMachine::start(NodeHost& host) {
  phase_ = Phase::kPosting;
  if (!host.node_class().options().full_fidelity) {
    event(host, "Starting", "Starting kubelet.");
    post_node(host);
    return;
  }
  const std::string& name = host.name();
  extra_ = std::make_unique<Extra>();
  host.open_watch(NodeWatch::kOwnNode);
  host.open_watch(NodeWatch::kServices);
  host.send(get_request(kTagCsiPoll, csi_path(name) + "?resourceVersion=0"));
  host.send(get_request(kTagCsiGetNode, NodeClass::node_path(name)));
  host.open_watch(NodeWatch::kCsiDrivers);
  host.open_watch(NodeWatch::kRuntimeClasses);
  begin_lease(host);
  event(host, "Starting", "Starting kubelet.");
  if (host.node_class().node_template().invalid_disk_capacity_event) {
    event(host, "InvalidDiskCapacity", "invalid capacity 0 on image filesystem", true);
  }
  host.arm(kWorkTimer, host.now() + kRegisterBase);
}

bool NodeMachine::take_over(NodeHost& host, std::string_view node_json, uint64_t lease_version) {
  std::string patch;
  const bool light = !host.node_class().options().full_fidelity;
  if (!look_at_existing(host, node_json, light, &patch)) return phase_ == Phase::kNotOurs;
  lease_version_ = lease_version;
  begin_lease(host);
  if (patch.empty() && dirty_ == 0) {
    phase_ = Phase::kReconciling;
    reconciled(host, {200, {}, Duration(0)});
    return true;
  }
  phase_ = Phase::kReading;
  return false;
}

void NodeMachine::resume(NodeHost& host) {
  if (phase_ == Phase::kReading) return read_node(host);
  if (phase_ == Phase::kPosting) post_node(host);
}

void NodeMachine::post_node(NodeHost& host) {
  phase_ = Phase::kPosting;
  pressure_events(host);
  host.send(post_request(kTagPost, "/api/v1/nodes",
                         host.node_class().node_body(host.identity(), host.wall_now(), kNotYetReady)));
}

void NodeMachine::posted(NodeHost& host, const ApiResponse& r) {
  if (phase_ != Phase::kPosting) return;
  if (r.ok() && scan_uid(r.body, &uid_)) {
    remember_version(r.body);
    note_pod_cidr(host, r.body);
    dirty_ = 1u << static_cast<unsigned>(NodeCondition::kReady);
    images_differ_ = !host.images().empty();  // of a Node that was deleted and is made again
    node_is_there(host, false);
    return;
  }
  forbidden_ = r.status == 403;
  if (r.ok() || r.status == 409 || forbidden_) {
    read_node(host);
    return;
  }
  if (r.status == 400 || r.status == 422) host.notice(NodeNotice::kRefused, message_of(r));
  retry_work(host, r);
}

void NodeMachine::read_node(NodeHost& host) {
  phase_ = Phase::kReading;
  host.send(get_request(kTagRead, NodeClass::node_path(host.name())));
}

void NodeMachine::node_read(NodeHost& host, const ApiResponse& r) {
  if (phase_ != Phase::kReading) return;
  if (r.ok()) {
    use_existing(host, r.body);
    return;
  }
  if (r.status == 404 || r.status == 403) phase_ = Phase::kPosting;  // refused, or gone again meanwhile
  if (forbidden_) host.notice(NodeNotice::kRefused, message_of(r));
  retry_work(host, r);
}

bool NodeMachine::look_at_existing(NodeHost& host, std::string_view node_json, bool ready, std::string* patch) {
  const auto node = kube::parse_json(node_json);
  const NodeClass& node_class = host.node_class();
  if (!node.ok() || !NodeUid::parse(kube::get_string(*node, "metadata.uid"), &uid_)) {
    phase_ = Phase::kPosting;
    return false;
  }
  if (ownership_of(*node, node_class.options()) == Ownership::kForeign) {
    not_ours(host, "exists and does not belong to this fleet");
    return false;
  }
  host.found_existing(node_json);
  NodeView view;
  scan_node(node_json, node_class.node_template(), &view);
  remember_version(node_json);
  dirty_ = view.ready ? 0 : 1u << static_cast<unsigned>(NodeCondition::kReady);
  note_pod_cidr(host, node_json);
  const std::string_view boot_id = kube::get_string(*node, "status.nodeInfo.bootID");
  const std::string own_boot_id = fill_places(node_class.node_template().boot_id, host.identity());
  if (!boot_id.empty() && boot_id != own_boot_id) {
    event(host, "Rebooted", "Node " + host.name() + " has been rebooted, boot id: " + own_boot_id, true);
    host.rebooted();
  }
  const Duration delay = node_class.options().device_plugin_delay;
  const bool zero = delay >= Duration(0) && !zeroed_;
  *patch = reconcile_patch(*node, node_class, host.identity(), host.wall_now(),
                           {.ready = ready,
                            .zero_devices = zero,
                            .restore_devices = !zero && delay < Duration(0),
                            .pressure = pressure_,
                            .images = host.images()});
  if (zero) {
    host.plugins_awaited();
    host.arm(kDeviceTimer, host.now() + delay);
  }
  zeroed_ = zeroed_ || zero;
  return true;
}

void NodeMachine::use_existing(NodeHost& host, std::string_view node_json) {
  std::string patch;
  if (!look_at_existing(host, node_json, !host.node_class().options().full_fidelity, &patch)) {
    if (phase_ != Phase::kNotOurs) retry_work(host, {});
    return;
  }
  phase_ = Phase::kReconciling;
  if (patch.empty()) return reconciled(host, {200, {}, Duration(0)});
  host.send({Verb::kPatch, BodyType::kStrategicMergePatch, Priority::kStatus, kTagReconcile,
             NodeClass::node_path(host.name()) + "/status?timeout=10s", std::move(patch), kHeartbeatTimeout});
}

void NodeMachine::reconciled(NodeHost& host, const ApiResponse& r) {
  if (phase_ != Phase::kReconciling) return;
  if (!r.ok()) {
    if (r.status == 404) phase_ = Phase::kPosting;
    if (r.status == 403 || r.status == 422) host.notice(NodeNotice::kRefused, message_of(r));
    retry_work(host, r);
    return;
  }
  remember_version(r.body);
  node_is_there(host, true);
}

// The Node object exists and is ours: the lease may be made, then CSINode, then Ready. The light machine has said Ready
// already when it reconciled an existing node.
void NodeMachine::node_is_there(NodeHost& host, bool existing) {
  const bool full = host.node_class().options().full_fidelity;
  work_tries_ = 0;
  phase_ = Phase::kCsiNode;
  host.notice(NodeNotice::kRegistered, existing ? "existing" : "");
  if (lease_step_ == LeaseStep::kOff) begin_lease(host);
  if (full) {
    host.open_watch(NodeWatch::kPods);
    pressure_events(host);
    send_status(host, host.node_class().status_patch(host.wall_now(), 0));  // CSINode follows its answer
    return;
  }
  if (!existing) {
    begin_csi_node(host);
    return;
  }
  const std::string& name = host.name();
  if (dirty_ != 0) {
    host.send(
        post_request(kTagCsiQuiet, "/apis/storage.k8s.io/v1/csinodes", host.node_class().csi_node_body(name, uid_)));
  }
  became_ready(host, dirty_ != 0);
}

void NodeMachine::begin_csi_node(NodeHost& host) {
  phase_ = Phase::kCsiNode;
  const std::string& name = host.name();
  if (host.node_class().options().full_fidelity) {
    host.send(get_request(kTagCsiGetNode, NodeClass::node_path(name)));
    return;
  }
  host.send(post_request(kTagCsiPost, "/apis/storage.k8s.io/v1/csinodes", host.node_class().csi_node_body(name, uid_)));
}

void NodeMachine::csi_node_step(NodeHost& host, Tag tag, const ApiResponse& r) {
  if (phase_ != Phase::kCsiNode) return;  // an answer of the time before the Node existed
  const std::string& name = host.name();
  const bool answered = r.ok() || r.status == 404;
  if (tag == kTagCsiGetNode && r.ok()) {
    host.send(get_request(kTagCsiGet, csi_path(name)));
  } else if (tag == kTagCsiGet && r.ok()) {
    NodeUid owner;
    ArrayScan owners(scan_path(r.body, {"metadata", "ownerReferences"}));
    std::string_view reference;
    while (owners.next(&reference)) NodeUid::parse(scan_string(scan_member(reference, "uid")), &owner);
    if (owner == uid_) return csi_node_done(host);
    host.send({Verb::kDelete, BodyType::kNone, Priority::kNormal, kTagCsiDelete, csi_path(name), {}, kRequestTimeout});
  } else if ((tag == kTagCsiGet || tag == kTagCsiDelete) && answered) {
    host.send(
        post_request(kTagCsiPost, "/apis/storage.k8s.io/v1/csinodes", host.node_class().csi_node_body(name, uid_)));
  } else if (tag == kTagCsiPost && r.status == 409) {
    host.send(get_request(kTagCsiGet, csi_path(name)));  // left by an earlier Node, or ours of an answer that was lost
  } else if (tag == kTagCsiPost && answered) {
    csi_node_done(host);  // 404: a server without this API; a node can live without
  } else if (r.status == 403) {
    host.notice(NodeNotice::kRefused, message_of(r));
    csi_node_done(host);
  } else {
    host.arm(kWorkTimer, host.now() + backoff(host, csi_tries_++, r, kCsiBase, kRegisterCap, true));
  }
}

void NodeMachine::csi_node_done(NodeHost& host) {
  csi_tries_ = 0;
  phase_ = Phase::kBecomingReady;
  if (!patching_) patch_status(host);
}

void NodeMachine::retry_work(NodeHost& host, const ApiResponse& r) {
  const bool full = host.node_class().options().full_fidelity;
  const Duration wait = backoff(host, work_tries_, r, kRegisterBase, kRegisterCap, !full);
  if (work_tries_ < 20) ++work_tries_;
  host.arm(kWorkTimer, host.now() + wait);
}

void NodeMachine::not_ours(NodeHost& host, std::string_view why) {
  phase_ = Phase::kNotOurs;
  lease_step_ = LeaseStep::kOff;
  uid_ = {};
  for (Tag t = 1; t <= kTimers; ++t) host.disarm(t);
  host.notice(NodeNotice::kNotOurs, why);
}

void NodeMachine::gone(NodeHost& host) {
  phase_ = Phase::kGone;
  ready_ = false;
  announced_ = false;
  lease_step_ = LeaseStep::kOff;
  lease_version_ = status_version_ = 0;
  uid_ = {};
  work_tries_ = dirty_ = 0;
  host.disarm(kLeaseTimer);
  host.disarm(kWorkTimer);
  host.notice(NodeNotice::kDeleted, {});
  const NodeOptions& options = host.node_class().options();
  if (!options.recreate_deleted && options.full_fidelity) {
    next_lease(host);
    host.arm(kWorkTimer, host.now() + options.status_period);
  }
  if (!options.recreate_deleted) return;
  phase_ = Phase::kPosting;
  host.arm(kWorkTimer, host.now() + host.rng().between(std::chrono::milliseconds(500), std::chrono::seconds(5)));
}

// A kubelet whose Node is gone goes on: its status loop finds none in the watch's cache and asks for it four times each
// period; it never registers again.
void NodeMachine::look_for_gone(NodeHost& host, const ApiResponse& r) {
  if (phase_ != Phase::kGone) return;
  if (r.ok()) return come_back(host, r.body);
  const bool again = ++work_tries_ < kGoneTries;
  if (again) return host.send(get_request(kTagGone, NodeClass::node_path(host.name()), Priority::kStatus));
  work_tries_ = 0;
  host.arm(kWorkTimer, host.now() + host.node_class().options().status_period);
}

// Somebody made the Node again: status and lease go on with it; its CSINode stays as it is.
void NodeMachine::come_back(NodeHost& host, std::string_view node_json) {
  if (!host.node_class().options().full_fidelity) return use_existing(host, node_json);
  std::string patch;
  if (!look_at_existing(host, node_json, true, &patch)) {
    if (phase_ != Phase::kNotOurs) phase_ = Phase::kGone;
    return;
  }
  work_tries_ = 0;
  phase_ = Phase::kBecomingReady;
  host.disarm(kWorkTimer);
  host.notice(NodeNotice::kRegistered, "existing");
  if (patch.empty()) patch = host.node_class().status_patch(host.wall_now(), dirty_);
  send_status(host, std::move(patch));
}

// The plugins of the template's devices register again after a restart without checkpoint; or a write of what they told
// has failed.
void NodeMachine::register_devices(NodeHost& host) {
  host.plugins_start();
  devices_changed(host);
}

void NodeMachine::devices_changed(NodeHost& host) {
  if (!registered()) return;
  const auto counts = host.device_counts();
  send_devices(host, counts ? device_patch(*counts) : host.node_class().device_patch());
}

void NodeMachine::send_devices(NodeHost& host, std::string patch) {
  if (patch.empty()) return;
  host.send({Verb::kPatch, BodyType::kStrategicMergePatch, Priority::kStatus, kTagDevices,
             NodeClass::node_path(host.name()) + "/status?timeout=10s", std::move(patch), kHeartbeatTimeout});
}

void NodeMachine::devices_registered(NodeHost& host, const ApiResponse& r) {
  if (r.ok()) return remember_version(r.body);
  if (registered()) host.arm(kDeviceTimer, host.now() + host.node_class().options().status_period);
}

void NodeMachine::remember_version(std::string_view node_json) {
  status_version_ = std::max(status_version_, scan_version(node_json));
}

void NodeMachine::on_response(NodeHost& host, Tag tag, const ApiResponse& r) {
  if (phase_ == Phase::kNotOurs) return;
  switch (tag) {
    case kTagPost: return posted(host, r);
    case kTagRead: return node_read(host, r);
    case kTagReconcile: return reconciled(host, r);
    case kTagCsiGetNode:
    case kTagCsiGet:
    case kTagCsiPost:
    case kTagCsiDelete: return csi_node_step(host, tag, r);
    case kTagStatus: return status_patched(host, r);
    case kTagReread: return reread(host, r);
    case kTagLease: return lease_answered(host, r);
    case kTagEvent: return event_answered(host, r);
    case kTagGone: return look_for_gone(host, r);
    case kTagDevices: return devices_registered(host, r);
    default: return;
  }
}

void NodeMachine::on_timer(NodeHost& host, Tag tag) {
  if (tag == kLeaseTimer) return lease_due(host);
  if (tag == kEventTimer) return pump_events(host);
  if (tag == kDeviceTimer) return register_devices(host);
  switch (phase_) {
    case Phase::kPosting: return post_node(host);
    case Phase::kReading:
    case Phase::kReconciling: return read_node(host);
    case Phase::kCsiNode: return begin_csi_node(host);
    case Phase::kBecomingReady:
    case Phase::kRunning: return status_due(host);
    case Phase::kGone: return host.send(get_request(kTagGone, NodeClass::node_path(host.name()), Priority::kStatus));
    default: return;
  }
}

void NodeMachine::on_node_deleted(NodeHost& host, const NodeUid& uid) {
  if (uid_.empty() || (!uid.empty() && uid != uid_)) return;
  gone(host);
}

}  // namespace ghostfleet::agent
