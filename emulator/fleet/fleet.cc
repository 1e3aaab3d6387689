#include "emulator/fleet/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/files.h"
#include "emulator/fleet/fleet_checks.h"
#include "emulator/fleet/fleet_impl.h"
#include "emulator/fleet/hub.h"
#include "emulator/vpc/vpc.h"
#include "kube/api/names.h"
#include "kube/api/quantity.h"

namespace ghostfleet::emulator {
namespace {

constexpr size_t kMostExamples = 10;
constexpr double kSkewWarning = 5;
constexpr Duration kLostAfter = std::chrono::seconds(5);         // without an answer, while requests fail
constexpr Duration kUnapprovedAfter = std::chrono::seconds(10);  // without a certificate more, while nodes wait for one
constexpr auto kShowTimeout = std::chrono::seconds(5);
constexpr int kConnectionsOfANode = 8;  // one, and further ones when 100 streams are open on each

const kube::ClientConfig& bootstrap_of(const FleetOptions& o) {
  return o.identity.bootstrap.server_url.empty() ? o.client : o.identity.bootstrap;
}

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
  n.device_plugin_delay = o.device_plugin_delay;
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
  std::string node_server() const override;
  void set_static_pods(std::vector<agent::StaticManifest> manifests) override;
  std::string network_metrics() const override;
  std::optional<std::string> show_network(std::string_view node, std::string_view path) const override;

 private:
  Status make_network();
  Status keep_apart();
  void addresses_known();
  Status make_classes();
  Status make_devices(const FleetGroup& group);
  Status bind_node_server();
  Status start_node_server(const kube::ClientConfig& client);
  Result<bool> probe() const;
  Status prepare_identity();
  void make_shards(const kube::http::HttpClientOptions& http, const std::string& prefix);
  void make_hub(const kube::http::HttpClientOptions& http, const std::string& prefix, bool read_leases);
  void noticed(const std::string& text);
  void settled();
  void tell_not_ours();
  void watch_server(TimePoint now) const;
  void watch_certificates(TimePoint now, const FleetStats& s) const;
  // Certificates of one kind that nodes wait for.
  struct Waiting {
    uint64_t held = 0;
    TimePoint since;
    bool told = false;
  };
  void watch_waiting(Waiting* waiting, TimePoint now, uint64_t wanted, uint64_t held, const char* what,
                     const char* signer) const;
  uint64_t expected_ready(uint64_t not_ours) const { return names_.size() - not_ours; }

