#include "emulator/images/image_stores.h"

#include <algorithm>

#include "agent/pod/images.h"
#include "base/glob.h"

namespace ghostfleet::emulator {
namespace {

std::vector<double> rates_of(const std::vector<StoreZone>& zones) {
  std::vector<double> rates;
  for (const StoreZone& zone : zones) rates.push_back(zone.rate);
  return rates;
}

}  // namespace

ImageStores::ImageStores(TimePoint start, const std::vector<StoreZone>& zones, std::vector<RegistryLimit> registries)
    : flows_(start, rates_of(zones)), limits_(std::move(registries)) {
  for (const StoreZone& zone : zones) names_.push_back(zone.name);
  for (const RegistryLimit& limit : limits_) {
    buckets_.emplace_back(limit.requests_per_second, std::max(static_cast<double>(limit.burst), 1.0));
  }
}

uint32_t ImageStores::zone(std::string_view name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  return at == names_.end() ? 0 : static_cast<uint32_t>(at - names_.begin());
}

uint32_t ImageStores::add_port() {
  const std::lock_guard lock(mutex_);
  ports_.emplace_back();
  return static_cast<uint32_t>(ports_.size() - 1);
}

FlowModel::Id ImageStores::begin(uint32_t port, TimePoint now, Transfer transfer) {
  transfer.port = port;
  const std::lock_guard lock(mutex_);
  return flows_.begin(now, transfer);
}

void ImageStores::set_cap(TimePoint now, FlowModel::Id id, double cap) {
  const std::lock_guard lock(mutex_);
  flows_.set_cap(now, id, cap);
}

void ImageStores::poll(uint32_t port, TimePoint now, std::vector<FinishedTransfer>* finished) {
  const std::lock_guard lock(mutex_);
  flows_.advance(now, &scratch_);
  distribute();
  finished->insert(finished->end(), ports_[port].begin(), ports_[port].end());
  ports_[port].clear();
}

void ImageStores::distribute() {
  for (const FinishedTransfer& one : scratch_) ports_[one.port].push_back(one);
  scratch_.clear();
}

bool ImageStores::request(TimePoint now, std::string_view image) {
  const std::lock_guard lock(mutex_);
  ++requests_;
  for (size_t i = 0; i < limits_.size(); ++i) {
    if (!glob_match(limits_[i].match, image)) continue;
    if (buckets_[i].take(now)) return true;
    ++refused_;
    return false;
  }
  return true;
}

ImageStoresStats ImageStores::stats() {
  const std::lock_guard lock(mutex_);
  ImageStoresStats stats{requests_, refused_, flows_.transfers(), flows_.groups(), 0};
  for (uint32_t i = 0; i < flows_.zones(); ++i) stats.bytes += flows_.load(i).moved;
  return stats;
}

ZoneLoad ImageStores::load(uint32_t zone) {
  const std::lock_guard lock(mutex_);
  return flows_.load(std::min<uint32_t>(zone, static_cast<uint32_t>(flows_.zones() - 1)));
}

TimePoint ImageStores::next_event() {
  const std::lock_guard lock(mutex_);
  const bool waiting = std::any_of(ports_.begin(), ports_.end(), [](const auto& port) { return !port.empty(); });
  return waiting ? TimePoint{} : flows_.next_event();
}

}  // namespace ghostfleet::emulator
