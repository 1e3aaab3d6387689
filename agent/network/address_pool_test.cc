#include "agent/network/address_pool.h"

#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

using std::chrono::seconds;

Cidr cidr(std::string_view text) {
  Cidr c;
  EXPECT_TRUE(parse_cidr(text, &c)) << text;
  return c;
}

IpamHolder pod(const std::string& name) {
  IpamHolder h;
  h.key.container_id = name + "-sandbox";
  h.pod_namespace = "default";
  h.pod_name = name;
  return h;
}

PoolEni eni(EniId id, bool primary = false) {
  PoolEni e;
  e.id = id;
  e.primary = primary;
  return e;
}

class Pool : public testing::Test {
 protected:
  std::string assign(const std::string& name) {
    const auto got = pool.assign(pod(name), now);
    return got ? format_ip(got->ip) : "";
  }
  bool release(const std::string& name) {
    Ip ip;
    return pool.release(pod(name).key, now, &ip) != nullptr;
  }

  TimePoint now{1000};
  AddressPool pool{0, true, seconds(30)};
};

TEST_F(Pool, AllSixteenOfAPrefixFromTheLowest) {
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("10.0.4.16/28"));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(assign("p" + std::to_string(i)), "10.0.4." + std::to_string(16 + i));
  EXPECT_EQ(assign("one-more"), "");
  EXPECT_EQ(assign("p3"), "10.0.4.19") << "the same key gets the same address";
  EXPECT_EQ(pool.stats(now).assigned, 16);
}

TEST_F(Pool, WhatWasReleasedCoolsAndIsThenUsedFirst) {
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("10.0.4.16/28"));
  assign("a");
  assign("b");
  EXPECT_TRUE(release("a"));
  EXPECT_FALSE(release("a"));
  EXPECT_EQ(assign("c"), "10.0.4.18");
  EXPECT_EQ(pool.stats(now).cooling, 1);
  now = now + seconds(30) - Duration(1);
  EXPECT_EQ(assign("d"), "10.0.4.19");
  now = now + Duration(1);
  EXPECT_EQ(pool.stats(now).cooling, 0);
  EXPECT_EQ(assign("e"), "10.0.4.16");
}

TEST_F(Pool, OnlyRangesOfTheRightKindAndInterfacesThatAreNotExcluded) {
  PoolEni excluded = eni(1, true);
  excluded.excluded = true;
  pool.add_eni(std::move(excluded));
  pool.add_range(1, cidr("10.0.4.16/28"));
  pool.add_eni(eni(2));
  pool.add_range(2, cidr("10.0.5.7/32"));
  EXPECT_EQ(assign("a"), "");
  EXPECT_EQ(pool.stats(now).total, 0);
  pool.add_range(2, cidr("10.0.5.32/28"));
  EXPECT_EQ(assign("a"), "10.0.5.32");
  EXPECT_EQ(pool.stats(now).total, 16);
}

TEST_F(Pool, ARangeInUseStaysUnlessForced) {
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("10.0.4.16/28"));
  EXPECT_FALSE(pool.add_range(1, cidr("10.0.4.16/28")));
  assign("a");
  EXPECT_FALSE(pool.remove_range(1, cidr("10.0.4.16/28"), false, nullptr));
  int forced = 0;
  EXPECT_TRUE(pool.remove_range(1, cidr("10.0.4.16/28"), true, &forced));
  EXPECT_EQ(forced, 1);
  EXPECT_FALSE(pool.find(pod("a").key).has_value());
}

TEST_F(Pool, RestoreRefusesWhatIsTakenOrUnknown) {
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("10.0.4.16/28"));
  EXPECT_TRUE(pool.restore(cidr("10.0.4.20/32").base, pod("a")));
  EXPECT_FALSE(pool.restore(cidr("10.0.4.20/32").base, pod("b")));
  EXPECT_FALSE(pool.restore(cidr("10.0.9.20/32").base, pod("b")));
  EXPECT_EQ(assign("a"), "10.0.4.20");
  for (int i = 0; i < 15; ++i) EXPECT_NE(assign("p" + std::to_string(i)), "10.0.4.20");
  EXPECT_EQ(assign("full"), "");
}

