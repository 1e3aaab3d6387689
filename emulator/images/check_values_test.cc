// The check values of the model (docs/images.md), each within two per cent: published pulls of a 10.78 GB image (AWS,
// karpenter-blueprints), and arithmetic from the egress of a zone's store.
#include <gtest/gtest.h>

#include "emulator/images/pull_test_nodes.h"

namespace ghostfleet::emulator {
namespace {

constexpr int64_t kLarge = 10780000000;
constexpr const char* kImage = "registry.example/vllm:1";

ImageCatalogue large_image() { return {{test_image("*vllm*", kLarge, 10), test_image("*small*", 5000000000, 10)}}; }

PullOptions options_of(Puller puller, double disk_rate = 180e6) {
  PullOptions o;
  o.puller = puller;
  o.disk_rate = disk_rate;
  o.cpus = 192;
  o.network_rate = 12.5e9;
  o.disk_capacity = int64_t{1} << 40;
  return o;
}

// When the last node has the image, and how long it took on average.
struct Times {
  double last = 0, mean = 0;
};

Times pull_all(const PullOptions& options, uint32_t nodes, std::vector<StoreZone> zones, const char* image = kImage) {
  PullTestFleet fleet(std::move(zones), {}, large_image());
  for (uint32_t i = 0; i < nodes; ++i) fleet.add(options, i % 3);
  const TimePoint start = fleet.now;
  for (const auto& node : fleet.nodes) node->pull(image);
  fleet.run();
  Times times;
  for (const auto& node : fleet.nodes) {
    EXPECT_EQ(node->ended.size(), 1u);
    if (node->ended.empty()) continue;
    EXPECT_EQ(node->ended[1].result.error, "");
    const double seconds = static_cast<double>((node->ended[1].at - start).count()) * 1e-9;
    times.last = std::max(times.last, seconds);
    times.mean += seconds / nodes;
  }
  return times;
}

std::vector<StoreZone> one_zone() { return {{"a", 100e9}}; }
std::vector<StoreZone> three_zones() { return {{"a", 100e9}, {"b", 100e9}, {"c", 100e9}}; }

void expect_within_two_percent(double value, double expected) { EXPECT_NEAR(value, expected, expected * 0.02); }

TEST(CheckValues, RateOfOneNode) {
  EXPECT_DOUBLE_EQ(pull_cap(options_of(Puller::kDefault), 10), 96e6);
  EXPECT_DOUBLE_EQ(pull_cap(options_of(Puller::kParallel), 10), 180e6);
  EXPECT_DOUBLE_EQ(pull_cap(options_of(Puller::kParallel, 240e6), 10), 240e6);
}

// min(3 connections, card, disk, one thread) and min(20 connections, card, disk, min(12, layers, cores / 2) threads).
TEST(CheckValues, RateFollowsTheNarrowestPart) {
  PullOptions o = options_of(Puller::kDefault, 1e12);
  o.unpack_rate = 1e12;
  EXPECT_DOUBLE_EQ(pull_cap(o, 10), 3 * 90e6);
  o.puller = Puller::kParallel;
  EXPECT_DOUBLE_EQ(pull_cap(o, 10), 20 * 90e6);
  o.unpack_rate = 50e6;
  EXPECT_DOUBLE_EQ(pull_cap(o, 10), 10 * 50e6);
  EXPECT_DOUBLE_EQ(pull_cap(o, 40), 12 * 50e6);
  o.cpus = 8;
  EXPECT_DOUBLE_EQ(pull_cap(o, 40), 4 * 50e6);
  o.network_rate = 75e6;
  EXPECT_DOUBLE_EQ(pull_cap(o, 40), 75e6);
}

TEST(CheckValues, OneNodeByDefaultTakes112Seconds) {
  expect_within_two_percent(pull_all(options_of(Puller::kDefault), 50, one_zone()).mean, 112.3);
}

TEST(CheckValues, OneNodeWithParallelUnpackingTakes60Seconds) {
  expect_within_two_percent(pull_all(options_of(Puller::kParallel), 50, one_zone()).mean, 59.8);
}

TEST(CheckValues, OneNodeWithAFasterDiskTakes45Seconds) {
  expect_within_two_percent(pull_all(options_of(Puller::kParallel, 240e6), 50, one_zone()).mean, 45.0);
}

TEST(CheckValues, AZoneIsFullAt417NodesOf240MBps) {
  const auto load_of = [](uint32_t nodes) {
    PullTestFleet fleet(one_zone(), {}, large_image());
    const PullOptions o = options_of(Puller::kParallel, 240e6);
    for (uint32_t i = 0; i < nodes; ++i) fleet.add(o).pull(kImage);
    fleet.run_for(std::chrono::seconds(5));
    return fleet.stores.load(0);
  };
  EXPECT_DOUBLE_EQ(load_of(416).rate, 416 * 240e6);
  EXPECT_LT(load_of(416).rate, 100e9);
  EXPECT_DOUBLE_EQ(load_of(417).rate, 100e9);
}

TEST(CheckValues, AHundredThousandNodesTakeAnHour) {
  expect_within_two_percent(pull_all(options_of(Puller::kParallel, 240e6), 100000, three_zones()).last, 3593);
}

TEST(CheckValues, AHundredThousandNodesAndFiveGigabytes) {
  const auto times = pull_all(options_of(Puller::kParallel, 240e6), 100000, three_zones(), "registry.example/small:1");
  expect_within_two_percent(times.last, 1667);
}

TEST(CheckValues, AThousandNodesInOneZoneAreBoundByIt) {
  expect_within_two_percent(pull_all(options_of(Puller::kParallel, 240e6), 1000, one_zone()).last, 107.8);
  expect_within_two_percent(pull_all(options_of(Puller::kParallel), 1000, one_zone()).last, 107.8);
}

TEST(CheckValues, AThousandNodesByDefaultAreBoundByThemselves) {
  PullTestFleet fleet(one_zone(), {}, large_image());
  const PullOptions o = options_of(Puller::kDefault);
  for (uint32_t i = 0; i < 1000; ++i) fleet.add(o).pull(kImage);
  fleet.run_for(std::chrono::seconds(5));
  EXPECT_DOUBLE_EQ(fleet.stores.load(0).rate, 96e9);
  expect_within_two_percent(pull_all(o, 1000, one_zone()).mean, 112.3);
}

// Beyond a thousand nodes of a zone nothing that is done at the node makes a difference.
TEST(CheckValues, PerNodeTuningDoesNotMatterForMany) {
  const double slow = pull_all(options_of(Puller::kDefault), 2000, one_zone()).last;
  const double fast = pull_all(options_of(Puller::kParallel, 240e6), 2000, one_zone()).last;
  expect_within_two_percent(slow, fast);
  expect_within_two_percent(fast, 215.6);
}

TEST(CheckValues, ALazyContainerStartsWithinTwoToFiveSeconds) {
  PullTestFleet fleet(one_zone(), {}, large_image());
  PullTestNode& node = fleet.add(options_of(Puller::kLazy));
  const TimePoint start = fleet.now;
  node.pull(kImage);
  fleet.run([&] { return !node.ended.empty(); });
  ASSERT_EQ(node.ended.size(), 1u);
  EXPECT_EQ(node.ended[1].result.error, "");
  const double started = fleet.seconds_since(start);
  EXPECT_GT(started, 2);
  EXPECT_LT(started, 5);
  // The rest: what is used at once at the speed of single spans, then two spans a second.
  fleet.run_for(std::chrono::seconds(2));
  EXPECT_NEAR(fleet.stores.load(0).rate, first_use_rate(options_of(Puller::kLazy)), 1);
  fleet.run_for(std::chrono::seconds(120));
  EXPECT_DOUBLE_EQ(fleet.stores.load(0).rate, 2.0 * 4 * 1024 * 1024);
  fleet.run();
  EXPECT_NEAR(fleet.seconds_since(start), started + 30 + 0.9 * static_cast<double>(kLarge) / (8.0 * 1024 * 1024), 20);
  EXPECT_EQ(fleet.stores.load(0).transfers, 0u);
}

}  // namespace
}  // namespace ghostfleet::emulator
