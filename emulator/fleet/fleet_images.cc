#include "emulator/fleet/fleet_images.h"

#include <algorithm>

#include "emulator/fleet/fleet.h"

namespace ghostfleet::emulator {
namespace {

std::vector<StoreZone> zones_of(const ImageModel& model, const std::vector<FleetGroup>& groups) {
  std::vector<StoreZone> zones;
  const auto add = [&](const std::string& name) {
    const bool known =
        std::any_of(zones.begin(), zones.end(), [&](const StoreZone& zone) { return zone.name == name; });
    if (!known) zones.push_back({name, model.store_rate});
  };
  for (const FleetGroup& group : groups) {
    for (const std::string& zone : group.zones) add(zone);
  }
  if (zones.empty()) add({});  // nodes of no zone
  return zones;
}

constexpr const char* kPulls = "ghostfleet_image_pulls_total";
constexpr const char* kPullsHelp =
    "Attempts to pull an image that have ended, by result: succeeded, failed (image rules, no space, no progress), "
    "refused (429 of the registry), qps_exceeded (refused by the node itself).";

void raise(Counter& counter, uint64_t to) { counter.add(to - counter.value()); }

}  // namespace

FleetImages::FleetImages(const ImageModel& model, const std::vector<FleetGroup>& groups, TimePoint now)
    : catalogue(std::make_shared<const ImageCatalogue>(ImageCatalogue{model.images})),
      stores(now, zones_of(model, groups), model.registries) {
  for (const FleetGroup& group : groups) {
    ImageModel own = model;
    if (group.pull) own.pull = *group.pull;
    options.push_back(pull_options_for(own, group.machine));
  }
}

ImageStats::ImageStats(MetricsRegistry& registry)
    : succeeded_(registry.counter(kPulls, kPullsHelp, {{"result", "succeeded"}})),
      failed_(registry.counter(kPulls, kPullsHelp, {{"result", "failed"}})),
      refused_(registry.counter(kPulls, kPullsHelp, {{"result", "refused"}})),
      over_qps_(registry.counter(kPulls, kPullsHelp, {{"result", "qps_exceeded"}})),
      requests_(registry.counter("ghostfleet_image_manifest_requests_total",
                                 "Requests for manifests that registries got, refused ones too.")),
      bytes_(registry.counter("ghostfleet_image_pulled_bytes_total", "Bytes of compressed layers that were fetched.")),
      removed_(registry.counter("ghostfleet_images_removed_total", "Images removed from nodes by garbage collection.")),
      pulling_(registry.gauge("ghostfleet_image_pulls_in_progress", "Pulls that have left their node's queue.")),
      stalled_(registry.gauge("ghostfleet_image_pulls_stalled", "Of these, those whose transfer makes no progress.")),
      durations_(registry.histogram("ghostfleet_image_pull_seconds",
                                    "How long pulls took that succeeded, without their time in the queue.")) {}

void ImageStats::update(const PullCounts& now) {
  raise(succeeded_, now.succeeded);
  raise(failed_, now.failed);
  raise(refused_, now.refused);
  raise(over_qps_, now.over_qps);
  raise(requests_, now.requests);
  raise(bytes_, now.bytes);
  raise(removed_, now.collected);
  pulling_.set(static_cast<double>(now.pulling));
  stalled_.set(static_cast<double>(now.stalled));
}

void ImageStats::add_to(FleetStats* out) const {
  const auto add = [out](const char* what, uint64_t number) { out->image_pulls[what] += number; };
  add("succeeded", succeeded_.value());
  add("failed", failed_.value());
  add("refused", refused_.value());
  add("qps_exceeded", over_qps_.value());
  add("in_progress", static_cast<uint64_t>(pulling_.value()));
  add("bytes", bytes_.value());
  add("removed", removed_.value());
}

}  // namespace ghostfleet::emulator
