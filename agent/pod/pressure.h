// When a node is short of memory, disk or process ids: thresholds as a kubelet is configured with them, and what
// follows from what it observes: the node's pressure conditions, and the threshold for which a pod must go.
//
// A condition begins when a threshold is met, whatever its grace period, and lasts until none was met for the
// transition period. Signals of inodes and of a file system for containers are not modelled; images lie on the node's
// one disk. Units: bytes, processes. Thread rule: plain values; a PressureMonitor belongs to its node's thread. Source:
// kubelet.md 0 and 4.3.K; a kubelet 1.36.
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

enum class EvictionSignal : unsigned char { kMemory, kNodeFs, kImageFs, kPid };
inline constexpr int kEvictionSignals = 4;

struct EvictionThreshold {
  EvictionSignal signal = EvictionSignal::kMemory;
  int64_t amount = 0;  // when there is no share
  std::string text;    // of the amount, as messages name it
  float share = 0;     // of the capacity
  Duration grace{0};   // 0: a hard threshold
};

struct EvictionRules {
  // What a kubelet has by default.
  std::vector<EvictionThreshold> thresholds = {{EvictionSignal::kMemory, 100 << 20, "100Mi", 0, Duration(0)},
                                               {EvictionSignal::kNodeFs, 0, {}, 0.1F, Duration(0)},
                                               {EvictionSignal::kImageFs, 0, {}, 0.15F, Duration(0)}};
  int64_t max_pod_grace_seconds = 0;  // of a pod that a soft threshold ends
  Duration transition = std::chrono::minutes(5);
  Duration period = std::chrono::seconds(10);
};

// "memory.available<100Mi,nodefs.available<10%". Known signals: memory.available, nodefs.available, imagefs.available,
// pid.available; those of inodes are read and left out.
Result<std::vector<EvictionThreshold>> parse_thresholds(std::string_view text);
// "memory.available=1m30s,..." for the thresholds read before; each must get one.
Status parse_soft_grace(std::string_view text, std::vector<EvictionThreshold>* soft);

// Bits of a node's pressure, in the order of its conditions.
enum PressureBit : unsigned { kMemoryPressure = 1, kDiskPressure = 2, kPidPressure = 4 };
inline constexpr int kPressures = 3;
// "MemoryPressure DiskPressure", as a kubelet lists them.
std::string pressure_names(unsigned pressure);

struct Observation {
  int64_t available = 0, capacity = 0;
};
using Observations = std::array<std::optional<Observation>, kEvictionSignals>;

// What the node must win back.
struct Starved {
  EvictionSignal signal = EvictionSignal::kMemory;
  std::string_view resource;  // "memory", "ephemeral-storage", "pids"
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
};

}  // namespace ghostfleet::agent
