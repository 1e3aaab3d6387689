// Shard: one thread's part of a fleet: a table of node machines, their timers, their pods, and the connections their
// requests go over.
//
// A row costs the machine (less than 100 bytes), two timers of 24 bytes and two bytes of flags. Names and bodies are
// computed; pods cost only where there are pods.
//
// Thread rule: everything below the line runs on the shard's loop (others post there); start and stop belong to the
// owner's thread; stats may be read from any.
// Ownership: owns its loop, thread and clients; the names of the config outlive it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "agent/node/node_machine.h"
#include "agent/pod/pod_manager.h"
#include "base/event_loop.h"
#include "base/timer_wheel.h"
#include "base/token_bucket.h"
#include "emulator/fleet/fleet.h"
#include "emulator/fleet/fleet_images.h"
#include "emulator/fleet/identity.h"
#include "emulator/fleet/ramp.h"
#include "emulator/fleet/sender.h"
#include "emulator/fleet/shard_devices.h"
#include "emulator/fleet/shard_dra.h"
#include "emulator/fleet/shard_drivers.h"
#include "emulator/fleet/shard_network.h"
#include "emulator/fleet/store_puller.h"
#include "kube/client/certificate_manager.h"
#include "kube/client/reflector.h"

namespace ghostfleet::emulator {

class ObjectWatches;

struct ShardConfig {
  uint32_t number = 0, count = 1;  // node n of the fleet is in shard n mod count, as row n div count
  const FleetNames* names = nullptr;
  std::vector<std::shared_ptr<const agent::NodeClass>> classes;  // by group
  std::shared_ptr<const agent::PodOptions> pods;
  std::vector<std::shared_ptr<const agent::DraDevices>> dra;       // by group; null: it has no DRA driver
  std::vector<std::shared_ptr<const agent::DeviceSetup>> devices;  // by group
  std::optional<agent::NodeSocketOptions> device_sockets;          // FleetOptions
  FleetImages* images = nullptr;                         // shared with the other shards; null: pulls are not modelled
  std::shared_ptr<const ImageStoreOptions> image_store;  // FleetOptions
  bool run_pods = true;
  bool second_is_primary = false;  // FleetOptions
  ConnectionMode connections = ConnectionMode::kShared;
  kube::http::HttpClientOptions http;
  std::string path_prefix;
  kube::ClientAuth auth;
  IdentityOptions identity;
  kube::http::HttpClientOptions bootstrap_http;  // with identity.per_node: to request certificates
  kube::ClientAuth bootstrap_auth;
  double register_rate = 0;
  double event_rate = 0;         // of this shard; 0: no limit
  bool protobuf = false;         // as a kubelet encodes
  bool protobuf_leases = false;  // leases too, or only they
  uint64_t seed = 1;
  Vpc* vpc = nullptr;                                          // the network under the pods; null: none
  std::vector<std::shared_ptr<const agent::IpamConfig>> ipam;  // NetworkOptions::groups
  std::function<void()> addresses_known;                       // of all pods of an earlier run on this shard's nodes
  std::function<void(const std::string&)> notice;
  // A node holds a serving certificate.
  std::function<void(uint32_t node, const std::shared_ptr<const kube::http::TlsIdentity>&)> serving_ready;
  std::function<void()> node_settled;  // a node became Ready for the first time or turned out not to be ours
};

class Shard final : private AnswerSink {
 public:
  explicit Shard(ShardConfig config);
  ~Shard() override;
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Before start(): what may fail.
  Status open_sockets();
  Status open_image_store();
  void start();
  void stop();
  EventLoop& loop() { return loop_; }
  const ShardStats& stats() const { return stats_; }
  // Null: pods have addresses of the fleet's range.
  const MetricsRegistry* network_metrics() const { return network_ ? &network_->metrics() : nullptr; }
  uint32_t rows() const { return static_cast<uint32_t>(machines_.size()); }
  void add_pulls_to(FleetStats* out) const;  // when they are modelled; from any thread

  // ---- on the loop
  // A node of an earlier run, before begin_registration. `lease_version` 0: not known.
  void existing_node(uint32_t row, const std::string& json, uint64_t lease_version);
  void begin_registration();
  void node_seen(uint32_t row, const std::string& json, bool deviates);
  void node_deleted(uint32_t row, const agent::NodeUid& uid);
  void pod_seen(uint32_t row, std::string json);
  void pod_deleted(uint32_t row, const std::string& ns, const std::string& name, const std::string& uid);
  void set_static_pods(uint32_t row, std::vector<agent::StaticManifest> manifests);
  // All pods there were at the start have been told.
  void pods_listed();
  // All shards know the addresses of earlier pods: new ones may be given out.
  void open_network();
  // ShardNetwork::show.
  std::optional<std::string> show_network(uint32_t row, std::string_view path) const;
  // For the node's own server: its pods as they are now, and a call of the API server as that node.
  std::optional<agent::DiskRoom> disk_room(uint32_t row) const;
  std::vector<agent::PodView> describe_pods(uint32_t row, const agent::PodPick& pick) const;
  void call_api(uint32_t row, kube::ApiCall call, kube::ApiCallback done);

 private:
  class RowHost;
  class PodHost;
  class LinkWatch;
  class NodeCertificate;
  struct NodePods;
  struct NodeLink;
  struct Pulls;
  static constexpr agent::Tag kFactsTag = agent::Tag{1} << 62;  // our own GET of a Node, for its pods
  enum Flag : uint16_t {
    kStarted = 1,
    kOnTheWay = 2,
    kRegisteredFlag = 4,
    kReadyFlag = 8,
    kEverReady = 16,
    kDeviates = 32,
    kSeenReady = 64,
    kGoneFlag = 128,
    kConflicted = 256,
    kCertified = 512,
    kRebooted = 1024,    // since its Node was written by an earlier agent
    kListedFlag = 2048,  // its own pods, in per-node mode
    kImagesRead = 4096,
    kDevicesDiffer = 8192,  // the Node was told of fewer devices than there are
  };

