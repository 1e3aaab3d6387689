#include "emulator/fleet/hub.h"

#include <fmt/format.h>

#include "agent/node/json_scan.h"
#include "base/log.h"
#include "emulator/fleet/node_facts.h"

namespace ghostfleet::emulator {
namespace {

using agent::ArrayScan;
using agent::scan_member;
using agent::scan_path;
using agent::scan_string;
using kube::ObjectView;

constexpr std::string_view kLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=500";
constexpr Duration kLeaseRetry = std::chrono::seconds(2);
constexpr Duration kNodeNewsDelay = std::chrono::milliseconds(200);  // most of it is what we wrote ourselves

std::string pod_key(const ObjectView& object) { return std::string(object.ns) + "/" + std::string(object.name); }

}  // namespace

class Hub::NodeWatchHandler final : public kube::ReflectorHandler {
 public:
  explicit NodeWatchHandler(Hub& hub) : hub_(hub) {}
  void on_added(const ObjectView& object) override { hub_.node_seen(object, true); }
  void on_modified(const ObjectView& object) override { hub_.node_seen(object, false); }
  void on_deleted(const ObjectView& object) override {
    const auto node = hub_.config_.names->find(object.name);
    if (node) hub_.node_deleted(*node, object.uid);
  }
  void on_list_begin() override { hub_.nodes_listing(); }
  void on_synced() override { hub_.nodes_synced(); }
  void on_error(const Status& status, int http_status) override { hub_.watch_failed("nodes", status, http_status); }

 private:
  Hub& hub_;
};

class Hub::PodWatchHandler final : public kube::ReflectorHandler {
 public:
  explicit PodWatchHandler(Hub& hub) : hub_(hub) {}
  void on_added(const ObjectView& object) override { hub_.pod_seen(object); }
  void on_modified(const ObjectView& object) override { hub_.pod_seen(object); }
  void on_deleted(const ObjectView& object) override { hub_.pod_deleted(object); }
  void on_list_begin() override { hub_.pods_listing(); }
  void on_synced() override { hub_.pods_synced(); }
  void on_error(const Status& status, int http_status) override { hub_.watch_failed("pods", status, http_status); }

 private:
  Hub& hub_;
};

Hub::Hub(HubConfig config) : config_(std::move(config)), flags_(config_.names->size()) {
  kube::KubeClientOptions options;
  options.seed = config_.seed;
  client_ = kube::KubeClient::create(loop_, config_.http, config_.path_prefix, config_.auth, options);
  pod_client_ = kube::KubeClient::create(loop_, config_.http, config_.path_prefix, config_.auth, options);
  node_handler_ = std::make_unique<NodeWatchHandler>(*this);
  pod_handler_ = std::make_unique<PodWatchHandler>(*this);
}

Hub::~Hub() { stop(); }

void Hub::start() {
  loop_.post([this] {
    if (!config_.read_leases) return watch_nodes();
    lease_versions_.resize(config_.names->size());
    read_leases({});
  });
  thread_ = std::thread([this] { loop_.run(); });
}

void Hub::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
  nodes_.reset();
  pods_.reset();
  client_.reset();
  pod_client_.reset();
}

void Hub::watch_failed(std::string_view what, const Status& status, int http_status) {
  stats_.error(http_status == 0 ? "watch" : std::to_string(http_status));
  log_info("fleet", fmt::format("watching {}: {}", what, status.message()));
}

// ---- leases of an earlier run: their versions make the first renewal a single PUT

void Hub::read_leases(std::string continue_token) {
  kube::ApiCall call;
  call.target = std::string(kLeases);
  if (!continue_token.empty()) call.target += "&continue=" + kube::http::percent_encode(continue_token);
  stats_.request(agent::Verb::kGet, kLeases);
  client_->call(std::move(call), [this, continue_token](kube::ApiCallResult result) {
    if (result.ok()) return leases_read(result.body);
    if (result.status == 403 || result.status == 404 || result.status == 410)
      return watch_nodes();  // one GET each then
    loop_.run_after(kLeaseRetry, [this, continue_token] { read_leases(continue_token); });
  });
}

void Hub::leases_read(const std::string& body) {
  ArrayScan items(scan_member(body, "items"));
  std::string_view item;
  while (items.next(&item)) {
    const std::string_view metadata = scan_member(item, "metadata");
    const auto node = config_.names->find(scan_string(scan_member(metadata, "name")));
    if (!node) continue;
    const std::string version(scan_string(scan_member(metadata, "resourceVersion")));
    lease_versions_[*node] = std::strtoull(version.c_str(), nullptr, 10);
  }
  std::string token(scan_string(scan_path(body, {"metadata", "continue"})));
  if (token.empty()) return watch_nodes();
  read_leases(std::move(token));
}

// ---- nodes

void Hub::watch_nodes() {
  kube::ReflectorOptions options;
  options.path = "/api/v1/nodes";
  options.label_selector = fmt::format("{}={}", agent::kFleetLabel, config_.fleet);
  options.seed = config_.seed;
  nodes_ = kube::Reflector::create(*client_, std::move(options), node_handler_.get());
  nodes_->start();
}

void Hub::nodes_listing() {
  for (uint8_t& flags : flags_) flags &= static_cast<uint8_t>(~kListed);
}

