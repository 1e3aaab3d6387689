// DeviceManager: the device manager of ONE node, as a kubelet's: which plugins are registered and what they list, which
// container holds which devices, how many the Node shows, what the checkpoint keeps.
//
// Plugins are models (register_model: answers come inside the call, ids are computed, no device costs more than bits)
// or real ones behind a socket (register_plugin: strings, answers whenever they come). Admissions of a node are done
// one after the other, as by a kubelet; one that waits for a plugin holds up the pods behind it that want devices, and
// nothing else.
//
// What holds devices is told by the pods' owner: admit() before a pod runs, adopt() for containers of an earlier agent,
// ended() when nothing of a pod runs any more, forget() when it is gone. Devices of ended pods become free at the next
// admission, as in a kubelet.
//
// Thread rule: the node's thread; no clock, moments are handed in. Ownership: owned by its node; the listener outlives
// it. It may be destroyed inside none of its own callbacks. Answers that come after a plugin was replaced, is gone, or
// the manager is destroyed are passed over.
// Limits: kMaxDevices of a resource, kMaxResources. Errors: Status; messages of admissions are a kubelet's own.
// Source: a kubelet 1.36 (device plugin API v1beta1).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/device/allocate_response.h"
#include "agent/device/device_checkpoint.h"
#include "agent/device/plugin_model.h"
#include "agent/device/topology.h"
#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::agent {

using DeviceIds = std::vector<std::string>;

// A plugin as its node's device manager asks it. Each call is answered once, inside it or later on the node's thread.
// The message of an error is shown as it is: "rpc error: code = Unknown desc = ...".
class DevicePlugin {
 public:
  virtual ~DevicePlugin() = default;
  virtual void preferred_allocation(DeviceIds available, DeviceIds must_include, uint32_t size,
                                    std::function<void(Result<DeviceIds>)> done) = 0;
  virtual void allocate(DeviceIds ids, std::function<void(Result<AllocateResponse>)> done) = 0;
  virtual void pre_start_container(DeviceIds ids, std::function<void(Status)> done) = 0;
};

// One of a plugin's list.
struct ListedDevice {
  std::string id;
  bool healthy = true;
  uint64_t numa_nodes = 0;  // bits; 0: not told
};

// What a manager tells its owner. Never inside a call that asks (counts(), held(), ...).
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  virtual void device_counts_changed() = 0;    // counts() are others now
  virtual void device_health_changed() = 0;    // of devices that containers hold
  virtual void device_checkpoint_changed() {}  // checkpoint() is another now
  virtual void device_problem(std::string_view /*resource*/, std::string_view /*what*/) {}  // what a plugin did wrong
};

// What the Node's status says of a resource.
struct DeviceCount {
  std::string resource;
  uint32_t capacity = 0, allocatable = 0;
  friend bool operator==(const DeviceCount&, const DeviceCount&) = default;
};

// What a container asks for.
struct ContainerDemand {
  std::string name;
  bool init = false;
  bool sidecar = false;                                  // an init container that is restartable
  bool running = false;                                  // since before this agent
  std::vector<std::pair<std::string, uint32_t>> limits;  // extended resources
};

struct PodDemand {
  std::string uid;
  std::vector<ContainerDemand> containers;  // init containers first, each kind in the order of the spec
};

struct HeldDevice {
  std::string id;
  bool healthy = true;
  uint64_t numa_nodes = 0;
};

struct ContainerDevices {
  std::string pod_uid, container, resource;
  std::vector<HeldDevice> devices;
};

class DeviceManager {
 public:
  static constexpr uint32_t kMaxDevices = 16384;  // of one resource; more are refused
  static constexpr uint32_t kMaxResources = 256;
  // A plugin that is gone may come back within this time before its resource's capacity becomes 0.
  static constexpr Duration kGrace = std::chrono::minutes(5);
  static constexpr TimePoint kNoTime{INT64_MAX};

