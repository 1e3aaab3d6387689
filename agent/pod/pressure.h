// When a node is short of memory, disk or process ids: thresholds as a kubelet is configured with them, and what
// follows from what it observes: the node's pressure conditions, and the threshold for which a pod must go.
//
// A condition begins when a threshold is met, whatever its grace period, and lasts until none was met for the
// transition period. A threshold that made the node act stays met until the signal is better than it by the minimum
// reclaim. Images and containers lie on the node's one disk. Units: bytes, files, processes. Thread rule: plain values;
// a PressureMonitor belongs to its node's thread. Source: the behaviour of a kubelet 1.36
// (kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction); tests/data/traces.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::agent {

enum class EvictionSignal : unsigned char { kMemory, kNodeFs, kImageFs, kPid, kNodeInodes, kImageInodes };
inline constexpr int kEvictionSignals = 6;
std::string_view signal_name(EvictionSignal signal);  // "nodefs.inodesFree"

struct EvictionThreshold {
  EvictionSignal signal = EvictionSignal::kMemory;
  int64_t amount = 0;  // when there is no share
  std::string text;    // of the amount, as messages name it
  float share = 0;     // of the capacity
  Duration grace{0};   // 0: a hard threshold
  // What must be available beyond the threshold before the node stops evicting.
  int64_t reclaim_amount = 0;  // when there is no share
  std::string reclaim_text = {};
  float reclaim_share = 0;
};

struct EvictionRules {
  // What a kubelet has by default.
  std::vector<EvictionThreshold> thresholds = {{EvictionSignal::kMemory, 100 << 20, "100Mi", 0, Duration(0)},
                                               {EvictionSignal::kNodeFs, 0, {}, 0.1F, Duration(0)},
                                               {EvictionSignal::kNodeInodes, 0, {}, 0.05F, Duration(0)},
                                               {EvictionSignal::kImageFs, 0, {}, 0.15F, Duration(0)},
                                               {EvictionSignal::kImageInodes, 0, {}, 0.05F, Duration(0)}};
  int64_t max_pod_grace_seconds = 0;  // of a pod that a soft threshold ends
  Duration transition = std::chrono::minutes(5);
  Duration period = std::chrono::seconds(10);
};

// "memory.available<100Mi,nodefs.available<10%". Known signals: memory.available, nodefs.available, imagefs.available,
// pid.available, nodefs.inodesFree, imagefs.inodesFree.
Result<std::vector<EvictionThreshold>> parse_thresholds(std::string_view text);
// "memory.available=1m30s,..." for the thresholds read before; each must get one.
Status parse_soft_grace(std::string_view text, std::vector<EvictionThreshold>* soft);
// "memory.available=500Mi,nodefs.available=5%", into the thresholds of these signals; a signal without a threshold is
// taken and changes nothing, as with a kubelet.
Status parse_minimum_reclaim(std::string_view text, std::vector<EvictionThreshold>* thresholds);

// Bits of a node's pressure, in the order of its conditions.
enum PressureBit : unsigned { kMemoryPressure = 1, kDiskPressure = 2, kPidPressure = 4 };
inline constexpr int kPressures = 3;
// "MemoryPressure DiskPressure", as a kubelet lists them.
std::string pressure_names(unsigned pressure);

// What a container, a pod, or all pods of a node use. `storage` is a writable layer and, of pods, volumes on the disk
// too; logs are beside it.
struct ResourceUse {
  int64_t memory = 0, storage = 0, logs = 0, inodes = 0, pids = 0;

  int64_t disk() const { return storage + logs; }
  ResourceUse& operator+=(const ResourceUse& more);
};

// Of a node's capacity, or of what is allocatable; 0: the node does not say.
struct NodeAmounts {
  int64_t memory = 0, storage = 0;
};

inline constexpr int64_t kMostPids = 4194304;  // of a node: kernel.pid_max of a 64-bit machine

struct Observation {
  int64_t available = 0, capacity = 0;
};
using Observations = std::array<std::optional<Observation>, kEvictionSignals>;
// What a node has left. What is allocatable leaves the hard threshold free: both together are what pods can use, the
// rest is the system's and in use. A disk has an inode for each 16 KiB, as ext4 makes them (mke2fs.conf, inode_ratio).
Observations observations_of(const EvictionRules& rules, const NodeAmounts& capacity, const NodeAmounts& allocatable,
                             const ResourceUse& used);

// What the node must win back.
struct Starved {
  EvictionSignal signal = EvictionSignal::kMemory;
  std::string_view resource;  // "memory", "ephemeral-storage", "inodes", "pids"
  std::string threshold;      // "100Mi"
  int64_t available = 0;
  bool hard = true;
};

class PressureMonitor {
 public:
  // Brings pressure() up to date; answers the threshold to act on, if there is one. `rules` are the same each time.
  std::optional<Starved> look(const EvictionRules& rules, const Observations& seen, TimePoint now);
  unsigned pressure() const { return pressure_; }
  // No threshold is met and no condition lasts.
  bool at_rest() const;

 private:
  static constexpr TimePoint kNotMet{INT64_MAX};
  unsigned pressure_ = 0;
  std::array<TimePoint, kPressures> last_met_{kNotMet, kNotMet, kNotMet};  // by condition
  std::vector<TimePoint> met_since_;                                       // by threshold
  std::vector<bool> acted_on_;  // by threshold: met for its grace period at the last look
};

}  // namespace ghostfleet::agent
