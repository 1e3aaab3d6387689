#include "emulator/images/catalogue.h"

#include <gtest/gtest.h>

namespace ghostfleet::emulator {
namespace {

std::shared_ptr<const ImageCatalogue> catalogue() {
  return std::make_shared<const ImageCatalogue>(ImageCatalogue{{
      {"docker.io/library/nginx:*", {{"base", 30, 60}, {"", 20, 40}}},
      {"*app*", {{"base", 30, 60}, {"", 5, 10}, {"base", 30, 60}}},
  }});
}

TEST(ImageCatalogue, TheFirstThatMatchesCounts) {
  ImageIndex index(catalogue());
  const auto nginx = index.find("nginx");
  EXPECT_EQ(nginx->name, "docker.io/library/nginx:latest");
  EXPECT_EQ(nginx->compressed, 50);
  EXPECT_EQ(nginx->unpacked, 100);
  EXPECT_EQ(index.find("nginx"), nginx);
}

TEST(ImageCatalogue, NamedLayersAreSharedOthersAreNot) {
  ImageIndex index(catalogue());
  const auto one = index.find("x/app:1"), two = index.find("x/app:2");
  EXPECT_EQ(one->layers.size(), 2u);  // base is there once
  size_t shared = 0;
  for (const LayerInfo& a : one->layers) {
    for (const LayerInfo& b : two->layers) shared += a.id == b.id ? 1 : 0;
  }
  EXPECT_EQ(shared, 1u);
}

TEST(ImageCatalogue, WhatNobodyDescribedHasTheSameSizeEachTime) {
  ImageIndex index(catalogue()), again(nullptr);
  const auto made_up = index.find("x/other:1");
  EXPECT_GT(made_up->compressed, 19000000);
  EXPECT_LT(made_up->compressed, 721000000);
  EXPECT_GT(made_up->unpacked, made_up->compressed);
  EXPECT_EQ(again.find("x/other:1")->compressed, made_up->compressed);
  EXPECT_EQ(again.find("x/other:1")->layers.size(), made_up->layers.size());
}

}  // namespace
}  // namespace ghostfleet::emulator
