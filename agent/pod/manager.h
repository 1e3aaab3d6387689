// Manager: the PodManager of one node. Its parts, by file: manager.cc (doors, table of pods), adopting.cc (pods
// of an earlier agent), worker.cc (the sync of a kubelet: what to kill and what to start), reading.cc (files of
// images), connecting.cc (addresses of sandboxes), claiming.cc (claims of devices), starting.cc (image, objects,
// creation of one container), hooks.cc, probing.cc, stopping.cc, restarting.cc (all containers at once), resizing.cc (a
// changed spec), preempting.cc, mounting.cc, sending.cc (status and deletion), telling.cc (events), timing.cc (what is
// due), admitting.cc, evicting.cc (pods that use too much), holding.cc (devices), mirroring.cc (static pods).
//
// How it works: every pod has some moments at which something happens to it (`..._due`). The manager keeps the earliest
// of each pod, arms ONE timer for the earliest of all, and lets advance() play what is due, in order. A status is
// computed whenever a kubelet would, and sent when the call that changed it ends, so that states which follow at once
// are one PATCH. Thread rule: the node's thread.
#pragma once

#include <functional>
#include <map>

#include "agent/pod/admission.h"
#include "agent/pod/images.h"
#include "agent/pod/pod.h"
#include "agent/pod/pod_manager.h"
#include "agent/pod/status.h"
#include "base/token_bucket.h"

namespace ghostfleet::agent {

// Why a pod is ended by its node.
struct Eviction {
  std::string reason, message;  // of the status
  std::string disruption;       // of the condition DisruptionTarget; empty: it gets none
  int64_t grace_seconds = -1;   // -1: the pod's own
};

class Manager final : public PodManager {
 public:
  Manager(const NodeFacts& node, std::shared_ptr<const PodOptions> options, Host& host);

  void on_pod(const kube::Json& pod) override;
  void on_pod_text(std::string_view pod) override;
  void on_pod_deleted(std::string_view ns, std::string_view name, std::string_view uid) override;
  void set_static_pods(std::vector<StaticManifest> manifests) override;
  void on_devices_changed() override;
  void on_driver_changed() override;
  void on_response(Tag tag, const ApiResponse& response) override;
  void on_timer(Tag tag) override;
  void on_image_pulled(PullTicket ticket) override;
  void on_image_read(ReadTicket ticket, ReadEnd end) override;
  void on_images_changed() override;
  std::vector<PodView> describe(const PodPick& pick) const override;
  std::optional<DiskRoom> disk_room() const override { return images_.disk_room(); }
  size_t pod_count() const override { return count_; }
  size_t running_count() const override { return running_; }
  size_t finished_count() const override { return finished_; }
  bool uses_image(std::string_view image) const override;
  int64_t storage_used() const override;

 private:
  enum class Call : unsigned char {
    kStatusGet = 1,
    kStatusPatch,
    kEvent,
    kDelete,
    kToken,
    kVolumeObject,
    kVariable,
    kNode,
    kPullSecret,
    kMirrorCreate,
    kMirrorDelete,
    kOrphan,
    kClaim,
    kReadSecret
  };

