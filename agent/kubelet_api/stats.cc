#include "agent/kubelet_api/stats.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "kube/api/json.h"

namespace ghostfleet::kubelet_api {

using agent::ContainerState;
using agent::ContainerView;
using agent::PodView;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr int64_t kInodes = 6553600;

bool runs(const ContainerView& c) { return c.state == ContainerState::kRunning; }

void add(Usage* sum, const Usage& u) {
  sum->cpu_cores += u.cpu_cores;
  sum->cpu_seconds += u.cpu_seconds;
  sum->working_set += u.working_set;
  sum->usage += u.usage;
  sum->rss += u.rss;
  sum->page_faults += u.page_faults;
  sum->major_page_faults += u.major_page_faults;
}

// ---- summary

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

JsonObject fs_json(int64_t capacity, int64_t used, const std::string& time) {
  const int64_t inodes_used = used / 16384;
  return {{"time", time},
          {"availableBytes", std::max<int64_t>(capacity - used, 0)},
          {"capacityBytes", capacity},
          {"usedBytes", used},
          {"inodesFree", kInodes - inodes_used},
          {"inodes", kInodes},
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

double seconds_since(WallTime since, WallTime now) {
  return std::max(0.0, static_cast<double>((now - since).count()) * 1e-9);
}

int64_t disk_of(const NodeInfo& node) {
  const int64_t disk = capacity_of(node, "ephemeral-storage");
  return disk > 0 ? disk : int64_t{80} << 30;
}

Json container_json(const ContainerView& c, const Usage& u, const NodeInfo& node, bool brief, const std::string& time) {
  const Amounts amounts = amounts_of(c);
  JsonObject out = {{"name", c.name},
                    {"startTime", format_time(c.current.started)},
                    {"cpu", cpu_json(u, time)},
                    {"memory", memory_json(u, amounts.memory_limit, time)}};
  if (brief) return out;
  const int64_t disk = disk_of(node);
  out["rootfs"] = fs_json(disk, 1 << 20, time);
  out["logs"] = fs_json(disk, 64 << 10, time);
  out["swap"] = JsonObject{{"time", time}, {"swapUsageBytes", 0}};
  return out;
}

// ---- text

// Families of metrics in the text format; samples of one family stay together.
class Text {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  // `labels` is ready text without the braces.
  void sample(std::string_view labels, double value) { put(labels, number(value), {}); }
  void sample(std::string_view labels, int64_t value) { put(labels, std::to_string(value), {}); }
  void sample_at(std::string_view labels, double value, WallTime at) {
    put(labels, number(value), fmt::format(" {}", at.ns / 1000000));
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string number(double v) { return fmt::format("{}", v); }
  void put(std::string_view labels, std::string_view value, std::string_view time) {
    if (labels.empty()) {
      out_ += fmt::format("{} {}{}\n", name_, value, time);
    } else {
      out_ += fmt::format("{}{{{}}} {}{}\n", name_, labels, value, time);
    }
  }
  std::string name_, out_;
};

// For label values: backslash, quote and newline are escaped.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

void probe_samples(const PodView& pod, const ContainerView& c, Text* text) {
  static constexpr std::string_view kNames[agent::kProbeKinds] = {"Startup", "Readiness", "Liveness"};
  for (int kind = 0; kind < agent::kProbeKinds; ++kind) {
    const auto put = [&](std::string_view result, uint64_t count) {
      if (count == 0) return;
      text->sample(
          fmt::format("container=\"{}\",namespace=\"{}\",pod=\"{}\",pod_uid=\"{}\",probe_type=\"{}\",result=\"{}\"",
                      escaped(c.name), escaped(pod.ns), escaped(pod.name), escaped(pod.uid), kNames[kind], result),
          static_cast<int64_t>(count));
    };
    put("failed", c.probes[kind].failed);
    put("successful", c.probes[kind].successful);
  }
}

std::string container_labels(const PodView& pod, const ContainerView& c) {
  return fmt::format("container=\"{}\",namespace=\"{}\",pod=\"{}\"", escaped(c.name), escaped(pod.ns),
                     escaped(pod.name));
}

std::string pod_labels(const PodView& pod) {
  return fmt::format("namespace=\"{}\",pod=\"{}\"", escaped(pod.ns), escaped(pod.name));
}

struct Row {
  std::string labels;
  Usage usage;
  WallTime started;
  const PodView* pod = nullptr;
  const ContainerView* container = nullptr;
};

struct Rows {
  std::vector<Row> containers, pods;
};

Rows rows_of(const UsageModel& model, const NodeInfo& node, const std::vector<PodView>& pods, WallTime now) {
  Rows rows;
  for (const PodView& pod : pods) {
    Row whole{pod_labels(pod), {}, pod.start_time, &pod, nullptr};
    bool any = false;
    for (const ContainerView& c : pod.containers) {
      if (!runs(c)) continue;
      any = true;
      const Usage u = model.container(node, pod, c, now);
      add(&whole.usage, u);
      rows.containers.push_back({container_labels(pod, c), u, c.current.started, &pod, &c});
    }
    if (any) rows.pods.push_back(std::move(whole));
  }
  return rows;
}

template <class Get>
void write_rows(Text& text, const std::vector<Row>& rows, WallTime now, Get&& get) {
  for (const Row& row : rows) text.sample_at(row.labels, get(row), now);
}

void write_containers(Text& text, const std::vector<Row>& rows, WallTime now) {
  text.family("container_cpu_usage_seconds_total", "counter",
              "[STABLE] Cumulative cpu time consumed by the container in core-seconds");
  write_rows(text, rows, now, [](const Row& r) { return r.usage.cpu_seconds; });
  text.family("container_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the container in bytes");
  write_rows(text, rows, now, [](const Row& r) { return static_cast<double>(r.usage.working_set); });
  text.family("container_start_time_seconds", "gauge",
              "[STABLE] Start time of the container since unix epoch in seconds");
  for (const Row& r : rows) text.sample(r.labels, static_cast<double>(r.started.ns) * 1e-9);
  text.family("container_swap_usage_bytes", "gauge",
              "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems");
  write_rows(text, rows, now, [](const Row&) { return 0.0; });
}

void write_pods(Text& text, const std::vector<Row>& rows, WallTime now) {
  text.family("pod_cpu_usage_seconds_total", "counter",
              "[STABLE] Cumulative cpu time consumed by the pod in core-seconds");
  write_rows(text, rows, now, [](const Row& r) { return r.usage.cpu_seconds; });
  text.family("pod_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the pod in bytes");
  write_rows(text, rows, now, [](const Row& r) { return static_cast<double>(r.usage.working_set); });
  text.family("pod_swap_usage_bytes", "gauge",
              "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems");
  write_rows(text, rows, now, [](const Row&) { return 0.0; });
}

std::string cadvisor_labels(const Row& r) {
  const std::string_view id = r.container->id;
  const size_t slashes = id.find("://");
  const std::string_view bare = slashes == std::string_view::npos ? id : id.substr(slashes + 3);
  return fmt::format(
      "container=\"{}\",id=\"/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope\",image=\"{}\","
      "name=\"{}\",namespace=\"{}\",pod=\"{}\"",
      escaped(r.container->name), r.pod->uid, bare, escaped(r.container->image), bare, escaped(r.pod->ns),
      escaped(r.pod->name));
}

}  // namespace

Usage Stats::node_usage(NodeId id, const NodeInfo& node, const Pods& pods, WallTime now) {
  Usage sum = model_->system(node, now);
  const double system_seconds = sum.cpu_seconds;
  for (const PodView& pod : pods) {
    for (const ContainerView& c : pod.containers) {
      if (runs(c)) add(&sum, model_->container(node, pod, c, now));
    }
  }
  if (counters_.size() >= kMaxNodes && !counters_.contains(id)) counters_.clear();
  const auto [it, fresh] = counters_.try_emplace(id, Counter{now, std::max(system_seconds, sum.cpu_seconds)});
  Counter& counter = it->second;
  if (!fresh) counter.cpu_seconds += sum.cpu_cores * seconds_since(counter.at, now);
  counter.at = std::max(counter.at, now);
  sum.cpu_seconds = counter.cpu_seconds;
  return sum;
}

std::string Stats::summary(NodeId id, const NodeInfo& node, const Pods& pods, bool brief) {
  const WallTime now = clock_.wall_now();
  const std::string time = format_time(now);
  const Usage whole = node_usage(id, node, pods, now);
  const Usage system = model_->system(node, now);
  const int64_t memory = capacity_of(node, "memory");
  JsonObject out_node = {{"nodeName", node.identity.name}};
  JsonArray system_containers;
  for (const char* name : {"kubelet", "runtime", "pods"}) {
    Usage u = system;
    u.cpu_cores /= 3;
    u.cpu_seconds /= 3;
    u.working_set /= 3;
    u.usage /= 3;
    u.rss /= 3;
    system_containers.push_back(JsonObject{{"name", name},
                                           {"startTime", format_time(node.started)},
                                           {"cpu", cpu_json(u, time)},
                                           {"memory", memory_json(u, 0, time)}});
  }
  out_node["systemContainers"] = std::move(system_containers);
  out_node["startTime"] = format_time(node.started);
  out_node["cpu"] = cpu_json(whole, time);
  out_node["memory"] = memory_json(whole, memory, time);
  const int64_t disk = disk_of(node);
  if (!brief) {
    const double up = seconds_since(node.started, now);
    const uint64_t seed = hash_text(node.identity.name, node.seed);
    out_node["network"] = network_json(seed, up, time);
    out_node["fs"] = fs_json(disk, disk / 8, time);
    out_node["runtime"] =
        JsonObject{{"imageFs", fs_json(disk, disk / 16, time)}, {"containerFs", fs_json(disk, disk / 64, time)}};
    out_node["rlimit"] = JsonObject{{"time", time}, {"maxpid", 4194304}, {"curproc", 300 + 10 * pods.size()}};
    out_node["swap"] = JsonObject{{"time", time}, {"swapAvailableBytes", 0}, {"swapUsageBytes", 0}};
  }
  JsonArray out_pods;
  for (const PodView& pod : pods) {
    Usage sum;
    JsonArray containers;
    for (const ContainerView& c : pod.containers) {
      if (!runs(c)) continue;
      const Usage u = model_->container(node, pod, c, now);
      add(&sum, u);
      containers.push_back(container_json(c, u, node, brief, time));
    }
    if (containers.empty()) continue;
    const auto count = containers.size();
    JsonObject p = {{"podRef", JsonObject{{"name", pod.name}, {"namespace", pod.ns}, {"uid", pod.uid}}},
                    {"startTime", format_time(pod.start_time)},
                    {"containers", std::move(containers)},
                    {"cpu", cpu_json(sum, time)},
                    {"memory", memory_json(sum, 0, time)}};
    if (!brief) {
      p["network"] = network_json(hash_text(pod.uid), seconds_since(pod.start_time, now), time);
      p["ephemeral-storage"] = fs_json(disk, static_cast<int64_t>(count) * (1 << 20), time);
      p["process_stats"] = JsonObject{{"process_count", count}};
      p["swap"] = JsonObject{{"time", time}, {"swapUsageBytes", 0}};
    }
    out_pods.push_back(std::move(p));
  }
  return kube::to_json(JsonObject{{"node", std::move(out_node)}, {"pods", std::move(out_pods)}});
}

std::string Stats::resource_metrics(NodeId id, const NodeInfo& node, const Pods& pods) {
  const WallTime now = clock_.wall_now();
  const Rows rows = rows_of(*model_, node, pods, now);
  const Usage whole = node_usage(id, node, pods, now);
  Text text;
  write_containers(text, rows.containers, now);
  text.family("node_cpu_usage_seconds_total", "counter",
              "[STABLE] Cumulative cpu time consumed by the node in core-seconds");
  text.sample_at("", whole.cpu_seconds, now);
  text.family("node_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the node in bytes");
  text.sample_at("", static_cast<double>(whole.working_set), now);
  text.family("node_swap_usage_bytes", "gauge",
              "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems");
  text.sample_at("", 0.0, now);
  write_pods(text, rows.pods, now);
  text.family("resource_scrape_error", "gauge",
              "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise");
  text.sample("", int64_t{0});
  text.family("scrape_error", "gauge", "[ALPHA] 1 if there was an error while getting container metrics, 0 otherwise");
  text.sample("", int64_t{0});
  return text.take();
}

std::string Stats::cadvisor_metrics(NodeId id, const NodeInfo& node, const Pods& pods) {
  const WallTime now = clock_.wall_now();
  const Rows rows = rows_of(*model_, node, pods, now);
  const Usage whole = node_usage(id, node, pods, now);
  constexpr std::string_view kRoot = R"(container="",id="/",image="",name="",namespace="",pod="")";
  Text text;
  text.family("cadvisor_version_info", "gauge",
              "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor "
              "version & cadvisor revision.");
  text.sample(
      fmt::format("cadvisorRevision=\"\",cadvisorVersion=\"\",dockerVersion=\"\",kernelVersion=\"{}\",osVersion=\"{}\"",
                  escaped(node.node->kernel_version), escaped(node.node->os_image)),
      int64_t{1});
  const auto whole_and_each = [&](auto&& get, std::string_view more) {
    text.sample_at(std::string(kRoot) + std::string(more), get(whole), now);
    for (const Row& r : rows.containers) text.sample_at(cadvisor_labels(r) + std::string(more), get(r.usage), now);
  };
  text.family("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.");
  whole_and_each([](const Usage& u) { return u.cpu_seconds; }, ",cpu=\"total\"");
  text.family("container_memory_working_set_bytes", "gauge", "Current working set in bytes.");
  whole_and_each([](const Usage& u) { return static_cast<double>(u.working_set); }, "");
  text.family("container_memory_usage_bytes", "gauge",
              "Current memory usage in bytes, including all memory regardless of when it was accessed");
  whole_and_each([](const Usage& u) { return static_cast<double>(u.usage); }, "");
  text.family("container_memory_rss", "gauge", "Size of RSS in bytes.");
  whole_and_each([](const Usage& u) { return static_cast<double>(u.rss); }, "");
  text.family("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.");
  for (const Row& r : rows.containers) text.sample(cadvisor_labels(r), static_cast<double>(r.started.seconds()));
  text.family("container_network_receive_bytes_total", "counter", "Cumulative count of bytes received");
  for (const Row& r : rows.pods) {
    const double rate = 2000 + static_cast<double>(hash_text(r.pod->uid) % 8000);
    text.sample_at(
        fmt::format("container=\"\",id=\"/kubepods.slice/kubepods-pod{}.slice\",image=\"\",interface=\"eth0\","
                    "name=\"\",{}",
                    r.pod->uid, r.labels),
        rate * seconds_since(r.started, now), now);
  }
  const std::string machine = fmt::format("boot_id=\"{}\",machine_id=\"{}\",system_uuid=\"{}\"", node.identity.boot_id,
                                          node.identity.machine_id, node.identity.system_uuid);
  text.family("machine_cpu_cores", "gauge", "Number of logical CPU cores.");
  text.sample(machine, capacity_of(node, "cpu") / 1000);
  text.family("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.");
  text.sample(machine, capacity_of(node, "memory"));
  return text.take();
}

std::string Stats::kubelet_metrics(const NodeInfo& node, const Pods& pods) const {
  int64_t running = 0;
  int64_t created = 0;
  int64_t exited = 0;
  int64_t pods_running = 0;
  for (const PodView& pod : pods) {
    bool any = false;
    for (const ContainerView& c : pod.containers) {
      running += runs(c) ? 1 : 0;
      any |= runs(c);
      created += c.state == ContainerState::kWaiting && !c.current.known ? 1 : 0;
      exited += c.current.ended ? 1 : 0;
    }
    pods_running += any ? 1 : 0;
  }
  Text text;
  text.family("kubelet_node_name", "gauge", "[ALPHA] The node's name. The count is always 1.");
  text.sample(fmt::format("node=\"{}\"", node.identity.name), int64_t{1});
  text.family("kubelet_running_containers", "gauge", "[ALPHA] Number of containers currently running");
  text.sample("container_state=\"created\"", created);
  text.sample("container_state=\"exited\"", exited);
  text.sample("container_state=\"running\"", running);
  text.family("kubelet_running_pods", "gauge", "[ALPHA] Number of pods that have a running pod sandbox");
  text.sample("", pods_running);
  text.family(
      "kubelet_desired_pods", "gauge",
      "[ALPHA] The number of pods the kubelet is being instructed to run. static is true if the pod is not from "
      "the apiserver.");
  text.sample("static=\"\"", static_cast<int64_t>(pods.size()));
  text.family(
      "kubernetes_build_info", "gauge",
      "[ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree "
      "state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is "
      "running.");
  text.sample(fmt::format("git_version=\"{}\",platform=\"{}/{}\"", node.node->kubelet_version,
                          node.node->operating_system, node.node->architecture),
              int64_t{1});
  text.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.");
  text.sample("", node.started.seconds());
  return text.take();
}

std::string Stats::probe_metrics(const NodeInfo& node, const Pods& pods) const {
  Text text;
  text.family("prober_probe_total", "counter",
              "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.");
  for (const PodView& pod : pods) {
    // A kubelet forgets the counters of a pod that has ended.
    if (pod.phase == "Succeeded" || pod.phase == "Failed") continue;
    for (const ContainerView& c : pod.containers) probe_samples(pod, c, &text);
  }
  text.family("process_start_time_seconds", "gauge", "[ALPHA] Start time of the process since unix epoch in seconds.");
  text.sample("", node.started.seconds());
  return text.take();
}

std::string configz(const NodeInfo& node) {
  const int64_t pods = capacity_of(node, "pods");
  JsonObject c = {
      {"kind", "KubeletConfiguration"},
      {"apiVersion", "kubelet.config.k8s.io/v1beta1"},
      {"enableServer", true},
      {"syncFrequency", "1m0s"},
      {"fileCheckFrequency", "20s"},
      {"httpCheckFrequency", "20s"},
      {"address", "0.0.0.0"},
      {"port", node.node->kubelet_port},
      {"rotateCertificates", true},
      {"authentication", JsonObject{{"x509", JsonObject{}},
                                    {"webhook", JsonObject{{"enabled", true}, {"cacheTTL", "2m0s"}}},
                                    {"anonymous", JsonObject{{"enabled", false}}}}},
      {"authorization",
       JsonObject{{"mode", "Webhook"},
                  {"webhook", JsonObject{{"cacheAuthorizedTTL", "5m0s"}, {"cacheUnauthorizedTTL", "30s"}}}}},
      {"registryPullQPS", 5},
      {"registryBurst", 10},
      {"eventRecordQPS", 50},
      {"eventBurst", 100},
      {"enableDebuggingHandlers", true},
      {"healthzPort", 10248},
      {"healthzBindAddress", "127.0.0.1"},
      {"streamingConnectionIdleTimeout", "4h0m0s"},
      {"nodeStatusUpdateFrequency", "10s"},
      {"nodeStatusReportFrequency", "5m0s"},
      {"nodeLeaseDurationSeconds", 40},
      {"cgroupDriver", "systemd"},
      {"maxPods", pods > 0 ? pods : 110},
      {"contentType", "application/vnd.kubernetes.protobuf"},
      {"kubeAPIQPS", 50},
      {"kubeAPIBurst", 100},
      {"serializeImagePulls", true},
      {"evictionHard", JsonObject{{"memory.available", "100Mi"},
                                  {"nodefs.available", "10%"},
                                  {"nodefs.inodesFree", "5%"},
                                  {"imagefs.available", "15%"},
                                  {"imagefs.inodesFree", "5%"}}},
      {"evictionPressureTransitionPeriod", "5m0s"},
      {"enableControllerAttachDetach", true},
      {"failSwapOn", true},
      {"containerLogMaxSize", "10Mi"},
      {"containerLogMaxFiles", 5},
      {"configMapAndSecretChangeDetectionStrategy", "Watch"},
      {"containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"}};
  return kube::to_json(JsonObject{{"kubeletconfig", std::move(c)}});
}

std::string running_pods(const std::vector<PodView>& pods) {
  JsonArray items;
  for (const PodView& pod : pods) {
    JsonArray containers;
    for (const ContainerView& c : pod.containers) {
      if (runs(c)) containers.push_back(JsonObject{{"name", c.name}, {"image", c.image}, {"resources", JsonObject{}}});
    }
    if (containers.empty()) continue;
    items.push_back(JsonObject{
        {"metadata",
         JsonObject{{"name", pod.name}, {"namespace", pod.ns}, {"uid", pod.uid}, {"creationTimestamp", nullptr}}},
        {"spec", JsonObject{{"containers", std::move(containers)}}},
        {"status", JsonObject{}}});
  }
  return kube::to_json(
      JsonObject{{"kind", "PodList"}, {"apiVersion", "v1"}, {"metadata", JsonObject{}}, {"items", std::move(items)}});
}

}  // namespace ghostfleet::kubelet_api
