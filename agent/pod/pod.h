// Pod: the state of one pod on its node, as small as it can be: the spec is in a shared template, texts are made when
// they are sent, and what was sent is remembered as hashes.
//
// Thread rule: the node's thread. Units: TimePoint for what will happen, WallTime for what the status says.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/dra/claims.h"
#include "agent/pod/backoff.h"
#include "agent/pod/image_puller.h"
#include "agent/pod/pod_template.h"
#include "agent/pod/probe_tally.h"
#include "base/clock.h"

namespace ghostfleet::agent {

inline constexpr TimePoint kNever{INT64_MAX};

enum class Phase : unsigned char { kPending, kRunning, kSucceeded, kFailed };
inline bool is_terminal(Phase p) { return p == Phase::kSucceeded || p == Phase::kFailed; }
std::string_view phase_name(Phase phase);

enum class Qos : unsigned char { kBestEffort, kBurstable, kGuaranteed };

// Active: started and kept running. Terminating: its containers stop. Finished: nothing runs, the last status is known.
enum class Stage : unsigned char { kActive, kTerminating, kFinished };
// What the pod's worker is busy with; until it is done nothing else happens to the pod.
enum class Work : unsigned char {
  kNone,
  kAdmitting,  // others make room for it
  kMounting,
  kClaiming,   // its claims are read, and prepared
  kReleasing,  // its claims are given back
  kStarting,
  kPulling,
  kFetching,
  kPreparing,  // device plugins are told of a container that starts
  kHook,       // a postStart hook runs
  kHookStop,   // it failed, and its container is stopped
  kKilling
};
// Ended: by its deadline, an eviction or another writer.
enum class Cause : unsigned char { kDeleted, kEnded, kCompleted };

enum class RunState : unsigned char { kAbsent, kRunning, kExited };
// Why a container waits.
enum class Why : unsigned char {
  kNone,
  kErrImagePull,
  kImagePullBackOff,
  kErrImageNeverPull,
  kInvalidImageName,
  kConfigError,  // a variable's object is missing
  kNoKey,        // or a key in it
  kBadSpec,      // ContainerSpec::config_error
  kNotRoot,
  kPostStartHook,
  kCrashLoop,
  kRestartingAll,
  kNotPrepared  // a device plugin's PreStartContainer failed
};

// One attempt that ended.
struct Ended {
  WallTime started, finished;
  int32_t code = 0;
  bool known = false;    // there was such an attempt
  bool located = true;   // false: a container that never ran when its pod was stopped
  bool reset = false;    // taken away because all containers start afresh
  bool at_boot = false;  // it ran when the machine was started anew
  uint32_t attempt = 0;
};

// A container as seen at some moment.
struct Look {
  RunState state = RunState::kAbsent;
  Why why = Why::kNone;  // with it the state is "waiting"
  uint8_t detail = 0;    // which variable's object is missing
  bool ready = false;
  bool started = false;
  uint32_t attempt = 0;
  uint32_t backoff_seconds = 0;
  WallTime started_at;
  Ended end;   // of this attempt, when it exited
  Ended last;  // of the one before
};

struct Probing {
  std::array<TimePoint, kProbeKinds> due{kNever, kNever, kNever};
  TimePoint ready_base;  // the readiness probe's beat begins with its first run
  std::array<uint16_t, kProbeKinds> good{}, bad{};
  // Until when the answers of each kind are in ContainerRun::tallied; kNever: a kubelet's worker does not ask.
  std::array<TimePoint, kProbeKinds> counted{kNever, kNever, kNever};
};

// Where a container is with the files that its script says it reads; of one attempt.
struct Reading {
  TimePoint due = kNever;  // of the next one
  TimePoint begun;         // ages count from here: what a read took is no time for the container
  size_t next = 0;         // of Script::reads
  ReadTicket ticket = 0;   // of the one that is on its way; 0: none
  TimePoint asked;
  bool wants_secrets = false;  // it waits for what the pull secrets say
  TimePoint held = kNever;     // when the container would have ended if it had not to wait
};

struct ContainerRun {
  Look now;    // the truth
  Look shown;  // as the last status says it
  TimePoint exit_due = kNever;
  TimePoint ended_at;  // when `now.end` happened
  int32_t exit_code = 0;
  Why reason = Why::kNone;  // of the last try to start it, until one succeeds
  uint8_t reason_detail = 0;
  bool unhealthy = false;  // a probe failed too often: to be killed and started again
  ProbeKind failed_probe = ProbeKind::kLiveness;
  uint32_t image_hash = 0;                     // of the image it was made with
  uint32_t script_from = 0;                    // the attempt at which its script begins
  std::unique_ptr<const std::string> made_of;  // the image it was made of, when the spec has another one by now
  // Of this attempt, when its script leaves something to chance, or has been changed since.
  std::unique_ptr<const Script> drawn;
  bool stale_started = false;    // `started` is still that of the container before
  bool fresh = false;            // made, and its probes do not know it yet
  bool passed_at_start = false;  // its startup probe, if it has one, was part of the start
  bool tried = false;            // in this pass of the worker
  bool killed_in_pass = false;
  bool must_restart = false;   // stopped in this pass to be started again
  bool image_ready = false;    // pulled in this pass
  bool objects_ready = false;  // fetched in this pass
  bool devices_ready = false;  // told in this pass
  Backoff backoff, image_backoff;
  TimePoint pull_began, pull_failed_at;
  std::unique_ptr<Reading> reading;       // while it runs, when it reads files of its image
  std::unique_ptr<Probing> probing;       // while it runs, when it has probes
  std::unique_ptr<ProbeTallies> tallied;  // of all attempts, as far as probing->counted says
};

enum ConditionType : unsigned char {
  kReadyToStart,
  kInitialized,
  kReady,
  kContainersReady,
  kScheduled,
  kAllRestarting,  // only of pods with a rule that restarts all containers
  kConditions
};
enum class ConditionReason : unsigned char {
  kNone,
  kContainersNotReady,
  kContainersNotInitialized,
  kReadinessGatesNotReady,
  kPodCompleted,
  kPodFailed,
  kRestartAllStarted
};
std::string_view condition_name(int type);
std::string_view condition_reason(ConditionReason reason);

struct Condition {
  bool status = false;
  bool set = false;  // has been computed before
  ConditionReason reason = ConditionReason::kNone;
  int64_t since = 0;  // wall seconds
};

struct EventRecord {
  uint64_t key = 0;
  int64_t nanos = 0;  // makes the event's name
  int64_t first = 0;  // wall seconds
  uint32_t count = 0;
  uint32_t group = 0;  // hash of type and reason
  uint32_t text = 0;   // hash of the message
  bool combined = false;
};

struct QueuedEvent {
  uint32_t record = 0;
  uint32_t count = 1;
  bool patch = false;
  bool warning = false;
  bool combined = false;
  uint8_t tries = 0;
  int64_t last = 0;  // wall seconds
  std::string reason, message, field;
  std::string annotations;  // a JSON object; empty: none
};

// client-go's filter: 25 events of one type about one object at once, then one each 5 minutes.
struct SpamFilter {
  static constexpr double kBurst = 25;
  static constexpr double kPerSecond = 1.0 / 300;
  float tokens = kBurst;
  TimePoint at;
  bool take(TimePoint now);
};

struct EventLog {
  std::vector<EventRecord> records;
  SpamFilter filters[2];  // Normal, Warning
  std::unique_ptr<std::deque<QueuedEvent>> queue;
  TimePoint due = kNever;  // of a retry, or of its turn
  bool in_flight = false;
  bool reserved = false;  // `due` is a turn that it has
};

// Where each volume of a pod stands; only while it is being mounted.
struct Mounting {
  TimePoint begun;
  TimePoint retry = kNever;
  int tries = 0;
  int waiting = 0;  // answers not there yet
  bool asked = false;
  bool complained = false;  // the time-out was reported
  bool seen_once = false;   // a claim was missing before
  std::string claim_problem;
  std::vector<char> done;  // tokens first, then objects
};

enum class ObjectState : unsigned char { kUnknown, kThere, kMissing, kNoKey };

// A condition that few pods have.
struct Note {
  int64_t generation = 0;  // 0: it is not there
  int64_t since = 0;       // wall seconds
  std::string reason, message;
};

// Resources of a running pod that changed.
struct Resizing {
  std::shared_ptr<const PodTemplate> granted;   // whose resources the node has set aside; null: the spec's
  std::shared_ptr<const PodTemplate> in_force;  // whose resources the containers have; null: the granted ones
  Note pending, progress;
};

// How full its emptyDir volumes were when they were measured last.
struct VolumeLook {
  TimePoint due;
  std::vector<int64_t> used;  // as spec->empty_dirs
};

// Of a static pod: the pod in the API that stands for it.
struct Mirror {
  kube::Json object;  // as it is created
  std::string hash;
  std::string uid;         // of the one that is there; empty: none
  bool wrong = false;      // that one is being deleted, or stands for an earlier manifest
  bool asked = false;      // a POST or DELETE is on its way
  bool withdrawn = false;  // its manifest is gone
  bool told = false;       // one that was there has had the status
  std::string asked_uid;   // of the one to be deleted
  TimePoint retry = kNever;
};

// The pull secrets of a pod while a pull waits for them.
struct SecretFetch {
  size_t waiting = 0;
  std::vector<char> answered;       // by index of the spec's
  std::vector<PullSecret> secrets;  // the same
  bool verifies = false;            // the image is there: may the pod have it?
};

// Why an attempt of a container ended that could not read: the line that it wrote.
struct ReadFailure {
  uint32_t container = 0, attempt = 0;
  std::string line;
};

// What few pods need.
struct Extras {
  // Attempts taken over from an earlier agent, and their ids, by container; an empty id is one we would make up too.
  std::vector<std::pair<uint32_t, std::string>> container_ids;
  std::string ip, second_ip;    // taken over
  std::string reason, message;  // of a rejected or killed pod
  std::unique_ptr<Mounting> mounting;
  std::vector<ObjectState> object_state;  // of the container being created
  int fetching = 0;
  int fetch_index = -1;  // the container they are for
  std::unique_ptr<Resizing> resizing;
  std::vector<char> missing_pull_secrets;  // by index of the spec's
  Note disruption;                         // condition DisruptionTarget
  int64_t grace_override = -1;             // of an eviction
  std::vector<std::string> victims;        // uids of the pods that make room for it
  std::unique_ptr<kube::Json> json;        // while its admission waits for the node's newest object
  std::unique_ptr<kube::Json> next;        // as it is by now, while the worker is busy with what it was
  std::unique_ptr<VolumeLook> volumes;
  std::unique_ptr<PodClaims> claims;
  std::unique_ptr<Mirror> mirror;
  std::vector<std::pair<uint32_t, std::string>> pull_errors;  // of the last try that failed, by container
  std::vector<std::pair<uint32_t, std::string>> image_ids;    // of images that were really pulled, by container
  std::unique_ptr<SecretFetch> secrets;
  std::unique_ptr<SecretFetch> read_secrets;  // the same for reads
  std::vector<ReadFailure> read_failures;     // of the last two attempts of each container