TEST_F(Pool, AReleaseCanBeUndone) {
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("10.0.4.16/28"));
  assign("a");
  Ip ip;
  auto holder = pool.release(pod("a").key, now, &ip);
  pool.put_back(ip, std::move(holder));
  EXPECT_EQ(assign("a"), "10.0.4.16");
  pool.forget(pod("a").key);
  EXPECT_EQ(pool.stats(now).assigned, 0);
  EXPECT_EQ(assign("b"), "10.0.4.16") << "what was undone does not cool";
}

TEST_F(Pool, AnInterfaceGoesWhenItIsOldUnusedAndNotNeeded) {
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("10.0.4.16/28"));
  PoolEni second = eni(2);
  second.created = now;
  pool.add_eni(std::move(second));
  pool.add_range(2, cidr("10.0.4.32/28"));
  TimePoint later{INT64_MAX};
  EXPECT_EQ(pool.deletable({}, seconds(60), now, &later), nullptr);
  EXPECT_EQ(later, now + seconds(60));
  now = now + seconds(60);
  ASSERT_NE(pool.deletable({}, seconds(60), now, &later), nullptr);
  EXPECT_EQ(pool.deletable({}, seconds(60), now, &later)->id, 2u);
  EXPECT_EQ(pool.deletable({17, 0, 0}, seconds(60), now, &later), nullptr) << "17 warm addresses need both";
  EXPECT_NE(pool.deletable({16, 0, 0}, seconds(60), now, &later), nullptr);
  EXPECT_EQ(pool.deletable({0, 17, 0}, seconds(60), now, &later), nullptr);
  EXPECT_EQ(pool.deletable({0, 0, 2}, seconds(60), now, &later), nullptr);
  EXPECT_NE(pool.deletable({0, 0, 1}, seconds(60), now, &later), nullptr);
  for (int i = 0; i < 17; ++i) assign("p" + std::to_string(i));
  EXPECT_EQ(pool.deletable({}, seconds(60), now, &later), nullptr) << "a pod uses it";
  EXPECT_TRUE(release("p16"));
  later = {INT64_MAX};
  EXPECT_EQ(pool.deletable({}, seconds(60), now, &later), nullptr) << "an address of it cools";
  EXPECT_EQ(later, now + seconds(30));
}

TEST_F(Pool, TrunkAndEfaInterfacesStay) {
  PoolEni trunk = eni(1), efa = eni(2);
  trunk.trunk = true;
  efa.efa = true;
  pool.add_eni(std::move(trunk));
  pool.add_eni(std::move(efa));
  TimePoint later{INT64_MAX};
  EXPECT_EQ(pool.deletable({}, seconds(60), now + seconds(100), &later), nullptr);
  EXPECT_FALSE(pool.has_unused_eni());
  EXPECT_TRUE(pool.has_trunk());
}

TEST(AddressPool, ASingleAddressCoolsBeforeItIsUsedAgain) {
  AddressPool pool(0, false, seconds(30));
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("10.0.5.7/32"));
  Ip ip;
  EXPECT_TRUE(pool.assign(pod("a"), {1}).has_value());
  EXPECT_NE(pool.release(pod("a").key, {1}, &ip), nullptr);
  EXPECT_FALSE(pool.assign(pod("b"), {2}).has_value());
  EXPECT_TRUE(pool.assign(pod("b"), TimePoint{1} + seconds(30)).has_value());
}

TEST(AddressPool, AnIPv6PrefixIsNeverUsedUp) {
  AddressPool pool(0, true, seconds(30));
  pool.add_eni(eni(1, true));
  pool.add_range(1, cidr("fd00:10:0:0:5::/80"));
  for (int i = 0; i < 300; ++i) {
    const auto got = pool.assign(pod("p" + std::to_string(i)), {1});
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->ip, cidr("fd00:10:0:0:5::/80").base.plus(static_cast<uint64_t>(i)));
  }
}

}  // namespace
}  // namespace ghostfleet::agent
