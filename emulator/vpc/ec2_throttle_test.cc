#include "emulator/vpc/ec2_throttle.h"

#include <gtest/gtest.h>

namespace ghostfleet::emulator {
namespace {

using agent::Ec2Action;
using std::chrono::seconds;

int burst(Ec2Throttle& t, Ec2Action action, TimePoint now) {
  int n = 0;
  while (n < 100000 && t.admit(action, now)) ++n;
  return n;
}

TEST(Ec2Throttle, BucketsAreThoseOfTheAccount) {
  Ec2Throttle t;
  TimePoint now{1};
  EXPECT_EQ(burst(t, Ec2Action::kAssignPrivateIpAddresses, now), 100);
  EXPECT_EQ(burst(t, Ec2Action::kUnassignPrivateIpAddresses, now), 100) << "each action has its own";
  EXPECT_EQ(burst(t, Ec2Action::kAttachNetworkInterface, now), 50);
  EXPECT_EQ(burst(t, Ec2Action::kDescribeNetworkInterfaces, now), 100);
  EXPECT_EQ(burst(t, Ec2Action::kDescribeLeaked, now), 0) << "the same call";
  now = now + seconds(10);
  EXPECT_EQ(burst(t, Ec2Action::kAssignPrivateIpAddresses, now), 50);
  EXPECT_EQ(burst(t, Ec2Action::kDescribeNetworkInterfaces, now), 100);
  EXPECT_EQ(burst(t, Ec2Action::kReadMetadata, now), 100000) << "not a call of EC2";
}

TEST(Ec2Throttle, AHundredThousandCallsTakeFiveHours) {
  Ec2Throttle t;
  TimePoint now{1};
  uint64_t done = 0;
  while (done < 100000) {
    done += static_cast<uint64_t>(burst(t, Ec2Action::kAssignPrivateIpAddresses, now));
    now = now + seconds(1);
  }
  EXPECT_NEAR(static_cast<double>((now - TimePoint{1}).count()) / 3.6e12, 5.55, 0.02);
}

TEST(Ec2Throttle, AMultiplierRaisesBurstAndRate) {
  Ec2Throttle t(10);
  TimePoint now{1};
  EXPECT_EQ(burst(t, Ec2Action::kAssignPrivateIpAddresses, now), 1000);
  now = now + seconds(1);
  EXPECT_EQ(burst(t, Ec2Action::kAssignPrivateIpAddresses, now), 50);
}

TEST(Ec2Throttle, LaunchesAreLimitedByRequestAndByInstance) {
  Ec2Throttle t;
  const TimePoint now{1};
  EXPECT_TRUE(t.admit(Ec2Action::kRunInstances, now, 900));
  EXPECT_FALSE(t.admit(Ec2Action::kRunInstances, now, 200)) << "1000 instances";
  EXPECT_TRUE(t.admit(Ec2Action::kRunInstances, now, 100));
  EXPECT_TRUE(t.admit(Ec2Action::kRunInstances, now, 0));
  EXPECT_TRUE(t.admit(Ec2Action::kRunInstances, now, 0));
  EXPECT_TRUE(t.admit(Ec2Action::kRunInstances, now, 0));
  EXPECT_FALSE(t.admit(Ec2Action::kRunInstances, now, 0)) << "5 requests";
}

TEST(Ec2Throttle, LatenciesVaryAroundTheirBase) {
  Ec2Latencies l;
  Rng rng(1);
  for (int i = 0; i < 100; ++i) {
    const Duration d = Ec2Throttle::latency(l, Ec2Action::kAttachNetworkInterface, rng);
    EXPECT_GE(d, l.attach * 7 / 10);
    EXPECT_LE(d, l.attach * 13 / 10);
  }
}

}  // namespace
}  // namespace ghostfleet::emulator
