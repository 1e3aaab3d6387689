#include "emulator/vpc/vpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

namespace ghostfleet::emulator {
namespace {

using agent::Cidr;
using agent::Ec2Action;
using agent::Ec2Answer;
using agent::Ec2Call;
using agent::Ec2Error;
using agent::EniId;
using agent::Ip;
using testing::HasSubstr;

Cidr cidr(std::string_view text) {
  Cidr c;
  EXPECT_TRUE(agent::parse_cidr(text, &c)) << text;
  return c;
}

VpcSpec two_subnets() {
  VpcSpec spec;
  spec.name = "test";
  spec.cidrs = {cidr("10.0.0.0/16")};
  VpcSubnet a, b;
  a.name = "a";
  a.zone = "z1";
  a.cidr = cidr("10.0.4.0/24");
  a.ipv6 = cidr("fd00:10::/64");
  b = a;
  b.name = "b";
  b.cidr = cidr("10.0.8.0/22");
  b.for_pods = true;
  b.ipv6.reset();
  spec.subnets = {a, b};
  return spec;
}

LaunchRequest m5() {
  LaunchRequest r;
  r.zone = "z1";
  r.limits = {"m5.large", 1, 3, 10, 0, 2, true};
  return r;
}

class VpcTest : public testing::Test {
 protected:
  void make(VpcSpec spec, Claims* claims = nullptr) {
    auto v = Vpc::create(std::move(spec), claims);
    ASSERT_TRUE(v.ok()) << v.error().message();
    vpc = std::move(*v);
  }
  Ec2Answer call(InstanceId id, Ec2Action action, EniId eni = 0, int count = 0, bool prefixes = false,
                 agent::SubnetIndex subnet = agent::kPrimarySubnet) {
    Ec2Call c;
    c.action = action;
    c.eni = eni;
    c.count = static_cast<uint16_t>(count);
    c.prefixes = prefixes;
    c.subnet = subnet;
    const Ec2Ticket ticket = vpc->begin(action, now);
    return vpc->finish(id, c, ticket);
  }
  std::vector<agent::EniView> enis(InstanceId id) { return call(id, Ec2Action::kReadMetadata).enis; }

