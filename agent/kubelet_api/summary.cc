// /stats/summary: the usage of a node and of its pods as JSON. Source: kubernetes.io, Summary API
// (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
#include <algorithm>

#include "agent/kubelet_api/stats.h"
#include "base/hash.h"
#include "kube/api/json.h"

namespace ghostfleet::kubelet_api {

using agent::ContainerState;
using agent::ContainerView;
using agent::PodView;
using agent::ResourceUse;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

// What all parts of one answer share.
struct Look {
  const NodeInfo& node;
  Disk disk;
  WallTime now;
  std::string time;
  bool brief;  // only cpu and memory
};

JsonObject cpu_json(const Usage& u, const std::string& time) {
  return {{"time", time},
          {"usageNanoCores", static_cast<uint64_t>(u.cpu_cores * 1e9)},
          {"usageCoreNanoSeconds", static_cast<uint64_t>(u.cpu_seconds * 1e9)}};
}

JsonObject memory_json(const Usage& u, int64_t limit, const std::string& time) {
  JsonObject m = {{"time", time}};
  if (limit > 0) m["availableBytes"] = std::max<int64_t>(limit - u.working_set, 0);
  m["usageBytes"] = u.usage;
  m["workingSetBytes"] = u.working_set;
  m["rssBytes"] = u.rss;
  m["pageFaults"] = u.page_faults;
  m["majorPageFaults"] = u.major_page_faults;
  return m;
}

// The whole disk, and what somebody uses of it.
JsonObject fs_json(const Look& look, int64_t used, int64_t inodes_used) {
  return {{"time", look.time},        {"availableBytes", look.disk.available}, {"capacityBytes", look.disk.capacity},
          {"usedBytes", used},        {"inodesFree", look.disk.inodes_free},   {"inodes", look.disk.inodes},
          {"inodesUsed", inodes_used}};
}

JsonObject network_json(uint64_t seed, double seconds, const std::string& time) {
  const double rate = 2000 + static_cast<double>(seed % 8000);
  const JsonObject eth = {{"name", "eth0"},
                          {"rxBytes", static_cast<uint64_t>(seconds * rate)},
                          {"rxErrors", 0},
                          {"txBytes", static_cast<uint64_t>(seconds * rate * 0.6)},
                          {"txErrors", 0}};
  JsonObject n = {{"time", time}};
  for (const auto& [key, value] : eth) n[key] = value;
  n["interfaces"] = JsonArray{eth};
  return n;
}

Json container_json(const ContainerView& c, const Usage& u, const Look& look) {
  JsonObject out = {{"name", c.name},
                    {"startTime", format_time(c.current.started)},
                    {"cpu", cpu_json(u, look.time)},
                    {"memory", memory_json(u, amounts_of(c).memory_limit, look.time)}};
  if (look.brief) return out;
  // The log is one file.
  out["rootfs"] = fs_json(look, c.use.storage, std::max<int64_t>(c.use.inodes - 1, 0));
  out["logs"] = fs_json(look, c.use.logs, std::min<int64_t>(c.use.inodes, 1));
  out["swap"] = JsonObject{{"time", look.time}, {"swapUsageBytes", 0}};
  return out;
}

JsonArray volumes_json(const PodView& pod, const Look& look) {
  JsonArray out;
  for (const agent::VolumeView& volume : pod.volumes) {
    JsonObject v = fs_json(look, volume.used, 0);
    v["name"] = volume.name;
    out.push_back(std::move(v));
  }
  return out;
}

JsonArray system_json(Usage system, const Look& look) {
  constexpr std::string_view kNames[] = {"kubelet", "runtime", "pods"};
  constexpr int kParts = std::size(kNames);
  system.cpu_cores /= kParts;
  system.cpu_seconds /= kParts;
  system.working_set /= kParts;
  system.usage /= kParts;
  system.rss /= kParts;
  JsonArray out;
  for (const std::string_view name : kNames) {
    out.push_back(JsonObject{{"name", name},
                             {"startTime", format_time(look.node.started)},
                             {"cpu", cpu_json(system, look.time)},
                             {"memory", memory_json(system, 0, look.time)}});
  }
  return out;
}

JsonObject node_json(const Usage& whole, const Usage& system, const ResourceUse& used, const Look& look) {
  const NodeInfo& node = look.node;
  JsonObject out = {{"nodeName", node.identity.name},
                    {"systemContainers", system_json(system, look)},
                    {"startTime", format_time(node.started)},
                    {"cpu", cpu_json(whole, look.time)},
                    {"memory", memory_json(whole, capacity_of(node, "memory"), look.time)}};
  if (look.brief) return out;
  const Disk& disk = look.disk;
  out["network"] =
      network_json(hash_text(node.identity.name, node.seed), seconds_since(node.started, look.now), look.time);
  out["fs"] = fs_json(look, disk.capacity - disk.available, disk.inodes - disk.inodes_free);
  out["runtime"] = JsonObject{{"imageFs", fs_json(look, node.disk ? node.disk->images : 0, 0)},
                              {"containerFs", fs_json(look, used.storage, used.inodes)}};
  out["rlimit"] = JsonObject{{"time", look.time}, {"maxpid", agent::kMostPids}, {"curproc", used.pids}};
  out["swap"] = JsonObject{{"time", look.time}, {"swapAvailableBytes", 0}, {"swapUsageBytes", 0}};
  return out;
}

// Nothing of a pod in which nothing runs.
std::optional<Json> pod_json(const PodView& pod, const UsageModel& model, const Look& look) {
  Usage sum;
  JsonArray containers;
  for (const ContainerView& c : pod.containers) {
    if (c.state != ContainerState::kRunning) continue;
    const Usage u = model.container(look.node, pod, c, look.now);
    add_usage(&sum, u);
    containers.push_back(container_json(c, u, look));
  }
  if (containers.empty()) return std::nullopt;
  JsonObject p = {{"podRef", JsonObject{{"name", pod.name}, {"namespace", pod.ns}, {"uid", pod.uid}}},
                  {"startTime", format_time(pod.start_time)},
                  {"containers", std::move(containers)},
                  {"cpu", cpu_json(sum, look.time)},
                  {"memory", memory_json(sum, 0, look.time)}};
  if (look.brief) return p;
  const ResourceUse use = pod.use();
  p["network"] = network_json(hash_text(pod.uid), seconds_since(pod.start_time, look.now), look.time);
  if (!pod.volumes.empty()) p["volume"] = volumes_json(pod, look);
  p["ephemeral-storage"] = fs_json(look, use.disk(), use.inodes);
  p["process_stats"] = JsonObject{{"process_count", use.pids}};
  p["swap"] = JsonObject{{"time", look.time}, {"swapUsageBytes", 0}};
  return p;
}

}  // namespace

std::string Stats::summary(NodeId id, const NodeInfo& node, const Pods& pods, bool brief) {
  const WallTime now = clock_.wall_now();
  const Look look{node, disk_of(node, pods), now, format_time(now), brief};
  const Usage whole = node_usage(id, node, pods, now);
  JsonArray out_pods;
  for (const PodView& pod : pods) {
    if (std::optional<Json> json = pod_json(pod, *model_, look)) out_pods.push_back(std::move(*json));
  }
  return kube::to_json(JsonObject{{"node", node_json(whole, model_->system(node, now), use_of(pods), look)},
                                  {"pods", std::move(out_pods)}});
}

}  // namespace ghostfleet::kubelet_api