  // manager.cc
  Pod* find(std::string_view uid);
  Pod* by_tag(Tag tag, Call call);
  static Tag tag_of(const Pod& pod, Call call, size_t index = 0);
  Pod& add_slot();
  void remove(Pod& pod);
  void replace_namesake(std::string_view ns, std::string_view name);
  Pod& new_pod(const kube::Json& json, std::string_view ns, std::string_view name, std::string_view uid);
  void add_pod(const kube::Json& json, std::string_view ns, std::string_view name, std::string_view uid);
  void update_pod(Pod& pod, const kube::Json& json);
  void read_meta(Pod& pod, const kube::Json& json);
  void take_deletion(Pod& pod, const kube::Json& json);
  void stop_when_possible(Pod& pod);
  void accept(Pod& pod, const kube::Json& json);
  void judge(Pod& pod, const kube::Json& json, bool node_is_fresh);
  void judge_rest(Pod& pod, const kube::Json& json, bool node_is_fresh);
  void tell_problems(Pod& pod);
  void begin_life(Pod& pod);
  void on_fresh_node(Pod& pod, const ApiResponse& response);
  void reject(Pod& pod, std::string reason, const std::string& message);
  void settle(Pod& pod);  // ends each entry: plays what is due, sends, arms
  void advance(Pod& pod);
  bool play_next(Pod& pod, TimePoint now);
  TimePoint due_of(const Pod& pod) const;
  void arm();
  TimePoint tick_after(TimePoint t) const;  // the node's next look at its containers, once a second
  void take_number(Pod& pod);
  void free_ip(Pod& pod);
  bool full() const { return options_->full_fidelity; }
  StatusContext context() const { return {node_, *options_, claim_cache()}; }

  // adopting.cc
  void adopt(Pod& pod, const kube::Json& json);
  void adopt_finished(Pod& pod, Phase phase);
  void adopt_container(Pod& pod, size_t index, const kube::Json& status);
  void adopt_run(Pod& pod, size_t index, const kube::Json& status);
  void end_at_boot(ContainerRun& run) const;
  void begin_again(Pod& pod, const kube::Json& json);
  void adopt_address(Pod& pod, const kube::Json& json);
  void read_conditions(Pod& pod, const kube::Json& json);
  uint8_t find_drift(const Pod& pod, const kube::Json& json) const;
  void note_drift(Pod& pod, uint8_t drift);
  static uint32_t labels_of(const kube::Json& pod);
  bool take_echo(Pod& pod, std::string_view metadata, std::string_view status);
  void apply_drift(Pod& pod);

  // worker.cc
  void sync(Pod& pod);
  void run_pass(Pod& pod);
  struct StopReason {
    std::string text = {};  // of the event
    int64_t grace_seconds = 0;
    bool again = false;  // it is started again at once
  };
  static StopReason why_stop(const Pod& pod, size_t index);
  bool kill_what_must(Pod& pod);
  bool run_ephemerals(Pod& pod);
  static bool init_is_done(const Pod& pod, size_t index);
  bool run_inits(Pod& pod);
  void run_regulars(Pod& pod);
  void finish_pass(Pod& pod);
  void work_done(Pod& pod);
  static bool nothing_left(const Pod& pod);
  void ask_readiness(Pod& pod);
  void check_nameservers(Pod& pod);
  void enter_runtime(Pod& pod);
  void request_sync(Pod& pod, TimePoint at);
  void container_exits(Pod& pod, size_t index);
  void check_deadline(Pod& pod);

  // connecting.cc
  bool connect(Pod& pod);
  std::string hostname_problem(const Pod& pod) const;
  static void fail_pass(Pod& pod, Duration delay);
  void disconnect(Pod& pod);
  bool adopt_from_network(Pod& pod, std::string_view ip);
  bool needs_network(const Pod& pod) const;

  // claiming.cc
  static PodRef ref_of(const Pod& pod) { return {pod.ns(), pod.name(), pod.uid()}; }
  void take_claims(Pod& pod, const kube::Json& json);
  void adopt_claims(Pod& pod, const kube::Json& json);
  bool claim(Pod& pod);
  bool claim_next(Pod& pod);
  void claims_failed(Pod& pod, const std::string& why);
  void on_claim_answer(Pod& pod, const ApiResponse& response);
  ClaimCache* claim_cache() const;  // null: no pod ever had a claim
  NodeDrivers drivers() const { return {node_.driver.get(), node_.drivers}; }
  std::string save_claims(std::string_view what);
  bool prepare_next(Pod& pod);
  void ask_driver(Pod& pod, const DriverBatch& batch, bool release);
  void on_prepared(Pod& pod, const Result<ClaimAnswers>& answers);
  bool unclaim(Pod& pod);
  bool release_next(Pod& pod);
  void release_later(Pod& pod);
  void on_released(Pod& pod, const Result<ClaimAnswers>& answers);
  void forget_claims(Pod& pod);

