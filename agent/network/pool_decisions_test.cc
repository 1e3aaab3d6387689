#include "agent/network/pool_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

// m5.large: 3 interfaces of 10 addresses.
IpamConfig secondary() {
  IpamConfig c;
  c.limits = {"m5.large", 1, 3, 10, 0, 2, true};
  c.max_pods = 110;
  return c;
}

IpamConfig prefixes() {
  IpamConfig c = secondary();
  c.prefix_delegation = true;
  return c;
}

PoolStats in_prefixes(int total_prefixes, int assigned, int free_prefixes) {
  return {total_prefixes * 16, assigned, 0, total_prefixes, free_prefixes};
}

TEST(PoolDecisions, SecondaryKeepsOneInterfaceSpare) {
  const IpamConfig c = secondary();
  EXPECT_FALSE(pool_too_low(c, 0, {9, 0, 0}));  // 9 of 9 are left
  EXPECT_TRUE(pool_too_low(c, 0, {9, 1, 0}));   // 8 are
  EXPECT_FALSE(pool_too_low(c, 0, {18, 1, 0}));
  EXPECT_EQ(grow_amount(c, 0, {9, 1, 0}), 9);
  EXPECT_FALSE(pool_too_high(c, 0, {27, 0, 0}));  // never, without targets
}

TEST(PoolDecisions, SecondaryWithoutSpareInterfacesGrowsWhenNothingIsLeft) {
  IpamConfig c = secondary();
  c.warm_eni_target = 0;
  EXPECT_FALSE(pool_too_low(c, 0, {9, 8, 0}));
  EXPECT_TRUE(pool_too_low(c, 0, {9, 9, 0}));
}

TEST(PoolDecisions, PrefixesKeepOneSpare) {
  const IpamConfig c = prefixes();
  EXPECT_TRUE(pool_too_low(c, 0, in_prefixes(0, 0, 0)));
  EXPECT_FALSE(pool_too_low(c, 0, in_prefixes(1, 0, 1)));
  EXPECT_TRUE(pool_too_low(c, 0, in_prefixes(1, 1, 0)));
  EXPECT_FALSE(pool_too_low(c, 0, in_prefixes(2, 1, 1)));
  EXPECT_EQ(grow_amount(c, 0, in_prefixes(1, 1, 0)), 1);
  EXPECT_FALSE(pool_too_high(c, 0, in_prefixes(2, 1, 1)));
  EXPECT_TRUE(pool_too_high(c, 0, in_prefixes(2, 0, 2)));
  EXPECT_EQ(shrink_amount(c, 0, in_prefixes(6, 0, 6)), 5);
}

TEST(PoolDecisions, SeveralPrefixesAreAskedForAtOnce) {
  IpamConfig c = prefixes();
  c.warm_prefix_target = 3;
  EXPECT_EQ(grow_amount(c, 0, in_prefixes(0, 0, 0)), 3);
  EXPECT_EQ(grow_amount(c, 0, in_prefixes(3, 1, 2)), 1);
  EXPECT_EQ(grow_amount_of_new_eni(c, 0, in_prefixes(0, 0, 0)), 3);
}

TEST(PoolDecisions, WarmAddressesWithPrefixes) {
  IpamConfig c = prefixes();
  c.warm_ip_target = 1;
  EXPECT_EQ(target_state(c, 0, in_prefixes(1, 16, 0)).shortage, 1);
  EXPECT_TRUE(pool_too_low(c, 0, in_prefixes(1, 16, 0)));
  EXPECT_FALSE(pool_too_low(c, 0, in_prefixes(1, 15, 0)));
  c.warm_ip_target = 16;  // 1 is used: 17 are needed, so 2 prefixes
  EXPECT_EQ(target_state(c, 0, in_prefixes(1, 1, 0)).shortage, 1);
  EXPECT_EQ(target_state(c, 0, in_prefixes(2, 1, 1)).shortage, 0);
  EXPECT_EQ(target_state(c, 0, in_prefixes(2, 1, 1)).over, 0);
  EXPECT_EQ(target_state(c, 0, in_prefixes(3, 1, 2)).over, 1);
}

TEST(PoolDecisions, MinimumWithPrefixes) {
  IpamConfig c = prefixes();
  c.warm_ip_target = 5;
  c.minimum_ip_target = 40;
  EXPECT_EQ(target_state(c, 0, in_prefixes(0, 0, 0)).shortage, 3);
  EXPECT_EQ(target_state(c, 0, in_prefixes(3, 0, 3)).over, 0);
  EXPECT_EQ(target_state(c, 0, in_prefixes(5, 0, 5)).over, 2);
}

