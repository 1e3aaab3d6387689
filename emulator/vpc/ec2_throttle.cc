#include "emulator/vpc/ec2_throttle.h"

namespace ghostfleet::emulator {

using agent::Ec2Action;

Ec2Throttle::Ec2Throttle(double multiplier)
    : buckets_(agent::kEc2Actions, TokenBucket(0, 0)), instances_(2 * multiplier, 1000 * multiplier) {
  const auto set_action = [&](Ec2Action action, double capacity, double rate) {
    buckets_[static_cast<size_t>(action)] = TokenBucket(rate * multiplier, capacity * multiplier);
  };
  for (const Ec2Action a : {Ec2Action::kAssignPrivateIpAddresses, Ec2Action::kUnassignPrivateIpAddresses,
                            Ec2Action::kAssignIpv6Addresses, Ec2Action::kCreateNetworkInterface,
                            Ec2Action::kDeleteNetworkInterface, Ec2Action::kModifyNetworkInterfaceAttribute}) {
    set_action(a, 100, 5);
  }
  set_action(Ec2Action::kAttachNetworkInterface, 50, 5);
  set_action(Ec2Action::kDetachNetworkInterface, 50, 5);
  // Paginated or filtered calls have the larger bucket; both ways of describing interfaces are filtered, and share it.
  set_action(Ec2Action::kDescribeNetworkInterfaces, 100, 20);
  set_action(Ec2Action::kDescribeSubnets, 100, 20);
  set_action(Ec2Action::kRunInstances, 5, 2);
}

bool Ec2Throttle::admit(Ec2Action action, TimePoint now, uint32_t instances) {
  if (action == Ec2Action::kReadMetadata) return true;
  if (action == Ec2Action::kDescribeLeaked) action = Ec2Action::kDescribeNetworkInterfaces;
  TokenBucket& bucket = buckets_[static_cast<size_t>(action)];
  if (action != Ec2Action::kRunInstances) return bucket.take(now);
  return instances_.has(now, instances) && bucket.take(now) && instances_.take(now, instances);
}

Duration Ec2Throttle::latency(const Ec2Latencies& l, Ec2Action action, Rng& rng) {
  Duration base = l.describe;
  switch (action) {
    case Ec2Action::kAssignPrivateIpAddresses:
    case Ec2Action::kAssignIpv6Addresses: base = l.assign; break;
    case Ec2Action::kUnassignPrivateIpAddresses: base = l.unassign; break;
    case Ec2Action::kCreateNetworkInterface: base = l.create; break;
    case Ec2Action::kAttachNetworkInterface: base = l.attach; break;
    case Ec2Action::kDetachNetworkInterface: base = l.detach; break;
    case Ec2Action::kModifyNetworkInterfaceAttribute: base = l.modify; break;
    case Ec2Action::kDeleteNetworkInterface: base = l.remove; break;
    case Ec2Action::kRunInstances: base = l.run; break;
    case Ec2Action::kReadMetadata: base = l.metadata; break;
    case Ec2Action::kDescribeNetworkInterfaces:
    case Ec2Action::kDescribeLeaked:
    case Ec2Action::kDescribeSubnets:
    case Ec2Action::kCount: break;
  }
  const double factor = 1 + l.jitter * (2 * rng.uniform() - 1);
  return Duration(static_cast<int64_t>(static_cast<double>(base.count()) * factor));
}

}  // namespace ghostfleet::emulator
