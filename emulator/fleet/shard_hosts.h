// The parts of a Shard that its .cc files share: the hosts it lends to machines, the pods of a node, a node's own
// connection. Not for others.
//
// Thread rule: the shard's loop.
#pragma once

#include "emulator/fleet/object_watches.h"
#include "emulator/fleet/shard.h"

namespace ghostfleet::emulator {

// One for all rows: it is pointed at a row for the time of a call.
class Shard::RowHost final : public agent::NodeHost {
 public:
  explicit RowHost(Shard& shard) : shard_(shard) {}
  void point_at(uint32_t row) {
    if (row == row_) return;
    row_ = row;
    have_name_ = have_identity_ = false;
  }

  TimePoint now() const override { return shard_.loop_.now(); }
  WallTime wall_now() const override { return SystemClock::instance().wall_now(); }
  Rng& rng() override { return shard_.rng_; }
  void send(agent::ApiRequest request) override { shard_.send(row_, request); }
  void arm(agent::Tag tag, TimePoint at) override;
  void disarm(agent::Tag tag) override;
  bool may_write_event() override { return shard_.may_write_event(); }
  void event_dropped(agent::EventDrop why) override { shard_.stats_.events_dropped[static_cast<size_t>(why)]->add(); }
  const agent::NodeClass& node_class() const override { return shard_.class_of(row_); }
  bool protobuf_leases() const override { return shard_.config_.protobuf_leases; }
  const std::string& name() override;
  const agent::NodeIdentity& identity() override;
  void open_watch(agent::NodeWatch watch) override { shard_.open_watch(row_, watch); }
  void notice(agent::NodeNotice what, std::string_view detail) override { shard_.notice(row_, what, detail); }
  void heartbeat_failed() override {
    if (!shard_.client_) shard_.client_of(row_).http().close_idle();
  }
  void renewed(Duration lateness) override {
    shard_.stats_.renewals.add();
    shard_.stats_.lateness.record(lateness);
  }
  void found_existing(std::string_view node_json) override { shard_.restore_images(row_, node_json); }
  std::string images() override { return shard_.images_of(row_); }
  std::optional<std::vector<agent::DeviceCount>> device_counts() override { return shard_.devices_->counts(row_); }
  void plugins_awaited() override { shard_.devices_->plugins_awaited(row_); }
  void plugins_start() override { shard_.devices_->plugins_start(row_); }
  void rebooted() override { shard_.flags_[row_] |= kRebooted; }

 private:
  Shard& shard_;
  uint32_t row_ = UINT32_MAX;
  bool have_name_ = false, have_identity_ = false;
  std::string name_;
  agent::NodeIdentity identity_;
};

class Shard::PodHost final : public agent::Host, public agent::NodeListener, public PullHost {
 public:
  PodHost(Shard& shard, uint32_t row) : shard_(shard), row_(row) {}
  TimePoint now() const override { return shard_.loop_.now(); }
  WallTime wall_now() const override { return SystemClock::instance().wall_now(); }
  Rng& rng() override { return shard_.rng_; }
  void send(agent::ApiRequest request) override { shard_.send_for_pod(row_, request); }
  void arm(agent::Tag tag, TimePoint at) override { shard_.arm_pod_timer(row_, tag, at); }
  void disarm(agent::Tag tag) override { shard_.disarm_pod_timer(row_, tag); }
  bool may_write_event() override { return shard_.may_write_event(); }
  void event_dropped(agent::EventDrop why) override { shard_.stats_.events_dropped[static_cast<size_t>(why)]->add(); }
  void pressure_changed(unsigned pressure) override {
    shard_.machines_[row_].set_pressure(shard_.host(row_), pressure);
  }
  void reclaiming(std::string_view resource) override {
    shard_.machines_[row_].reclaiming(shard_.host(row_), resource);
  }
  // PullHost (shard_images.cc)
  void pull_ended(agent::PullTicket ticket) override;
  void image_read(agent::ReadTicket ticket, agent::ReadEnd end) override;
  bool image_in_use(std::string_view image) override;
  bool pods_known() override;
  void node_warning(std::string_view reason, const std::string& message) override;
  void images_changed() override;
  int64_t storage_used() override;

 private:
  Shard& shard_;
  uint32_t row_;
};

struct Shard::NodePods {
  NodePods(Shard& shard, uint32_t row) : host(shard, row) {}
  PodHost host;
  agent::NodeFacts facts;
  std::unordered_map<agent::Tag, uint32_t> timers;  // to slots; destroyed after the manager that disarms them
  std::unique_ptr<NodePuller> puller;               // when pulls are modelled; destroyed after the manager
  std::unique_ptr<agent::PodManager> manager;
  std::unique_ptr<ObjectWatches> objects;                         // in full fidelity
  std::optional<std::vector<agent::StaticManifest>> static_pods;  // that the manager has not been told of
  std::vector<std::string> pending;  // pods that came before the node was registered or its facts known
  bool asking = false;               // a GET of the Node is on its way
  size_t counted = 0, counted_running = 0, counted_finished = 0;
};

// Modelled pulls: what the shard has for all of its nodes.
struct Shard::Pulls {
  Pulls(const ShardConfig& config, MetricsRegistry& registry)
      : images(*config.images),
        service(images.stores, images.catalogue, config.pods->image_rules, config.seed),
        stats(registry) {
    service.set_durations(&stats.durations());
  }
  FleetImages& images;
  PullService service;
  ImageStats stats;
};

// Forwards what a node's own watch tells.
class Shard::LinkWatch final : public kube::ReflectorHandler {
 public:
  LinkWatch(Shard& shard, uint32_t row, agent::NodeWatch watch) : shard_(shard), row_(row), watch_(watch) {}
  void on_added(const kube::ObjectView& object) override { on_modified(object); }
  void on_modified(const kube::ObjectView& object) override;
  void on_deleted(const kube::ObjectView& object) override;
  void on_synced() override;
  agent::NodeWatch watch() const { return watch_; }
  std::unique_ptr<kube::Reflector> reflector;

 private:
  Shard& shard_;
  uint32_t row_;
  agent::NodeWatch watch_;
  std::unordered_map<std::string, std::string> uids_;  // of pods, by namespace/name
};

// A certificate of one node: what its manager asks of the node.
class Shard::NodeCertificate final : public kube::CertificateHost {
 public:
  using Kind = CertificateFolder::Kind;
  NodeCertificate(Shard& shard, uint32_t row, Kind kind);
  void start() { manager_.start(); }
  const std::shared_ptr<const kube::http::TlsIdentity>& identity() const { return identity_; }

  EventLoop& loop() override { return shard_.loop_; }
  Rng& rng() override { return shard_.rng_; }
  kube::KubeClient& signing_client(bool have_certificate) override;
  kube::KubeClient& approving_client() override { return shard_.bootstrap_client(); }
  kube::SigningSubject subject() override;
  Result<std::string> load() override;
  Status save(const std::string& pem) override;
  void certificate_ready(const std::shared_ptr<const kube::http::TlsIdentity>& identity, bool renewed) override;
  void certificate_expired() override;
  void certificate_failed(const Status& why) override;

 private:
  Shard& shard_;
  uint32_t row_;
  Kind kind_;
  std::shared_ptr<const kube::http::TlsIdentity> identity_;
  kube::CertificateManager manager_;
};

struct Shard::NodeLink {
  std::unique_ptr<kube::KubeClient> client;
  std::unique_ptr<NodeCertificate> certificate, serving;  // null: shared identity; their requests use the client
  std::vector<std::unique_ptr<LinkWatch>> watches;        // destroyed before the client
};

}  // namespace ghostfleet::emulator
