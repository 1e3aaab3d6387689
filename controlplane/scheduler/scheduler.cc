#include "controlplane/scheduler/scheduler.h"

#include <fmt/format.h>

#include "base/log.h"
#include "controlplane/apiserver/json_scan.h"
#include "controlplane/scheduler/scheduler_impl.h"

namespace ghostfleet::controlplane {

using kube::Json;
using scheduling::Engine;

namespace {

constexpr Duration kSlice = std::chrono::milliseconds(8);
constexpr Duration kLeaseLook = std::chrono::seconds(2);
constexpr Duration kRetryParked = std::chrono::milliseconds(200);
constexpr Duration kFlushParked = std::chrono::minutes(5);
constexpr Duration kBackoffMin = std::chrono::seconds(1);
constexpr Duration kBackoffMax = std::chrono::seconds(10);

bool finished(std::string_view phase) { return phase == "Succeeded" || phase == "Failed"; }

std::string controller_uid(std::string_view metadata) {
  const std::string_view refs = json_member(metadata, "ownerReferences");
  if (refs.empty()) return "";
  const auto parsed = kube::parse_json(refs);
  if (!parsed.ok() || !parsed->is_array()) return "";
  for (const Json& ref : parsed->get_array()) {
    if (kube::get_bool(ref, "controller")) return std::string(kube::get_string(ref, "uid"));
  }
  return "";
}

// The parts of a node the engine reads, raw. Most of a node's bytes are conditions, images and ownership, and most of
// its events are heartbeats: they are told apart without parsing.
struct NodeParts {
  std::string_view spec, allocatable, capacity;