  void set_image_id(uint32_t container, std::string id) {
    std::erase_if(image_ids, [container](const auto& one) { return one.first == container; });
    if (!id.empty()) image_ids.emplace_back(container, std::move(id));
  }
  // Empty: it is made up.
  std::string_view image_id(size_t container) const {
    for (const auto& [of, id] : image_ids) {
      if (of == container) return id;
    }
    return {};
  }

  void set_pull_error(uint32_t container, std::string error) {
    std::erase_if(pull_errors, [container](const auto& one) { return one.first == container; });
    pull_errors.emplace_back(container, std::move(error));
  }
  std::string pull_error(size_t container) const {
    for (const auto& [of, error] : pull_errors) {
      if (of == container) return error;
    }
    return {};
  }
};

inline constexpr int kPieces = 18;

struct Pod {
  std::shared_ptr<const PodTemplate> spec;
  std::string key;  // namespace, name and uid, one after the other
  uint16_t ns_size = 0, name_size = 0;
  uint16_t serial = 0;
  std::array<char, 6> suffix{};  // of the token volume
  uint32_t slot = 0;
  uint32_t ip_index = UINT32_MAX;
  uint32_t labels = 0;  // hash of its labels and annotations
  uint64_t resource_version = 0;
  int64_t generation = 0;  // of the spec acted on
  int64_t start_time = 0;  // wall seconds, 0: no status yet
  int64_t deletion_grace = -1;

