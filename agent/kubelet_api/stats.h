// Stats: what a node's server tells of usage: /stats/summary, /metrics, /metrics/resource, /metrics/cadvisor,
// /metrics/probes, /configz and /runningpods/, as text.
//
// Thread rule: the loop of the server. Memory: 40 bytes for each node that was asked, so that the counter of its cpu
// never falls when pods leave; at most kMaxNodes of them.
// Source: names and help texts are those of a kubelet 1.36 (kubernetes.io/docs/reference/instrumentation/metrics).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/kubelet_api/backend.h"
#include "agent/kubelet_api/usage.h"

namespace ghostfleet::kubelet_api {

class Stats {
 public:
  static constexpr size_t kMaxNodes = 200000;

  Stats(std::shared_ptr<const UsageModel> model, const Clock& clock) : model_(std::move(model)), clock_(clock) {}

  using Pods = std::vector<agent::PodView>;
  std::string summary(NodeId id, const NodeInfo& node, const Pods& pods, bool only_cpu_and_memory);
  std::string resource_metrics(NodeId id, const NodeInfo& node, const Pods& pods);
  std::string cadvisor_metrics(NodeId id, const NodeInfo& node, const Pods& pods);
  std::string kubelet_metrics(const NodeInfo& node, const Pods& pods) const;
  std::string probe_metrics(const NodeInfo& node, const Pods& pods) const;

 private:
  struct Counter {
    WallTime at;
    double cpu_seconds = 0;
  };
  Usage node_usage(NodeId id, const NodeInfo& node, const Pods& pods, WallTime now);

  std::shared_ptr<const UsageModel> model_;
  const Clock& clock_;
  std::unordered_map<NodeId, Counter> counters_;
};

std::string configz(const NodeInfo& node);
std::string running_pods(const std::vector<agent::PodView>& pods);

}  // namespace ghostfleet::kubelet_api
