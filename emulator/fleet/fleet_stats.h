// ShardStats: the counters of one shard, in its own metrics registry.
//
// Thread rule: written by the shard's thread; read by any (snapshot adds several up). Only the making of a new series
// takes a lock.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/actions.h"
#include "base/metrics.h"

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
  Gauge& nodes;
  Gauge& registered;
  Gauge& ready;
  Gauge& not_ours;
  Gauge& deleted;
  Gauge& pods;
  Gauge& pods_running;
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
  std::atomic<double> skew_seconds{0};

 private:
  struct RequestSeries {
    agent::Verb verb;
    std::string resource;
    Counter* counter;
  };
  mutable std::mutex mutex_;  // guards the growth of the two lists
  std::vector<RequestSeries> requests_;
  std::map<std::string, Counter*, std::less<>> errors_;
};

}  // namespace ghostfleet::emulator