  // starting.cc
  enum class Start : unsigned char { kStarted, kBusy, kFailed };
  Start start(Pod& pod, size_t index);
  bool back_off(Pod& pod, size_t index);
  Start ensure_image(Pod& pod, size_t index);
  static ContainerRun& pulls_of(Pod& pod, size_t index);
  Start pull(Pod& pod, size_t index);
  Start never_pull(Pod& pod, size_t index);
  void tell_present(Pod& pod, size_t index);
  bool pull_backs_off(Pod& pod, size_t index);
  void verify_image(Pod& pod, size_t index);
  void begin_pull(Pod& pod, size_t index);
  void pull_ends(Pod& pod);
  static PullTicket ticket_of(const Pod& pod);
  Start ensure_objects(Pod& pod, size_t index);
  void create_container(Pod& pod, size_t index);
  Start fail(Pod& pod, size_t index, Why why, Duration delay, uint8_t detail = 0);
  Duration error_delay();

  // reading.cc
  void begin_reading(Pod& pod, size_t index, Duration age);
  void read_next(Pod& pod, size_t index);
  void send_read(Pod& pod, size_t index, std::vector<PullSecret> secrets);
  void on_read_secret(Pod& pod, size_t index, const ApiResponse& response);
  void read_ended(Pod& pod, size_t index, ReadEnd end);
  static std::string_view last_words(const Pod& pod, size_t index, uint32_t attempt);

  // probing.cc
  static bool passes(const Script& script, const ProbeSpec& probe, Duration age);
  void prepare_probes(Pod& pod, size_t index);
  void count_part_of_start(Pod& pod, size_t index);
  void begin_fresh_probes(Pod& pod);
  void begin_probing(Pod& pod, size_t index);
  void begin_probe(Pod& pod, size_t index, ProbeKind kind);
  void probe(Pod& pod, size_t index, ProbeKind kind);
  void await_failed_probes(Pod& pod, size_t index, TimePoint readiness_beat);
  void probe_passed(Pod& pod, size_t index, ProbeKind kind);
  void probe_failed(Pod& pod, size_t index, ProbeKind kind);
  void rest_until_it_fails(Pod& pod, size_t index, ProbeKind kind);
  // What a kubelet's probe workers count; moments are the host's.
  TimePoint started_time(const ContainerRun& run) const;
  TimePoint beat_base(const Pod& pod, size_t index, ProbeKind kind) const;
  ProbeTally uncounted(const Pod& pod, size_t index, ProbeKind kind, TimePoint until) const;
  ProbeTallies tallies_of(const Pod& pod, size_t index) const;
  void begin_tally(Pod& pod, size_t index, ProbeKind kind, TimePoint from);
  void end_tally(Pod& pod, size_t index, ProbeKind kind, TimePoint until);
  void move_readiness_beat(Pod& pod, size_t index, TimePoint first);
  void end_probing(Pod& pod, size_t index, TimePoint at);
  Duration age_of(const ContainerRun& run) const;
  int64_t seconds_up(const ContainerRun& run) const;
  TimePoint probe_tick(const Pod& pod, size_t index, ProbeKind kind, TimePoint after) const;

  // hooks.cc
  bool hook_fails(const Pod& pod, size_t index, const Hook& hook) const;
  bool begin_post_start(Pod& pod, size_t index);
  void post_start_failed(Pod& pod, size_t index);
  void hook_stopped(Pod& pod);
  Duration pre_stop(Pod& pod, size_t index, int64_t grace_seconds);

