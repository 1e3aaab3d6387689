// Manager: the PodManager of one node. Its parts, by file: manager.cc (doors, table of pods, timer), adopting.cc (pods
// of an earlier agent), worker.cc (the sync of a kubelet: what to kill and what to start), starting.cc (image, objects,
// creation of one container), probing.cc, stopping.cc, mounting.cc, sending.cc (status and deletion), telling.cc
// (events).
//
// How it works: every pod has some moments at which something happens to it (`..._due`). The manager keeps the earliest
// of each pod, arms ONE timer for the earliest of all, and lets advance() play what is due, in order. A status is
// computed whenever a kubelet would, and sent when the call that changed it ends, so that states which follow at once
// are one PATCH.
// Thread rule: the node's thread.
#pragma once

#include <functional>

#include "agent/pod/images.h"
#include "agent/pod/pod.h"
#include "agent/pod/pod_manager.h"
#include "agent/pod/status.h"

namespace ghostfleet::agent {

class Manager final : public PodManager {
 public:
  Manager(const NodeFacts& node, std::shared_ptr<const PodOptions> options, Host& host);

  void on_pod(const kube::Json& pod) override;
  void on_pod_text(std::string_view pod) override;
  void on_pod_deleted(std::string_view ns, std::string_view name, std::string_view uid) override;
  void on_response(Tag tag, const ApiResponse& response) override;
  void on_timer(Tag tag) override;
  size_t pod_count() const override { return count_; }
  size_t running_count() const override { return running_; }

 private:
  enum class Call : unsigned char { kStatusGet = 1, kStatusPatch, kEvent, kDelete, kToken, kVolumeObject, kVariable };

  // manager.cc
  Pod* find(std::string_view uid);
  Pod* by_tag(Tag tag, Call call);
  static Tag tag_of(const Pod& pod, Call call, size_t index = 0);
  Pod& add_slot();
  void remove(Pod& pod);
  void replace_namesake(std::string_view ns, std::string_view name);
  void add_pod(const kube::Json& json, std::string_view ns, std::string_view name, std::string_view uid);
  void update_pod(Pod& pod, const kube::Json& json);
  void read_meta(Pod& pod, const kube::Json& json);
  void take_deletion(Pod& pod, const kube::Json& json);
  void take_phase(Pod& pod, const kube::Json& json);
  void accept(Pod& pod, const kube::Json& json);
  void reject(Pod& pod, std::string reason, const std::string& message);
  void settle(Pod& pod);  // ends each entry: plays what is due, sends, arms
  void advance(Pod& pod);
  bool play_next(Pod& pod, TimePoint now);
  TimePoint due_of(const Pod& pod) const;
  void arm();
  TimePoint tick_after(TimePoint t) const;  // the node's next look at its containers, once a second
  void allocate_ip(Pod& pod);
  void free_ip(Pod& pod);
  bool full() const { return options_->full_fidelity; }
  StatusContext context() const { return {node_, *options_}; }

  // adopting.cc
  void adopt(Pod& pod, const kube::Json& json);
  void adopt_finished(Pod& pod, Phase phase);
  void adopt_container(Pod& pod, size_t index, const kube::Json& status);
  void adopt_address(Pod& pod, const kube::Json& json);
  void read_conditions(Pod& pod, const kube::Json& json);
  uint8_t find_drift(const Pod& pod, const kube::Json& json) const;
  void note_drift(Pod& pod, uint8_t drift);
  bool take_echo(Pod& pod, std::string_view metadata, std::string_view status);
  void apply_drift(Pod& pod);
  void take_new_spec(Pod& pod, const kube::Json& json);
  void finish_resize(Pod& pod);

  // worker.cc
  void sync(Pod& pod);
  void run_pass(Pod& pod);
  bool kill_what_must(Pod& pod);
  bool run_inits(Pod& pod);
  void run_regulars(Pod& pod);
  void finish_pass(Pod& pod);
  void work_done(Pod& pod);
  bool only_sidecars_left(const Pod& pod) const;
  void request_sync(Pod& pod, TimePoint at);
  void container_exits(Pod& pod, size_t index);
  void check_deadline(Pod& pod);

  // starting.cc
  enum class Start : unsigned char { kStarted, kBusy, kFailed };
  Start start(Pod& pod, size_t index);
  bool back_off(Pod& pod, size_t index);
  Start ensure_image(Pod& pod, size_t index);
  Start pull(Pod& pod, size_t index);
  void pull_ends(Pod& pod);
  Start ensure_objects(Pod& pod, size_t index);
  void create_container(Pod& pod, size_t index);
  Start fail(Pod& pod, size_t index, Why why, Duration delay, uint8_t detail = 0);
  Duration error_delay();

  // probing.cc
  void begin_probing(Pod& pod, size_t index);
  void begin_probe(Pod& pod, size_t index, ProbeKind kind);
  void probe(Pod& pod, size_t index, ProbeKind kind);
  void probe_passed(Pod& pod, size_t index, ProbeKind kind);
  void probe_failed(Pod& pod, size_t index, ProbeKind kind);
  TimePoint probe_tick(const Pod& pod, const ProbeSpec& probe, TimePoint after) const;

  // stopping.cc
  void terminate(Pod& pod, Cause cause);
  TimePoint stop_containers(Pod& pod, int64_t grace_seconds);
  TimePoint stop_one(Pod& pod, size_t index, TimePoint from, Duration grace);
  void finish(Pod& pod);
  void mark_lost(Pod& pod);

  // mounting.cc
  void begin_mounting(Pod& pod);
  void mount_step(Pod& pod);
  void ask_for_volumes(Pod& pod);
  void send_token_request(Pod& pod, size_t index);
  void send_object_request(Pod& pod, Call call, size_t index, const ObjectRef& ref);
  void on_volume_answer(Pod& pod, size_t index, const ApiResponse& response);
  void on_variable_answer(Pod& pod, size_t index, const ApiResponse& response);
  void renew_tokens(Pod& pod);

  // sending.cc
  void flush(Pod& pod);
  void on_status_get(Pod& pod, const ApiResponse& response);
  void on_status_patch(Pod& pod, const ApiResponse& response);
  void send_patch(Pod& pod, std::string body);
  void status_failed(Pod& pod, const ApiResponse& response);
  void status_acknowledged(Pod& pod);
  void consider_delete(Pod& pod);
  void send_delete(Pod& pod);
  void on_delete(Pod& pod, const ApiResponse& response);
  std::string pod_path(const Pod& pod) const;
  Duration retry_delay(const ApiResponse& response);

  // telling.cc
  void tell(Pod& pod, bool warning, std::string_view reason, std::string message, int container = -1);
  void flush_events(Pod& pod);
  void on_event_answer(Pod& pod, const ApiResponse& response);
  std::string render_event(const Pod& pod, const QueuedEvent& event) const;
  std::string event_name(const Pod& pod, const EventRecord& record) const;

  struct Slot {
    uint64_t uid_hash = 0;
    TimePoint due = kNever;
    std::unique_ptr<Pod> pod;
  };

  const NodeFacts& node_;
  std::shared_ptr<const PodOptions> options_;
  Host& host_;
  NodeImages images_;
  std::vector<Slot> slots_;
  std::vector<bool> ips_;  // given out
  TimePoint armed_ = kNever;
  int64_t phase_ns_ = 0;  // of the node's ticks
  uint32_t count_ = 0, running_ = 0, next_ip_ = 0;
  uint16_t next_serial_ = 1;
};

}  // namespace ghostfleet::agent