  explicit NodeParts(const Object& node) {
    std::string_view status;
    for_each_json_member(node.json, [&](std::string_view key, std::string_view value) {
      if (key == "spec") spec = value;
      if (key == "status") status = value;
      return status.empty();
    });
    for_each_json_member(status, [&](std::string_view key, std::string_view value) {
      if (key == "allocatable") allocatable = value;
      if (key == "capacity") capacity = value;
      return allocatable.empty() || capacity.empty();
    });
  }
  bool operator==(const NodeParts&) const = default;
};

Result<Json> read_node(const Object& node) {
  const NodeParts parts(node);
  const auto or_null = [](std::string_view raw) { return raw.empty() ? std::string_view("null") : raw; };
  const std::string_view labels = json_at_path(node.json, "metadata.labels");
  return kube::parse_json(
      fmt::format(R"({{"metadata":{{"name":"{}","labels":{}}},"spec":{},"status":{{"allocatable":{},"capacity":{}}}}})",
                  node.key, or_null(labels), or_null(parts.spec), or_null(parts.allocatable), or_null(parts.capacity)));
}

}  // namespace

Scheduler::Impl::Impl(Api& a, Options o)
    : api(a),
      options(std::move(o)),
      events(a, loop, options.scheduler_name),
      context(internal_context("kube-scheduler")),
      engine(options.seed != 0 ? options.seed : static_cast<uint64_t>(a.clock().wall_now().ns)),
      scheduled(metrics.counter("scheduler_schedule_attempts_total", "attempts by result", {{"result", "scheduled"}})),
      unschedulable(
          metrics.counter("scheduler_schedule_attempts_total", "attempts by result", {{"result", "unschedulable"}})),
      errors(metrics.counter("scheduler_schedule_attempts_total", "attempts by result", {{"result", "error"}})),
      preemptions(metrics.counter("scheduler_preemption_attempts_total", "pods that had others sent away")),
      victims_total(metrics.counter("scheduler_preemption_victims_total", "pods that were sent away")),
      latency(metrics.histogram("scheduler_pod_scheduling_sli_duration_seconds", "from seen to bound")) {}

void Scheduler::Impl::start() {
  nodes = std::make_unique<KindWatch>(api.store(), nodes_resource->store_kind, loop);
  pods = std::make_unique<KindWatch>(api.store(), pods_resource->store_kind, loop);
  nodes->subscribe([this](const ObjectRef& old, const ObjectRef& now) { on_node(old, now); });
  pods->subscribe([this](const ObjectRef& old, const ObjectRef& now) { on_pod(old, now); });
  if (claims_resource != nullptr) start_claims();
  if (budgets_resource != nullptr) {
    budgets = std::make_unique<KindWatch>(api.store(), budgets_resource->store_kind, loop);
    budgets->subscribe([this](const ObjectRef& old, const ObjectRef& now) { on_budget(old, now); });
    budgets->when_synced([this] { pods->start(); });
  }
  nodes->when_synced([this] { (budgets != nullptr ? budgets : pods)->start(); });
  pods->when_synced([this] { become_ready(); });
  nodes->start();
  look_at_lease();
  flush_parked();
}

// Nobody is placed before all is known, least of all who has which devices.
void Scheduler::Impl::become_ready() {
  const auto is_there = [](const std::unique_ptr<KindWatch>& watch) { return watch == nullptr || watch->synced(); };
  ready = pods->synced() && is_there(claims) && is_there(slices) && is_there(device_classes);
  schedule_run();
}

void Scheduler::Impl::on_node(const ObjectRef& old, const ObjectRef& now) {
  if (!now) {
    engine.remove_node(old->key);
    return arm_wake();
  }
  if (old && old->labels == now->labels && NodeParts(*old) == NodeParts(*now)) return;
  const auto node = read_node(*now);
  if (!node.ok()) return;
  engine.set_node(scheduling::offer_of(*node, engine.resources()));
  arm_wake();
  if (old) return;
  const auto waiting = waiting_for_node.find(now->key);
  if (waiting == waiting_for_node.end()) return;
  const std::vector<std::string> keys = std::move(waiting->second);
  waiting_for_node.erase(waiting);
  for (const std::string& key : keys) {
    const auto it = records.find(key);
    if (it == records.end() || it->second.waits_for != now->key) continue;
    it->second.waits_for.clear();
    it->second.node = engine.find_node(now->key);
    if (it->second.node != Engine::kNoNode) engine.assign(it->second.pod_class, it->second.node);
  }
}

void Scheduler::Impl::forget(const std::string& key) {
  const auto it = records.find(key);
  if (it == records.end()) return;
  PodRecord& record = it->second;
  if (record.node != Engine::kNoNode) {
    engine.unassign(record.pod_class, record.node);
    arm_wake();
  }
  engine.release(record.pod_class);
  const std::string uid = std::move(record.uid);
  records.erase(it);
  victim_left(uid);
}

void Scheduler::Impl::on_pod(const ObjectRef& old, const ObjectRef& now) {
  if (!now) return forget(old->key);
  const std::string_view json = now->json;
  const std::string_view spec = json_member(json, "spec");
  const std::string node = json_text(json_member(spec, "nodeName"));
  const std::string phase = json_text(json_member(json_member(json, "status"), "phase"));
  if (finished(phase)) return forget(now->key);
  const auto known = records.find(now->key);
  if (known != records.end()) {
    PodRecord& record = known->second;
    const bool same = json_text(json_at_path(json, "metadata.uid")) == record.uid;
    const bool placed = record.node != Engine::kNoNode || !record.waits_for.empty();
    if (same && placed && !node.empty()) {
      record.object = now;
      record.state = PodRecord::State::kAssigned;
      return;
    }
    if (same && !placed && node.empty() && record.state != PodRecord::State::kBackoff && old &&
        json_member(old->json, "spec") == spec && old->labels == now->labels) {
      record.object = now;  // status only, such as the condition we set ourselves
      if (record.has_claims &&
          json_at_path(old->json, "status.resourceClaimStatuses") != json_at_path(json, "status.resourceClaimStatuses"))
        devices_changed();
      if (json_at_path(json, "metadata.deletionTimestamp").empty()) return;
    }
    if (same && placed && node.empty()) return;  // an event from before our own binding
    forget(now->key);
  }
  take_in(now, spec, node);
}

void Scheduler::Impl::take_in(const ObjectRef& object, std::string_view spec, std::string_view node) {
  const std::string_view metadata = json_member(object->json, "metadata");
  if (node.empty()) {
    if (!json_member(metadata, "deletionTimestamp").empty()) return;
    if (json_text(json_member(spec, "schedulerName")) != options.scheduler_name) return;
    const std::string_view gates = json_member(spec, "schedulingGates");
    if (!gates.empty() && gates != "[]" && gates != "null") return;
  }
  const auto parsed = kube::parse_json(spec);
  if (!parsed.ok()) return;
  scheduling::PodNeeds needs =
      scheduling::needs_of(*parsed, object->ns(), object->labels, controller_uid(metadata), engine.resources());
  PodRecord record{
      .object = object, .uid = json_text(json_member(metadata, "uid")), .pin = needs.pin, .seen = loop.now()};
  const kube::JsonArray* claims = kube::get_array(*parsed, "resourceClaims");
  record.has_claims = claims_resource != nullptr && claims != nullptr && !claims->empty();
  if (claims_resource != nullptr) {
    record.extended = scheduling::extended_requests(
        *parsed, [this](std::string_view resource) { return engine.resources().id(resource); });
  }
  record.never_preempts = kube::get_string(*parsed, "preemptionPolicy") == "Never";
  record.pod_class = engine.class_of(std::move(needs));
  engine.hold(record.pod_class);
  PodRecord& kept = records.insert_or_assign(object->key, std::move(record)).first->second;
  if (node.empty()) return enqueue(object->key, kept);
  kept.state = PodRecord::State::kAssigned;
  kept.node = engine.find_node(node);
  if (kept.node != Engine::kNoNode) {
    engine.assign(kept.pod_class, kept.node);
  } else {
    kept.waits_for = node;
    waiting_for_node[std::string(node)].push_back(object->key);
  }
}

void Scheduler::Impl::enqueue(const std::string& key, PodRecord& record) {
  record.state = PodRecord::State::kQueued;
  queue[engine.priority(record.pod_class)].push_back(key);
  schedule_run();
}

void Scheduler::Impl::schedule_run() {
  if (posted || standby || !ready || queue.empty()) return;
  posted = true;
  loop.post([this] {
    posted = false;
    run_slice();
  });
}

void Scheduler::Impl::run_slice() {
  if (standby) return;
  const TimePoint end = loop.now() + kSlice;
  while (!queue.empty()) {
    auto band = queue.begin();
    const std::string key = std::move(band->second.front());
    band->second.pop_front();
    if (band->second.empty()) queue.erase(band);
    schedule_one(key);
    if (loop.now() >= end) break;
  }
  schedule_run();
}

bool Scheduler::Impl::schedule_one(const std::string& key) {
  const auto it = records.find(key);
  if (it == records.end() || it->second.state != PodRecord::State::kQueued || it->second.node != Engine::kNoNode) {
    return false;
  }
  PodRecord& record = it->second;
  if (uses_devices(record)) return schedule_with_claims(key, record);
  const Engine::Placement place = engine.place(record.pod_class, record.pin);
  if (place.node == Engine::kNoNode) {
    if (!preempt(key, record, place.message)) park(key, record, place.message);
    return false;
  }
  return bind_to(key, record, place.node);
}

bool Scheduler::Impl::bind_to(const std::string& key, PodRecord& record, Engine::NodeId node) {
  engine.assign(record.pod_class, node);
  record.node = node;
  context.warnings.clear();
  const auto done = api.bind(record.object->ns(), record.object->name(), record.uid, engine.node_name(node), context);
  if (!done.ok()) {
    refuse(key, record, done.error());
    return false;
  }
  record.object = *done;
  bound(key, record);
  return true;
}

void Scheduler::Impl::bound(const std::string& key, PodRecord& record) {
  record.state = PodRecord::State::kAssigned;
  scheduled.add();
  latency.record(loop.now() - record.seen);
  if (!options.events) return;
  const ObjectReference about{"v1",       "Pod", std::string(record.object->ns()), std::string(record.object->name()),
                              record.uid, ""};
  events.record_action(about, "Normal", "Scheduled", "Binding",
                       fmt::format("Successfully assigned {} to {}", key, engine.node_name(record.node)));
}

void Scheduler::Impl::refuse(const std::string& key, PodRecord& record, const kube::ApiError& error) {
  engine.unassign(record.pod_class, record.node);
  record.node = Engine::kNoNode;
  errors.add();
  if (error.code == 404) return forget(key);
  log_debug("scheduler", fmt::format("binding {}: {}", key, error.message));
  record.state = PodRecord::State::kBackoff;
  Duration wait = kBackoffMin;
  for (int i = 0; i < record.failures && wait < kBackoffMax; ++i) wait *= 2;
  ++record.failures;
  loop.run_after(std::min(wait, kBackoffMax), [this, key, uid = record.uid] {
    const auto it = records.find(key);
    if (it == records.end() || it->second.uid != uid || it->second.state != PodRecord::State::kBackoff) return;
    enqueue(key, it->second);
  });
}

void Scheduler::Impl::park(const std::string& key, PodRecord& record, const std::string& message) {
  unschedulable.add();
  record.state = PodRecord::State::kParked;
  parked[record.pod_class].push_back(key);
  if (record.message != message) tell_unschedulable(record, message, "");
}

// `nominated`: the node that will be its, empty: none.
bool Scheduler::Impl::tell_unschedulable(PodRecord& record, const std::string& message, const std::string& nominated) {
  record.message = message;
  const std::string ns(record.object->ns()), name(record.object->name()), uid = record.uid;
  context.warnings.clear();
  const auto done = api.modify(
      *pods_resource, ns, name, "status",
      [&](Json& live) -> kube::ApiResult<bool> {
        if (kube::get_string(live, "metadata.uid") != uid || !kube::get_string(live, "spec.nodeName").empty())
          return false;
        if (!nominated.empty()) kube::set_path(live, "status.nominatedNodeName", Json(nominated));
        kube::JsonArray& conditions = kube::ensure_array(live, "status.conditions");
        const std::string now = format_time(api.clock().wall_now());
        for (Json& c : conditions) {
          if (kube::get_string(c, "type") != "PodScheduled") continue;
          if (kube::get_string(c, "status") != "False") kube::set_path(c, "lastTransitionTime", Json(now));
          kube::set_path(c, "status", "False");
          kube::set_path(c, "reason", "Unschedulable");
          kube::set_path(c, "message", Json(message));
          return true;
        }
        conditions.push_back(kube::JsonObject{{"type", "PodScheduled"},
                                              {"status", "False"},
                                              {"lastProbeTime", nullptr},
                                              {"lastTransitionTime", now},
                                              {"reason", "Unschedulable"},
                                              {"message", message}});
        return true;
      },
      context);
  if (done.ok() && options.events)
    events.record_action({"v1", "Pod", ns, name, uid, ""}, "Warning", "FailedScheduling", "Scheduling", message);
  return done.ok();
}

void Scheduler::Impl::arm_wake() {
  if (!parked_claimants.empty()) devices_changed();
  if (wake_armed || parked.empty()) return;
  wake_armed = true;
  loop.run_after(kRetryParked, [this] {
    wake_armed = false;
    wake_parked();
  });
}

void Scheduler::Impl::wake_parked() {
  std::vector<std::string> awake;
  for (auto it = parked.begin(); it != parked.end();) {
    std::erase_if(it->second, [&](const std::string& key) {
      const auto record = records.find(key);
      return record == records.end() || record->second.state != PodRecord::State::kParked ||
             record->second.pod_class != it->first;
    });
    const bool pinned = !it->second.empty() && !records.find(it->second.front())->second.pin.empty();
    if (it->second.empty() || pinned || engine.may_fit_now(it->first)) {
      awake.insert(awake.end(), it->second.begin(), it->second.end());
      it = parked.erase(it);
    } else {
      ++it;
    }
  }
  for (const std::string& key : awake) {
    const auto it = records.find(key);
    if (it != records.end()) enqueue(key, it->second);
  }
}

void Scheduler::Impl::flush_parked() {
  wake_parked();
  devices_changed();
  loop.run_after(kFlushParked, [this] { flush_parked(); });
}

void Scheduler::Impl::look_at_lease() {
  if (!options.lease_name.empty() && leases_resource != nullptr) {
    const ObjectRef lease =
        api.store().get(leases_resource->store_kind, options.lease_namespace + "/" + options.lease_name);
    bool held = false;
    if (lease) {
      const std::string_view spec = json_member(lease->json, "spec");
      WallTime renewed;
      const std::string seconds = json_text(json_member(spec, "leaseDurationSeconds"));
      if (!json_text(json_member(spec, "holderIdentity")).empty() &&
          parse_time(json_text(json_member(spec, "renewTime")), &renewed)) {
        const int64_t duration = seconds.empty() ? 15 : std::atoll(seconds.c_str());
        held = renewed + std::chrono::seconds(duration) > api.clock().wall_now();
      }
    }
    if (held != standby) {
      log_info("scheduler", held ? "another scheduler holds the lease: standing by" : "scheduling");
      standby = held;
      schedule_run();
    }
  }
  loop.run_after(kLeaseLook, [this] { look_at_lease(); });
}

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scheduler::~Scheduler() { stop(); }
const MetricsRegistry& Scheduler::metrics() const { return impl_->metrics; }

Result<std::unique_ptr<Scheduler>> Scheduler::start(Api& api, Options options) {
  auto impl = std::make_unique<Impl>(api, std::move(options));
  Impl* raw = impl.get();
  raw->pods_resource = api.find("", "v1", "pods");
  raw->nodes_resource = api.find("", "v1", "nodes");
  raw->budgets_resource = api.find("policy", "v1", "poddisruptionbudgets");
  raw->claims_resource = api.find("resource.k8s.io", "v1", "resourceclaims");
  raw->leases_resource = api.find("coordination.k8s.io", "v1", "leases");
  if (raw->pods_resource == nullptr || raw->nodes_resource == nullptr) {
    return Status(Code::kUnimplemented, "the scheduler needs pods and nodes, which this API server does not serve");
  }
  raw->loop.post([raw] { raw->start(); });
  raw->thread = std::thread([raw] { raw->loop.run(); });
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(impl)));
}

void Scheduler::stop() {
  if (!impl_ || !impl_->thread.joinable()) return;
  impl_->loop.stop();
  impl_->thread.join();
}

}  // namespace ghostfleet::controlplane
