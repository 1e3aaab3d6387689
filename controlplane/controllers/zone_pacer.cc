#include "controlplane/controllers/zone_pacer.h"

#include <algorithm>

namespace ghostfleet::controlplane::controllers {

ZoneState zone_state(const ZoneCount& count, const ZoneRates& rates) {
  if (count.ready == 0 && count.not_ready > 0) return ZoneState::kFull;
  const double total = count.ready + count.not_ready;
  if (count.not_ready > 2 && count.not_ready / total >= rates.unhealthy_share) return ZoneState::kPartial;
  return ZoneState::kNormal;
}

double ZonePacer::rate_of(ZoneState state, const ZoneCount& count) const {
  if (state != ZoneState::kPartial) return rates_.normal;
  return count.ready + count.not_ready > rates_.large_zone ? rates_.secondary : 0;
}

ZonePacer::Verdict ZonePacer::update(const std::map<std::string, ZoneCount>& zones) {
  bool all_full = !zones.empty();
  for (const auto& [name, count] : zones) all_full &= zone_state(count, rates_) == ZoneState::kFull;
  for (auto it = zones_.begin(); it != zones_.end();) {
    it = zones.contains(it->first) ? std::next(it) : zones_.erase(it);
  }
  for (const auto& [name, count] : zones) {
    Zone& zone = zones_[name];
    zone.state = zone_state(count, rates_);
    zone.rate = all_full ? 0 : rate_of(zone.state, count);
  }
  const bool was = all_down_;
  all_down_ = all_full;
  if (all_full && !was) {
    for (auto& [name, zone] : zones_) zone.queue.clear();
    return Verdict::kAllDown;
  }
  return was && !all_full ? Verdict::kBackFromAllDown : Verdict::kSame;
}

void ZonePacer::enqueue(const std::string& zone, const std::string& node) {
  std::deque<std::string>& queue = zones_[zone].queue;
  if (std::find(queue.begin(), queue.end(), node) == queue.end()) queue.push_back(node);
}

void ZonePacer::cancel(const std::string& zone, const std::string& node) {
  const auto it = zones_.find(zone);
  if (it == zones_.end()) return;
  std::erase(it->second.queue, node);
}

std::vector<std::string> ZonePacer::take_due(TimePoint now) {
  std::vector<std::string> due;
  for (auto& [name, zone] : zones_) {
    if (zone.queue.empty() || zone.rate <= 0) continue;
    const Duration gap(static_cast<int64_t>(1e9 / zone.rate));
    if (zone.used && now - zone.last < gap) continue;
    zone.used = true;
    zone.last = now;
    due.push_back(std::move(zone.queue.front()));
    zone.queue.pop_front();
  }
  return due;
}

bool ZonePacer::waiting() const {
  return std::any_of(zones_.begin(), zones_.end(), [](const auto& z) { return !z.second.queue.empty(); });
}

ZoneState ZonePacer::state(const std::string& zone) const {
  const auto it = zones_.find(zone);
  return it == zones_.end() ? ZoneState::kInitial : it->second.state;
}

}  // namespace ghostfleet::controlplane::controllers
