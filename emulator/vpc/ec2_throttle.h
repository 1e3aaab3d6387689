// Ec2Throttle: the token buckets of EC2's API for one account and region, and how long its calls take. Time comes in
// with every call; nothing waits here.
//
// Thread rule: one owner (Vpc). Units: tokens and tokens a second; the multiplier raises both, as a raised quota does.
// Source: AWS docs, Request throttling for the Amazon EC2 API.
#pragma once

#include <vector>

#include "agent/network/ec2.h"
#include "base/random.h"
#include "base/token_bucket.h"

namespace ghostfleet::emulator {

struct Ec2Latencies {
  Duration describe = std::chrono::milliseconds(150);
  Duration assign = std::chrono::milliseconds(600);
  Duration unassign = std::chrono::milliseconds(400);
  Duration create = std::chrono::seconds(1);
  Duration attach = std::chrono::seconds(5);
  Duration detach = std::chrono::seconds(5);
  Duration modify = std::chrono::milliseconds(250);
  Duration remove = std::chrono::milliseconds(500);
  Duration run = std::chrono::seconds(2);
  Duration metadata = std::chrono::milliseconds(2);
  Duration refusal = std::chrono::milliseconds(50);  // of a throttled call
  double jitter = 0.3;                               // the share by which one differs, up and down
};

class Ec2Throttle {
 public:
  explicit Ec2Throttle(double multiplier = 1);

  // True: there was a token. A call of RunInstances also takes one token of another bucket for each instance.
  bool admit(agent::Ec2Action action, TimePoint now, uint32_t instances = 1);

  static Duration latency(const Ec2Latencies& l, agent::Ec2Action action, Rng& rng);

 private:
  std::vector<TokenBucket> buckets_;  // by action
  TokenBucket instances_;
};

}  // namespace ghostfleet::emulator
