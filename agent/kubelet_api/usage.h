// UsageModel: what nodes and containers use of cpu and memory, as a function of their requests, the seed and the time:
// the same at every look, and counters never fall while their container runs. Behaviours may bring their own model.
//
// The default: cpu 20 to 40 % of the request, memory 25 to 35 %; without a request 5 millicores and 32 MiB; or what
// the words cpu= and memory= of a container's behaviour say.
// Units: cores, core-seconds, bytes. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/kubelet_api/backend.h"

namespace ghostfleet::kubelet_api {

struct Usage {
  double cpu_cores = 0;    // now
  double cpu_seconds = 0;  // since the start
  int64_t working_set = 0, usage = 0, rss = 0;
  uint64_t page_faults = 0, major_page_faults = 0;
};

class UsageModel {
 public:
  virtual ~UsageModel() = default;
  // Of a running container; `since` is when it started.
  virtual Usage container(const NodeInfo& node, const agent::PodView& pod, const agent::ContainerView& container,
                          WallTime now) const = 0;
  // Of everything on the node that is no pod.
  virtual Usage system(const NodeInfo& node, WallTime now) const = 0;
};

std::shared_ptr<const UsageModel> default_usage_model();

// What a container asks for; zero: nothing.
struct Amounts {
  int64_t cpu_request_millis = 0, cpu_limit_millis = 0, memory_request = 0, memory_limit = 0;
};
Amounts amounts_of(const agent::ContainerView& container);
// Of the node's capacity: millicores for cpu.
int64_t capacity_of(const NodeInfo& node, std::string_view resource);

}  // namespace ghostfleet::kubelet_api