  // resizing.cc
  void take_new_spec(Pod& pod, const kube::Json& json);
  static void keep_scripts(Pod& pod, const PodTemplate& old);
  static void place_ephemerals(Pod& pod, const PodTemplate& old, const PodTemplate& fresh);
  static void reset_backoffs(Pod& pod, const PodTemplate& old, const PodTemplate& fresh);
  bool resources_differ(const PodTemplate& a, const PodTemplate& b) const;
  void consider_resize(Pod& pod);
  void retry_pending_resize(Pod& pod);
  void tell_late_resize(Pod& pod, const kube::Json& json);
  void meet_new_spec(Pod& pod, const kube::Json& json);
  void take_next_spec(Pod& pod);
  void look_at_ended(Pod& pod, const kube::Json& json, bool changed);
  void show_rejected(Pod& pod);
  void grant_resize(Pod& pod);
  void hold_resize(Pod& pod, const std::string& reason, const std::string& message);
  bool actuate_resize(Pod& pod);
  static bool resize_is_due(const Pod& pod);
  void finish_resize(Pod& pod);
  void room_was_made();
  // What another pod must do, when the present one is done with.
  enum class Wake : unsigned char { kSettle, kResize, kAdmission };
  void wake_later(Pod& pod, Wake wake);
  void wake_others();
  std::vector<const PodTemplate*> templates_beside(const Pod& pod) const;

  // restarting.cc
  bool begin_reset(Pod& pod);
  void end_reset(Pod& pod);

  // preempting.cc
  bool make_room(Pod& pod, const std::vector<Shortage>& shortages);
  void evict(Pod& pod, Eviction eviction);
  void admission_goes_on(Pod& pod);

  // evicting.cc
  ResourceUse use_of(const Pod& pod, size_t index) const;
  ResourceUse use_of(const Pod& pod) const;
  static int64_t volume_use(const Pod& pod, size_t index);
  void measure_volumes(Pod& pod);
  Observations observe_node() const;
  bool short_of_disk() const;
  bool images_make_room(const Starved& starved);
  unsigned pressure() const;
  void watch_use(const Pod& pod);
  bool never_short() const;
  bool is_gone(const std::string& uid);
  void look_at_use();
  bool evict_for_use(Pod& pod, const std::string& message, int64_t grace_seconds, bool disruption,
                     std::string annotations);
  std::string over_limit(const Pod& pod) const;
  void evict_over_limits();
  std::vector<Pod*> ranked_for(const Starved& starved);
  std::string low_message(const Pod& pod, const Starved& starved, std::string* annotations) const;
  void evict_for(const Starved& starved);

  // holding.cc
  bool wants_devices(const Pod& pod) const;
  static ContainerDemand demand_of(const Pod& pod, size_t index);
  void take_devices(Pod& pod, const kube::Json& json, bool node_is_fresh);
  void devices_taken(Pod& pod, const kube::Json& json, bool node_is_fresh, const Status& status);
  std::shared_ptr<const kube::Json> node_for(const Pod& pod) const;
  void give_back_devices(const Pod& pod);
  bool devices_told(const Pod& pod, const kube::Json& json) const;
  Start prepare_devices(Pod& pod, size_t index);
  void devices_prepared(Pod& pod, size_t index, const Status& status, bool inside);
  void adopt_devices(Pod& pod, size_t index, const kube::Json& status);

  // mirroring.cc
  static bool is_critical(const Pod& pod) { return pod.spec->priority >= kCriticalPriority || is_static(pod); }
  static bool is_static(const Pod& pod) { return pod.extras != nullptr && pod.extras->mirror != nullptr; }
  Pod* find_static(std::string_view ns, std::string_view name);
  void add_static_pod(kube::Json pod);
  void withdraw(Pod& pod);
  void start_waiting_static_pods();
  void on_mirror(const kube::Json& json, std::string_view ns, std::string_view name, std::string_view uid);
  void reconcile_mirror(Pod& pod);
  void withdraw_mirror(Pod& pod);
  void create_mirror(Pod& pod);
  void delete_mirror(Pod& pod);
  void on_mirror_answer(Pod& pod, bool deleted, const ApiResponse& response);
  void mirror_lost(Pod& pod);
  // A mirror of no static pod that is there.
  struct StrangeMirror {
    std::string ns, name, uid, hash;
    TimePoint until = {};  // then it is taken away
  };
  void note_strange_mirror(StrangeMirror mirror);
  void delete_strange_mirrors();

