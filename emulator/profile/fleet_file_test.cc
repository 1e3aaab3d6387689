#include "emulator/profile/fleet_file.h"

#include <gtest/gtest.h>

namespace ghostfleet::emulator {
namespace {

constexpr const char* kFleet = R"(apiVersion: ghostfleet.dev/v1alpha1
kind: Fleet
metadata: {name: demo}
spec:
  region: eu-west-1
  connections: shared
  registerRate: 500
  imageRules:
  - {match: "*slow*", pull: 5s}
  - {match: "*missing*", error: NotFound}
  groups:
  - name: train
    count: 10k
    profile: trn2.48xlarge
    nameTemplate: train-{index:5}
    zones: [eu-west-1a]
    labels: {team: a}
    taints:
    - {key: example.com/dedicated, value: train, effect: NoSchedule}
    maxPods: 50
  - {count: 3, profile: m5.large, name: sys}
)";

TEST(FleetFile, ReadsGroupsAndDefaults) {
  auto f = parse_fleet_file(kFleet, "fleet.yaml");
  ASSERT_TRUE(f.ok()) << f.error().message();
  ASSERT_EQ(f->groups.size(), 2u);
  EXPECT_EQ(f->groups[0].count, 10000);
  EXPECT_EQ(f->image_rules.size(), 2u);
  auto catalogue = ProfileCatalogue::load("");
  auto o = make_fleet_options(*f, *catalogue);
  ASSERT_TRUE(o.ok()) << o.error().message();
  EXPECT_EQ(o->groups[0].name_template, "train-{index:5}");
  EXPECT_EQ(o->groups[1].name_template, "demo-sys-{index}");
  EXPECT_EQ(o->groups[1].zones.size(), 3u);
  EXPECT_EQ(o->groups[1].zones[0], "eu-west-1a");
}

TEST(FleetFile, EventsOfLargeFleetsAreOffUnlessAskedFor) {
  const auto events = [](const std::string& count, const std::string& field) {
    auto f = parse_fleet_file("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n" +
                                  field + "  groups:\n  - {count: " + count + ", profile: m5.large}\n",
                              "f.yaml");
    if (!f.ok()) return std::string(f.error().message());
    auto o = make_fleet_options(*f, *ProfileCatalogue::load(""));
    static const char* const kNames[] = {"none", "few", "all"};
    return std::string(o.ok() ? kNames[static_cast<int>(o->events)] : "error");
  };
  EXPECT_EQ(events("20000", ""), "few");
  EXPECT_EQ(events("20001", ""), "none");
  EXPECT_EQ(events("20001", "  events: few\n"), "few");
  EXPECT_EQ(events("5", "  events: all\n"), "all");
  EXPECT_NE(events("5", "  events: some\n").find("one of few, none, all is expected"), std::string::npos);
}

TEST(FleetFile, AllComplaintsAtOnceWithLines) {
  auto bad = parse_fleet_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n  groups:\n  - count: -1\n    "
      "profil: p5.48xlarge\n    profile: x\n  - count: 10 "
      "million\n    profile: y\n    taints: [{key: a, effect: Never}]\n",
      "f.yaml");
  ASSERT_FALSE(bad.ok());
  const std::string& text = bad.error().message();
  EXPECT_NE(text.find("f.yaml:6: spec.groups[0].count: -1: a whole number from 1"), std::string::npos) << text;
  EXPECT_NE(text.find("f.yaml:7: spec.groups[0].profil: unknown field; did you mean profile?"), std::string::npos)
      << text;
  EXPECT_NE(text.find("spec.groups[1].count: \"10 million\""), std::string::npos) << text;
  EXPECT_NE(text.find("one of NoSchedule, PreferNoSchedule, NoExecute is expected"), std::string::npos) << text;
}

TEST(FleetFile, NamesMustNotCollide) {
  auto f = parse_fleet_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n  groups:\n  - {count: 5, "
      "profile: m5.large, nameTemplate: \"n-{index}\"}\n  - {count: 5, "
      "profile: m5.large, nameTemplate: \"n-{index}\"}\n",
      "f.yaml");
  ASSERT_TRUE(f.ok()) << f.error().message();
  auto catalogue = ProfileCatalogue::load("");
  EXPECT_FALSE(make_fleet_options(*f, *catalogue).ok());
}

TEST(ImageRules, EitherPullOrError) {
  EXPECT_TRUE(parse_image_rules("- {match: '*', pull: 5s}\n", "r.yaml").ok());
  EXPECT_FALSE(parse_image_rules("- {match: '*', pull: soon}\n", "r.yaml").ok());
  EXPECT_FALSE(parse_image_rules("- {match: '*', pull: 5s, error: X}\n", "r.yaml").ok());
  EXPECT_FALSE(parse_image_rules("match: x\n", "r.yaml").ok());
}

}  // namespace
}  // namespace ghostfleet::emulator
