// Job: what an IpamNode is in the middle of; there is one at most. Only for the files of IpamNode.
//
// Thread rule: the node's thread.
#pragma once

#include "agent/network/ipam_node.h"

namespace ghostfleet::agent {

inline constexpr TimePoint kIpamNever{INT64_MAX};

struct IpamNode::Job {
  Step step = Step::kDescribe;
  int card = 0;
  Ec2Call call;          // the last one, to be repeated
  bool waiting = false;  // until `due`, then the call is made again
  bool failed = false;   // for another reason than a full subnet
  bool full = false;     // a subnet was full
  TimePoint due;
  int repeats = 0;  // of this call by the client
  int tries = 0;    // of a wait of our own
  size_t eni_cursor = 0;
  std::vector<SubnetIndex> subnets;
  size_t subnet_cursor = 0;
  EniId eni = 0;
  std::vector<std::pair<EniId, std::vector<Cidr>>> drop;
  size_t drop_cursor = 0;
  std::vector<EniId> leaked;
};

}  // namespace ghostfleet::agent
