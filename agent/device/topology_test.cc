// The topology manager's choice, on nodes with two NUMA nodes (0b11) and more.
#include "agent/device/topology.h"

#include <gmock/gmock.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace ghostfleet::agent {
namespace {

using ::testing::Eq;
using ::testing::UnorderedElementsAre;

constexpr NumaNodes kZero = 1, kOne = 2, kBoth = 3;

// `free0` of 4 devices on node 0 and `free1` of 4 on node 1 are available.
TopologyHints gpus(uint32_t free0, uint32_t free1, uint32_t count) {
  std::vector<TopologyDevice> devices;
  for (uint32_t i = 0; i < 4; ++i) devices.push_back({kZero, i < free0, false});
  for (uint32_t i = 0; i < 4; ++i) devices.push_back({kOne, i < free1, false});
  return topology_hints(devices, count);
}

bool admits(TopologyPolicy policy, const std::vector<TopologyHints>& resources) {
  return choose_topology(policy, kBoth, resources).admitted;
}

TEST(TopologyHints, TheSmallestSetThatCouldHoldThemIsPreferred) {
  EXPECT_THAT(*gpus(4, 4, 2),
              UnorderedElementsAre(TopologyHint{kZero, true}, TopologyHint{kOne, true}, TopologyHint{kBoth, false}));
  EXPECT_THAT(*gpus(1, 1, 2), UnorderedElementsAre(TopologyHint{kBoth, false})) << "four on a node, were they free";
  EXPECT_THAT(*gpus(4, 4, 5), UnorderedElementsAre(TopologyHint{kBoth, true})) << "no node could ever hold five";
  EXPECT_THAT(*gpus(2, 1, 4), ::testing::IsEmpty());
  EXPECT_THAT(topology_hints({{0, true, false}, {0, true, false}}, 1), Eq(std::nullopt));
}

TEST(TopologyHints, ReusedDevicesAreAlwaysPartOfIt) {
  const std::vector<TopologyDevice> devices{
      {kZero, true, true}, {kZero, true, false}, {kOne, true, false}, {kOne, true, false}};
  EXPECT_THAT(*topology_hints(devices, 2), UnorderedElementsAre(TopologyHint{kZero, true}, TopologyHint{kBoth, false}));
}

TEST(TopologyChoice, PoliciesDifferInWhatTheyRefuse) {
  using enum TopologyPolicy;
  for (const TopologyPolicy policy : {kNone, kBestEffort, kRestricted, kSingleNumaNode}) {
    EXPECT_TRUE(admits(policy, {gpus(4, 4, 4)}));
    EXPECT_TRUE(admits(policy, {})) << "nothing is asked for";
    EXPECT_TRUE(admits(policy, {std::nullopt}));
  }
  EXPECT_TRUE(admits(kRestricted, {gpus(4, 4, 5)}));
  EXPECT_FALSE(admits(kSingleNumaNode, {gpus(4, 4, 5)}));
  EXPECT_TRUE(admits(kBestEffort, {gpus(1, 1, 2)}));
  EXPECT_FALSE(admits(kRestricted, {gpus(1, 1, 2)}));
  EXPECT_FALSE(admits(kSingleNumaNode, {gpus(1, 1, 2)}));
  EXPECT_TRUE(admits(kBestEffort, {gpus(0, 0, 1)})) << "that there are too few is found when they are allocated";
  EXPECT_FALSE(admits(kRestricted, {gpus(0, 0, 1)}));
}

TEST(TopologyChoice, TheLowestNodeThatSuitsAllResources) {
  EXPECT_EQ(choose_topology(TopologyPolicy::kRestricted, kBoth, {gpus(4, 4, 1)}).nodes, kZero);
  EXPECT_EQ(choose_topology(TopologyPolicy::kRestricted, kBoth, {gpus(4, 4, 1), gpus(0, 4, 1)}).nodes, kOne);
  EXPECT_EQ(choose_topology(TopologyPolicy::kSingleNumaNode, kBoth, {gpus(4, 4, 1), std::nullopt}).nodes, kZero);
  EXPECT_FALSE(admits(TopologyPolicy::kRestricted, {gpus(4, 0, 1), gpus(0, 4, 1)})) << "nothing in common";
  EXPECT_EQ(choose_topology(TopologyPolicy::kBestEffort, kBoth, {gpus(4, 0, 1), gpus(0, 4, 1)}).nodes, kZero)
      << "half of it is near";
}

TEST(TopologyChoice, UnequalPreferencesAreNone) {
  // One resource prefers a node, the other needs both.
  EXPECT_FALSE(admits(TopologyPolicy::kRestricted, {gpus(4, 4, 1), gpus(4, 4, 5)}));
  EXPECT_EQ(choose_topology(TopologyPolicy::kBestEffort, kBoth, {gpus(4, 4, 1), gpus(4, 4, 5)}).nodes, kBoth)
      << "what the greedier needs";
}

TEST(TopologyChoice, ManyNodesAndResourcesAreNoMatter) {
  NumaNodes many = 0;
  std::vector<TopologyDevice> devices;
  for (int i = 0; i < 64; ++i) {
    many |= NumaNodes{1} << i;
    devices.push_back({NumaNodes{1} << i, true, false});
  }
  const NumaNodes machine = topology_nodes(many);
  for (TopologyDevice& device : devices) device.nodes &= machine;
  EXPECT_EQ(machine, 0xffu);
  const std::vector<TopologyHints> resources(30, topology_hints(devices, 3));
  EXPECT_EQ(choose_topology(TopologyPolicy::kRestricted, machine, resources).nodes, 0b111u);
}

// "3:4a,4h,2r": three of a device on node 2 that is available, one that another pod has, one to be reused.
TopologyHints hints_of(std::string_view text, bool* reuses) {
  uint32_t count = 0;
  const char* at = std::from_chars(text.data(), text.data() + text.size(), count).ptr;
  std::vector<TopologyDevice> devices;
  for (const char* end = text.data() + text.size(); at < end;) {
    TopologyDevice device;
    at = std::from_chars(at + 1, end, device.nodes).ptr;
    device.reused = *at == 'r';
    device.available = *at != 'h';
    *reuses = *reuses || device.reused;
    devices.push_back(device);
    ++at;
  }
  return topology_hints(devices, count);
}

TEST(TopologyChoice, IsWhatAKubeletChose) {
  std::ifstream file(GF_SOURCE_DIR "/tests/data/topology/choices.txt");
  std::string line;
  int lines = 0, refused = 0, reusing = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    ++lines;
    std::istringstream words(line);
    std::string policy, word;
    int nodes = 0;
    words >> policy >> nodes;
    std::vector<TopologyHints> resources;
    bool reuses = false;
    while (words >> word && word != "=") resources.push_back(hints_of(word, &reuses));
    words >> word;
    const TopologyChoice choice =
        choose_topology(topology_policy(policy), (NumaNodes{1} << nodes) - 1, std::move(resources));
    EXPECT_EQ(choice.admitted ? std::to_string(choice.nodes) : "refused", word) << line;
    refused += choice.admitted ? 0 : 1;
    reusing += reuses ? 1 : 0;
  }
  EXPECT_EQ(lines, 600);
  EXPECT_GT(refused, 100);
  EXPECT_GT(reusing, 100);
}

}  // namespace
}  // namespace ghostfleet::agent
