// A small fleet for tests: nodes "n-0", "n-1", ... of 16 CPUs on two threads, named "f1".
#pragma once

#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/fleet.h"

namespace ghostfleet::emulator {

inline FleetOptions small_fleet(const FakeApi& api, uint32_t nodes) {
  FleetOptions o;
  o.client = api.config();
  o.name = "f1";
  o.shards = 2;
  FleetGroup g;
  g.count = nodes;
  g.name_template = "n-{index}";
  g.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
  o.groups.push_back(g);
  return o;
}

}  // namespace ghostfleet::emulator