  std::unique_ptr<Vpc> vpc;
  TimePoint now{1000000000};
};

TEST_F(VpcTest, LaunchesWhereMostRoomIs) {
  make(two_subnets());
  const Launch l = vpc->launch(m5());
  EXPECT_EQ(l.error, Ec2Error::kNone);
  EXPECT_EQ(l.subnet, "b");
  EXPECT_TRUE(cidr("10.0.8.0/22").contains(l.address));
  LaunchRequest elsewhere = m5();
  elsewhere.zone = "z9";
  EXPECT_EQ(vpc->launch(elsewhere).error, Ec2Error::kInvalidParameterValue);
}

TEST_F(VpcTest, AddressesAndPrefixesOfAnInterface) {
  make(two_subnets());
  const InstanceId id = vpc->launch(m5()).id;
  const EniId eni = enis(id).front().id;
  const Ec2Answer three = call(id, Ec2Action::kAssignPrivateIpAddresses, eni, 3, true);
  ASSERT_TRUE(three.ok());
  ASSERT_EQ(three.cidrs.size(), 3u);
  EXPECT_EQ(three.cidrs[0].bits, 28);
  EXPECT_EQ(call(id, Ec2Action::kAssignPrivateIpAddresses, eni, 7, true).error,
            Ec2Error::kPrivateIpAddressLimitExceeded);
  EXPECT_TRUE(call(id, Ec2Action::kAssignPrivateIpAddresses, eni, 6, false).ok());
  EXPECT_EQ(enis(id).front().cidrs.size(), 9u);
  Ec2Call back;
  back.action = Ec2Action::kUnassignPrivateIpAddresses;
  back.eni = eni;
  back.cidrs = {three.cidrs[1]};
  EXPECT_TRUE(vpc->finish(id, back, vpc->begin(back.action, now)).ok());
  EXPECT_EQ(enis(id).front().cidrs.size(), 8u);
  EXPECT_EQ(vpc->figures().address_units, 9u);
  vpc->terminate(id);
  const VpcFigures f = vpc->figures();
  EXPECT_EQ(f.address_units, 0u);
  EXPECT_EQ(f.subnets[1].free_addresses, 1019u);
  EXPECT_EQ(f.subnets[1].free_prefixes, 62u);
  EXPECT_EQ(call(id, Ec2Action::kAssignPrivateIpAddresses, eni, 1, true).error,
            Ec2Error::kInvalidNetworkInterfaceNotFound);
}

TEST_F(VpcTest, AllOrNothing) {
  VpcSpec spec = two_subnets();
  spec.subnets.resize(1);
  spec.subnets[0].cidr = cidr("10.0.4.0/26");  // two whole blocks
  make(std::move(spec));
  const Launch l = vpc->launch(m5());
  const EniId eni = enis(l.id).front().id;
  const uint32_t before = vpc->figures().subnets[0].free_addresses;
  EXPECT_EQ(call(l.id, Ec2Action::kAssignPrivateIpAddresses, eni, 3, true).error, Ec2Error::kInsufficientCidrBlocks);
  EXPECT_EQ(vpc->figures().subnets[0].free_addresses, before);
  EXPECT_EQ(vpc->figures().address_units, 1u);
}

TEST_F(VpcTest, InterfacesComeAndGo) {
  make(two_subnets());
  const InstanceId id = vpc->launch(m5()).id;
  EXPECT_THAT(call(id, Ec2Action::kDescribeSubnets).subnets, testing::ElementsAre(1));
  const Ec2Answer created = call(id, Ec2Action::kCreateNetworkInterface, 0, 9);
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(created.cidrs.size(), 9u);
  EXPECT_EQ(enis(id).size(), 1u) << "not attached yet";
  EXPECT_TRUE(call(id, Ec2Action::kAttachNetworkInterface, created.eni).ok());
  EXPECT_EQ(enis(id).back().device, 1);
  EXPECT_EQ(call(id, Ec2Action::kDeleteNetworkInterface, created.eni).error, Ec2Error::kInvalidNetworkInterfaceNotFound)
      << "it is attached";
  const EniId third = call(id, Ec2Action::kCreateNetworkInterface, 0, 1).eni;
  const EniId fourth = call(id, Ec2Action::kCreateNetworkInterface, 0, 1).eni;
  EXPECT_TRUE(call(id, Ec2Action::kAttachNetworkInterface, third).ok());
  EXPECT_EQ(call(id, Ec2Action::kAttachNetworkInterface, fourth).error, Ec2Error::kAttachmentLimitExceeded);
  EXPECT_TRUE(call(id, Ec2Action::kDescribeLeaked).enis.empty());
  now = now + std::chrono::minutes(6);
  EXPECT_EQ(call(id, Ec2Action::kDescribeLeaked).enis.size(), 1u);
  EXPECT_TRUE(call(id, Ec2Action::kDeleteNetworkInterface, fourth).ok());
  EXPECT_TRUE(call(id, Ec2Action::kDetachNetworkInterface, created.eni).ok());
  EXPECT_TRUE(call(id, Ec2Action::kDeleteNetworkInterface, created.eni).ok());
  EXPECT_EQ(call(id, Ec2Action::kDetachNetworkInterface, enis(id).front().id).error,
            Ec2Error::kInvalidNetworkInterfaceNotFound)
      << "the first one stays";
  EXPECT_EQ(vpc->figures().interfaces, 2u);
}

TEST_F(VpcTest, TheQuotaOfInterfacesHolds) {
  VpcSpec spec = two_subnets();
  spec.max_interfaces = 2;
  make(std::move(spec));
  const InstanceId id = vpc->launch(m5()).id;
  EXPECT_TRUE(call(id, Ec2Action::kCreateNetworkInterface, 0, 1).ok());
  EXPECT_EQ(call(id, Ec2Action::kCreateNetworkInterface, 0, 1).error, Ec2Error::kNetworkInterfaceLimitExceeded);
  EXPECT_EQ(vpc->launch(m5()).error, Ec2Error::kNetworkInterfaceLimitExceeded);
}

TEST_F(VpcTest, PrefixesAtLaunchAndEfaInterfaces) {
  make(two_subnets());
  LaunchRequest r = m5();
  r.limits = {"p5.48xlarge", 32, 2, 50, 32, 192, true};
  r.prefixes = true;
  r.at_launch = 2;
  r.efa_only = 31;
  const InstanceId id = vpc->launch(r).id;
  const auto views = enis(id);
  ASSERT_EQ(views.size(), 32u);
  EXPECT_EQ(views[0].cidrs.size(), 2u);
  EXPECT_TRUE(views[1].efa_only);
  EXPECT_EQ(views[1].card, 0);
  EXPECT_EQ(views[1].device, 1);
  EXPECT_EQ(views[31].card, 30);
}

TEST_F(VpcTest, PrefixesNeedNitro) {
  make(two_subnets());
  LaunchRequest r = m5();
  r.limits.nitro = false;
  r.limits.type = "t2.medium";
  const InstanceId id = vpc->launch(r).id;
  EXPECT_EQ(call(id, Ec2Action::kAssignPrivateIpAddresses, enis(id).front().id, 1, true).error,
            Ec2Error::kInvalidParameterValue);
}

TEST_F(VpcTest, IPv6PrefixesAreDistinct) {
  VpcSpec spec = two_subnets();
  spec.subnets.resize(1);
  make(std::move(spec));
  std::set<Cidr> seen;
  for (int i = 0; i < 100; ++i) {
    const InstanceId id = vpc->launch(m5()).id;
    const EniId eni = enis(id).front().id;
    now = now + std::chrono::seconds(1);
    const Ec2Answer a = call(id, Ec2Action::kAssignIpv6Addresses, eni, 1, true);
    ASSERT_TRUE(a.ok());
    EXPECT_EQ(a.cidrs[0].bits, 80);
    EXPECT_TRUE(cidr("fd00:10::/64").contains(a.cidrs[0]));
    EXPECT_TRUE(seen.insert(a.cidrs[0]).second);
    EXPECT_EQ(call(id, Ec2Action::kAssignIpv6Addresses, eni, 1, true).cidrs[0], a.cidrs[0]) << "it has one already";
    now = now + std::chrono::seconds(1);
  }
}

TEST_F(VpcTest, WhatPodsHadBeforeIsTakenOverOnce) {
  make(two_subnets());
  LaunchRequest r = m5();
  r.prefixes = true;
  r.in_use = {cidr("10.0.8.33/32").base, cidr("10.0.8.40/32").base, cidr("10.0.9.1/32").base};
  r.address = cidr("10.0.8.7/32").base;
  const Launch first = vpc->launch(r);
  EXPECT_EQ(first.address, *r.address);
  EXPECT_TRUE(first.conflicts.empty());
  EXPECT_EQ(enis(first.id).front().cidrs.size(), 2u);
  const Launch second = vpc->launch(r);
  EXPECT_NE(second.address, first.address);
  EXPECT_EQ(second.conflicts.size(), 3u);
}

TEST_F(VpcTest, AsManyInterfacesAsPodsOfBeforeNeed) {
  make(two_subnets());
  LaunchRequest r = m5();
  r.address = cidr("10.0.8.7/32").base;
  for (uint32_t i = 0; i < 20; ++i) r.in_use.push_back(cidr("10.0.8.64/32").base.plus(i));
  r.in_use.push_back(cidr("10.0.4.20/32").base);  // of another subnet
  const Launch l = vpc->launch(r);
  const auto all = enis(l.id);
  ASSERT_EQ(all.size(), 3u) << "as many as an m5.large takes";
  EXPECT_EQ(all[0].cidrs.size(), 9u);
  EXPECT_EQ(all[1].cidrs.size(), 9u);
  EXPECT_EQ(all[2].cidrs.size(), 2u);
  ASSERT_EQ(l.conflicts.size(), 1u) << "for the one of the other subnet there is no interface left";
  EXPECT_EQ(format_ip(l.conflicts[0]), "10.0.4.20");
  vpc->terminate(l.id);
  EXPECT_EQ(vpc->figures().address_units, 0u);
  EXPECT_EQ(vpc->figures().interfaces, 0u);
}

TEST_F(VpcTest, WhatIsPromisedGoesToNobodyElse) {
  VpcSpec spec = two_subnets();
  spec.subnets.resize(1);
  spec.subnets[0].cidr = cidr("10.0.4.0/28");
  make(std::move(spec));
  LaunchRequest r = m5();
  for (uint32_t i = 4; i < 13; ++i) r.in_use.push_back(cidr("10.0.4.0/32").base.plus(i));
  r.in_use.push_back(cidr("fd00:10:0:0:2::7/128").base);
  vpc->promise(r.in_use, false);
  EXPECT_EQ(vpc->figures().subnets[0].free_addresses, 2u);
  const Launch other = vpc->launch(m5());
  EXPECT_EQ(std::count(r.in_use.begin(), r.in_use.end(), other.address), 0);
  const Launch l = vpc->launch(r);
  EXPECT_EQ(l.error, Ec2Error::kNone);
  EXPECT_TRUE(l.conflicts.empty());
  EXPECT_EQ(enis(l.id).front().cidrs.size(), 10u) << "nine addresses and the /80";
  EXPECT_EQ(vpc->launch(r).error, Ec2Error::kInsufficientFreeAddressesInSubnet);
}

TEST_F(VpcTest, WithCustomNetworkingTheFirstInterfaceHoldsNone) {
  make(two_subnets());
  LaunchRequest r = m5();
  r.custom_networking = true;
  r.in_use = {cidr("10.0.8.64/32").base};
  const auto all = enis(vpc->launch(r).id);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].cidrs.empty());
  EXPECT_EQ(all[1].cidrs.size(), 1u);
}

