#include "emulator/profile/device_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulator/profile/fleet_file.h"

namespace ghostfleet::emulator {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

Result<FleetOptions> options_of(const std::string& spec) {
  auto f = parse_fleet_file("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: d}\nspec:\n" + spec,
                            "d.yaml");
  if (!f.ok()) return f.error();
  auto profiles = ProfileCatalogue::load("");
  EXPECT_TRUE(profiles.ok());
  return make_fleet_options(*f, *profiles);
}

std::string error_of(const std::string& spec) {
  const auto options = options_of(spec);
  return options.ok() ? std::string() : options.error().message();
}

TEST(DeviceSection, AGroupsPluginsMakeWhatItsNodesShow) {
  const auto o = options_of(
      "  devices: {timeSlicing: {replicas: 4, renameByDefault: true}}\n"
      "  groups:\n"
      "  - {name: a, count: 1, profile: p5.48xlarge}\n"
      "  - name: b\n    count: 1\n    profile: p4d.24xlarge\n"
      "    devices:\n"
      "      timeSlicing: {replicas: 1}\n"
      "      mig: {strategy: mixed, layout: {3g.20gb: 1, 1g.5gb: 4}}\n"
      "      absentPlugins: [vpc.amazonaws.com/efa]\n"
      "      pluginDelay: 20s\n"
      "  - {name: c, count: 1, profile: trn1.32xlarge, devices: {neuronContiguity: fault}}\n"
      "  - {name: d, count: 1, profile: m5.large}\n");
  ASSERT_TRUE(o.ok()) << o.error().message();
  EXPECT_TRUE(o->pods.device_plugins);
  const agent::NodeTemplate& a = o->groups[0].node;
  EXPECT_THAT(a.capacity, Contains(Pair("nvidia.com/gpu.shared", "32")));
  EXPECT_THAT(a.allocatable, Contains(Pair("nvidia.com/gpu.shared", "32")));
  EXPECT_THAT(a.capacity, Not(Contains(Key("nvidia.com/gpu"))));
  EXPECT_THAT(a.allocatable, Not(Contains(Key("nvidia.com/gpu"))));
  EXPECT_THAT(a.labels, Contains(Pair("nvidia.com/gpu.replicas", "4")));
  const agent::NodeTemplate& b = o->groups[1].node;
  EXPECT_THAT(b.capacity, Contains(Pair("nvidia.com/mig-1g.5gb", "32")));
  EXPECT_THAT(b.allocatable, Contains(Pair("nvidia.com/mig-3g.20gb", "8")));
  EXPECT_THAT(b.allocatable, Not(Contains(Key("vpc.amazonaws.com/efa"))));
  EXPECT_THAT(b.labels, Contains(Pair("nvidia.com/mig.strategy", "mixed")));
  EXPECT_EQ(o->groups[1].device_plugin_delay, Duration(std::chrono::seconds(20)));
  EXPECT_FALSE(o->groups[0].device_plugin_delay.has_value());
  ASSERT_NE(o->groups[2].devices, nullptr);
  EXPECT_EQ(o->groups[2].devices->models[1]->count(), 32u);
  EXPECT_NE(o->groups[2].devices->models[0]->start_failure({0, 2}), "");
  EXPECT_TRUE(o->groups[3].devices->models.empty());
}

TEST(DeviceSection, TopologyPolicies) {
  const auto o = options_of(
      "  groups: [{count: 1, profile: p5.48xlarge, devices: {topologyPolicy: single-numa-node, "
      "topologyScope: pod}}]\n");
  ASSERT_TRUE(o.ok()) << o.error().message();
  EXPECT_EQ(o->groups[0].devices->topology, agent::TopologyPolicy::kSingleNumaNode);
  EXPECT_EQ(o->groups[0].devices->scope, agent::TopologyScope::kPod);
}

TEST(DeviceSection, WithoutItNothingChanges) {
  const auto o = options_of("  groups: [{count: 1, profile: p5.48xlarge}]\n");
  ASSERT_TRUE(o.ok());
  EXPECT_FALSE(o->pods.device_plugins);
  EXPECT_EQ(o->groups[0].devices, nullptr);
}

TEST(DeviceSection, NonsenseIsNamed) {
  const std::string group = "  groups: [{name: g, count: 1, profile: p5.48xlarge, devices: ";
  EXPECT_THAT(error_of(group + "{mig: {strategy: both}}}]\n"), HasSubstr("groups[0].devices.mig.strategy"));
  EXPECT_THAT(error_of(group + "{mig: {strategy: mixed}}}]\n"), HasSubstr("devices.mig.layout"));
  EXPECT_THAT(error_of(group + "{mig: {layout: {1g.10gb: 7}}}}]\n"), HasSubstr("single or mixed is expected"));
  EXPECT_THAT(error_of(group + "{mig: {strategy: single, layout: {1g.10gb: 9}}}}]\n"),
              HasSubstr("how many on each GPU, from 1 to 7"));
  EXPECT_THAT(error_of(group + "{mig: {strategy: single, layout: {1g.5gb: 7}}}}]\n"),
              HasSubstr("group g: devices: mig profile \"1g.5gb\": h100 has 1g.10gb"));
  EXPECT_THAT(error_of(group + "{timeSlicing: {replicas: 0}}}]\n"), HasSubstr("devices.timeSlicing.replicas"));
  EXPECT_THAT(error_of(group + "{disableHealthChecks: some}}]\n"), HasSubstr("devices.disableHealthChecks"));
  EXPECT_THAT(error_of(group + "{neuronContiguity: on}}]\n"), HasSubstr("devices.neuronContiguity"));
  EXPECT_THAT(error_of(group + "{topologyPolicy: strict}}]\n"), HasSubstr("devices.topologyPolicy"));
  EXPECT_THAT(error_of(group + "{pluginDelay: soon}}]\n"), HasSubstr("devices.pluginDelay"));
  EXPECT_THAT(error_of(group + "{absentPlugins: [gpu]}}]\n"), HasSubstr("devices.absentPlugins: \"gpu\""));
  EXPECT_THAT(
      error_of(group + "{absentPlugins: [nvidia.com/gpuu]}}]\n"),
      HasSubstr("\"nvidia.com/gpuu\": no device plugin gives it; there are: nvidia.com/gpu, vpc.amazonaws.com/efa"));
  EXPECT_THAT(error_of("  devicePlugins: false\n  devices: {timeSlicing: {replicas: 2}}\n" + group + "{}}]\n"),
              HasSubstr("spec.devicePlugins: false: what `devices` says"));
  EXPECT_THAT(error_of(group + "{migs: {}}}]\n"), HasSubstr("devices.migs"));
  EXPECT_THAT(error_of("  groups: [{name: g, count: 1, profile: m5.large, devices: {mig: {strategy: single, layout: "
                       "{1g.10gb: 7}}}}]\n"),
              HasSubstr("group g: devices.mig: its nodes have no nvidia.com/gpu"));
}

TEST(DeviceSection, AFileOfItsOwn) {
  const auto section = parse_device_section("neuronContiguity: extension\nabsentPlugins: [a.b/c]\n", "x.yaml");
  ASSERT_TRUE(section.ok()) << section.error().message();
  EXPECT_TRUE(section->plugins);
  EXPECT_EQ(section->config.contiguity, agent::Contiguity::kExtension);
  EXPECT_THAT(parse_device_section("neuronContigity: fault\n", "x.yaml").error().message(),
              HasSubstr("neuronContigity"));
}

}  // namespace
}  // namespace ghostfleet::emulator
