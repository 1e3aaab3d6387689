// ShardStats: the counters of one shard, in its own metrics registry.
//
// Thread rule: written by the shard's thread; read by any (snapshot adds several up). Only the making of a new series
// takes a lock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/actions.h"
#include "base/metrics.h"
#include "base/status.h"

namespace ghostfleet::emulator {

struct FleetStats;

// The resource a target names: "leases", "nodes/status", "pods"; empty when it names none.
std::string_view resource_of_target(std::string_view target, std::string* scratch);

class ShardStats {
 public:
  ShardStats();

  void request(agent::Verb verb, std::string_view target);
  void error(std::string_view kind);
  void add_to(FleetStats* out) const;

  MetricsRegistry registry;
  // Events that were not written, by agent::EventDrop.
  std::array<Counter*, agent::kEventDrops> events_dropped;
  Gauge& nodes;
  Gauge& registered;
  Gauge& ready;
  Gauge& not_ours;
  Gauge& deleted;
  Gauge& pods;
  Gauge& pods_running;
  Gauge& pods_finished;
  Gauge& certificates;
  Counter& rotations;
  Gauge& in_flight;
  Gauge& queued;
  Gauge& connections;
  Gauge& ramp_window;
  Counter& taken_over;
  Counter& renewals;
  Counter& not_ready;
  Histogram& lateness;
  Histogram& latency;
  // Nanoseconds of the monotonic clock; 0: not yet.
  std::atomic<int64_t> first_request{0};
  std::atomic<int64_t> last_first_ready{0};
  std::atomic<uint64_t> ever_ready{0};
  // Nodes that request certificates: client certificates wanted, serving ones wanted and held.
  std::atomic<uint64_t> clients_wanted{0}, servings_wanted{0}, servings_held{0};
  std::atomic<double> skew_seconds{0};
  // When the last answer came, and when a request last got none.
  std::atomic<int64_t> last_answer{0};
  std::atomic<int64_t> last_failure{0};
  void no_answer(TimePoint at, const Status& why);
  std::string failure_text() const;  // of the last request without an answer

 private:
  struct RequestSeries {
    agent::Verb verb;
    std::string resource;
    Counter* counter;
  };
  mutable std::mutex mutex_;  // guards the growth of the two lists
  std::vector<RequestSeries> requests_;
  std::map<std::string, Counter*, std::less<>> errors_;
  std::string failure_text_;
};

}  // namespace ghostfleet::emulator
