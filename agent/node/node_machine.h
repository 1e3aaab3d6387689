// NodeMachine: one node as the API sees it: registration, CSINode, Lease, status, Node events. A pure state machine of
// less than 100 bytes: everything that can be computed (names, bodies) is, everything shared is in the NodeClass.
//
// Two tracks run side by side, each with one timer and at most one request on its way: the lease (heartbeat lane), and
// the work: registration, then status. With NodeOptions::full_fidelity the requests of a kubelet are made one by one,
// reads and repeated events included; else only those that change something: POST node, POST lease, POST csinode,
// PATCH Ready. With a lost connection a kubelet repeats in lockstep; the light machine waits with jitter, so that a
// hundred thousand nodes do not return at once.
//
// Thread rule: the node's thread. Ownership: holds no pointer to its host; the host is given to every call.
// Source: a recorded start of a kubelet 1.36 (tests/real/kubelet_test.py compares).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/actions.h"
#include "agent/device/device_manager.h"
#include "agent/node/node_class.h"
#include "agent/node/node_template.h"
#include "agent/node/node_uid.h"

namespace ghostfleet::agent {

// The collections a kubelet follows; opened by the host, in the order told.
enum class NodeWatch : unsigned char { kOwnNode, kServices, kCsiDrivers, kRuntimeClasses, kPods };

enum class NodeNotice : unsigned char {
  kRegistered,  // the Node object is there and ours; detail: "existing" when it was there before
  kReady,       // Ready=True acknowledged
  kNotOurs,     // somebody else's node of that name: left alone for good
  kDeleted,     // the Node object is gone
  kRefused,     // the server will not have it (403, 422); tried again with back-off; detail: its message
};

class NodeHost : public Host {
 public:
  virtual const NodeClass& node_class() const = 0;
  // Leases are written in protobuf, as by a kubelet; else in JSON.
  virtual bool protobuf_leases() const { return false; }
  // Valid during the call of the machine. The name alone is cheaper to have.
  virtual const std::string& name() = 0;
  virtual const NodeIdentity& identity() = 0;
  virtual void open_watch(NodeWatch) {}
  virtual void notice(NodeNotice what, std::string_view detail) = 0;
  // A renewal was acknowledged `lateness` after it was due.
  virtual void renewed(Duration lateness) = 0;
  // A heartbeat failed for the second time or more in a row: a kubelet closes its idle connections then.
  virtual void heartbeat_failed() {}
  // A Node of ours was there before; told before its status is brought up to date.
  virtual void found_existing(std::string_view /*node_json*/) {}
  // The images on the node's disk, as the JSON list of its status; empty: those of the template.
  virtual std::string images() { return {}; }
  // What device plugins tell, as its device manager counts it; nothing: as the template says.
  virtual std::optional<std::vector<DeviceCount>> device_counts() { return std::nullopt; }
  // The extended resources of an existing Node were set to 0: plugins start again after the delay, and then have.
  virtual void plugins_awaited() {}
  virtual void plugins_start() {}
  // An existing Node has another boot id than ours: the machine was started anew, and its pods with it.
  virtual void rebooted() {}
};

// What a watch or a list says of a node, as far as a machine cares.
struct NodeView {
  NodeUid uid;
  uint64_t version = 0;        // resourceVersion; 0: none or not a number
  bool ready = false;          // condition Ready is True
  unsigned unhealthy = 0;      // bit = NodeCondition: present and not what we say
  bool labels_differ = false;  // os or arch label missing or wrong
};
// Scans the bytes of a Node; false when they are none.
bool scan_node(std::string_view json, const NodeTemplate& node_template, NodeView* out);

class NodeMachine {
 public:
  enum class Phase : unsigned char {
    kNew,
    kPosting,        // POST of the Node on its way, or its timer armed
    kReading,        // GET after 409 or 403
    kReconciling,    // PATCH of an existing node
    kCsiNode,        // CSINode being made
    kBecomingReady,  // PATCH Ready=True
    kRunning,        // waiting for the next status report
    kGone,           // deleted under us. In full fidelity lease and status go on asking for it, as a kubelet's do
    kNotOurs,
  };
  static constexpr Tag kLeaseTimer = 1;
  static constexpr Tag kWorkTimer = 2;
  static constexpr Tag kEventTimer = 3;
  static constexpr Tag kDeviceTimer = 4;  // device plugins register
  static constexpr int kTimers = 4;

  NodeMachine() = default;

  // Begins to register a node that is not known to exist.
  void start(NodeHost& host);
  // Begins with a node that exists (found by a list): its lease at once, and no POST. `lease_version` 0: not known.
  // False: its object must be brought up to date by resume(), which the host may put off to spread the work of many.
  bool take_over(NodeHost& host, std::string_view node_json, uint64_t lease_version);
  void resume(NodeHost& host);

  void on_response(NodeHost& host, Tag tag, const ApiResponse& response);
  void on_timer(NodeHost& host, Tag tag);
  // From a watch: the Node as it is now; the Node was deleted.
  void on_node_seen(NodeHost& host, std::string_view node_json);
  void on_node_deleted(NodeHost& host, const NodeUid& uid);
  // What the node is short of (bit = NodeCondition), as whoever watches its pods has found. Written at the next tick of
  // the status.
  void set_pressure(NodeHost& host, unsigned pressure);
  // What plugins list has changed: capacity and allocatable follow at once.
  void devices_changed(NodeHost& host);
  // Capacity and allocatable of the Node, as it is now, are brought to these counts.
  void report_devices(NodeHost& host, const std::vector<DeviceCount>& counts, std::string_view node_json);
  // A pod is about to be evicted to win back this resource ("memory").
  void reclaiming(NodeHost& host, std::string_view resource);
  // The images on the disk are others now: the Node tells them after a while, as a kubelet's does.
  void images_changed(NodeHost& host);
  // A Warning about the Node; `message` holds no character that JSON would escape.
  void warn(NodeHost& host, std::string_view reason, std::string message);

