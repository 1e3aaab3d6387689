// The network of a fleet from a VPC file and the instance types of its groups: what their address daemons are told, and
// where max-pods and addresses do not fit together.
//
// Thread rule: pure functions. Errors name the group, its zone or type, and what would be right.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/fleet/network_options.h"
#include "emulator/profile/profile.h"

namespace ghostfleet::emulator {

struct NetworkGroup {
  std::string name;  // for messages
  bool used = true;  // false: its pods have addresses of the fleet's range
  Profile profile;
  agent::NodeTemplate node;  // whose "pods" bounds the pool
  std::vector<std::string> zones;
  bool max_pods_given = false;  // by the user, who then knows
};

Result<std::shared_ptr<const NetworkOptions>> make_network_options(const VpcSpec& vpc,
                                                                   const std::vector<NetworkGroup>& groups);

}  // namespace ghostfleet::emulator
