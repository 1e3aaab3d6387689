// PodManager: the pods of ONE node: admission, life cycle, status, events, deletion, as a kubelet does it
// (docs/pods.md).
//
// Events in: pod objects from a watch, answers, timers. Actions out: through Host. Tags used here have the top bit set
// (kPodTagBit), so that the node machine can route answers and timers.
// Thread rule: the node's thread. Ownership: owned by its node; `node` and `host` outlive it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/actions.h"
#include "agent/device/device_manager.h"
#include "agent/dra/claim_drivers.h"
#include "agent/dra/devices.h"
#include "agent/pod/image_puller.h"
#include "agent/pod/pod_view.h"
#include "agent/pod/pressure.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

inline constexpr Tag kPodTagBit = Tag{1} << 63;
// The one timer of a manager, for all its pods.
inline constexpr Tag kPodTimerTag = kPodTagBit;

class BehaviorRules;

// One rule for images: `match` is a glob over the image name; an error makes the pull fail with that text.
struct ImageRule {
  std::string match;
  Duration pull{0};
  std::string error;  // "NotFound" and the like; empty: the pull succeeds
};

// Shared by all nodes of a group.
struct PodOptions {
  // full: GET before every status PATCH, token requests, as a kubelet. light: PATCH against the version last seen.
  bool full_fidelity = false;
  bool events = true;
  Duration stop_after_default{0};
  // A container whose pod says nothing about it does what its command line says, where that is understood.
  bool commands = false;
  // What the containers of many pods do; null: no rules.
  std::shared_ptr<const BehaviorRules> behaviors;
  uint64_t seed = 1;  // of what behaviours leave to chance
  // The first match counts; an image that no rule names is on the node already. The default is what the recordings of
  // a real kubelet were made with.
  std::vector<ImageRule> image_rules = {{"*missing*", Duration(0), "NotFound"},
                                        {"*slow*", std::chrono::seconds(5), ""}};
  std::string runtime_name = "containerd";
  std::string cluster_dns = "10.96.0.10";  // first of a pod's name servers
  std::string cluster_domain = "cluster.local";
  EvictionRules eviction;
  // Extended resources come from device plugins: containers hold devices with ids, whose health their status tells.
  bool device_plugins = false;
};

// What a manager tells of its node.
class NodeListener {
 public:
  virtual ~NodeListener() = default;
  virtual void pressure_changed(unsigned pressure) = 0;    // bits: PressureBit
  virtual void reclaiming(std::string_view resource) = 0;  // before a pod is evicted for the node's sake
};

// A pod that a file of the node asks for, not the API server.
struct StaticManifest {
  std::string source;  // "/etc/kubernetes/manifests/etcd.yaml"
  kube::Json pod;
};

// Gives the sandboxes of ONE node's pods their addresses, where these may come late or run out. An address is kept
// under a number that the manager chooses; NodeFacts::pod_ip tells it from then on, until forget().
//
// Thread rule: the node's thread. Ownership: outlives the manager.
class PodNetwork {
 public:
  struct Sandbox {
    std::string_view ns, name, uid;  // of the pod
  };
  // Why there is no address, as an event tells it. The manager asks again as a kubelet does: after 10 to 15 s, or 1 to
  // 1.5 s when the node's network has never been ready and is about to be.
  struct Refusal {
    std::string_view reason = "FailedCreatePodSandBox";
    std::string message;
    bool soon = false;
  };
  virtual ~PodNetwork() = default;
  // A sandbox wants its address; nothing: it has it.
  virtual std::optional<Refusal> add(uint32_t number, const Sandbox& sandbox) = 0;
  // A sandbox from before this agent has that one. False: it is no address.
  virtual bool adopt(uint32_t number, const Sandbox& sandbox, std::string_view ip) = 0;
  // The sandbox is gone, and its address free; pod_ip still tells it, for the pod's last status.
  virtual void remove(uint32_t number) = 0;
  virtual void forget(uint32_t number) = 0;
};

// What pods ask of their node. Stable while the manager lives; values may change between calls.
struct NodeFacts {
  std::string name;
  std::string uid;      // empty until registered
  std::string host_ip;  // InternalIP
  // Labels, taints and allocatable of the node as last seen, for admission.
  std::shared_ptr<const kube::Json> object;
  // The n-th pod address of this node.
  std::function<std::string(uint32_t n)> pod_ip;
  // Of a node with two address families: those of the second one.
  std::string second_host_ip;
  std::function<std::string(uint32_t n)> second_pod_ip;
  NodeListener* listener = nullptr;
  // Where addresses of pods come from; null: pod_ip computes as many as are asked for.
  PodNetwork* network = nullptr;
  ImagePuller* puller = nullptr;  // null: images come by the rules of PodOptions
  // Who gives devices of plugins to containers; null: extended resources are numbers.
  DeviceManager* devices = nullptr;
  // The machine was started anew since the pods' statuses were written: nothing of theirs runs, and each is admitted
  // again.
  bool rebooted = false;
  // The DRA driver of the node; null: there is none. After a change: PodManager::on_driver_changed.
  std::shared_ptr<const DraDriver> driver;
  // Those that are programs; null: the node takes none. It outlives the manager.
  ClaimDrivers* drivers = nullptr;
};

class PodManager {
 public:
  static std::unique_ptr<PodManager> create(const NodeFacts& node, std::shared_ptr<const PodOptions> options,
                                            Host& host);
  virtual ~PodManager() = default;

  // ADDED or MODIFIED, also from the initial list (pods that existed before the start are taken over: nothing is
  // restarted).
  virtual void on_pod(const kube::Json& pod) = 0;
  // The same from JSON text, as a watch brings it: what only echoes our own write is seen without parsing the whole.
  virtual void on_pod_text(std::string_view pod) = 0;
  virtual void on_pod_deleted(std::string_view ns, std::string_view name, std::string_view uid) = 0;
  // The static pods, all of them: those that are there and not named any more are ended. Manifests that make no sense
  // are to be refused before (make_static_pod).
  virtual void set_static_pods(std::vector<StaticManifest> manifests) = 0;
  // The health of devices of NodeFacts::devices is another one now, or who holds them.
  virtual void on_devices_changed() = 0;
  // NodeFacts::driver is another one, or health of NodeFacts::drivers has changed: that of devices that pods hold by
  // claims may be another one.
  virtual void on_driver_changed() = 0;
  virtual void on_response(Tag tag, const ApiResponse& response) = 0;
  virtual void on_timer(Tag tag) = 0;
  // A pull whose end only its puller could tell is over.
  virtual void on_image_pulled(PullTicket ticket) = 0;
  // A file of an image was read, or cannot be.
  virtual void on_image_read(ReadTicket ticket, ReadEnd end) = 0;
  // What lies on the disk of the images has changed: the node may be short of it.
  virtual void on_images_changed() = 0;

  // The pods as they are now.
  virtual std::vector<PodView> describe(const PodPick& pick) const = 0;
  // The disk of images and pods; not there: images take no room.
  virtual std::optional<DiskRoom> disk_room() const = 0;
  virtual size_t pod_count() const = 0;
  virtual size_t running_count() const = 0;   // phase Running as last acknowledged
  virtual size_t finished_count() const = 0;  // Succeeded or Failed as last acknowledged
  // Whether a container, running or ended, is of this image (named with registry and tag, or by id_of()).
  virtual bool uses_image(std::string_view image) const = 0;
  // Bytes of the disk that the pods use.
  virtual int64_t storage_used() const = 0;
};

}  // namespace ghostfleet::agent
