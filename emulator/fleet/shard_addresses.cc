// A shard's part in giving its nodes' pods addresses of the cloud network.
#include <fmt/format.h>

#include "emulator/fleet/shard_hosts.h"

namespace ghostfleet::emulator {

namespace {
constexpr uint32_t kStartsOfATick = 500;  // heartbeats come between
// Nodes that list their own pods: what is not there by then (nodes of others, credentials that are refused) holds the
// others up no longer.
constexpr Duration kPatience = std::chrono::seconds(60);
}  // namespace

void Shard::make_network() {
  ShardNetworkParts parts;
  parts.vpc = config_.vpc;
  parts.groups = config_.ipam;
  parts.names = config_.names;
  parts.number = config_.number;
  parts.count = config_.count;
  parts.rows = rows();
  parts.loop = &loop_;
  parts.rng = &rng_;
  parts.wake = [this](TimePoint at) {
    if (next_tick_at_ != TimePoint{}) wake_at(at);
  };
  parts.tell_user = [this](uint32_t row, std::string_view text) { say(row, text); };
  network_ = std::make_unique<ShardNetwork>(std::move(parts));
  network_cursor_ = rows();
  if (!client_ && config_.connections == ConnectionMode::kPerNode) patience_ = loop_.now() + kPatience;
}

void Shard::tick_network(TimePoint now) {
  network_->advance(now);
  if (!addresses_told_ && patience_ != TimePoint{} && now >= patience_) pods_listed();
  for (uint32_t i = 0; i < kStartsOfATick && network_cursor_ < rows(); ++i) start_network(network_cursor_++);
}

// In per-node mode each node lists its own pods.
void Shard::own_pods_listed(uint32_t row) {
  if ((flags_[row] & kListedFlag) != 0) return;
  flags_[row] |= kListedFlag;
  pods_are_told(row);
  if (!network_) return;
  if (++listed_rows_ == rows()) pods_listed();
}

void Shard::pods_listed() {
  if (client_ && !std::exchange(all_pods_told_, true)) {
    for (const auto& [row, pods] : pods_) pods_are_told(row);
  }
  if (!network_ || std::exchange(addresses_told_, true)) return;
  network_->keep_found();
  if (config_.addresses_known) config_.addresses_known();
}

void Shard::open_network() {
  if (!network_) return;
  network_->open();
  network_cursor_ = 0;
}

// A daemon begins when its node is there, and the earlier pods of the node have been taken over.
void Shard::start_network(uint32_t row) {
  if (!network_ || !network_->is_open() || (flags_[row] & kRegisteredFlag) == 0) return;
  const auto it = pods_.find(row);
  if (it != pods_.end() && (it->second->asking || !it->second->pending.empty())) return;
  network_->start(row);
}

std::optional<std::string> Shard::show_network(uint32_t row, std::string_view path) const {
  return network_ ? network_->show(row, path) : std::nullopt;
}

}  // namespace ghostfleet::emulator
