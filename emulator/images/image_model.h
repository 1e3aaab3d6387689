// ImageModel: everything a fleet file can say about how images are pulled, and what follows from it for the machines of
// a group.
//
// Units: bytes, bytes a second. Thread rule: plain values.
#pragma once

#include <memory>
#include <vector>

#include "emulator/images/catalogue.h"
#include "emulator/images/image_stores.h"
#include "emulator/images/pull_options.h"

namespace ghostfleet::emulator {

// What an instance type gives.
struct PullMachine {
  int64_t cpus = 4;
  double network_rate = 1.25e9;
  int64_t disk_capacity = int64_t{20} << 30;
};

struct ImageModel {
  // A network_rate or disk_capacity of 0: the machine's.
  PullOptions pull = [] {
    PullOptions o;
    o.network_rate = 0;
    o.disk_capacity = 0;
    return o;
  }();
  double store_rate = 100e9;  // of each zone
  std::vector<RegistryLimit> registries;
  std::vector<ImageEntry> images;  // before the built-in ones
};

std::shared_ptr<const PullOptions> pull_options_for(const ImageModel& model, const PullMachine& machine);

}  // namespace ghostfleet::emulator
