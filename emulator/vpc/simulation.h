// Simulation: the address daemons of many nodes on one Vpc in virtual time: a queue of moments at which a call's answer
// is there or a node's timer fires. Hours of a hundred thousand nodes take seconds. For benchmarks and tests; a fleet
// runs the same machines on its shards' timers.
//
// Thread rule: one thread. Ownership: the vpc outlives it.
// Memory: about 100 bytes a node beside its machine, 24 a moment to come.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "agent/network/ipam_node.h"
#include "emulator/vpc/vpc.h"

namespace ghostfleet::emulator {

class Simulation {
 public:
  using NodeIndex = uint32_t;

  explicit Simulation(Vpc& vpc, uint64_t seed = 1);
  ~Simulation();

  TimePoint now() const { return now_; }
  WallTime wall_now() const { return WallTime{kWallStart + now_.ns}; }

  NodeIndex add(std::shared_ptr<const agent::IpamConfig> config, InstanceId instance);
  // The daemon starts, or starts again, now.
  void start(NodeIndex node, agent::IpamCheckpoint checkpoint = {});
  agent::IpamNode& node(NodeIndex i) { return nodes_[i].machine; }
  InstanceId instance(NodeIndex i) const { return nodes_[i].instance; }

  agent::AddResult add_pod(NodeIndex node, const agent::IpamHolder& holder, bool all_cards = false);
  bool remove_pod(NodeIndex node, const agent::IpamKey& key);
  void set_schedulable(NodeIndex node, bool schedulable);
  void request_reconcile(NodeIndex node);
  // From now on checkpoints can, or cannot, be written.
  void set_saves(bool works) { saves_ = works; }

  void run_for(Duration d);
  // Plays moment after moment until `done` says so, at most for `most`; what it said last.
  bool run_until(const std::function<bool()>& done, Duration most);
  // Moments played.
  uint64_t events() const { return events_; }

 private:
  static constexpr int64_t kWallStart = 1767607200000000000;  // 2026-01-05T10:00:00Z

  class Host;
  struct Node {
    agent::IpamNode machine;
    InstanceId instance = 0;
    uint32_t armed = 0, calling = 0;  // numbers of the timer and the call that count
    TimePoint timer;
    agent::Ec2Call call;
    Ec2Ticket ticket;
  };
  struct Moment {
    TimePoint at;
    uint64_t order = 0;  // of those at the same time
    NodeIndex node = 0;
    uint32_t number = 0;
    bool answer = false;
  };
  struct Later {
    bool operator()(const Moment& a, const Moment& b) const { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };

  void play(const Moment& moment);
  void push(NodeIndex node, TimePoint at, uint32_t number, bool answer);

  Vpc& vpc_;
  Rng rng_;
  TimePoint now_{1000000000};
  std::deque<Node> nodes_;
  std::priority_queue<Moment, std::vector<Moment>, Later> queue_;
  std::unique_ptr<Host> host_;
  uint64_t order_ = 0, events_ = 0;
  bool saves_ = true;
};

}  // namespace ghostfleet::emulator