TEST_F(VpcTest, AnIPv6PrefixIsTakenOverToo) {
  VpcSpec spec = two_subnets();
  spec.subnets.resize(1);
  make(std::move(spec));
  LaunchRequest r = m5();
  r.in_use = {cidr("fd00:10:0:0:2::7/128").base};
  const Launch first = vpc->launch(r);
  EXPECT_TRUE(first.conflicts.empty());
  const auto held = enis(first.id).front().cidrs;
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(format_cidr(held[0]), "fd00:10:0:0:2::/80");
  EXPECT_EQ(vpc->launch(r).conflicts.size(), 1u);
  std::set<Cidr> seen(held.begin(), held.end());
  for (int i = 0; i < 5; ++i) {
    const InstanceId id = vpc->launch(m5()).id;
    const Ec2Answer a = call(id, Ec2Action::kAssignIpv6Addresses, enis(id).front().id, 1, true);
    ASSERT_TRUE(a.ok());
    EXPECT_TRUE(seen.insert(a.cidrs[0]).second);
  }
}

TEST_F(VpcTest, FleetsThatShareClaimsShareNoAddress) {
  const std::string path = testing::TempDir() + "vpc-claims-" + std::to_string(getpid());
  ::unlink(path.c_str());
  auto claims_a = Claims::open(path, "a"), claims_b = Claims::open(path, "b");
  ASSERT_TRUE(claims_a.ok() && claims_b.ok());
  std::set<Ip> seen;
  uint32_t launched[2] = {0, 0};
  std::unique_ptr<Vpc> fleets[2];
  for (int i = 0; i < 2; ++i) {
    auto v = Vpc::create(two_subnets(), i == 0 ? claims_a->get() : claims_b->get());
    ASSERT_TRUE(v.ok());
    fleets[i] = std::move(*v);
  }
  for (int round = 0; round < 2000; ++round) {
    const Launch l = fleets[round % 2]->launch(m5());
    if (l.error != Ec2Error::kNone) continue;
    EXPECT_TRUE(seen.insert(l.address).second);
    ++launched[round % 2];
  }
  EXPECT_EQ(seen.size(), 251u + 1019u) << "together they use all of it";
  EXPECT_GT(launched[0], 300u);
  EXPECT_GT(launched[1], 300u);
  ::unlink(path.c_str());
}

