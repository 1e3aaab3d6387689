// PullService: the pullers of one shard's nodes: their way to the fleet's stores and back, what images are, and what
// is counted.
//
// Thread rule: the shard's thread; the stores behind it are shared.
// Ownership: pullers unregister themselves and must go before the service; the stores outlive both.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/pod/pod_manager.h"
#include "base/metrics.h"
#include "emulator/images/catalogue.h"
#include "emulator/images/image_stores.h"
#include "emulator/images/node_puller.h"

namespace ghostfleet::emulator {

struct PullCounts {
  uint64_t started = 0;  // attempts that left the node's queue
  uint64_t succeeded = 0;
  uint64_t over_qps = 0;   // refused by the node itself
  uint64_t refused = 0;    // by the registry: 429
  uint64_t failed = 0;     // for other reasons: rules, no space, no progress
  uint64_t requests = 0;   // for manifests, refused ones too
  uint64_t bytes = 0;      // that were fetched
  uint64_t collected = 0;  // images removed
  int64_t pulling = 0;     // now
  int64_t stalled = 0;     // of these: without progress
};

class PullService {
 public:
  // `rules`: those with an error or a time go before the model.
  PullService(ImageStores& stores, std::shared_ptr<const ImageCatalogue> catalogue, std::vector<agent::ImageRule> rules,
              uint64_t seed);

  // Lets the stores' time go on to `now`, and tells the pullers what has finished. How often it is called is how exact
  // the end of a pull is; 100 ms are enough. At most so many are told at a time: the rest waits for the next call.
  void poll(TimePoint now, size_t most = SIZE_MAX);
  // Whether some have finished that were not told.
  bool behind() const { return told_ < finished_.size(); }
  // Nothing is on its way for any of its pullers: there is no need to poll.
  bool idle() const { return on_the_way_ == 0; }

  const PullCounts& counts() const { return counts_; }
  // Where the times of pulls go that succeed; outlives the service. None at first.
  void set_durations(Histogram* durations) { durations_ = durations; }
  ImageIndex& index() { return index_; }
  ImageStores& stores() { return stores_; }

 private:
  friend class NodePuller;

  FlowModel::Id begin(uint32_t node, uint32_t key, TimePoint now, Transfer transfer);
  const agent::ImageRule* rule_of(std::string_view image) const;

  ImageStores& stores_;
  uint32_t port_;
  ImageIndex index_;
  std::vector<agent::ImageRule> rules_;
  uint64_t seed_;
  std::unordered_map<uint32_t, NodePuller*> nodes_;
  uint64_t on_the_way_ = 0;
  std::vector<FinishedTransfer> finished_;
  size_t told_ = 0;  // of them
  PullCounts counts_;
  Histogram* durations_ = nullptr;
};

}  // namespace ghostfleet::emulator