  Phase phase() const { return phase_; }
  bool registered() const { return phase_ >= Phase::kReconciling && phase_ <= Phase::kRunning; }
  bool ready() const { return ready_; }
  const NodeUid& uid() const { return uid_; }

 private:
  enum class LeaseStep : unsigned char { kOff, kWaiting, kGet, kGetNode, kCreate, kUpdate };
  // What only full fidelity keeps.
  struct Extra {
    struct SentEvent {
      uint64_t text = 0;  // a hash: of the same reason and message
      int64_t name = 0;   // the moment its name tells
      int count = 1;
    };
    std::vector<SentEvent> sent;
    std::vector<ApiRequest> queue;  // events waiting for their turn
    bool in_flight = false;
  };

  // registration (node_machine.cc)
  void post_node(NodeHost& host);
  void posted(NodeHost& host, const ApiResponse& r);
  void read_node(NodeHost& host);
  void node_read(NodeHost& host, const ApiResponse& r);
  void use_existing(NodeHost& host, std::string_view node_json);
  // The patch an existing node needs, its uid and version taken; false: it is not ours, or no Node.
  bool look_at_existing(NodeHost& host, std::string_view node_json, bool ready, std::string* patch);
  void reconciled(NodeHost& host, const ApiResponse& r);
  void node_is_there(NodeHost& host, bool existing);
  void begin_csi_node(NodeHost& host);
  void csi_node_step(NodeHost& host, Tag tag, const ApiResponse& r);
  void csi_node_done(NodeHost& host);
  void retry_work(NodeHost& host, const ApiResponse& r);
  void gone(NodeHost& host);
  void look_for_gone(NodeHost& host, const ApiResponse& r);
  void come_back(NodeHost& host, std::string_view node_json);
  void register_devices(NodeHost& host);
  void devices_registered(NodeHost& host, const ApiResponse& r);
  void send_devices(NodeHost& host, std::string patch);
  void follow_capacity(NodeHost& host, std::string_view node_json);
  void note_pod_cidr(NodeHost& host, std::string_view node_json);
  void not_ours(NodeHost& host, std::string_view why);

  // status (node_machine_status.cc)
  void status_due(NodeHost& host);
  void patch_status(NodeHost& host);
  void tell_pressure(NodeHost& host);
  void send_status(NodeHost& host, std::string body);
  void reread(NodeHost& host, const ApiResponse& r);
  void became_ready(NodeHost& host, bool transition);
  void status_patched(NodeHost& host, const ApiResponse& r);
  void plan_report(NodeHost& host, bool changed);
  void arm_status(NodeHost& host);
  Duration images_delay(NodeHost& host);

  // lease (node_machine_lease.cc)
  void begin_lease(NodeHost& host);
  void lease_due(NodeHost& host);
  void send_lease(NodeHost& host, LeaseStep step);
  void lease_answered(NodeHost& host, const ApiResponse& r);
  void lease_written(NodeHost& host, const ApiResponse& r);
  void lease_read(NodeHost& host, const ApiResponse& r);
  void lease_failed(NodeHost& host, const ApiResponse& r);
  void next_lease(NodeHost& host);

  // events (node_machine_events.cc)
  enum class Weight : unsigned char { kUsual, kRare };  // rare ones are written in a fleet with few events too
  void event(NodeHost& host, std::string_view reason, std::string message, bool warning = false,
             Weight weight = Weight::kUsual);
  void node_event(NodeHost& host, std::string_view reason, Weight weight = Weight::kUsual);
  void pressure_events(NodeHost& host);
  void pump_events(NodeHost& host);
  void event_answered(NodeHost& host, const ApiResponse& r);

  void remember_version(std::string_view node_json);

  NodeUid uid_;
  uint64_t lease_version_ = 0;
  uint64_t status_version_ = 0;  // of the Node after our last write: what a watch tells of older ones is history
  TimePoint lease_due_;
  TimePoint report_due_;
  std::unique_ptr<Extra> extra_;
  uint32_t pod_cidr_ = 0;  // a hash of spec.podCIDR as last seen
  Phase phase_ = Phase::kNew;
  LeaseStep lease_step_ = LeaseStep::kOff;
  uint8_t work_tries_ = 0;
  uint8_t lease_tries_ = 0;
  uint8_t csi_tries_ = 0;
  uint8_t dirty_ = 0;          // conditions to write in full: bit = NodeCondition
  uint8_t sent_ = 0;           // those in the PATCH that is on its way
  uint8_t pressure_ = 0;       // conditions that are True because the node is short of something
  uint8_t told_pressure_ = 0;  // by events
  bool patching_ = false;      // a status PATCH is on its way
  bool reread_ = false;        // labels differ: read the node and reconcile at the next status
  bool first_write_ = true;
  bool ready_ = false;
  bool forbidden_ = false;                            // the POST was refused with 403
  bool announced_ = false;                            // kReady was told
  bool zeroed_ = false;                               // extended resources were set to 0 at registration
  bool images_differ_ = false, images_sent_ = false;  // to be written; in the PATCH that is on its way
};

}  // namespace ghostfleet::agent