  Qos qos = Qos::kBurstable;
  Stage stage = Stage::kActive;
  Work work = Work::kNone;
  Cause cause = Cause::kCompleted;
  Phase shown = Phase::kPending;      // as the status says it
  Phase acked = Phase::kPending;      // as the API server has it
  Phase in_flight = Phase::kPending;  // of the PATCH on its way

  bool mounted : 1 = false, sandbox : 1 = false, ip_shown : 1 = false, scheduled_by_other : 1 = false;
  bool rejected : 1 = false, deleting : 1 = false, gone : 1 = false, ever_started : 1 = false;
  bool deadline_hit : 1 = false, complained : 1 = false;
  bool pass_changed : 1 = false, pass_failed : 1 = false, sync_pending : 1 = false, stop_pending : 1 = false;
  bool dirty : 1 = false, sending : 1 = false, terminal_acked : 1 = false;
  bool deleted_sent : 1 = false, api_conditions : 1 = false;
  bool kill_all : 1 = false, delete_next : 1 = false, reset_all : 1 = false, evicted : 1 = false;
  bool was_refused : 1 = false;      // rejected, and looked at since then
  bool was_initialized : 1 = false;  // when it began to stop
  bool claims_ready : 1 = false;     // for the sandbox that is about to be made
  bool ended_by_other : 1 = false;   // another writer gave it the terminal phase that it shows
  uint8_t refused = 0;               // status writes answered 403 in a row
  uint8_t drift = 0;                 // bits of conditions that others overwrote
  // Bits of readiness gates: True, there at all, and Unknown.
  uint32_t gates_true = 0, gates_known = 0, gates_unknown = 0;
  uint32_t busy_with = 0;  // container being pulled or fetched
  Duration pass_delay{0};  // wait before the next try
  uint32_t pass_made = 0;  // containers made in this pass of the worker