TEST_F(VpcTest, CallsAreThrottledAndCounted) {
  make(two_subnets());
  const InstanceId id = vpc->launch(m5()).id;
  const EniId eni = enis(id).front().id;
  Ec2Answer last;
  for (int i = 0; i < 101; ++i) last = call(id, Ec2Action::kModifyNetworkInterfaceAttribute, eni);
  EXPECT_EQ(last.error, Ec2Error::kRequestLimitExceeded);
  EXPECT_EQ(last.took, vpc->spec().latencies.refusal);
  EXPECT_EQ(vpc->figures().all_throttled(), 1u);
  EXPECT_EQ(vpc->figures().all_calls(), 101u) << "the metadata service does not count";
  const std::string text = vpc->render_metrics();
  EXPECT_THAT(text, HasSubstr("ghostfleet_vpc_subnet_free_addresses{subnet=\"a\"} 251\n"));
  EXPECT_THAT(text, HasSubstr("ghostfleet_vpc_subnet_free_prefixes{subnet=\"a\"} 14\n"));
  EXPECT_THAT(text, HasSubstr("ghostfleet_vpc_ec2_throttled_total{action=\"ModifyNetworkInterfaceAttribute\"} 1\n"));
}

TEST_F(VpcTest, BadSpecsAreRefused) {
  VpcSpec spec = two_subnets();
  spec.subnets[0].cidr = cidr("10.0.0.0/8");
  EXPECT_THAT(Vpc::create(spec).error().message(), HasSubstr("subnet a: 10.0.0.0/8: an IPv4 range from /16 to /28"));
  spec.subnets.clear();
  EXPECT_FALSE(Vpc::create(spec).ok());
}

}  // namespace
}  // namespace ghostfleet::emulator
