// ImageStores: what all nodes of a fleet pull from: the stores of the zones, which share their bandwidth (flows.h), and
// the registries, which answer so many requests a second and refuse the rest with 429.
//
// Each shard has a port: transfers it begins come back through poll() of that port. Somebody must poll while transfers
// are on their way: that is what lets the model's time go on.
// Thread rule: every function may be called from any thread (one lock, held for microseconds). Times are of one
// monotonic clock; one that is a little behind that of another thread counts as that one.
// Source: OCI distribution-spec (requests of a pull); AWS docs, quotas of ECR.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/token_bucket.h"
#include "emulator/images/flows.h"

namespace ghostfleet::emulator {

struct RegistryLimit {
  std::string match = "*";  // glob over image names; the first that matches counts
  double requests_per_second = 0;
  int64_t burst = 1;
};

struct StoreZone {
  std::string name;
  double rate = 100e9;
};

// Since the beginning, or now.
struct ImageStoresStats {
  uint64_t requests = 0, refused = 0;  // of manifests
  uint64_t transfers = 0;              // on their way
  uint64_t groups = 0;
  double bytes = 0;  // moved
};

class ImageStores {
 public:
  ImageStores(TimePoint start, const std::vector<StoreZone>& zones, std::vector<RegistryLimit> registries);

  uint32_t zone(std::string_view name) const;  // the first, when there is none of that name
  uint32_t add_port();

  FlowModel::Id begin(uint32_t port, TimePoint now, Transfer transfer);
  void set_cap(TimePoint now, FlowModel::Id id, double cap);
  // Appends what has finished of that port.
  void poll(uint32_t port, TimePoint now, std::vector<FinishedTransfer>* finished);

  // One request for a manifest; false: 429.
  bool request(TimePoint now, std::string_view image);

  ImageStoresStats stats();
  ZoneLoad load(uint32_t zone);
  // The next moment at which a transfer begins or ends, for whoever drives a clock by hand; kNever: none is on its way.
  TimePoint next_event();

 private:
  void distribute();

  std::vector<std::string> names_;  // of zones; never changes
  std::mutex mutex_;                // everything below
  FlowModel flows_;
  std::vector<FinishedTransfer> scratch_;
  std::vector<std::vector<FinishedTransfer>> ports_;
  std::vector<RegistryLimit> limits_;
  std::vector<TokenBucket> buckets_;
  uint64_t requests_ = 0, refused_ = 0;
};

}  // namespace ghostfleet::emulator