  std::array<Condition, kConditions> conditions;
  std::vector<ContainerRun> runs;  // as spec->containers
  EventLog events;
  std::unique_ptr<Extras> extras;
  std::array<uint32_t, kPieces> sent{};  // hashes of the pieces of the status
                                         // that the API server has (light)

  TimePoint probe_base;
  TimePoint work_due = kNever, sync_due = kNever, send_due = kNever, drift_due = kNever, delete_due = kNever,
            deadline_due = kNever, token_due = kNever;

  std::string_view ns() const { return std::string_view(key).substr(0, ns_size); }
  std::string_view name() const { return std::string_view(key).substr(ns_size, name_size); }
  std::string_view uid() const { return std::string_view(key).substr(ns_size + name_size); }
  std::string_view token_suffix() const { return suffix.data(); }
  // Of the object in the API: a static pod's is its mirror's, empty while there is none.
  std::string_view api_uid() const {
    return extras != nullptr && extras->mirror != nullptr ? std::string_view(extras->mirror->uid) : uid();
  }
  Extras& more() {
    if (extras == nullptr) extras = std::make_unique<Extras>();
    return *extras;
  }
  PodClaims* claims() const { return extras != nullptr ? extras->claims.get() : nullptr; }
  bool holds_resources() const { return stage != Stage::kFinished; }
  // The specs whose resources the node has set aside for it, and whose resources its containers have.
  const PodTemplate& granted() const {
    const Resizing* r = extras != nullptr ? extras->resizing.get() : nullptr;
    return r != nullptr && r->granted != nullptr ? *r->granted : *spec;
  }
  const PodTemplate& in_force() const {
    const Resizing* r = extras != nullptr ? extras->resizing.get() : nullptr;
    return r != nullptr && r->in_force != nullptr ? *r->in_force : granted();
  }
};

}  // namespace ghostfleet::agent
