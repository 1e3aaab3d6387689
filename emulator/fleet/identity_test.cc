#include "emulator/fleet/identity.h"

#include <gtest/gtest.h>

#include <set>

namespace ghostfleet::emulator {
namespace {

FleetGroup group(uint32_t count, std::string names) {
  FleetGroup g;
  g.count = count;
  g.name_template = std::move(names);
  return g;
}

TEST(FleetNames, NamesAndBack) {
  auto names = FleetNames::create("f", {group(1000, "a-{index}"), group(20, "b{index:5}.x"), group(1, "only")});
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(names->size(), 1021u);
  EXPECT_EQ(names->name(999), "a-999");
  EXPECT_EQ(names->name(1000), "b00000.x");
  EXPECT_EQ(names->name(1020), "only");
  for (uint32_t n = 0; n < names->size(); ++n) EXPECT_EQ(names->find(names->name(n)), n);
  for (const char* other : {"a-1000", "a-01", "a-", "b0.x", "b00020.x", "onl", "only1", "a--1", "a-4294967297"}) {
    EXPECT_FALSE(names->find(other)) << other;
  }
}

TEST(FleetNames, IdentitiesAreStableAndDistinct) {
  FleetGroup g = group(500, "n-{index}");
  g.region = "us-east-1";
  g.zones = {"a", "b", "c"};
  auto names = FleetNames::create("f", {g});
  auto again = FleetNames::create("f", {g});
  std::set<std::string> seen;
  for (uint32_t n = 0; n < 500; ++n) {
    const agent::NodeIdentity id = names->identity(n);
    EXPECT_EQ(id.zone, g.zones[n % 3]);
    EXPECT_EQ(id.boot_id, again->identity(n).boot_id);
    EXPECT_EQ(id.instance_id.size(), 19u);
    for (const std::string& text : {id.internal_ip, id.machine_id, id.system_uuid, id.instance_id, id.boot_id}) {
      EXPECT_TRUE(seen.insert(text).second) << text;
    }
    for (uint32_t p = 0; p < 200; ++p) EXPECT_TRUE(seen.insert(names->pod_ip(n, p)).second);
  }
}

TEST(FleetNames, WhatIsRefused) {
  const auto message = [](std::vector<FleetGroup> groups) {
    auto names = FleetNames::create("f", groups);
    return names.ok() ? std::string() : names.error().message();
  };
  EXPECT_NE(message({group(2, "same")}).find("need {index}"), std::string::npos);
  EXPECT_NE(message({group(2, "Upper-{index}")}), "");
  EXPECT_NE(message({group(0, "n-{index}")}), "");
  EXPECT_NE(message({group(10000000, "n-{index}")}), "");
  EXPECT_NE(message({group(2, "n-{index")}), "");
  EXPECT_NE(message({group(2, "n-{index:0}")}), "");
  EXPECT_NE(message({group(2, "{index}-{index}")}), "");
  EXPECT_NE(message({group(12, "n-{index}"), group(1, "n-11")}).find("n-11"), std::string::npos);
  EXPECT_NE(message({}), "");
}

}  // namespace
}  // namespace ghostfleet::emulator
