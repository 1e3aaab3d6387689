// RequestMetrics: counts and durations of requests, as apiserver_* series.
//
// Thread rule: any thread; series are made per thread (one I/O loop each), so that the hot path takes no lock but the
// one of the first use.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics.h"

namespace ghostfleet::controlplane {

struct Call;

class RequestMetrics {
 public:
  RequestMetrics();
  ~RequestMetrics();
  void record(const Call& call, int code);
  void watch_event_sent(size_t count);
  std::vector<const MetricsRegistry*> registries() const;

 private:
  struct PerThread;
  PerThread& mine();
  PerThread& find_mine();

  uint64_t number_ = 0;  // of all ever made, from 1: tells whose the remembered PerThread of a thread is
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PerThread>> threads_;
};

}  // namespace ghostfleet::controlplane
