#include "emulator/profile/vpc_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"

namespace ghostfleet::emulator {
namespace {

using testing::HasSubstr;

constexpr std::string_view kHead =
    "apiVersion: ghostfleet.dev/v1alpha1\n"
    "kind: VPC\n"
    "metadata: {name: prod}\n"
    "spec:\n"
    "  cidrs: [10.0.0.0/16]\n";

std::string complaint(std::string_view rest) {
  auto v = parse_vpc_file(std::string(kHead) + std::string(rest), "vpc.yaml");
  return v.ok() ? "" : v.error().message();
}

std::string of_subnet(std::string_view fields) {
  return complaint("  subnets:\n  - {name: a, zone: us-west-2a, " + std::string(fields) + "}\n");
}

TEST(VpcFile, EverythingThatCanBeSaid) {
  auto v = parse_vpc_file(std::string(kHead) + R"(
  ipv6Cidrs: ["fd00:10::/56"]
  subnets:
  - name: a
    zone: us-west-2a
    cidr: 10.0.4.0/24
    ipv6Cidr: "fd00:10::/64"
    placement: lowest
    occupied: [10.0.4.8]
    reservations: [{cidr: 10.0.4.128/26, type: prefix}, {cidr: 10.0.4.64/28, type: explicit}]
  - {name: b, zone: us-west-2a, cidr: 10.0.8.0/22, cniTag: true, occupiedShare: 0.25}
  quotas: {multiplier: 10, interfaces: 100k, addressUnits: 1m}
  latency: {assign: 250ms, attach: 8s, jitter: 0}
  prefixesAtLaunch: 2
  seed: 7
  ipam: {enablePrefixDelegation: true, warmPrefixTarget: 2, warmIpTarget: 4, minimumIpTarget: 8, maxEni: 2,
         ipCooldownPeriod: 10s, enableSubnetDiscovery: false, eniConfig: {name: pods, subnet: b}}
)",
                          "vpc.yaml");
  ASSERT_TRUE(v.ok()) << v.error().message();
  EXPECT_EQ(v->name, "prod");
  ASSERT_EQ(v->subnets.size(), 2u);
  EXPECT_EQ(v->subnets[0].placement, Placement::kLowest);
  EXPECT_EQ(v->subnets[0].reservations[1].kind, ReservationKind::kExplicit);
  EXPECT_TRUE(v->subnets[1].for_pods);
  EXPECT_EQ(v->max_interfaces, 100000);
  EXPECT_EQ(v->latencies.attach, std::chrono::seconds(8));
  EXPECT_EQ(v->prefixes_at_launch, 2);
  EXPECT_TRUE(v->ipam.prefix_delegation);
  EXPECT_FALSE(v->ipam.subnet_discovery);
  EXPECT_TRUE(v->ipam.custom_networking);
  EXPECT_EQ(v->ipam.eni_config_subnet, 1);
  EXPECT_EQ(v->ipam.ip_cooldown, std::chrono::seconds(10));
}

TEST(VpcFile, TheExampleIsRead) {
  const std::string path = std::string(GF_SOURCE_DIR) + "/manifests/vpc/example.yaml";
  auto text = read_file(path);
  ASSERT_TRUE(text.ok());
  auto v = parse_vpc_file(*text, path);
  EXPECT_TRUE(v.ok()) << v.error().message();
}

TEST(VpcFile, OverlappingSubnetsAreNamed) {
  EXPECT_THAT(complaint("  subnets:\n"
                        "  - {name: a, zone: z, cidr: 10.0.0.0/20}\n"
                        "  - {name: b, zone: z, cidr: 10.0.16.0/20}\n"
                        "  - {name: c, zone: z, cidr: 10.0.8.0/24}\n"),
              HasSubstr("vpc.yaml:9: spec.subnets[2].cidr: 10.0.8.0/24: "
                        "overlaps 10.0.0.0/20 of subnet a"));
  EXPECT_THAT(complaint("  subnets:\n"
                        "  - {name: a, zone: z, cidr: 10.0.8.0/24}\n"
                        "  - {name: b, zone: z, cidr: 10.0.0.0/20}\n"),
              HasSubstr("spec.subnets[1].cidr: 10.0.0.0/20: overlaps "
                        "10.0.8.0/24 of subnet a"));
}

TEST(VpcFile, RangesThatAreNone) {
  EXPECT_THAT(of_subnet("cidr: 10.0.4.1/24"), HasSubstr("spec.subnets[0].cidr: \"10.0.4.1/24\": the range "
                                                        "begins at its first address: 10.0.4.0/24"));
  EXPECT_THAT(of_subnet("cidr: 10.0.4"), HasSubstr("a range like 10.0.0.0/16 is expected"));
  EXPECT_THAT(of_subnet("cidr: 10.0.0.0/8"), HasSubstr("an IPv4 range from /16 to /28 is expected"));
  EXPECT_THAT(of_subnet("cidr: 10.9.0.0/24"), HasSubstr("10.9.0.0/24: a range within the VPC's 10.0.0.0/16"));
  EXPECT_THAT(of_subnet("cidr: 10.0.0.0/24, ipv6Cidr: \"fd00::/80\""), HasSubstr("an IPv6 range of /64 is expected"));
  EXPECT_THAT(of_subnet("zones: x"), HasSubstr("spec.subnets[0].zones: unknown field; did you mean zone?"));
  EXPECT_THAT(of_subnet("zones: x"), HasSubstr("spec.subnets[0].cidr: is required"));
}

TEST(VpcFile, ASubnetTooSmallForPrefixes) {
  EXPECT_THAT(complaint("  subnets:\n"
                        "  - {name: a, zone: z, cidr: 10.0.0.0/28}\n"
                        "  ipam: {enablePrefixDelegation: true}\n"),
              HasSubstr("vpc.yaml:7: spec.subnets[0].cidr: 10.0.0.0/28: has no "
                        "room for a /28 prefix beside the "
                        "addresses EC2 keeps: with enablePrefixDelegation a "
                        "/26 at least, better a /24 or larger"));
  EXPECT_EQ(of_subnet("cidr: 10.0.0.0/28"), "") << "for single addresses it will do";
}

TEST(VpcFile, ReservationsAndOccupiedAddresses) {
  EXPECT_THAT(of_subnet("cidr: 10.0.4.0/24, reservations: [{cidr: 10.0.5.0/28}]"),
              HasSubstr("spec.subnets[0].reservations[0].cidr: 10.0.5.0/28: a range "
                        "within the subnet's 10.0.4.0/24"));
  EXPECT_THAT(of_subnet("cidr: 10.0.4.0/24, reservations: [{cidr: "
                        "10.0.4.64/26}, {cidr: 10.0.4.64/28}]"),
              HasSubstr("overlaps the reservation 10.0.4.64/26"));
  EXPECT_THAT(of_subnet("cidr: 10.0.4.0/24, reservations: [{cidr: 10.0.4.64/26, type: all}]"),
              HasSubstr("one of prefix, explicit is expected"));
  EXPECT_THAT(of_subnet("cidr: 10.0.4.0/24, occupied: [10.0.5.1]"), HasSubstr("an address of 10.0.4.0/24"));
  EXPECT_THAT(of_subnet("cidr: 10.0.4.0/24, occupied: [10.0.4.65], "
                        "reservations: [{cidr: 10.0.4.64/26}]"),
              HasSubstr("reserved for prefixes"));
  EXPECT_THAT(of_subnet("cidr: 10.0.4.0/24, occupiedShare: 2"), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(of_subnet("cidr: 10.0.4.0/24, cniTag: true, excluded: true"), HasSubstr("contradicts cniTag"));
}

TEST(VpcFile, SettingsThatContradictEachOther) {
  const std::string subnet = "  subnets: [{name: a, zone: z, cidr: 10.0.4.0/24}]\n";
  EXPECT_THAT(complaint(subnet + "  prefixesAtLaunch: 1\n"), HasSubstr("needs ipam.enablePrefixDelegation: true"));
  EXPECT_THAT(complaint(subnet + "  ipam: {enableIPv6: true}\n"), HasSubstr("needs enablePrefixDelegation: true"));
  EXPECT_THAT(complaint(subnet + "  ipam: {enableIPv6: true, enablePrefixDelegation: true}\n"),
              HasSubstr("spec.subnets[0].ipv6Cidr: is required with enableIPv6"));
  EXPECT_THAT(complaint(subnet + "  ipam: {eniConfig: {subnet: b}}\n"),
              HasSubstr("spec.ipam.eniConfig.subnet: \"b\": the name of one of the subnets"));
  EXPECT_THAT(complaint(subnet + "  ipam: {warmPrefixTaget: 1}\n"), HasSubstr("did you mean warmPrefixTarget?"));
  EXPECT_THAT(complaint(subnet + "  latency: {attach: 2h}\n"), HasSubstr("at most 1h"));
  EXPECT_THAT(complaint("  cidrs: [10.0.0.0/16]\n"), HasSubstr("vpc.yaml"));
  EXPECT_THAT(complaint(""), HasSubstr("spec.subnets: at least one subnet"));
  EXPECT_THAT(parse_vpc_file("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\n", "vpc.yaml").error().message(),
              HasSubstr("one of VPC is expected"));
}

TEST(VpcFile, AllComplaintsAtOnce) {
  const std::string text = complaint(
      "  subnets:\n"
      "  - {name: a, zone: z, cidr: 10.0.0.0/20}\n"
      "  - {name: a, zone: z, cidr: 10.0.0.0/24}\n"
      "  quotas: {multiplier: 0}\n");
  EXPECT_THAT(text, HasSubstr("vpc.yaml:8: spec.subnets[1].name: \"a\": "
                              "another subnet has this name"));
  EXPECT_THAT(text, HasSubstr("vpc.yaml:8: spec.subnets[1].cidr"));
  EXPECT_THAT(text, HasSubstr("vpc.yaml:9: spec.quotas.multiplier"));
}

TEST(VpcFile, ProfilesGiveTheLimits) {
  auto catalogue = ProfileCatalogue::load("");
  ASSERT_TRUE(catalogue.ok());
  VpcSpec vpc;
  vpc.ipam.prefix_delegation = true;
  auto c = ipam_config_of(vpc, *catalogue->find("p5.48xlarge"), 0);
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->limits.cards, 32);
  EXPECT_EQ(c->max_pods, 100);
  EXPECT_EQ(c->slots(), 49);
  Profile old = *catalogue->find("m5.large");
  old.name = "t2.medium";
  old.labels = {{"karpenter.k8s.aws/instance-hypervisor", "xen"}};
  EXPECT_THAT(ipam_config_of(vpc, old, 0).error().message(), HasSubstr("profile t2.medium: ENABLE_PREFIX_DELEGATION: "
                                                                       "t2.medium is not a Nitro instance type"));
  old.interfaces_per_card = 0;
  EXPECT_THAT(ipam_config_of(vpc, old, 0).error().message(), HasSubstr("interfacesPerCard"));
}

}  // namespace
}  // namespace ghostfleet::emulator
