#include "emulator/vpc/subnet.h"

#include <gtest/gtest.h>

#include <set>

namespace ghostfleet::emulator {
namespace {

using agent::Cidr;
using agent::Ec2Error;
using agent::Ip;

Cidr cidr(std::string_view text) {
  Cidr c;
  EXPECT_TRUE(agent::parse_cidr(text, &c)) << text;
  return c;
}
Ip ip(std::string_view text) {
  Ip i;
  EXPECT_TRUE(agent::parse_ip(text, &i)) << text;
  return i;
}

TEST(Subnet, KeepsFourAndOne) {
  Subnet s(cidr("10.0.4.0/24"), Placement::kLowest);
  EXPECT_EQ(s.free_addresses(), 251u);
  EXPECT_EQ(s.free_prefixes(), 14u) << "the first and the last block are never whole";
  Rng rng(1);
  Ip got;
  EXPECT_EQ(s.take_address(rng, &got), Ec2Error::kNone);
  EXPECT_EQ(format_ip(got), "10.0.4.4");
  EXPECT_EQ(s.take_prefix(rng, &got), Ec2Error::kNone);
  EXPECT_EQ(format_ip(got), "10.0.4.16");
  EXPECT_EQ(s.free_addresses(), 234u);
}

TEST(Subnet, GivesEveryAddressOnce) {
  for (const Placement placement : {Placement::kLowest, Placement::kRandom}) {
    Subnet s(cidr("10.0.4.0/23"), placement);
    Rng rng(7);
    std::set<Ip> seen;
    Ip got;
    while (s.take_address(rng, &got) == Ec2Error::kNone) EXPECT_TRUE(seen.insert(got).second);
    EXPECT_EQ(seen.size(), 512u - 5u);
    EXPECT_EQ(s.free_addresses(), 0u);
    EXPECT_EQ(s.take_prefix(rng, &got), Ec2Error::kInsufficientFreeAddressesInSubnet);
    s.give_back(ip("10.0.4.77"));
    EXPECT_EQ(s.take_address(rng, &got), Ec2Error::kNone);
    EXPECT_EQ(format_ip(got), "10.0.4.77");
  }
}

TEST(Subnet, RandomAddressesFragmentIt) {
  Subnet s(cidr("10.0.0.0/20"), Placement::kRandom);
  Rng rng(3);
  Ip got;
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(s.take_address(rng, &got), Ec2Error::kNone);
  EXPECT_GT(s.free_addresses(), 2000u);
  EXPECT_EQ(s.free_prefixes(), 0u);
  EXPECT_EQ(s.take_prefix(rng, &got), Ec2Error::kInsufficientCidrBlocks);
}

TEST(Subnet, PrefixesAreWholeAlignedBlocks) {
  Subnet s(cidr("10.0.4.0/24"), Placement::kRandom);
  Rng rng(5);
  std::set<Ip> seen;
  Ip got;
  while (s.take_prefix(rng, &got) == Ec2Error::kNone) {
    EXPECT_EQ(got.v4_value() % 16, 0u);
    EXPECT_TRUE(seen.insert(got).second);
  }
  EXPECT_EQ(seen.size(), 14u);
  EXPECT_EQ(s.take_prefix(rng, &got), Ec2Error::kInsufficientCidrBlocks) << "single addresses are left";
  s.give_back_prefix(ip("10.0.4.32"));
  EXPECT_EQ(s.take_prefix(rng, &got), Ec2Error::kNone);
  EXPECT_EQ(format_ip(got), "10.0.4.32");
}

TEST(Subnet, Reservations) {
  Subnet s(cidr("10.0.4.0/24"), Placement::kLowest);
  ASSERT_TRUE(s.reserve(cidr("10.0.4.128/26"), ReservationKind::kPrefix).ok());
  ASSERT_TRUE(s.reserve(cidr("10.0.4.64/27"), ReservationKind::kExplicit).ok());
  EXPECT_FALSE(s.reserve(cidr("10.0.4.144/28"), ReservationKind::kPrefix).ok());
  EXPECT_FALSE(s.reserve(cidr("10.0.5.0/28"), ReservationKind::kPrefix).ok());
  EXPECT_FALSE(s.occupy(ip("10.0.4.130"))) << "only prefixes there";
  EXPECT_TRUE(s.occupy(ip("10.0.4.70")));
  Rng rng(1);
  Ip got;
  EXPECT_EQ(s.take_prefix(rng, &got), Ec2Error::kNone);
  EXPECT_EQ(format_ip(got), "10.0.4.128") << "what is reserved goes first";
  while (s.take_address(rng, &got) == Ec2Error::kNone) {
    EXPECT_FALSE(cidr("10.0.4.128/26").contains(got));
    EXPECT_FALSE(cidr("10.0.4.64/27").contains(got));
  }
  EXPECT_EQ(s.free_prefixes(), 3u);
}

TEST(Subnet, CertainAddresses) {
  Subnet s(cidr("10.0.4.0/24"), Placement::kLowest);
  EXPECT_FALSE(s.occupy(ip("10.0.4.0")));
  EXPECT_FALSE(s.occupy(ip("10.0.5.8")));
  EXPECT_TRUE(s.occupy(ip("10.0.4.40")));
  EXPECT_FALSE(s.occupy(ip("10.0.4.40")));
  EXPECT_TRUE(s.taken(ip("10.0.4.40")));
  EXPECT_FALSE(s.occupy_prefix(ip("10.0.4.32")));
  EXPECT_FALSE(s.occupy_prefix(ip("10.0.4.20")));
  EXPECT_TRUE(s.occupy_prefix(ip("10.0.4.16")));
  EXPECT_FALSE(s.occupy(ip("10.0.4.17")));
}

TEST(Subnet, TheSmallestOne) {
  Subnet s(cidr("10.0.4.0/28"), Placement::kRandom);
  EXPECT_EQ(s.free_addresses(), 11u);
  Rng rng(1);
  Ip got;
  EXPECT_EQ(s.take_prefix(rng, &got), Ec2Error::kInsufficientCidrBlocks);
}

TEST(Subnet, SharedIsUsedPartByPart) {
  std::set<Cidr> granted;
  Subnet s(cidr("10.0.0.0/16"), Placement::kRandom);
  s.share([&granted](const Cidr& part) {
    if (part.base.v4_value() % 2048 == 0) return false;  // every other part is somebody else's
    EXPECT_TRUE(granted.insert(part).second) << "each is asked for once";
    return true;
  });
  EXPECT_EQ(s.free_addresses(), 0u);
  EXPECT_EQ(s.room(), 65536u);
  Rng rng(1);
  Ip got;
  uint32_t n = 0;
  while (s.take_prefix(rng, &got) == Ec2Error::kNone) {
    EXPECT_NE(got.v4_value() / 1024 % 2, 0u);
    ++n;
  }
  EXPECT_EQ(granted.size(), 32u);
  EXPECT_EQ(n, 32u * 64u - 1) << "the last block of the subnet is not whole";
  EXPECT_FALSE(s.occupy(ip("10.0.0.9")));
}

}  // namespace
}  // namespace ghostfleet::emulator
