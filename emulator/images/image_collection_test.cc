#include "emulator/images/image_collection.h"

#include <gtest/gtest.h>

#include <utility>

namespace ghostfleet::emulator {
namespace {

using std::chrono::minutes;
using News = std::vector<std::pair<std::string, std::string>>;

TEST(ImageCollection, WhenAndHowMuch) {
  const CollectionRules rules;
  EXPECT_EQ(bytes_to_free(rules, 1000, 160), 0);   // 84 %
  EXPECT_EQ(bytes_to_free(rules, 1000, 150), 50);  // 85 %: down to 80
  EXPECT_EQ(bytes_to_free(rules, 1000, 0), 200);
  EXPECT_EQ(bytes_to_free({100, 80}, 1000, 0), 0);
  EXPECT_EQ(bytes_to_free(rules, 0, 0), 0);
  EXPECT_EQ(usage_percent(1000, 155), 85);  // what is free is rounded down
}

TEST(ImageCollection, TheLeastRecentlyUsedGoFirstAndSomeStay) {
  const TimePoint now = TimePoint{} + minutes(100);
  const auto at = [](int minute) { return TimePoint{} + minutes(minute); };
  const std::vector<Collectable> images = {{10, at(0), at(50)},  {20, at(0), at(20)},       {40, at(0), now},
                                           {80, at(99), at(99)}, {160, at(0), at(0), true}, {320, at(98), at(10)}};
  ChosenImages one = choose_images(images, now, minutes(2), 1);
  EXPECT_EQ(one.images, (std::vector<size_t>{5}));
  EXPECT_EQ(one.freed, 320);
  ChosenImages all = choose_images(images, now, minutes(2), 1000);
  EXPECT_EQ(all.images, (std::vector<size_t>{5, 1, 0}));
  EXPECT_EQ(all.freed, 350);
  EXPECT_EQ(collection_failure(350, all.freed), "");
  EXPECT_EQ(collection_failure(1000, all.freed),
            "Failed to garbage collect required amount of images. Attempted to free 1000 bytes, but only found 350 "
            "bytes eligible to free.");
}

TEST(ImageCollection, TheSecondFailureInARowIsToldTwice) {
  News told;
  CollectionNews news;
  const auto warn = [&](std::string_view reason, const std::string& message) { told.emplace_back(reason, message); };
  news.round("a", warn);
  news.round("", warn);
  news.round("b", warn);
  news.round("c", warn);
  EXPECT_EQ(told, (News{{"FreeDiskSpaceFailed", "a"},
                        {"FreeDiskSpaceFailed", "b"},
                        {"FreeDiskSpaceFailed", "c"},
                        {"ImageGCFailed", "c"}}));
}

}  // namespace
}  // namespace ghostfleet::emulator
