#include "emulator/fleet/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

#include "emulator/fleet/fleet_checks.h"
#include "emulator/fleet/fleet_impl.h"
#include "emulator/fleet/hub.h"
#include "kube/api/names.h"

namespace ghostfleet::emulator {
namespace {

constexpr size_t kMostExamples = 10;
constexpr double kSkewWarning = 5;

int shard_count(const FleetOptions& options, uint32_t nodes) {
  int shards = options.shards;
  if (shards <= 0) shards = std::clamp(static_cast<int>(std::thread::hardware_concurrency()) - 1, 1, 8);
  return std::min<int>(shards, static_cast<int>(nodes));
}

// A server derives the manager of fields from it: "kubelet".
std::string user_agent_of(const agent::NodeTemplate& node) {
  return fmt::format("kubelet/{} ({}/{}) kubernetes/0000000", node.kubelet_version, node.operating_system,
                     node.architecture);
}

agent::NodeOptions node_options(const FleetOptions& o) {
  agent::NodeOptions n;
  n.fleet = o.name;
  n.adopt = o.adopt;
  n.recreate_deleted = o.recreate_deleted;
  n.full_fidelity = o.full_fidelity || o.connections == ConnectionMode::kPerNode;
  n.events = o.events;
  n.lease_duration = o.lease_duration;
  n.status_report_period = o.status_report_period;
  return n;
}

class RunningFleet final : public Fleet {
 public:
  RunningFleet(FleetOptions options, FleetCallbacks callbacks, FleetNames names)
      : options_(std::move(options)), callbacks_(std::move(callbacks)), names_(std::move(names)) {}
  ~RunningFleet() override { stop(); }

  Status begin();
  void stop() override;
  FleetStats snapshot() const override;
  std::vector<const MetricsRegistry*> metrics() const override;

 private:
  Status make_classes();
  void make_shards(const kube::http::HttpClientOptions& http, const std::string& prefix);
  void make_hub(const kube::http::HttpClientOptions& http, const std::string& prefix, bool read_leases);
  void noticed(const std::string& text);
  void settled();
  uint64_t expected_ready(uint64_t not_ours) const { return names_.size() - not_ours; }