void Hub::node_seen(const ObjectView& object, bool added) {
  const auto node = config_.names->find(object.name);
  if (!node) {
    if (!synced_ && ++beyond_ == 1) beyond_example_ = object.name;
    return;
  }
  if (!synced_) compare_settings(*node, object);
  const agent::NodeClass& node_class = *config_.classes[config_.names->group_of(*node)];
  agent::NodeView view;
  if (!agent::scan_node(object.json, node_class.node_template(), &view)) return;
  uint8_t& flags = flags_[*node];
  if ((flags & kReady) != 0 && !view.ready) stats_.not_ready.add();
  const bool deviates = node_deviates(object.json, node_class);
  const bool cordoned = config_.network && scan_path(object.json, {"spec", "unschedulable"}) == "true";
  const bool news = added || view.unhealthy != 0 || view.labels_differ || deviates ||
                    (flags & (kDeviated | kHasPods)) != 0 || ((flags & kCordoned) != 0) != cordoned;
  flags = static_cast<uint8_t>((flags & kHasPods) | kKnown | kListed | (view.ready ? kReady : 0) |
                               (deviates ? kDeviated : 0) | (cordoned ? kCordoned : 0));
  if (!news) return;
  Shard& shard = shard_of(*node);
  const uint32_t row = row_of(*node);
  std::string json(object.json);
  if (!synced_) {
    const uint64_t lease = lease_versions_.empty() ? 0 : lease_versions_[*node];
    shard.loop().post([&shard, row, json = std::move(json), lease] { shard.existing_node(row, json, lease); });
    if (!deviates && !cordoned) return;
    json.assign(object.json);
  }
  shard.loop().post([&shard, row, json = std::move(json), deviates] { shard.node_seen(row, json, deviates); });
}

void Hub::compare_settings(uint32_t node, const ObjectView& object) {
  const agent::NodeClass& node_class = *config_.classes[config_.names->group_of(node)];
  const std::string difference = setting_difference(object.json, node_class.node_template());
  if (difference.empty() || ++other_settings_ > 1) return;
  other_settings_example_ = fmt::format("{}: {}", object.name, difference);
}

// A restart keeps the nodes as they are; whoever asked for something else is to know.
void Hub::tell_differences() {
  if (!config_.notice) return;
  if (other_settings_ > 0) {
    config_.notice(fmt::format(
        "{} nodes of fleet {} were made with other settings ({}) and keep theirs; to have them made anew, run "
        "`ghostfleet down --fleet {}` first",
        other_settings_, config_.fleet, other_settings_example_, config_.fleet));
  }
  if (beyond_ > 0) {
    config_.notice(
        fmt::format("{} nodes of fleet {} are there that were not asked for ({}, ...): nobody renews their leases, "
                    "they will become "
                    "NotReady; start with more --nodes, or remove them with `ghostfleet down --fleet {}`",
                    beyond_, config_.fleet, beyond_example_, config_.fleet));
  }
}

void Hub::node_deleted(uint32_t node, std::string_view uid_text) {
  flags_[node] &= kHasPods;
  agent::NodeUid uid;
  agent::NodeUid::parse(uid_text, &uid);
  Shard& shard = shard_of(node);
  shard.loop().post([&shard, row = row_of(node), uid] { shard.node_deleted(row, uid); });
}

void Hub::nodes_synced() {
  // A later list: what was known and did not come is gone.
  for (uint32_t node = 0; synced_ && node < flags_.size(); ++node) {
    if ((flags_[node] & (kKnown | kListed)) == kKnown) node_deleted(node, {});
  }
  if (synced_) return;
  synced_ = true;
  tell_differences();
  std::vector<uint64_t>().swap(lease_versions_);
  client_->http().set_read_coalescing(kNodeNewsDelay);
  for (Shard* shard : config_.shards) {
    shard->loop().post([shard] { shard->begin_registration(); });
  }
  if (!config_.run_pods) return;
  kube::ReflectorOptions options;
  options.path = "/api/v1/pods";
  options.field_selector = "spec.nodeName!=";
  options.seed = config_.seed + 1;
  options.timeout_parameter = false;
  pods_ = kube::Reflector::create(*pod_client_, std::move(options), pod_handler_.get());
  pods_->start();
}

// ---- pods

void Hub::pods_listing() {
  for (auto& [key, pod] : known_pods_) pod.listed = false;
}

void Hub::pod_seen(const ObjectView& object) {
  const auto node = config_.names->find(scan_string(scan_path(object.json, {"spec", "nodeName"})));
  if (!node) return;
  agent::NodeUid uid;
  agent::NodeUid::parse(object.uid, &uid);
  std::string key = pod_key(object);
  const auto [it, fresh] = known_pods_.try_emplace(key);
  if (!fresh && it->second.uid != uid) forget_pod(key, it->second);  // another one of that name
  it->second = {*node, uid, true};
  flags_[*node] |= kHasPods;
  Shard& shard = shard_of(*node);
  shard.loop().post([&shard, row = row_of(*node), json = std::string(object.json)]() mutable {
    shard.pod_seen(row, std::move(json));
  });
}

void Hub::forget_pod(const std::string& key, const KnownPod& pod) {
  const size_t slash = key.find('/');
  Shard& shard = shard_of(pod.node);
  shard.loop().post([&shard, row = row_of(pod.node), ns = key.substr(0, slash), name = key.substr(slash + 1),
                     uid = pod.uid.to_string()] { shard.pod_deleted(row, ns, name, uid); });
}

void Hub::pod_deleted(const ObjectView& object) {
  const auto it = known_pods_.find(pod_key(object));
  if (it == known_pods_.end()) return;
  forget_pod(it->first, it->second);
  known_pods_.erase(it);
}

void Hub::pods_synced() {
  for (auto it = known_pods_.begin(); it != known_pods_.end();) {
    if (it->second.listed) {
      ++it;
      continue;
    }
    forget_pod(it->first, it->second);
    it = known_pods_.erase(it);
  }
  if (std::exchange(pods_known_, true)) return;
  for (Shard* shard : config_.shards) {
    shard->loop().post([shard] { shard->pods_listed(); });
  }
}

}  // namespace ghostfleet::emulator