  FleetOptions options_;
  FleetCallbacks callbacks_;
  FleetNames names_;
  std::vector<std::shared_ptr<const agent::NodeClass>> classes_;
  std::vector<std::shared_ptr<const agent::DeviceSetup>> device_setups_;  // by group
  std::unique_ptr<NodeServer> node_server_;                               // destroyed after the shards, which answer it
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<Vpc> vpc_;  // all shards call it; destroyed after them
  std::atomic<size_t> shards_that_know_{0};
  std::unique_ptr<FleetImages> images_;  // as are the stores, which they pull from
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Hub> hub_;
  kube::http::HttpClientOptions bootstrap_http_;
  kube::ClientAuth bootstrap_auth_;
  mutable std::mutex mutex_;  // of the examples and of all_ready's single call
  std::vector<std::string> examples_;
  std::unordered_map<uint32_t, std::shared_ptr<const kube::http::TlsIdentity>> serving_;  // by node
  std::atomic<uint64_t> settled_{0};
  mutable std::atomic<bool> skew_told_{false};
  bool stopped_ = false;
  bool protobuf_leases_ = false;
  mutable uint64_t last_registered_ = 0;
  mutable TimePoint last_snapshot_;
  mutable double last_rate_ = 0;
  mutable TimePoint lost_since_;
  mutable Waiting waiting_clients_, waiting_servings_;
};

// A second InternalIP beside the first one.
void add_second_address(bool first, agent::NodeTemplate* node) {
  const auto at = std::find_if(node->addresses.begin(), node->addresses.end(),
                               [](const agent::NodeAddress& a) { return a.type == "InternalIP"; });
  if (at == node->addresses.end()) return;
  node->addresses.insert(first ? at : at + 1, {"InternalIP", "{second_ip}"});
}

Status RunningFleet::make_devices(const FleetGroup& group) {
  if (group.devices != nullptr) {
    device_setups_.push_back(group.devices);
    return Status::ok_status();
  }
  agent::ResourcePairs capacity = group.node.capacity;
  auto setup = agent::make_device_setup({}, {}, &capacity);
  if (!setup.ok()) return setup.error();
  device_setups_.push_back(std::make_shared<const agent::DeviceSetup>(std::move(setup).value()));
  return Status::ok_status();
}

Status RunningFleet::make_classes() {
  if (!options_.second_pod_cidr.empty()) {
    auto network = SecondNetwork::parse(options_.second_pod_cidr, names_.size());
    if (!network.ok()) return network.error().with_context("second pod CIDR");
    names_.set_second_network(*network);
    for (FleetGroup& group : options_.groups) add_second_address(options_.second_is_primary, &group.node);
  }
  for (const FleetGroup& group : options_.groups) {
    agent::NodeOptions node = node_options(options_);
    node.device_plugin_delay = group.device_plugin_delay.value_or(node.device_plugin_delay);
    auto made = agent::NodeClass::create(group.node, std::move(node));
    if (!made.ok()) return made.error();
    classes_.push_back(std::move(made).value());
    GF_RETURN_IF_ERROR(make_devices(group));
  }
  return Status::ok_status();
}

// Before the nodes are rendered: they tell address and port.
Status RunningFleet::bind_node_server() {
  NodeServerOptions& options = options_.node_server;
  options.mode = resolve_mode(options.mode, options_.client.server_url);
  if (options.mode == NodeServerMode::kOff) return Status();
  if (options_.identity.serving) {
    options.certificate_of = [this](uint32_t node) {
      const std::lock_guard lock(mutex_);
      const auto it = serving_.find(node);
      return it == serving_.end() ? nullptr : it->second;
    };
  }
  auto server = NodeServer::bind(options, &names_);
  if (!server.ok()) return server.error();
  node_server_ = std::move(server).value();
  for (FleetGroup& group : options_.groups) group.node.kubelet_port = node_server_->port();
  if (!node_server_->remark().empty() && callbacks_.notice) callbacks_.notice(node_server_->remark());
  return Status();
}

// The range of the groups whose pods do not use the network must be another one, and so must that of the nodes.
Status RunningFleet::keep_apart() {
  const VpcSpec& vpc = options_.network->vpc;
  const auto overlaps = [&vpc](const agent::Cidr& range) {
    const auto meets = [&range](const agent::Cidr& c) { return c.overlaps(range); };
    return std::any_of(vpc.cidrs.begin(), vpc.cidrs.end(), meets);
  };
  const auto& groups = options_.network->groups;
  if (std::find(groups.begin(), groups.end(), nullptr) != groups.end()) {
    for (const agent::Cidr& range : FleetNames::pod_ranges()) {
      if (!overlaps(range)) continue;
      return invalid_argument(fmt::format(
          "network: pods of groups with ipam: range have addresses of {}, which overlaps the cidrs of VPC {}: a VPC in "
          "another range, like 172.16.0.0/16, is expected",
          format_cidr(range), vpc.name));
    }
  }
  if (node_server_) return Status();
  for (const char* text : {"10.0.0.0/12", "100.64.0.0/10", "172.16.0.0/12"}) {
    auto network = NodeNetwork::parse(text, names_.size());
    if (!network.ok() || overlaps(network->range())) continue;
    names_.set_network(std::move(network).value());
    return Status();
  }
  return invalid_argument(
      fmt::format("network: the cidrs of VPC {} leave no range for the addresses of {} nodes: one of 10.0.0.0/12, "
                  "100.64.0.0/10 or 172.16.0.0/12 must be free",
                  vpc.name, names_.size()));
}

Status RunningFleet::make_network() {
  if (!options_.network) return Status();
  if (!options_.second_pod_cidr.empty()) {
    return invalid_argument(fmt::format(
        "secondPodCIDR \"{}\": pods of a VPC have addresses of one family: leave it out", options_.second_pod_cidr));
  }
  GF_RETURN_IF_ERROR(keep_apart());
  if (!options_.network_claims.empty()) {
    GF_RETURN_IF_ERROR(make_directories(parent_directory(options_.network_claims)));
    auto claims =
        Claims::open(options_.network_claims, options_.name.empty() ? "node:" + names_.name(0) : options_.name);
    if (!claims.ok()) return claims.error();
    claims_ = std::move(claims).value();
  }
  auto vpc = Vpc::create(options_.network->vpc, claims_.get());
  if (!vpc.ok()) return vpc.error().with_context("VPC " + options_.network->vpc.name);
  vpc_ = std::move(vpc).value();
  for (const std::string& remark : options_.network->remarks) {
    if (callbacks_.notice) callbacks_.notice(remark);
  }
  return Status();
}

void RunningFleet::addresses_known() {
  if (shards_that_know_.fetch_add(1) + 1 != shards_.size()) return;
  for (auto& shard : shards_) {
    shard->loop().post([s = shard.get()] { s->open_network(); });
  }
}

std::string RunningFleet::network_metrics() const { return vpc_ ? vpc_->render_metrics() : std::string(); }

std::optional<std::string> RunningFleet::show_network(std::string_view node, std::string_view path) const {
  const auto number = names_.find(node);
  if (!number || !vpc_) return std::nullopt;
  const size_t count = shards_.size();
  Shard& shard = *shards_[*number % count];
  auto answer = std::make_shared<std::promise<std::optional<std::string>>>();
  auto future = answer->get_future();
  shard.loop().post([&shard, answer, row = static_cast<uint32_t>(*number / count), path = std::string(path)] {
    answer->set_value(shard.show_network(row, path));
  });
  if (future.wait_for(kShowTimeout) != std::future_status::ready) return std::nullopt;
  return future.get();
}

Status RunningFleet::start_node_server(const kube::ClientConfig& client) {
  if (!node_server_) return Status();
  NodeServer::Parts parts;
  parts.names = &names_;
  parts.classes = classes_;
  for (auto& shard : shards_) parts.shards.push_back(shard.get());
  parts.client = client;
  parts.node_credentials = options_.identity.per_node;
  parts.ask_for_client_ca = !options_.full_fidelity;
  parts.seed = options_.seed;
  parts.eviction = options_.pods.eviction;
  parts.notice = callbacks_.notice;
  return node_server_->start(std::move(parts));
}

std::string RunningFleet::node_server() const {
  if (!node_server_) return {};
  const agent::NodeIdentity first = names_.identity(0);
  const uint16_t port = node_server_->port() == 0 ? first.kubelet_port : node_server_->port();
  return fmt::format("https://{}:{}", first.internal_ip, port);
}

Status RunningFleet::begin() {
  GF_RETURN_IF_ERROR(bind_node_server());
  GF_RETURN_IF_ERROR(make_network());
  GF_RETURN_IF_ERROR(make_classes());
  const bool per_node = options_.connections == ConnectionMode::kPerNode;
  if (per_node) GF_RETURN_IF_ERROR(ensure_open_files(names_.size()));
  if (options_.client.user_agent.empty()) options_.client.user_agent = user_agent_of(options_.groups.front().node);
  auto existing = probe();
  if (!existing.ok()) return existing.error();
  std::string prefix;
  GF_RETURN_IF_ERROR(prepare_identity());
  // Our own API server tells a renewal in JSON from its bytes; any other reads and answers protobuf at less cost.
  protobuf_leases_ = options_.full_fidelity || !is_ghostfleet(options_.client);
  auto http = kube::make_http_options(options_.client, &prefix);
  if (!http.ok()) return http.error();
  http->max_connections = per_node ? kConnectionsOfANode : options_.connections_per_shard;
  http->one_pool = http->frugal = per_node;
  make_shards(*http, prefix);
  if (!per_node) make_hub(*http, prefix, *existing);
  GF_RETURN_IF_ERROR(start_node_server(options_.client));
  for (auto& shard : shards_) GF_RETURN_IF_ERROR(shard->open_sockets());
  for (auto& shard : shards_) GF_RETURN_IF_ERROR(shard->open_image_store());
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

// Whether the server can be reached with these credentials, and whether there are nodes of an earlier run. Credentials
// that may only request certificates are not asked to read nodes.
Result<bool> RunningFleet::probe() const {
  if (options_.identity.per_node) {
    kube::ClientConfig config = bootstrap_of(options_);
    config.user_agent = options_.client.user_agent;
    Status status = config.server_url.empty() ? Status() : probe_reachable(config);
    return status.ok() ? Result<bool>(false) : status;
  }
  if (!options_.full_fidelity) return probe_server(options_.client, options_.name);
  const std::string name = names_.identity(0).name;
  std::string owner;
  auto found = probe_node(options_.client, name, &owner);
  // A fleet leaves nodes of others alone by itself; a node in the foreground would take it, as a kubelet does.
  if (!found.ok() || owner.empty() || !options_.name.empty() || options_.adopt) return found;
  const auto remark = take_from_fleet(options_.client, name, owner);
  if (!remark.ok() && remark.error().code() == Code::kAlreadyExists) return remark.error();
  if (remark.ok() && callbacks_.notice) callbacks_.notice(*remark);
  return found;
}

// The nodes' own clients carry no credentials but their certificate; the fleet's go to the bootstrap client.
Status RunningFleet::prepare_identity() {
  if (!options_.identity.per_node) return Status();
  kube::ClientConfig bootstrap = bootstrap_of(options_);
  bootstrap.user_agent = options_.client.user_agent;
  auto http = kube::make_http_options(bootstrap, nullptr);
  if (!http.ok()) return http.error();
  http->max_connections = options_.connections_per_shard;
  bootstrap_http_ = std::move(*http);
  bootstrap_auth_ = bootstrap.auth;
  options_.client.tls.client_cert_pem.clear();
  options_.client.tls.client_key_pem.clear();
  options_.client.auth = {};
  return options_.identity.folder.prepare();
}

void RunningFleet::make_shards(const kube::http::HttpClientOptions& http, const std::string& prefix) {
  const auto count = static_cast<uint32_t>(shard_count(options_, names_.size()));
  auto pods = std::make_shared<agent::PodOptions>(options_.pods);
  if (options_.images) {
    images_ = std::make_unique<FleetImages>(*options_.images, options_.groups, SystemClock::instance().now());
  }
  for (uint32_t i = 0; i < count; ++i) {
    ShardConfig c;
    c.number = i;
    c.count = count;
    c.names = &names_;
    c.classes = classes_;
    c.pods = pods;
    c.images = images_.get();
    c.image_store = options_.image_store;
    c.devices = device_setups_;
    c.device_sockets = options_.device_sockets;
    for (const FleetGroup& group : options_.groups) c.dra.push_back(group.dra);
    c.second_is_primary = options_.second_is_primary;
    c.run_pods = options_.run_pods;
    c.vpc = vpc_.get();
    if (vpc_) c.ipam = options_.network->groups;
    c.addresses_known = [this] { addresses_known(); };
    c.connections = options_.connections;
    c.http = http;
    c.path_prefix = prefix;
    c.auth = options_.client.auth;
    c.protobuf = options_.full_fidelity;
    c.protobuf_leases = protobuf_leases_;
    c.identity = options_.identity;
    c.bootstrap_http = bootstrap_http_;
    c.bootstrap_auth = bootstrap_auth_;
    c.register_rate = options_.register_rate / count;
    c.event_rate = options_.event_rate / count;
    c.seed = options_.seed;
    c.notice = [this](const std::string& text) { noticed(text); };
    c.node_settled = [this] { settled(); };
    c.serving_ready = [this](uint32_t node, const std::shared_ptr<const kube::http::TlsIdentity>& identity) {
      const std::lock_guard lock(mutex_);
      serving_[node] = identity;
    };
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
  c.network = vpc_ != nullptr;
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
  if (settled_.fetch_add(1) + 1 != names_.size()) return;
  tell_not_ours();
  if (callbacks_.all_ready) callbacks_.all_ready();
}

void RunningFleet::tell_not_ours() {
  double not_ours = 0;
  for (const auto& shard : shards_) not_ours += shard->stats().not_ours.value();
  if (not_ours < 1 || !callbacks_.notice) return;
  const std::string how_many =
      static_cast<uint64_t>(not_ours) == names_.size() ? "all nodes" : fmt::format("{} nodes", not_ours);
  callbacks_.notice(fmt::format(
      "{} of the wanted names exist and do not belong to fleet {}: they are left alone. Choose other names (--name, "
      "--node-name), or take them over with --adopt",
      how_many, options_.name));
}

// One notice when the server is lost, one when it is back; what fails meanwhile is only counted.
void RunningFleet::watch_server(TimePoint now) const {
  int64_t answered = 0, failed = 0;
  std::string why;
  for (const auto& shard : shards_) {
    answered = std::max(answered, shard->stats().last_answer.load(std::memory_order_relaxed));
    const int64_t at = shard->stats().last_failure.load(std::memory_order_relaxed);
    if (at > failed) why = shard->stats().failure_text();
    failed = std::max(failed, at);
  }
  const bool silent = failed > answered && now - TimePoint{answered} > kLostAfter;
  if (silent && lost_since_.ns == 0 && answered != 0) {
    lost_since_ = TimePoint{answered};
    if (callbacks_.notice) callbacks_.notice(fmt::format("the API server is lost: {}; trying on", why));
  } else if (lost_since_.ns != 0 && answered > lost_since_.ns) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(TimePoint{answered} - lost_since_).count();
    lost_since_ = TimePoint{};
    if (callbacks_.notice) callbacks_.notice(fmt::format("the API server answers again, after {} s", seconds));
  }
}

void RunningFleet::watch_waiting(Waiting* waiting, TimePoint now, uint64_t wanted, uint64_t held, const char* what,
                                 const char* signer) const {
  if (held != waiting->held || wanted <= held) *waiting = {held, now, false};
  if (waiting->since.ns == 0) waiting->since = now;
  if (waiting->told || wanted <= held || now - waiting->since < kUnapprovedAfter) return;
  waiting->told = true;
  callbacks_.notice(fmt::format(
      "{} of the nodes wait for {} certificates, which nobody approves (docs/identity.md says who can); to do it by "
      "hand: kubectl get csr --field-selector spec.signerName=kubernetes.io/{} -o name | xargs kubectl certificate "
      "approve",
      wanted - held, what, signer));
}

// Requests that nobody approves fail after a quarter of an hour only.
void RunningFleet::watch_certificates(TimePoint now, const FleetStats& s) const {
  if (!options_.identity.per_node || !callbacks_.notice) return;
  if (s.errors.contains("certificate")) return;  // those are told one by one
  uint64_t clients = 0, servings = 0, servings_held = 0;
  for (const auto& shard : shards_) {
    const ShardStats& stats = shard->stats();
    clients += stats.clients_wanted.load(std::memory_order_relaxed);
    servings += stats.servings_wanted.load(std::memory_order_relaxed);
    servings_held += stats.servings_held.load(std::memory_order_relaxed);
  }
  watch_waiting(&waiting_clients_, now, clients, s.certificates, "client", "kube-apiserver-client-kubelet");
  watch_waiting(&waiting_servings_, now, servings, servings_held, "serving", "kubelet-serving");
}

void RunningFleet::stop() {
  if (std::exchange(stopped_, true)) return;
  if (node_server_) node_server_->stop();
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
    if (images_) shard->add_pulls_to(&s);
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
  watch_server(now);
  watch_certificates(now, s);
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

void RunningFleet::set_static_pods(std::vector<agent::StaticManifest> manifests) {
  Shard& shard = *shards_.front();
  shard.loop().post([&shard, list = std::move(manifests)]() mutable { shard.set_static_pods(0, std::move(list)); });
}

std::vector<const MetricsRegistry*> RunningFleet::metrics() const {
  std::vector<const MetricsRegistry*> all;
  for (const auto& shard : shards_) {
    all.push_back(&shard->stats().registry);
    if (const MetricsRegistry* network = shard->network_metrics()) all.push_back(network);
  }
  if (hub_) all.push_back(&hub_->stats().registry);
  if (node_server_) all.push_back(&node_server_->metrics());
  return all;
}

Status check_name(const std::string& name) {
  const auto faults = kube::check_dns1123_label(name);
  if (name.empty() || !faults.empty()) {
    return invalid_argument(fmt::format("fleet name \"{}\": {}", name, name.empty() ? "must not be empty" : faults[0]));
  }
  return Status::ok_status();
}

// What a node offers to pods is part of what it has.
Status check_allocatable(const FleetGroup& group) {
  for (const auto& [name, amount] : group.node.allocatable) {
    const auto& capacity = group.node.capacity;
    const auto has = std::find_if(capacity.begin(), capacity.end(), [&](const auto& c) { return c.first == name; });
    const std::string there = has == capacity.end() ? "0" : has->second;
    const auto offered = kube::Quantity::parse(amount);
    const auto total = kube::Quantity::parse(there);
    if (!offered.ok() || !total.ok() || *offered > *total) {
      return invalid_argument(fmt::format("nodes {}: allocatable {}: {} is more than the capacity, {}",
                                          group.name_template, name, amount, there));
    }
  }
  return Status::ok_status();
}

Status check_numbers(const FleetOptions& options) {
  for (const FleetGroup& group : options.groups) GF_RETURN_IF_ERROR(check_allocatable(group));
  if (options.register_rate < 0 || !std::isfinite(options.register_rate)) {
    return invalid_argument(fmt::format("register rate {}: 0 (adaptive) or more", options.register_rate));
  }
  if (options.lease_duration < std::chrono::seconds(1)) {
    return invalid_argument(fmt::format("lease duration {}: at least 1s", format_duration(options.lease_duration)));
  }
  if (options.identity.per_node && options.connections != ConnectionMode::kPerNode) {
    return invalid_argument("a certificate for each node needs a connection for each node: --connections per-node");
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
  uint32_t nodes = 0;
  for (const FleetGroup& group : options.groups) nodes += group.count;
  GF_RETURN_IF_ERROR(check_node_server(options.node_server, nodes));
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
