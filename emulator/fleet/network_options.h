// NetworkOptions: the cloud network under a fleet's pods (docs/network.md), and where fleets that share it on one
// machine write down which parts of it are theirs.
//
// Thread rule: plain values; the functions block, on the caller's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/network/ipam_config.h"
#include "base/status.h"
#include "emulator/vpc/vpc_spec.h"
#include "kube/client/client_config.h"

namespace ghostfleet::emulator {

struct NetworkOptions {
  VpcSpec vpc;
  // By group of the fleet; null: its pods have addresses of the fleet's own range.
  std::vector<std::shared_ptr<const agent::IpamConfig>> groups;
  // What a person should know before anything starts: where max-pods and addresses do not fit together.
  std::vector<std::string> remarks;
};

// The file of claims of that network on that cluster, below `home`.
std::string network_claims_file(const std::string& home, const std::string& vpc, const kube::ClientConfig& client);
// Gives up what the fleet claimed of any network of that cluster.
Status remove_network_claims(const std::string& home, const kube::ClientConfig& client, const std::string& fleet);

}  // namespace ghostfleet::emulator