TEST(PoolDecisions, WarmAndMinimumAddresses) {
  IpamConfig c = secondary();
  c.warm_ip_target = 2;
  c.minimum_ip_target = 5;
  EXPECT_EQ(target_state(c, 0, {0, 0, 0}).shortage, 5);
  EXPECT_EQ(grow_amount(c, 0, {0, 0, 0}), 5);
  EXPECT_EQ(target_state(c, 0, {5, 4, 0}).shortage, 1);
  EXPECT_EQ(target_state(c, 0, {9, 4, 0}).over, 3);
  EXPECT_EQ(target_state(c, 0, {9, 0, 0}).over, 4);  // the minimum holds the rest
  EXPECT_TRUE(pool_too_high(c, 0, {9, 0, 0}));
}

TEST(PoolDecisions, CoolingAddressesCountAsAvailable) {
  const IpamConfig c = prefixes();
  PoolStats s = in_prefixes(1, 0, 1);
  s.cooling = 16;
  EXPECT_EQ(s.available(), 16);
  EXPECT_FALSE(pool_too_low(c, 0, s));
}

TEST(PoolDecisions, MaxPodsReachedEndsGrowth) {
  IpamConfig c = prefixes();
  c.max_pods = 32;
  EXPECT_FALSE(pool_too_low(c, 0, in_prefixes(2, 32, 0)));
  EXPECT_TRUE(pool_too_low(c, 0, in_prefixes(1, 16, 0)));
}

TEST(PoolDecisions, OtherCardsKeepOneAddress) {
  IpamConfig c = prefixes();
  c.limits.cards = 4;
  c.multi_nic = true;
  EXPECT_EQ(target_state(c, 1, {0, 0, 0}).shortage, 1);
  EXPECT_EQ(target_state(c, 1, {1, 0, 0}).shortage, 0);
  EXPECT_EQ(target_state(c, 1, {1, 1, 0}).shortage, 1);
  EXPECT_EQ(target_state(c, 1, {3, 1, 0}).over, 1);
  EXPECT_TRUE(may_remove_eni(c, 1, {1, 0, 0}, true));
}

TEST(PoolDecisions, WhenAnInterfaceMayGo) {
  const IpamConfig c = secondary();
  EXPECT_FALSE(may_remove_eni(c, 0, {18, 1, 0}, true));
  EXPECT_TRUE(may_remove_eni(c, 0, {18, 0, 0}, true));
  IpamConfig p = prefixes();
  EXPECT_TRUE(may_remove_eni(p, 0, in_prefixes(2, 1, 1), true));
  EXPECT_FALSE(may_remove_eni(p, 0, in_prefixes(2, 1, 1), false));
  p.warm_ip_target = 4;
  EXPECT_TRUE(may_remove_eni(p, 0, in_prefixes(2, 30, 0), false));
}

TEST(MaxPods, ByMode) {
  const InstanceLimits m5{"m5.large", 1, 3, 10, 0, 2, true}, p5{"p5.48xlarge", 32, 2, 50, 32, 192, true},
      p4d{"p4d.24xlarge", 4, 15, 50, 4, 96, true}, t2{"t2.medium", 1, 3, 6, 0, 2, false};
  EXPECT_EQ(max_pods_of(m5, false, false), 29);
  EXPECT_EQ(max_pods_of(m5, true, false), 110);
  EXPECT_EQ(max_pods_of(m5, false, true), 20);
  EXPECT_EQ(max_pods_of(p5, false, false), 100);  // card 0 alone counts
  EXPECT_EQ(max_pods_of(p5, true, false), 250);
  EXPECT_EQ(max_pods_of(p4d, false, false), 737);
  EXPECT_EQ(max_pods_of(t2, false, false), 17);
}

TEST(IpamConfig, SettingsThatCannotBe) {
  IpamConfig c = secondary();
  EXPECT_TRUE(check_ipam_config(c).ok());
  c.prefix_delegation = true;
  c.limits = {"t2.medium", 1, 3, 6, 0, 2, false};
  EXPECT_THAT(check_ipam_config(c).message(), testing::HasSubstr("ENABLE_PREFIX_DELEGATION: t2.medium is not a Nitro"));
  c = secondary();
  c.multi_nic = true;
  EXPECT_FALSE(check_ipam_config(c).ok());
  c = secondary();
  c.custom_networking = true;
  c.max_eni = 1;
  EXPECT_FALSE(check_ipam_config(c).ok());
  c = secondary();
  c.ipv6 = true;
  EXPECT_FALSE(check_ipam_config(c).ok());
}

}  // namespace
}  // namespace ghostfleet::agent
