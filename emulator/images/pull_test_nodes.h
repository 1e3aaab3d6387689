// For tests: nodes that pull, on a clock that jumps from event to event.
//
// Thread rule: one thread.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/images/pull_service.h"

namespace ghostfleet::emulator {

class PullTestNode final : public PullHost {
 public:
  struct Ended {
    TimePoint at;
    agent::PullResult result;
  };

  PullTestNode(PullService& service, const TimePoint& now, std::shared_ptr<const PullOptions> options, uint32_t number,
               uint32_t zone)
      : puller(service, *this, std::move(options), number, zone), now_(now) {}

  agent::PullTicket pull(const std::string& image) {
    images_[++tickets_] = image;
    puller.begin(tickets_, image, now_);
    return tickets_;
  }
  void pull_ended(agent::PullTicket ticket) override {
    ended[ticket] = {now_, puller.end(ticket, images_[ticket], now_)};
  }
  bool image_in_use(std::string_view image) override { return in_use.count(std::string(image)) > 0; }
  void node_warning(std::string_view reason, const std::string& message) override {
    warnings.emplace_back(reason, message);
  }
  void images_changed() override { ++changes; }
  int64_t storage_used() override { return storage; }

  NodePuller puller;
  std::map<agent::PullTicket, Ended> ended;
  std::set<std::string> in_use;
  std::vector<std::pair<std::string, std::string>> warnings;
  int changes = 0;
  int64_t storage = 0;  // used by pods

 private:
  const TimePoint& now_;
  std::map<agent::PullTicket, std::string> images_;
  agent::PullTicket tickets_ = 0;
};

class PullTestFleet {
 public:
  explicit PullTestFleet(std::vector<StoreZone> zones, std::vector<RegistryLimit> registries = {},
                         ImageCatalogue catalogue = {}, std::vector<agent::ImageRule> rules = {})
      : stores(now, zones, std::move(registries)),
        service(stores, std::make_shared<const ImageCatalogue>(std::move(catalogue)), std::move(rules), 7) {}

  PullTestNode& add(const PullOptions& options, uint32_t zone = 0) {
    nodes.push_back(std::make_unique<PullTestNode>(service, now, std::make_shared<const PullOptions>(options),
                                                   static_cast<uint32_t>(nodes.size()), zone));
    return *nodes.back();
  }
  // Plays event after event until `done`, or nothing is on its way.
  void run(const std::function<bool()>& done = [] { return false; }) {
    while (!done() && stores.next_event() != FlowModel::kNever) {
      now = std::max(now, stores.next_event());
      service.poll(now);
    }
  }
  void run_for(Duration time) {
    const TimePoint until = now + time;
    while (stores.next_event() <= until) {
      now = std::max(now, stores.next_event());
      service.poll(now);
    }
    now = until;
    service.poll(now);
  }
  double seconds_since(TimePoint start) const { return static_cast<double>((now - start).count()) * 1e-9; }

  TimePoint now{1000000000};
  ImageStores stores;
  PullService service;
  std::vector<std::unique_ptr<PullTestNode>> nodes;
};

// An image of `bytes` in layers of one size.
inline ImageEntry test_image(const std::string& match, int64_t bytes, int64_t layers) {
  ImageEntry entry{match, {}};
  for (int64_t i = 0; i < layers; ++i) entry.layers.push_back({"", bytes / layers, bytes / layers * 2});
  return entry;
}

}  // namespace ghostfleet::emulator
