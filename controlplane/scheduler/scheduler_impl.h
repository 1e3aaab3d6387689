// What a Scheduler is made of: its queues, what it knows of pods, and the parts of its loop. Not for others.
//
// Thread rule: everything on the scheduler's loop.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/event_loop.h"
#include "controlplane/informer/event_recorder.h"
#include "controlplane/informer/kind_watch.h"
#include "controlplane/scheduler/claim_plan.h"
#include "controlplane/scheduler/devices.h"
#include "controlplane/scheduler/engine.h"
#include "controlplane/scheduler/scheduler.h"

namespace ghostfleet::controlplane {

// A pod as the scheduler knows it.
struct PodRecord {
  ObjectRef object;
  std::string uid;
  scheduling::Engine::ClassId pod_class = 0;
  scheduling::Engine::NodeId node = scheduling::Engine::kNoNode;
  std::string pin, message;
  std::string waits_for;  // a node that is not known yet
  // kNominated: room is kept for it on `node`, where others must leave first.
  enum class State : unsigned char { kQueued, kParked, kBackoff, kAssigned, kNominated } state = State::kQueued;
  bool never_preempts = false;
  size_t victims = 0;  // that it still waits for
  bool has_claims = false;
  std::vector<scheduling::ExtendedRequest> extended;
  int failures = 0;
  TimePoint seen;
};

struct Scheduler::Impl {
  Impl(Api& a, Options o);

  void start();
  void become_ready();
  void on_node(const ObjectRef& old, const ObjectRef& now);
  void on_pod(const ObjectRef& old, const ObjectRef& now);
  void forget(const std::string& key);
  void take_in(const ObjectRef& object, std::string_view spec, std::string_view node);
  void enqueue(const std::string& key, PodRecord& record);
  void schedule_run();
  void run_slice();
  bool schedule_one(const std::string& key);
  bool bind_to(const std::string& key, PodRecord& record, scheduling::Engine::NodeId node);
  void park(const std::string& key, PodRecord& record, const std::string& message);
  bool tell_unschedulable(PodRecord& record, const std::string& message, const std::string& nominated);
  void bound(const std::string& key, PodRecord& record);
  void refuse(const std::string& key, PodRecord& record, const kube::ApiError& error);
  void wake_parked();
  void arm_wake();
  void flush_parked();
  void look_at_lease();

  // preempting.cc
  void on_budget(const ObjectRef& old, const ObjectRef& now);
  bool preempt(const std::string& key, PodRecord& record, const std::string& message);
  std::vector<std::string> pick_victims(const scheduling::Engine::Preemption& plan) const;
  bool evict(const std::string& victim, const PodRecord& preemptor);
  void victim_left(const std::string& uid);

  // claiming.cc
  void start_claims();
  void on_claim(const ObjectRef& old, const ObjectRef& now);
  void devices_changed();
  void wake_claimants();
  std::string read_extended_claim(const kube::Json& pod, std::vector<kube::Json>* out) const;
  bool schedule_with_claims(const std::string& key, PodRecord& record);
  void park_claimant(const std::string& key, PodRecord& record, const std::string& message);
  std::string read_claims(const kube::Json& pod, std::vector<kube::Json>* claims) const;
  bool uses_devices(const PodRecord& record) const;
  bool take_claims(const PodRecord& record, const scheduling::ClaimPlan& plan,
                   const scheduling::ClaimPlan::Found& found);
  bool make_extended_claim(const PodRecord& record, const scheduling::ClaimPlan::Found& found);
  void wake_extended();
  bool reserve(const PodRecord& record, const kube::Json& claim, const kube::Json* allocation);
  void give_up_allocation(const PodRecord& record, const std::vector<kube::Json>& claims);

  Api& api;
  Options options;
  MetricsRegistry metrics;
  EventLoop loop;
  EventRecorder events;
  RequestContext context;
  scheduling::Engine engine;
  const Resource* pods_resource = nullptr;
  const Resource* nodes_resource = nullptr;
  const Resource* leases_resource = nullptr;
  const Resource* budgets_resource = nullptr;  // null: not served
  const Resource* claims_resource = nullptr;   // null: resource.k8s.io is not served
  std::unique_ptr<KindWatch> nodes, pods, budgets, claims, slices, device_classes;
  scheduling::DeviceBook devices;
  std::vector<std::string> parked_claimants;
  bool claimants_armed = false;
  // What was tried in vain since something changed last: the class of the pod and what its claims ask for.
  std::set<std::string> tried_in_vain;
  StringMap<PodRecord> records;
  std::map<int32_t, std::deque<std::string>, std::greater<>> queue;  // by priority
  std::map<scheduling::Engine::ClassId, std::vector<std::string>> parked;
  StringMap<std::vector<std::string>> waiting_for_node;
  StringMap<std::vector<std::string>> awaited;  // uid of a victim: who waits for it
  bool posted = false, wake_armed = false, standby = false, ready = false;
  Counter& scheduled;
  Counter& unschedulable;
  Counter& errors;
  Counter& preemptions;
  Counter& victims_total;
  Histogram& latency;
  std::thread thread;
};

}  // namespace ghostfleet::controlplane
