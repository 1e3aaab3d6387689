// The flags of node-pressure eviction, as a kubelet has them, for `agent`; a fleet's file has fields for them.
//
// Thread rule: main thread.
#pragma once

#include <cstdint>
#include <string>

#include "agent/pod/pressure.h"
#include "base/status.h"

namespace CLI {
class App;
}

namespace ghostfleet::cmd {

struct EvictionFlags {
  std::string hard, soft, soft_grace, minimum_reclaim, transition;
  int64_t max_pod_grace = 0;
};

void add_eviction_flags(CLI::App& command, EvictionFlags* flags);
Result<agent::EvictionRules> eviction_rules(const EvictionFlags& flags);

}  // namespace ghostfleet::cmd