  void on_answer(uint32_t row, agent::Tag tag, const agent::ApiResponse& response) override;
  void on_measured(Duration latency, bool overloaded) override;

  void tick();
  void wake_at(TimePoint at);
  void pump_ramp();
  void publish();
  bool quiet(TimePoint now) const;
  uint32_t node_of(uint32_t row) const { return row * config_.count + config_.number; }
  const agent::NodeClass& class_of(uint32_t row) const;
  kube::KubeClient& client_of(uint32_t row);
  NodeLink& link_of(uint32_t row);
  RowHost& host(uint32_t row);
  void send(uint32_t row, const agent::ApiRequest& request);
  void settle(uint32_t row);
  void notice(uint32_t row, agent::NodeNotice what, std::string_view detail);
  void say(uint32_t row, std::string_view text);  // a notice about a node; at most two a second, the rest is dropped
  void count(uint32_t row, Flag flag, bool on, Gauge& gauge, uint64_t* number);
  void conflict_seen(uint32_t row, agent::Tag tag, int status);

  // pods
  NodePods& pods_of(uint32_t row);
  agent::PodManager& manager_of(uint32_t row, NodePods& pods);
  void run_pending(uint32_t row);
  void send_for_pod(uint32_t row, const agent::ApiRequest& request);
  std::unique_ptr<ObjectWatches> make_object_watches(uint32_t row);
  void note_references(uint32_t row, NodePods& pods, const kube::Json& pod);
  void facts_answered(uint32_t row, const agent::ApiResponse& response);
  void update_facts(uint32_t row, const std::string& node_json);
  void make_devices();
  std::vector<agent::PodContainers> active_pods(uint32_t row) const;
  bool pods_told(uint32_t row) const;
  void pods_are_told(uint32_t row);
  void device_counts_changed(uint32_t row);
  void make_dra();
  Status open_drivers();
  std::optional<std::set<std::string, std::less<>>> active_pod_uids(uint32_t row) const;
  void driver_changed(uint32_t row);
  void count_pods(NodePods& pods);
  void make_network();
  void tick_network(TimePoint now);
  void start_network(uint32_t row);
  void own_pods_listed(uint32_t row);
  bool may_write_event() { return event_budget_.take(loop_.now()); }
  void arm_pod_timer(uint32_t row, agent::Tag tag, TimePoint at);
  void disarm_pod_timer(uint32_t row, agent::Tag tag);
  void pod_timer_fired(uint32_t slot);

  // pulls of images, modelled and real (shard_images.cc)
  void give_puller(uint32_t row, NodePods& pods);
  void restore_images(uint32_t row, std::string_view node_json);
  TimePoint look_at_pulls(TimePoint now);  // when the next look is due
  std::string images_of(uint32_t row) const;

  // per-node connections
  void open_watch(uint32_t row, agent::NodeWatch watch);

  // per-node identity (shard_identity.cc)
  void begin_node(uint32_t row);
  void start_machine(uint32_t row);
  void begin_serving_certificate(uint32_t row);
  kube::KubeClient& bootstrap_client();

  ShardConfig config_;
  EventLoop loop_;
  ShardStats stats_;
  Rng rng_;
  TokenBucket event_budget_;
  Ramp ramp_;
  std::vector<agent::NodeMachine> machines_;
  std::vector<uint16_t> flags_;
  TimerWheel wheel_;      // index: row * 2 + (lease 0, work 1)
  TimerWheel pod_wheel_;  // index: a slot of pod_slots_
  struct PodSlot {
    uint32_t row = 0;
    agent::Tag tag = 0;
  };
  std::vector<PodSlot> pod_slots_;
  std::vector<uint32_t> free_pod_slots_;
  std::unique_ptr<ShardNetwork> network_;
  std::unique_ptr<ShardDevices> devices_;  // goes after the pods
  std::unique_ptr<ShardDra> dra_;          // null: no node has a DRA driver
  std::unique_ptr<ShardDrivers> drivers_;  // of node 0; null: it takes none that are programs
  std::unique_ptr<Pulls> pulls_;           // null: not modelled; goes after the pods
  std::unique_ptr<StorePuller> store_;     // of the one node whose images are really pulled; goes after the pods
  std::unordered_map<uint32_t, std::unique_ptr<NodePods>> pods_;
  std::unique_ptr<RowHost> host_;
  Sender sender_;
  kube::CertificateManagerOptions client_certificates_, serving_certificates_;
  std::unique_ptr<kube::KubeClient> client_;      // shared mode
  std::unique_ptr<kube::KubeClient> bootstrap_;   // per-node identity
  std::vector<std::unique_ptr<NodeLink>> links_;  // per-node mode
  std::thread thread_;
  uint32_t next_row_ = 0;
  bool registering_ = false;
  uint64_t registered_ = 0, ready_ = 0, not_ours_ = 0, deleted_ = 0, certificates_ = 0;
  size_t pod_count_ = 0, running_count_ = 0, finished_count_ = 0;
  uint64_t lease_conflicts_ = 0;
  Duration batch_{0};
  TimePoint next_tick_at_;  // zero: inside a tick
  EventLoop::TimerId tick_timer_ = 0;
  TimePoint next_publish_;
  TimePoint next_notice_;
  TimePoint patience_;  // until then the network waits for the pods of all nodes
  uint32_t network_cursor_ = 0, listed_rows_ = 0;
  bool addresses_told_ = false, all_pods_told_ = false;
};

}  // namespace ghostfleet::emulator