  // Never 0; a resource's next registration has another one.
  using PluginId = uint64_t;
  using AdmitDone = std::function<void(Status)>;

  // `node`: its name, which ids of modelled devices come from.
  DeviceManager(std::string node, DeviceListener& listener);
  ~DeviceManager();
  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;

  // The machine's NUMA nodes are those that devices tell.
  void set_topology(TopologyPolicy policy, TopologyScope scope) {
    topology_ = policy;
    scope_ = scope;
  }

  // ---- plugins
  // Takes the place of an earlier plugin of that resource. InvalidArgument: no name of an extended resource. Its
  // devices are known with the first list.
  Result<PluginId> register_plugin(std::string_view resource, std::shared_ptr<DevicePlugin> plugin,
                                   PluginOptions options, TimePoint now);
  // All devices it has. Lists of a plugin that was replaced are passed over. An id that is empty is left out, of one
  // that is there twice the last counts, and the listener is told. ResourceExhausted: too many, the last list stays.
  Status list_devices(PluginId plugin, std::vector<ListedDevice> devices, TimePoint now);
  // Its connection is lost. A plugin that was replaced already changes nothing.
  void plugin_gone(PluginId plugin, TimePoint now);

  void register_model(std::shared_ptr<const PluginModel> model, TimePoint now);
  // A modelled plugin that ends; with `capacity_too` the node forgets its devices, as after a restart of the kubelet
  // that the plugin has not noticed.
  void model_gone(std::string_view resource, bool capacity_too, TimePoint now);
  // What is wrong with modelled devices now: (resource, number, code), as PluginModel::hit_by knows them.
  struct Fault {
    std::string resource;
    uint32_t number = 0;
    int code = -1;
    friend bool operator==(const Fault&, const Fault&) = default;
  };
  void set_faults(const std::vector<Fault>& faults, TimePoint now);

  // ---- what time alone changes
  TimePoint next_due() const;
  void on_time(TimePoint now);

  // ---- the Node
  // Of all resources there ever were a plugin for, by name.
  std::vector<DeviceCount> counts() const;
  // Devices that are given out, those of ended pods that were not needed since included: a Node whose plugins are not
  // back yet is taken to have at least these.
  uint32_t allocated(std::string_view resource) const;
  // Whether a limit of that name is this manager's affair.
  bool knows(std::string_view resource) const;

  // ---- pods
  // Pods of an earlier agent are still to be told: until pods_known() nothing of a checkpoint is given up. Where there
  // is no checkpoint to say what they hold, admissions wait too.
  void await_pods(bool hold_admissions) {
    pods_known_ = false;
    hold_admissions_ = hold_admissions;
  }
  void pods_known();
  // OK: its containers hold what they ask for. An error: the message of a kubelet ("requested number of devices
  // unavailable for R. Requested: 2, Available: 1"); nothing is held for long. kResourceExhausted: the topology policy
  // refuses it (kTopologyRefusal). Inside the call where all its plugins are models; a pod without a demand is answered
  // inside the call always.
  void admit(PodDemand demand, AdmitDone done);
  // A container that runs since before this agent holds these; empty ids: as many as it asks for, whichever are free.
  void adopt(std::string_view uid, const ContainerDemand& container, std::string_view resource, const DeviceIds& ids);
  // Nothing of it runs any more. An admission that still waits is answered with an error.
  void ended(std::string_view uid);
  void forget(std::string_view uid);

