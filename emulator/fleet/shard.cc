#include "emulator/fleet/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/node/json_scan.h"
#include "agent/node/node_requests.h"
#include "emulator/fleet/shard_hosts.h"

namespace ghostfleet::emulator {
namespace {

// Heartbeats that fall due within a batch leave together, in one write: a wake-up costs more than a renewal. It adds at
// most this to their lateness. A small fleet waits a little longer, so that about 128 leave together, but never more
// than a twentieth of the period (500 ms of 10 s, about a kubelet's own jitter).
constexpr Duration kBatch = std::chrono::milliseconds(40);
constexpr int64_t kBatchSize = 128;

Duration batch_for(const agent::NodeOptions& options, size_t rows) {
  const Duration period = options.lease_duration / 4;
  const Duration wanted = period * kBatchSize / static_cast<int64_t>(std::max<size_t>(rows, 1));
  return std::clamp(wanted, kBatch, std::max(kBatch, period / 20));
}
constexpr Duration kShortestNap = std::chrono::milliseconds(1);
constexpr Duration kLongestNap = std::chrono::milliseconds(400);
constexpr Duration kPacedNap = std::chrono::milliseconds(5);  // while nodes are registered at a given rate
// After this time without other requests than heartbeats their answers are read together too.
constexpr Duration kQuietAfter = std::chrono::seconds(2);
constexpr Duration kLongestWait = std::chrono::seconds(1);  // each tick looks for answers too
constexpr Duration kPublishEvery = std::chrono::milliseconds(400);
constexpr Duration kNoticeEvery = std::chrono::milliseconds(500);
constexpr uint64_t kConflictsOfTwoFleets = 20;

kube::KubeClientOptions client_options(const ShardConfig& config) {
  kube::KubeClientOptions options;
  options.max_connections = config.http.max_connections;
  options.max_streams_per_connection = config.http.max_streams_per_connection;
  options.seed = config.seed;
  return options;
}

}  // namespace

void Shard::RowHost::arm(agent::Tag tag, TimePoint at) {
  if (tag >= agent::NodeMachine::kEventTimer) {  // rare, and only in full fidelity
    shard_.loop_.run_after(at - now(),
                           [&shard = shard_, row = row_, tag] { shard.machines_[row].on_timer(shard.host(row), tag); });
    return;
  }
  shard_.wheel_.arm(row_ * 2 + static_cast<uint32_t>(tag - 1), at);
}

void Shard::RowHost::disarm(agent::Tag tag) {
  if (tag >= agent::NodeMachine::kEventTimer) return;
  shard_.wheel_.cancel(row_ * 2 + static_cast<uint32_t>(tag - 1));
}

const std::string& Shard::RowHost::name() {
  if (!have_name_) name_ = shard_.config_.names->name(shard_.node_of(row_));
  have_name_ = true;
  return name_;
}

const agent::NodeIdentity& Shard::RowHost::identity() {
  if (!have_identity_) identity_ = shard_.config_.names->identity(shard_.node_of(row_));
  have_identity_ = true;
  return identity_;
}

Shard::Shard(ShardConfig config)
    : config_(std::move(config)),
      rng_(config_.seed * 1000003 + config_.number),
      event_budget_(config_.event_rate, std::max(1.0, 2 * config_.event_rate)),
      ramp_(config_.register_rate, config_.count),
      wheel_(loop_.now()),
      pod_wheel_(loop_.now()),
      host_(std::make_unique<RowHost>(*this)),
      sender_(loop_, stats_, *this),
      client_certificates_(kube::kubelet_client_certificate()),
      serving_certificates_(kube::kubelet_serving_certificate()) {
  if (config_.protobuf) sender_.use_protobuf();
  client_certificates_.rotate = serving_certificates_.rotate = config_.identity.rotate;
  client_certificates_.digested_name = !config_.identity.rotate;
  serving_certificates_.approve = config_.identity.approve_serving;
  const uint32_t all = config_.names->size();
  const uint32_t rows = all / config_.count + (config_.number < all % config_.count ? 1 : 0);
  machines_.resize(rows);
  flags_.resize(rows);
  wheel_.resize(rows * 2);
  if (config_.images != nullptr) pulls_ = std::make_unique<Pulls>(config_, stats_.registry);
  make_devices();
  batch_ = batch_for(config_.classes.front()->options(), rows);
  stats_.nodes.set(rows);
  if (config_.vpc != nullptr && config_.run_pods) make_network();
  make_dra();
  if (config_.connections == ConnectionMode::kPerNode) {
    links_.resize(rows);
  } else {
    client_ = kube::KubeClient::create(loop_, config_.http, config_.path_prefix, config_.auth, client_options(config_));
  }
}

Shard::~Shard() {
  stop();
  pods_.clear();
  links_.clear();
  bootstrap_.reset();
  client_.reset();  // before the sender whose calls it holds
}

Status Shard::open_sockets() {
  if (!config_.device_sockets || rows() == 0 || config_.number != 0) return Status();
  GF_RETURN_IF_ERROR(devices_->open_sockets(*config_.device_sockets, [this] { return active_pods(0); }));
  return config_.device_sockets->kubelet_root.empty() ? Status() : open_drivers();
}

void Shard::start() {
  loop_.post([this] { tick(); });
  thread_ = std::thread([this] { loop_.run(); });
}

void Shard::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

Shard::RowHost& Shard::host(uint32_t row) {
  host_->point_at(row);
  return *host_;
}

const agent::NodeClass& Shard::class_of(uint32_t row) const {
  return *config_.classes[config_.names->group_of(node_of(row))];
}

Shard::NodeLink& Shard::link_of(uint32_t row) {
  std::unique_ptr<NodeLink>& link = links_[row];
  if (!link) link = std::make_unique<NodeLink>();
  return *link;
}

kube::KubeClient& Shard::client_of(uint32_t row) {
  if (client_) return *client_;
  NodeLink& link = link_of(row);
  if (!link.client) {
    kube::http::HttpClientOptions http = config_.http;
    if (link.certificate) http.identity = link.certificate->identity();
    link.client =
        kube::KubeClient::create(loop_, std::move(http), config_.path_prefix, config_.auth, client_options(config_));
  }
  return *link.client;
}

void Shard::send(uint32_t row, const agent::ApiRequest& request) { sender_.send(client_of(row), row, request); }

void Shard::tick() {
  const TimePoint now = loop_.now();
  next_tick_at_ = TimePoint{};
  if (client_) client_->http().read_collected();
  wheel_.advance(now, [this](uint32_t index) { machines_[index / 2].on_timer(host(index / 2), index % 2 + 1); });
  pod_wheel_.advance(now, [this](uint32_t slot) { pod_timer_fired(slot); });
  const TimePoint pulls = look_at_pulls(now);
  pump_ramp();
  if (network_) tick_network(now);
  if (now >= next_publish_) publish();
  const Duration nodes = std::max(wheel_.next_deadline_hint(now) - now, batch_);
  Duration pods = pod_wheel_.next_deadline_hint(now) - now;
  if (network_) pods = std::min(pods, std::max(network_->next(now) - now, kBatch));
  const bool paced = config_.register_rate > 0 && registering_ && next_row_ < machines_.size();
  const Duration longest = paced ? kPacedNap : std::max(kLongestNap, batch_);
  wake_at(now + std::clamp(std::min({nodes, pods, pulls - now}), kShortestNap, longest));
}

// The next tick comes at `at` or sooner.
void Shard::wake_at(TimePoint at) {
  if (next_tick_at_ != TimePoint{} && next_tick_at_ <= at) return;
  if (next_tick_at_ != TimePoint{}) loop_.cancel(tick_timer_);
  next_tick_at_ = at;
  tick_timer_ = loop_.run_after(std::max(at - loop_.now(), Duration(0)), [this] { tick(); });
}

// Only heartbeats are on their way: all nodes are registered and no pod is starting.
bool Shard::quiet(TimePoint now) const {
  return registering_ && next_row_ == machines_.size() && ramp_.on_the_way() == 0 &&
         now - sender_.last_work() > kQuietAfter;
}

void Shard::publish() {
  next_publish_ = loop_.now() + kPublishEvery;
  stats_.in_flight.set(static_cast<double>(sender_.in_flight()));
  stats_.ramp_window.set(ramp_.window());
  if (pulls_) pulls_->stats.update(pulls_->service.counts());
  if (!client_) {
    stats_.connections.set(static_cast<double>(
        std::count_if(links_.begin(), links_.end(), [](const auto& link) { return link != nullptr; })));
    return;
  }
  if (quiet(loop_.now())) client_->http().set_read_coalescing(kLongestWait);
  const kube::http::HttpClientStats s = client_->http().stats();
  stats_.queued.set(static_cast<double>(s.queued));
  stats_.connections.set(static_cast<double>(s.open_connections));
}

void Shard::existing_node(uint32_t row, const std::string& json, uint64_t lease_version) {
  // What needs no write is done with; the rest waits for its turn in the ramp.
  if (machines_[row].take_over(host(row), json, lease_version)) flags_[row] |= kStarted;
}

void Shard::begin_registration() {
  registering_ = true;
  pump_ramp();
}

void Shard::pump_ramp() {
  if (!registering_) return;
  const TimePoint now = loop_.now();
  while (next_row_ < machines_.size()) {
    const uint32_t row = next_row_;
    if ((flags_[row] & kStarted) == 0) {
      if (!ramp_.take(now)) return;
      flags_[row] |= kStarted | kOnTheWay;
      if (machines_[row].phase() == agent::NodeMachine::Phase::kNew) {
        begin_node(row);
      } else {
        machines_[row].resume(host(row));
      }
    }
    ++next_row_;
  }
}

// A node that is no longer on its way makes room for another.
void Shard::settle(uint32_t row) {
  if ((flags_[row] & kOnTheWay) == 0) return;
  flags_[row] &= static_cast<uint16_t>(~kOnTheWay);
  ramp_.finished();
}

void Shard::count(uint32_t row, Flag flag, bool on, Gauge& gauge, uint64_t* number) {
  if (((flags_[row] & flag) != 0) == on) return;
  flags_[row] = static_cast<uint16_t>(on ? flags_[row] | flag : flags_[row] & ~flag);
  *number += on ? 1 : UINT64_MAX;  // minus one
  gauge.set(static_cast<double>(*number));
}

void Shard::say(uint32_t row, std::string_view text) {
  const TimePoint now = loop_.now();
  if (!config_.notice || now < next_notice_) return;
  next_notice_ = now + kNoticeEvery;
  config_.notice(fmt::format("node {}: {}", host(row).name(), text));
}

void Shard::notice(uint32_t row, agent::NodeNotice what, std::string_view detail) {
  switch (what) {
    case agent::NodeNotice::kRegistered:
      count(row, kRegisteredFlag, true, stats_.registered, &registered_);
      count(row, kGoneFlag, false, stats_.deleted, &deleted_);
      if (!detail.empty()) stats_.taken_over.add();
      if (network_) network_->registered(row, !detail.empty());
      loop_.post([this, row, existing = !detail.empty()] {
        if (dra_) dra_->registered(row, existing);
        if (drivers_ && row == 0) drivers_->registered();
        run_pending(row);
        start_network(row);
      });
      begin_serving_certificate(row);
      break;
    case agent::NodeNotice::kReady:
      count(row, kReadyFlag, true, stats_.ready, &ready_);
      settle(row);
      if ((flags_[row] & kEverReady) == 0) {
        flags_[row] |= kEverReady;
        stats_.last_first_ready = loop_.now().ns;
        stats_.ever_ready.fetch_add(1);
        if (config_.node_settled) config_.node_settled();
      }
      break;
    case agent::NodeNotice::kNotOurs:
      stats_.not_ours.set(static_cast<double>(++not_ours_));
      settle(row);
      say(row, detail);
      if (config_.node_settled) config_.node_settled();
      break;
    case agent::NodeNotice::kDeleted:
      count(row, kReadyFlag, false, stats_.ready, &ready_);
      count(row, kRegisteredFlag, false, stats_.registered, &registered_);
      count(row, kGoneFlag, true, stats_.deleted, &deleted_);
      settle(row);
      if (dra_) dra_->deleted(row);
      say(row, "deleted by somebody");
      break;
    case agent::NodeNotice::kRefused:
      settle(row);
      say(row, fmt::format("the API server refuses it: {}", detail.empty() ? "forbidden" : detail));
      break;
  }
}

void Shard::on_measured(Duration latency, bool overloaded) {
  if (registering_ && next_row_ < machines_.size()) ramp_.answered(loop_.now(), latency, overloaded);
}

void Shard::on_answer(uint32_t row, agent::Tag tag, const agent::ApiResponse& response) {
  if (tag == kFactsTag) {
    facts_answered(row, response);
  } else if (tag == kDriversTag) {
    if (drivers_) drivers_->answered(response);
  } else if (tag == kDraTag) {
    dra_->answered(row, response);
  } else if ((tag & agent::kPodTagBit) != 0) {
    const auto it = pods_.find(row);
    if (it == pods_.end() || !it->second->manager) return;
    it->second->manager->on_response(tag, response);
    count_pods(*it->second);
  } else {
    conflict_seen(row, tag, response.status);
    machines_[row].on_response(host(row), tag, response);
    if (registering_ && next_row_ < machines_.size()) pump_ramp();
  }
}

// Somebody else renews our leases: most likely a second fleet of the same name.
// (A lost answer makes one conflict, so only those that repeat count.)
void Shard::conflict_seen(uint32_t row, agent::Tag tag, int status) {
  if (status != 409 || tag != agent::kTagLease || (flags_[row] & kRegisteredFlag) == 0) return;
  if ((std::exchange(flags_[row], flags_[row] | kConflicted) & kConflicted) == 0) return;
  if (++lease_conflicts_ != kConflictsOfTwoFleets || !config_.notice) return;
  const std::string& fleet = class_of(row).options().fleet;
  config_.notice(
      fmt::format("fleet {}: somebody else renews the leases of its nodes ({} and others): another process, here or on "
                  "another machine, runs a fleet of this name; end one of them, or give it another --name",
                  fleet, host(row).name()));
}

void Shard::node_seen(uint32_t row, const std::string& json, bool deviates) {
  flags_[row] = static_cast<uint16_t>(deviates ? flags_[row] | kDeviates : flags_[row] & ~kDeviates);
  machines_[row].on_node_seen(host(row), json);
  update_facts(row, json);
  devices_->node_seen(row, json);
  if ((flags_[row] & kDevicesDiffer) != 0) {
    if (const auto counts = devices_->counts(row)) machines_[row].report_devices(host(row), *counts, json);
  }
  if (dra_) dra_->node_seen(row, json);
  if (network_) network_->set_schedulable(row, agent::scan_path(json, {"spec", "unschedulable"}) != "true");
}

void Shard::node_deleted(uint32_t row, const agent::NodeUid& uid) { machines_[row].on_node_deleted(host(row), uid); }

}  // namespace ghostfleet::emulator
