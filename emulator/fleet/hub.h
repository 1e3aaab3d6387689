// Hub: one thread that follows what the API says of a fleet in shared mode: the Nodes that carry its label, and the
// pods that have a node. It finds whose node an object is by name and hands it to that node's shard; what changes
// nothing (the echo of our own heartbeats) goes no further.
//
// At the start the first list of the nodes is what an earlier run left: those are taken over; only when it is complete
// do the shards begin to register the others, and only then are pods listed.
//
// Thread rule: start and stop on the owner's thread; everything else on the hub's loop.
// Ownership: owns its loop, thread, client and reflectors; names, classes and shards outlive it.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "emulator/fleet/shard.h"
#include "kube/client/reflector.h"

namespace ghostfleet::emulator {

struct HubConfig {
  std::string fleet;
  const FleetNames* names = nullptr;
  std::vector<std::shared_ptr<const agent::NodeClass>> classes;
  std::vector<Shard*> shards;
  bool run_pods = true;
  bool network = false;      // nodes have address daemons, which want to know who is cordoned
  bool read_leases = false;  // there are nodes of an earlier run
  kube::http::HttpClientOptions http;
  std::string path_prefix;
  kube::ClientAuth auth;
  uint64_t seed = 1;
  std::function<void(const std::string&)> notice;
};

class Hub {
 public:
  explicit Hub(HubConfig config);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  void start();
  void stop();
  const ShardStats& stats() const { return stats_; }

 private:
  class NodeWatchHandler;
  class PodWatchHandler;
  struct KnownPod {
    uint32_t node = 0;
    agent::NodeUid uid;
    bool listed = false;  // seen by the list that is running
  };
  enum Flag : uint8_t { kKnown = 1, kListed = 2, kReady = 4, kDeviated = 8, kHasPods = 16, kCordoned = 32 };

  void read_leases(std::string continue_token);
  void leases_read(const std::string& body);
  void watch_nodes();
  void node_seen(const kube::ObjectView& object, bool added);
  void node_deleted(uint32_t node, std::string_view uid);
  void nodes_listing();
  void nodes_synced();
  void pod_seen(const kube::ObjectView& object);
  void pod_deleted(const kube::ObjectView& object);
  void pods_listing();
  void pods_synced();
  void forget_pod(const std::string& key, const KnownPod& pod);
  Shard& shard_of(uint32_t node) { return *config_.shards[node % config_.shards.size()]; }
  uint32_t row_of(uint32_t node) const { return node / static_cast<uint32_t>(config_.shards.size()); }
  void compare_settings(uint32_t node, const kube::ObjectView& object);
  void tell_differences();
  void watch_failed(std::string_view what, const Status& status, int http_status);

  HubConfig config_;
  EventLoop loop_;
  ShardStats stats_;
  std::unique_ptr<kube::KubeClient> client_, pod_client_;  // news of nodes may be late, those of pods may not
  std::unique_ptr<NodeWatchHandler> node_handler_;
  std::unique_ptr<PodWatchHandler> pod_handler_;
  std::unique_ptr<kube::Reflector> nodes_, pods_;
  std::vector<uint8_t> flags_;                            // by node
  std::vector<uint64_t> lease_versions_;                  // by node; only until the first list is done
  std::unordered_map<std::string, KnownPod> known_pods_;  // by namespace/name; only those on our nodes
  // Of the first list: nodes made with other settings, and nodes beyond those asked for; with an example of each.
  uint64_t other_settings_ = 0, beyond_ = 0;
  std::string other_settings_example_, beyond_example_;
  bool synced_ = false, pods_known_ = false;
  std::thread thread_;
};

}  // namespace ghostfleet::emulator
