// ShardNetwork: the address daemons of a shard's nodes, on the fleet's cloud network (docs/network.md): calls of EC2
// take their time and are refused on the shard's clock; pods ask through agent::PodNetwork and are told when there is
// none.
//
// After a start nothing is given out until it is known which addresses the pods of an earlier run have, on all nodes of
// the fleet: pod_found() for each, keep_found() once they are all told, open() when every shard has come so far; then
// start() makes a node's daemon, when its earlier pods have been adopted. A pod that asks before is told that the
// daemon does not answer yet.
//
// Thread rule: the shard's loop; metrics from any thread. Of what shards share only the Vpc is touched, which has a
// lock of its own. Ownership: owns the nodes' machines; vpc, names, loop and rng outlive it. Memory: 56 bytes a node of
// the shard for its timers, about 1 KiB for a daemon, 32 a number of a pod.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/network/ipam_node.h"
#include "agent/pod/pod_manager.h"
#include "base/event_loop.h"
#include "base/metrics.h"
#include "base/timer_wheel.h"
#include "emulator/fleet/identity.h"
#include "emulator/vpc/vpc.h"

namespace ghostfleet::emulator {

struct ShardNetworkParts {
  Vpc* vpc = nullptr;
  std::vector<std::shared_ptr<const agent::IpamConfig>> groups;  // NetworkOptions
  const FleetNames* names = nullptr;
  uint32_t number = 0, count = 1, rows = 0;  // ShardConfig
  EventLoop* loop = nullptr;
  Rng* rng = nullptr;
  std::function<void(TimePoint at)> wake;                              // advance() has something to do then
  std::function<void(uint32_t row, std::string_view text)> tell_user;  // about a node, for a person
};

class ShardNetwork {
 public:
  explicit ShardNetwork(ShardNetworkParts parts);
  ~ShardNetwork();
  ShardNetwork(const ShardNetwork&) = delete;
  ShardNetwork& operator=(const ShardNetwork&) = delete;

  // Whether the pods of that node have their addresses from here.
  bool serves(uint32_t row) const;
  agent::PodNetwork* of(uint32_t row);
  // Of the pod that has this number; empty when it has none.
  std::string address(uint32_t row, uint32_t number) const;

  void pod_found(uint32_t row, std::string_view pod_json);
  void keep_found();
  void open() { open_ = true; }
  bool is_open() const { return open_; }
  void start(uint32_t row);
  // The node is registered; `earlier`: it was there before this run, and so was its network.
  void registered(uint32_t row, bool earlier);
  void set_schedulable(uint32_t row, bool schedulable);

  void advance(TimePoint now);
  TimePoint next(TimePoint now) const { return wheel_.next_deadline_hint(now); }

  // What the daemon of a node shows of itself (agent/network/ipam_show.h): /v1/..., or /metrics; nothing when it has
  // none.
  std::optional<std::string> show(uint32_t row, std::string_view path) const;
  const MetricsRegistry& metrics() const { return registry_; }

 private:
  class Node;
  Node& node(uint32_t row);
  bool launch(Node& node);
  static bool gives_prefixes(const agent::IpamConfig& c) { return c.prefix_delegation && !c.ipv6; }
  const std::shared_ptr<const agent::IpamConfig>& config_of(uint32_t row) const;
  uint32_t node_of(uint32_t row) const { return row * parts_.count + parts_.number; }
  void arm(uint32_t index, TimePoint at);

  ShardNetworkParts parts_;
  MetricsRegistry registry_;
  Counter& asked_;
  Counter& none_free_;
  Counter& not_ready_;
  Counter& conflicts_;
  Counter& launch_failures_;
  Gauge& in_use_;
  Gauge& daemons_;
  uint64_t in_use_count_ = 0, daemon_count_ = 0;
  TimerWheel wheel_;  // index: row * 2 + (timer 0, answer of EC2 1)
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<uint32_t, std::vector<agent::Ip>> found_;  // by row; until its launch
  bool open_ = false;
};

}  // namespace ghostfleet::emulator
