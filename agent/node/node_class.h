// NodeClass: what the nodes of one group share, turned once into bytes with gaps: the Node object, Lease, CSINode,
// events and status patches are rendered by filling gaps, never built.
//
// Thread rule: immutable after create(), shared by all threads.
// Source: recordings of a kubelet 1.36 (tests/real, tests/data).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/device_manager.h"
#include "agent/node/node_template.h"
#include "agent/node/node_uid.h"
#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kFleetLabel = "ghostfleet.dev/fleet";
// On nodes that existed before and were handed over: they are kept when the fleet is removed.
inline constexpr std::string_view kAdoptedAnnotation = "ghostfleet.dev/adopted";

// Which Node events are written. kFew: Starting and NodeReady. kAll: everything a kubelet writes.
enum class NodeEvents : unsigned char { kNone, kFew, kAll };

struct NodeOptions {
  std::string fleet;  // the value of kFleetLabel; empty: no label, and an existing node is taken as a kubelet does
  bool adopt = false;
  bool recreate_deleted = false;
  bool full_fidelity = false;
  NodeEvents events = NodeEvents::kFew;
  Duration lease_duration = std::chrono::seconds(40);
  Duration status_period = std::chrono::seconds(10);
  Duration status_report_period = std::chrono::seconds(300);
  // Not negative: a Node that exists already when the agent starts has its extended resources set to 0, as by a kubelet
  // without the device manager's checkpoint; those of the template return after this time. Negative: values that are
  // there are kept.
  Duration device_plugin_delay = Duration(-1);
};

// The four conditions a kubelet owns, in its order.
enum class NodeCondition : unsigned char { kMemoryPressure, kDiskPressure, kPidPressure, kReady };
inline constexpr int kNodeConditions = 4;

// What a condition says: of the pressures True is bad, of Ready False is.
struct ConditionText {
  std::string_view type, status, reason, message;
};
ConditionText condition_text(NodeCondition condition, bool healthy);
// Of the event that tells of a change: "NodeHasInsufficientMemory".
std::string_view pressure_event(NodeCondition condition, bool healthy);

// A Node event; text fields hold no character JSON would escape.
struct NodeEventText {
  std::string_view type, reason;
  std::string message;
};

class NodeClass {
 public:
  static Result<std::shared_ptr<const NodeClass>> create(NodeTemplate node_template, NodeOptions options);

  const NodeTemplate& node_template() const { return template_; }
  const NodeOptions& options() const { return options_; }
  // How many labels a node of this class has when it is made.
  size_t label_count() const { return label_count_; }
  const StringPairs& allocatable() const {
    return template_.allocatable.empty() ? template_.capacity : template_.allocatable;
  }

  // A Node as it is first POSTed: full status, Ready False with `not_ready_message`.
  std::string node_body(const NodeIdentity& identity, WallTime now, std::string_view not_ready_message) const;
  std::string csi_node_body(std::string_view name, const NodeUid& uid) const;
  // A Lease in JSON, or in protobuf as a kubelet writes it. A version of 0 leaves resourceVersion out (create).
  std::string lease_body(std::string_view name, const NodeUid& uid, uint64_t version, WallTime now,
                         bool protobuf) const;
  // The status patch of a heartbeat: times of all four; those in `full` (bit = NodeCondition) are written with status,
  // reason and message, as healthy but for those in `pressure`. `images`: a JSON list that takes the place of the
  // status' own; empty: it stays.
  std::string status_patch(WallTime now, unsigned full, unsigned pressure = 0, std::string_view images = {}) const;
  // Capacity and allocatable of the template's extended resources; empty when it has none.
  std::string device_patch() const;
  std::string event_body(std::string_view node, const NodeEventText& event, std::string_view event_name,
                         WallTime now) const;

  // Paths.
  static std::string lease_path(std::string_view name);
  static std::string node_path(std::string_view name);

 private:
  // Text and, after it, the place to fill (-1: none).
  struct Piece {
    std::string text;
    int place = -1;
  };
  NodeClass(NodeTemplate node_template, NodeOptions options);
  void render_node();

  NodeTemplate template_;
  NodeOptions options_;
  std::vector<Piece> node_;
  size_t node_size_ = 0;
  size_t label_count_ = 0;
};

// The labels a kubelet itself keeps right on an existing node, for the keys it has a value for, with places unfilled.
StringPairs default_labels(const NodeTemplate& node_template);

// The status patch that makes a Node show these; empty: there are none.
std::string device_patch(const std::vector<DeviceCount>& counts);

// A resource that devices give: its name has a domain, which is not Kubernetes' own.
bool is_extended_resource(std::string_view name);

// "oracle-0.18eccd88685a5b10"
std::string event_name(std::string_view object, WallTime now);

}  // namespace ghostfleet::agent
