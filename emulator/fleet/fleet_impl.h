// The way into a fleet past its own naming, for a node whose identity somebody chose. Not for others.
//
// Thread rule: as Fleet::start.
#pragma once

#include "emulator/fleet/fleet.h"

namespace ghostfleet::emulator {

Result<std::unique_ptr<Fleet>> start_fleet(FleetOptions options, FleetCallbacks callbacks, FleetNames names);

}  // namespace ghostfleet::emulator
