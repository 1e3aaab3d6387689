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

void add_usage(Usage* sum, const Usage& more);
double seconds_since(WallTime since, WallTime now);  // never negative

// The node's one file system. What is free is what the node's eviction goes by (agent/pod/pressure.h); a node that
// tells no ephemeral-storage has 80 GiB.
struct Disk {
  int64_t capacity = 0, available = 0;
  int64_t inodes = 0, inodes_free = 0;
};
Disk disk_of(const NodeInfo& node, const std::vector<agent::PodView>& pods);
// Of all pods, as the node's eviction counts it.
agent::ResourceUse use_of(const std::vector<agent::PodView>& pods);
const agent::EvictionRules& eviction_of(const NodeInfo& node);

}  // namespace ghostfleet::kubelet_api
