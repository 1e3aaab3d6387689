// What the nodes of a fleet pull their images from, when that is modelled (docs/images.md), and what is counted of it.
//
// Thread rule: FleetImages is immutable but for its stores, which any thread may use; each shard has a PullService of
// its own over them. ImageStats: written by its shard's thread, read by any.
// Ownership: the Fleet owns it, and its shards go first.
#pragma once

#include <memory>
#include <vector>

#include "base/metrics.h"
#include "emulator/fleet/identity.h"
#include "emulator/images/image_model.h"
#include "emulator/images/pull_service.h"

namespace ghostfleet::emulator {

struct FleetStats;

// How often a shard looks for what has come, and how much it takes up at a time, so that heartbeats have their turn.
inline constexpr Duration kPullLook = std::chrono::milliseconds(100);
inline constexpr size_t kMostPullsAtOnce = 200;

struct FleetImages {
  FleetImages(const ImageModel& model, const std::vector<FleetGroup>& groups, TimePoint now);
  std::shared_ptr<const ImageCatalogue> catalogue;
  std::vector<std::shared_ptr<const PullOptions>> options;  // by group
  ImageStores stores;                                       // a zone for each that the groups name
};

// The counters of one shard's pulls in its registry.
class ImageStats {
 public:
  explicit ImageStats(MetricsRegistry& registry);
  void update(const PullCounts& now);
  void add_to(FleetStats* out) const;
  Histogram& durations() { return durations_; }

 private:
  Counter& succeeded_;
  Counter& failed_;
  Counter& refused_;
  Counter& over_qps_;
  Counter& requests_;
  Counter& bytes_;
  Counter& removed_;
  Gauge& pulling_;
  Gauge& stalled_;
  Histogram& durations_;
};

}  // namespace ghostfleet::emulator
