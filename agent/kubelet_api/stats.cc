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

bool runs(const ContainerView& c) { return c.state == ContainerState::kRunning; }

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
      add_usage(&whole.usage, u);
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

// Of the whole node only, as cAdvisor tells it beside a container runtime that keeps the file systems of containers.
void write_file_system(Text& text, const Disk& disk, std::string_view root, WallTime now) {
  const std::string labels = std::string(root) + ",device=\"/dev/nvme0n1p1\"";
  const auto put = [&](std::string_view name, std::string_view help, int64_t value) {
    text.family(name, "gauge", help);
    text.sample_at(labels, static_cast<double>(value), now);
  };
  put("container_fs_inodes_free", "Number of available Inodes", disk.inodes_free);
  put("container_fs_inodes_total", "Number of Inodes", disk.inodes);
  put("container_fs_limit_bytes", "Number of bytes that can be consumed by the container on this filesystem.",
      disk.capacity);
  put("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.",
      disk.capacity - disk.available);
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
      if (runs(c)) add_usage(&sum, model_->container(node, pod, c, now));
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
  text.family("container_processes", "gauge", "Number of processes running inside the container.");
  for (const Row& r : rows.containers)
    text.sample_at(cadvisor_labels(r), static_cast<double>(r.container->use.pids), now);
  write_file_system(text, disk_of(node, pods), kRoot, now);
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

namespace {

// Thresholds as the maps of a kubelet's configuration have them.
void add_eviction(const agent::EvictionRules& rules, JsonObject* config) {
  const auto percent = [](float share) { return fmt::format("{:g}%", static_cast<double>(share) * 100); };
  JsonObject hard, soft, grace, reclaim;
  for (const agent::EvictionThreshold& t : rules.thresholds) {
    const std::string_view name = agent::signal_name(t.signal);
    const std::string value = t.share == 0 ? t.text : percent(t.share);
    const bool is_hard = t.grace == Duration(0);
    (is_hard ? hard : soft)[name] = value;
    if (!is_hard) grace[name] = format_duration(t.grace);
    if (t.reclaim_share > 0) reclaim[name] = percent(t.reclaim_share);
    if (t.reclaim_amount > 0) reclaim[name] = t.reclaim_text;
  }
  (*config)["evictionHard"] = std::move(hard);
  if (!soft.empty()) (*config)["evictionSoft"] = std::move(soft);
  if (!grace.empty()) (*config)["evictionSoftGracePeriod"] = std::move(grace);
  if (rules.max_pod_grace_seconds > 0) (*config)["evictionMaxPodGracePeriod"] = rules.max_pod_grace_seconds;
  if (!reclaim.empty()) (*config)["evictionMinimumReclaim"] = std::move(reclaim);
  (*config)["evictionPressureTransitionPeriod"] = format_duration(rules.transition);
}

}  // namespace

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
      {"enableControllerAttachDetach", true},
      {"failSwapOn", true},
      {"containerLogMaxSize", "10Mi"},
      {"containerLogMaxFiles", 5},
      {"configMapAndSecretChangeDetectionStrategy", "Watch"},
      {"containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"}};
  add_eviction(eviction_of(node), &c);
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