  // stopping.cc
  void terminate(Pod& pod, Cause cause);
  TimePoint stop_containers(Pod& pod, int64_t grace_seconds);
  TimePoint stop_one(Pod& pod, size_t index, TimePoint from, int64_t grace_seconds, TimePoint turn);
  void finish(Pod& pod);
  static bool has_initialized(const Pod& pod);
  void mark_lost(Pod& pod);

  // mounting.cc
  void begin_mounting(Pod& pod);
  bool all_mounted(const Pod& pod) const;
  void mounted(Pod& pod);
  void mount_step(Pod& pod);
  void ask_for_volumes(Pod& pod);
  void send_token_request(Pod& pod, size_t index);
  void look_for_pull_secrets(Pod& pod);
  void on_pull_secret(Pod& pod, size_t index, const ApiResponse& response);
  void fetch_pull_secrets(Pod& pod, size_t index, bool verifies);
  void take_pull_secret(Pod& pod, size_t index, const ApiResponse& response);
  bool claims_missing(Pod& pod);
  void tell_unmounted(Pod& pod, const std::string& failed, const std::string& why);
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
  void tell(Pod& pod, bool warning, std::string_view reason, std::string message, int container = -1,
            std::string annotations = {});
  void flush_events(Pod& pod);
  void event_done(EventLog& log);
  void forget_events(Pod& pod);
  void on_event_answer(Pod& pod, const ApiResponse& response);
  std::string render_event(const Pod& pod, const QueuedEvent& event) const;
  std::string event_name(const Pod& pod, const EventRecord& record) const;

  // behavior_draws.cc
  static const Script& script_of(const Pod& pod, size_t index);  // of its present attempt
  void draw_script(Pod& pod, size_t index);
  uint32_t script_line(const Pod& pod, size_t index) const;

  // pod_view.cc
  PodView view_of(const Pod& pod) const;

  // While the use of a pod is told, or a pressure lasts.
  struct Monitoring {
    PressureMonitor monitor;
    TimePoint due = kNever;            // of the next look
    std::vector<std::string> leaving;  // uids of pods that were evicted and are not gone yet
    TimePoint patience;                // until then they are waited for
  };

  struct Slot {
    uint64_t uid_hash = 0;
    TimePoint due = kNever;
    std::unique_ptr<Pod> pod;
  };

  const NodeFacts& node_;
  std::shared_ptr<const PodOptions> options_;
  Host& host_;
  NodeImages own_images_;
  ImagePuller& images_;
  std::vector<Slot> slots_;
  std::vector<bool> ips_;                            // given out
  std::vector<std::pair<std::string, Wake>> wakes_;  // by uid
  std::unique_ptr<Monitoring> monitoring_;
  // Expires with this object: answers of device plugins and drivers may come later.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  std::map<ReadTicket, std::string> reads_;  // to the uid of the pod
  ReadTicket last_read_ = 0;
  std::unique_ptr<ClaimCache> claims_;  // once a pod has one; null when the node's drivers keep it
  std::vector<StrangeMirror> strange_mirrors_;
  std::vector<kube::Json> waiting_static_;  // until an earlier one of their name is gone
  // A kubelet's eventRecordQPS and eventBurst; client-go's flow control lets a write wait its turn.
  TokenBucket event_limiter_{50, 100};
  size_t queued_events_ = 0;
  TimePoint armed_ = kNever;
  int64_t phase_ns_ = 0;  // of the node's ticks
  uint32_t count_ = 0, running_ = 0, finished_ = 0, next_ip_ = 0;
  uint16_t next_serial_ = 1;
};

}  // namespace ghostfleet::agent
