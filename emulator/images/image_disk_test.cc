#include "emulator/images/image_disk.h"

#include <gtest/gtest.h>

namespace ghostfleet::emulator {
namespace {

TimePoint at(int64_t minutes) { return TimePoint{} + std::chrono::minutes(minutes); }

std::shared_ptr<const ImageInfo> image(const std::string& name, std::vector<LayerInfo> layers) {
  auto info = std::make_shared<ImageInfo>();
  info->name = name;
  info->layers = std::move(layers);
  for (const LayerInfo& layer : info->layers) {
    info->compressed += layer.compressed;
    info->unpacked += layer.unpacked;
  }
  return info;
}

PullOptions small_disk() {
  PullOptions o;
  o.disk_capacity = 1000;
  o.disk_other = 100;
  return o;
}

bool nothing_in_use(std::string_view) { return false; }

TEST(ImageDisk, SharedLayersLieThereOnce) {
  const PullOptions o = small_disk();
  ImageDisk disk(o);
  disk.add(image("a", {{1, 50, 100}, {2, 50, 100}}), at(0));
  disk.add(image("b", {{1, 50, 100}, {3, 10, 20}}), at(0));
  EXPECT_EQ(disk.used(), 100 + 220);
  EXPECT_TRUE(disk.has("a"));
  EXPECT_TRUE(disk.has_layer(3));
  EXPECT_FALSE(disk.has_layer(4));
}

TEST(ImageDisk, CompressedLayersCountWhereTheyAreKept) {
  PullOptions o = small_disk();
  o.keep_compressed = true;
  ImageDisk disk(o);
  disk.add(image("a", {{1, 50, 100}}), at(0));
  EXPECT_EQ(disk.used(), 100 + 150);
}

TEST(ImageDisk, LayersOfAnUnfinishedPullGoWithIt) {
  const PullOptions o = small_disk();
  ImageDisk disk(o);
  disk.add(image("a", {{1, 50, 100}}), at(0));
  disk.add_loose({{1, 50, 100}, {2, 50, 100}, {3, 50, 100}});
  EXPECT_EQ(disk.used(), 100 + 300);
  disk.add(image("b", {{2, 50, 100}}), at(0));
  EXPECT_EQ(disk.used(), 100 + 300);
  disk.drop_loose();
  EXPECT_EQ(disk.used(), 100 + 200);
  EXPECT_FALSE(disk.has_layer(3));
}

TEST(ImageDisk, BelowTheHighThresholdNothingIsCollected) {
  const PullOptions o = small_disk();
  ImageDisk disk(o);
  disk.add(image("a", {{1, 300, 740}}), at(0));  // 84 %; the kubelet takes 84.1 % for 85
  EXPECT_FALSE(disk.above_threshold());
  const ImageCollection round = disk.collect(at(60), nothing_in_use);
  EXPECT_EQ(round.wanted, 0);
  EXPECT_EQ(round.removed, 0u);
  EXPECT_EQ(round.failure, "");
}

TEST(ImageDisk, TheLeastRecentlyUsedGoesUntilTheLowThreshold) {
  const PullOptions o = small_disk();
  ImageDisk disk(o);
  disk.add(image("old", {{1, 200, 250}}), at(0));
  disk.add(image("older", {{2, 20, 250}}), at(1));
  disk.add(image("fresh", {{3, 200, 300}}), at(2));
  disk.use("old", at(10));
  ASSERT_TRUE(disk.above_threshold());  // 90 %
  // To 80 %: 100 bytes, of which "older" counts 20.
  const ImageCollection round = disk.collect(at(20), nothing_in_use);
  EXPECT_EQ(round.wanted, 100);
  EXPECT_EQ(round.freed, 220);
  EXPECT_FALSE(disk.has("older"));
  EXPECT_FALSE(disk.has("fresh"));
  EXPECT_TRUE(disk.has("old"));
  EXPECT_EQ(disk.used(), 350);
  EXPECT_EQ(round.failure, "");
}

TEST(ImageDisk, WhatIsInUseOrYoungStays) {
  const PullOptions o = small_disk();
  ImageDisk disk(o);
  disk.add(image("used", {{1, 200, 400}}), at(0));
  disk.add(image("young", {{2, 200, 400}}), at(9));
  const auto in_use = [](std::string_view name) { return name == "used"; };
  ImageCollection round = disk.collect(at(10), in_use);
  EXPECT_EQ(round.removed, 0u);
  EXPECT_EQ(round.failure,
            "Failed to garbage collect required amount of images. Attempted to free 100 bytes, but only found 0 bytes "
            "eligible to free.");
  round = disk.collect(at(12), in_use);
  EXPECT_EQ(round.removed, 1u);
  EXPECT_FALSE(disk.has("young"));
  EXPECT_TRUE(disk.has("used"));
}

TEST(ImageDisk, AThresholdOf100SwitchesItOff) {
  PullOptions o = small_disk();
  o.gc_high_percent = 100;
  ImageDisk disk(o);
  disk.add(image("a", {{1, 200, 900}}), at(0));
  EXPECT_EQ(disk.usage_percent(), 100);
  EXPECT_EQ(disk.collect(at(10), nothing_in_use).wanted, 0);
}

TEST(ImageDisk, UnderPressureAllGoesThatMay) {
  const PullOptions o = small_disk();
  ImageDisk disk(o);
  disk.add(image("pinned", {{1, 5, 10}}), at(0), true);
  disk.add(image("used", {{2, 5, 10}}), at(0));
  disk.add(image("unused", {{3, 5, 10}, {2, 5, 10}}), at(0));
  disk.add(image("young", {{4, 5, 10}}), at(9));
  EXPECT_EQ(disk.remove_unused(at(10), [](std::string_view name) { return name == "used"; }), 1u);
  EXPECT_FALSE(disk.has("unused"));
  EXPECT_TRUE(disk.has("pinned") && disk.has("used") && disk.has("young"));
  EXPECT_EQ(disk.used(), 100 + 30);
}

TEST(ImageDisk, PodsUseOfItToo) {
  const PullOptions o = small_disk();
  ImageDisk disk(o);
  disk.add(image("a", {{1, 50, 100}}), at(0));
  EXPECT_EQ(disk.available(), 800);
  disk.set_used_by_pods(700);
  EXPECT_EQ(disk.available(), 100);
  EXPECT_TRUE(disk.above_threshold());
  disk.set_used_by_pods(5000);
  EXPECT_EQ(disk.available(), 0);
}

}  // namespace
}  // namespace ghostfleet::emulator
