// VpcSpec: a cloud network as a VPC file describes it (docs/network.md): subnets, quotas of EC2, latencies, and the
// settings of the nodes' address daemons.
//
// Thread rule: plain values. What may be in it is checked where the file is read (emulator/profile/vpc_file.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/network/ipam_config.h"
#include "emulator/vpc/ec2_throttle.h"
#include "emulator/vpc/subnet.h"

namespace ghostfleet::emulator {

struct VpcReservation {
  agent::Cidr cidr;
  ReservationKind kind = ReservationKind::kPrefix;
};

struct VpcSubnet {
  std::string name, zone;
  agent::Cidr cidr;
  std::optional<agent::Cidr> ipv6;  // a /64
  Placement placement = Placement::kRandom;
  bool for_pods = false;  // tag kubernetes.io/role/cni: other nodes' interfaces may use it
  bool excluded = false;  // tag kubernetes.io/role/cni=0: no pod gets an address of it
  std::vector<VpcReservation> reservations;
  std::vector<agent::Ip> occupied;  // by others, from the beginning
  double occupied_share = 0;        // the same, of all its addresses, at random
};

struct VpcSpec {
  std::string name;
  std::vector<agent::Cidr> cidrs;
  std::vector<VpcSubnet> subnets;
  double quota_multiplier = 1;
  int64_t max_interfaces = 5000;
  int64_t max_address_units = 64000;  // only reported
  int prefixes_at_launch = 0;
  Ec2Latencies latencies;
  uint64_t seed = 1;
  agent::IpamConfig ipam;  // its limits are those of a node's type
};

}  // namespace ghostfleet::emulator