  FleetOptions options_;
  FleetCallbacks callbacks_;
  FleetNames names_;
  std::vector<std::shared_ptr<const agent::NodeClass>> classes_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Hub> hub_;
  mutable std::mutex mutex_;  // of the examples and of all_ready's single call
  std::vector<std::string> examples_;
  std::atomic<uint64_t> settled_{0};
  mutable std::atomic<bool> skew_told_{false};
  bool stopped_ = false;
  mutable uint64_t last_registered_ = 0;
  mutable TimePoint last_snapshot_;
  mutable double last_rate_ = 0;
};

Status RunningFleet::make_classes() {
  for (const FleetGroup& group : options_.groups) {
    auto made = agent::NodeClass::create(group.node, node_options(options_));
    if (!made.ok()) return made.error();
    classes_.push_back(std::move(made).value());
  }
  return Status::ok_status();
}

Status RunningFleet::begin() {
  GF_RETURN_IF_ERROR(make_classes());
  const bool per_node = options_.connections == ConnectionMode::kPerNode;
  if (per_node) GF_RETURN_IF_ERROR(ensure_open_files(names_.size()));
  auto existing = options_.full_fidelity ? probe_node(options_.client, names_.identity(0).name)
                                         : probe_server(options_.client, options_.name);
  if (!existing.ok()) return existing.error();
  std::string prefix;
  if (options_.client.user_agent.empty()) options_.client.user_agent = user_agent_of(options_.groups.front().node);
  auto http = kube::make_http_options(options_.client, &prefix);
  if (!http.ok()) return http.error();
  http->max_connections = per_node ? 2 : options_.connections_per_shard;
  make_shards(*http, prefix);
  if (!per_node) make_hub(*http, prefix, *existing);
  for (auto& shard : shards_) shard->start();
  if (hub_) {
    hub_->start();
    return Status::ok_status();
  }
  for (auto& shard : shards_) {
    shard->loop().post([s = shard.get()] { s->begin_registration(); });
  }
  return Status::ok_status();
}

void RunningFleet::make_shards(const kube::http::HttpClientOptions& http, const std::string& prefix) {
  const auto count = static_cast<uint32_t>(shard_count(options_, names_.size()));
  auto pods = std::make_shared<agent::PodOptions>(options_.pods);
  for (uint32_t i = 0; i < count; ++i) {
    ShardConfig c;
    c.number = i;
    c.count = count;
    c.names = &names_;
    c.classes = classes_;
    c.pods = pods;
    c.run_pods = options_.run_pods;
    c.connections = options_.connections;
    c.http = http;
    c.path_prefix = prefix;
    c.auth = options_.client.auth;
    c.register_rate = options_.register_rate / count;
    c.seed = options_.seed;
    c.notice = [this](const std::string& text) { noticed(text); };
    c.node_settled = [this] { settled(); };
    shards_.push_back(std::make_unique<Shard>(std::move(c)));
  }
}

void RunningFleet::make_hub(const kube::http::HttpClientOptions& http, const std::string& prefix, bool read_leases) {
  HubConfig c;
  c.fleet = options_.name;
  c.names = &names_;
  c.classes = classes_;
  for (auto& shard : shards_) c.shards.push_back(shard.get());
  c.run_pods = options_.run_pods;
  c.read_leases = read_leases;
  c.http = http;
  c.path_prefix = prefix;
  c.auth = options_.client.auth;
  c.seed = options_.seed;
  c.notice = [this](const std::string& text) { noticed(text); };
  hub_ = std::make_unique<Hub>(std::move(c));
}

void RunningFleet::noticed(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (text.find("does not belong") != std::string::npos && examples_.size() < kMostExamples) {
      examples_.push_back(text.substr(5, text.find(':') - 5));
    }
  }
  if (callbacks_.notice) callbacks_.notice(text);
}

void RunningFleet::settled() {
  if (settled_.fetch_add(1) + 1 == names_.size() && callbacks_.all_ready) callbacks_.all_ready();
}

void RunningFleet::stop() {
  if (std::exchange(stopped_, true)) return;
  if (hub_) hub_->stop();
  for (auto& shard : shards_) shard->stop();
}

FleetStats RunningFleet::snapshot() const {
  FleetStats s;
  s.nodes = names_.size();
  Histogram lateness;
  Histogram latency;
  int64_t first = 0;
  int64_t last = 0;
  uint64_t ever_ready = 0;
  for (const auto& shard : shards_) {
    const ShardStats& stats = shard->stats();
    stats.add_to(&s);
    stats.lateness.merge_into(&lateness);
    stats.latency.merge_into(&latency);
    const int64_t begin = stats.first_request.load();
    if (begin != 0 && (first == 0 || begin < first)) first = begin;
    last = std::max(last, stats.last_first_ready.load());
    ever_ready += stats.ever_ready.load();
  }
  if (hub_) hub_->stats().add_to(&s);
  if (ever_ready >= expected_ready(s.not_ours) && last != 0) s.ready_seconds = static_cast<double>(last - first) * 1e-9;
  s.lateness_p50 = lateness.quantile(0.5);
  s.lateness_p99 = lateness.quantile(0.99);
  s.lateness_max = lateness.max_seconds();
  s.request_p50 = latency.quantile(0.5);
  s.request_p99 = latency.quantile(0.99);
  const std::lock_guard lock(mutex_);
  s.not_ours_examples = examples_;
  const TimePoint now = SystemClock::instance().now();
  const double seconds = static_cast<double>((now - last_snapshot_).count()) * 1e-9;
  if (seconds >= 0.5) {
    const double more = static_cast<double>(ever_ready) - static_cast<double>(last_registered_);
    last_rate_ = last_snapshot_ == TimePoint{} ? 0 : more / seconds;
    last_registered_ = ever_ready;
    last_snapshot_ = now;
  }
  s.registrations_per_second = last_rate_;
  if (std::abs(s.clock_skew_seconds) > kSkewWarning && callbacks_.notice && !skew_told_.exchange(true)) {
    callbacks_.notice(fmt::format("the API server's clock is {:+.0f} s from ours: lease times will look wrong to it",
                                  s.clock_skew_seconds));
  }
  return s;
}

std::vector<const MetricsRegistry*> RunningFleet::metrics() const {
  std::vector<const MetricsRegistry*> all;
  for (const auto& shard : shards_) all.push_back(&shard->stats().registry);
  if (hub_) all.push_back(&hub_->stats().registry);
  return all;
}

Status check_name(const std::string& name) {
  const auto faults = kube::check_dns1123_label(name);
  if (name.empty() || !faults.empty()) {
    return invalid_argument(fmt::format("fleet name \"{}\": {}", name, name.empty() ? "must not be empty" : faults[0]));
  }
  return Status::ok_status();
}

Status check_numbers(const FleetOptions& options) {
  if (options.register_rate < 0 || !std::isfinite(options.register_rate)) {
    return invalid_argument(fmt::format("register rate {}: 0 (adaptive) or more", options.register_rate));
  }
  if (options.lease_duration < std::chrono::seconds(1)) {
    return invalid_argument(fmt::format("lease duration {}: at least 1s", format_duration(options.lease_duration)));
  }
  if (options.shards < 0 || options.shards > 256) {
    return invalid_argument(fmt::format("shards {}: 0 (as many as cores allow) to 256", options.shards));
  }
  return Status::ok_status();
}

}  // namespace

Status check_fleet(const FleetOptions& options) {
  GF_RETURN_IF_ERROR(check_name(options.name));
  GF_RETURN_IF_ERROR(check_numbers(options));
  auto names = FleetNames::create(options.name, options.groups);
  return names.ok() ? Status::ok_status() : names.error();
}

Result<std::unique_ptr<Fleet>> start_fleet(FleetOptions options, FleetCallbacks callbacks, FleetNames names) {
  auto fleet = std::make_unique<RunningFleet>(std::move(options), std::move(callbacks), std::move(names));
  Status status = fleet->begin();
  if (!status.ok()) return status;
  return std::unique_ptr<Fleet>(std::move(fleet));
}

Result<std::unique_ptr<Fleet>> Fleet::start(FleetOptions options, FleetCallbacks callbacks) {
  Status status = check_name(options.name);
  if (status.ok()) status = check_numbers(options);
  if (!status.ok()) return status;
  auto names = FleetNames::create(options.name, options.groups);
  if (!names.ok()) return names.error();
  return start_fleet(std::move(options), std::move(callbacks), std::move(names).value());
}

}  // namespace ghostfleet::emulator