  // ---- what containers hold
  std::vector<ContainerDevices> held() const;  // by all pods that have not ended
  std::vector<ContainerDevices> held(std::string_view uid, std::string_view container) const;
  // A number that changes when the devices of a container or their health do; 0: it holds none.
  uint64_t look_of(std::string_view uid, std::string_view container) const;
  // What its runtime is given: answers of all its plugins together.
  AllocateResponse response_of(std::string_view uid, std::string_view container) const;
  // Why its program would not start with them; empty: it does.
  std::string start_failure(std::string_view uid, std::string_view container) const;
  bool needs_pre_start(std::string_view uid, std::string_view container) const;
  // Called before each creation of the container. Inside the call when no plugin asks for it.
  void pre_start(std::string_view uid, std::string_view container, std::function<void(Status)> done);
  // All that plugins list now, by resource; pod_uid and container are empty.
  std::vector<ContainerDevices> devices() const;

  // ---- over restarts
  DeviceCheckpoint checkpoint() const;
  // Of an earlier agent, before any plugin registers: its resources are there with 0 devices until their plugins are.
  void restore(const DeviceCheckpoint& checkpoint, TimePoint now);

 private:
  struct Resource;
  struct Allocation;
  struct PodEntry;
  struct Admission;
  struct Notes;  // what a call has changed
  struct Alive {};
  using Indexes = std::vector<uint32_t>;

  // plugins (device_manager.cc)
  Resource* find(std::string_view name) const;
  Resource* by_plugin(PluginId plugin) const;
  Resource& resource_of(std::string_view name);
  void stop(Resource& resource, bool capacity_too, TimePoint now);
  void apply_faults(Resource& resource, bool restarted) const;
  void tell(const Notes& notes);
  template <class Change>
  void change_list(Resource& resource, Change&& change);

  // pods (device_pods.cc)
  PodEntry* pod_of(std::string_view uid) const;
  PodEntry& entry_of(std::string_view uid);
  bool release_ended();
  void recount();
  ContainerDevices view_of(const PodEntry& pod, const Allocation& allocation) const;
  DeviceIds ids_of(const Resource& resource, const Indexes& indexes) const;
  AllocateResponse answer_of(const Allocation& allocation) const;
  DeviceBits chips_of_others(const Resource& resource) const;
  void take_free(std::string_view uid, std::string_view container, Resource& resource, uint32_t count);
  void drop_admission(std::string_view uid);
  void retry_patient();

  // admission (device_admission.cc)
  void pump();
  bool step(Admission& admission);
  void begin_limit(Admission& admission);
  void begin_choice(Admission& admission);
  void ask_preferred(Admission& admission, const DeviceBits& available);
  void on_preferred(Admission& admission);
  void chosen(Admission& admission);
  void ask_allocate(Admission& admission);
  void on_allocated(Admission& admission);
  void next_limit(Admission& admission);
  static void end_container(Admission& admission, const PodEntry& pod);
  void fail(Admission& admission, std::string message, Code code = Code::kUnavailable);
  void finish(Status status);
  void start_over(Admission& admission);
  void fail_waiting(const Resource& resource, const std::string& message);

  // NUMA nodes (device_topology.cc)
  bool place(Admission& admission);
  NumaNodes machine_nodes() const;
  TopologyHints hints_of(const Admission& admission, const Resource& resource, uint32_t count, NumaNodes machine) const;

  std::string node_;
  DeviceListener& listener_;
  TopologyPolicy topology_ = TopologyPolicy::kNone;
  TopologyScope scope_ = TopologyScope::kContainer;
  bool pods_known_ = true, hold_admissions_ = false, pumping_ = false;
  std::vector<std::unique_ptr<Resource>> resources_;
  std::vector<std::unique_ptr<PodEntry>> pods_;
  std::deque<std::unique_ptr<Admission>> admissions_;  // the first one is worked on
  std::vector<std::unique_ptr<Admission>> patient_;    // wait for better devices
  struct Wanted {
    std::string uid, container, resource;
    uint32_t count = 0;
  };
  std::vector<Wanted> wanted_;  // by adopted containers that nobody knows the devices of
  std::vector<Fault> faults_;
  uint64_t next_plugin_ = 1, next_call_ = 1;
  std::shared_ptr<Alive> alive_;
};

}  // namespace ghostfleet::agent
