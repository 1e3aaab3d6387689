#include "emulator/images/node_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/api/json.h"

namespace ghostfleet::emulator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class NodeImagesTest : public testing::Test {
 protected:
  void add(const std::string& name, int64_t size) {
    auto info = std::make_shared<ImageInfo>();
    info->name = name;
    info->compressed = size;
    disk_.add(std::move(info), TimePoint{});
  }
  kube::Json told(const std::vector<agent::NodeImage>& preloaded = {}) {
    return kube::parse_json(node_images_json(disk_, preloaded)).value();
  }

  PullOptions options_;
  ImageDisk disk_{options_};
};

TEST_F(NodeImagesTest, LargestFirstByDigestAndTag) {
  add("registry.example/small:1", 10);
  add("docker.io/library/large:latest", 2000);
  add("registry.example/app@sha256:0123456789012345678901234567890123456789012345678901234567890123", 300);
  add("registry.k8s.io/pause:3.10", 5);
  const kube::Json images = told({{{"registry.k8s.io/pause:3.10"}, 320368}});
  const kube::JsonArray& list = images.get_array();
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(kube::to_json(list[0]), R"({"names":["registry.k8s.io/pause:3.10"],"sizeBytes":320368})");
  const kube::JsonArray& names = *kube::get_array(list[1], "names");
  ASSERT_EQ(names.size(), 2u);
  EXPECT_TRUE(names[0].get_string().starts_with("docker.io/library/large@sha256:"));
  EXPECT_EQ(names[1].get_string(), "docker.io/library/large:latest");
  EXPECT_EQ(kube::get_int(list[1], "sizeBytes"), 2000);
  EXPECT_EQ(kube::get_array(list[2], "names")->size(), 1u);
  EXPECT_EQ(kube::get_int(list[3], "sizeBytes"), 10);
}

TEST_F(NodeImagesTest, NoMoreThanFifty) {
  EXPECT_EQ(kube::to_json(told()), "[]");
  for (int i = 0; i < 60; ++i) add("registry.example/app:" + std::to_string(i), 1000 + i);
  const kube::Json images = told();
  ASSERT_EQ(images.get_array().size(), kMostNodeImages);
  EXPECT_EQ(kube::get_int(images.get_array().front(), "sizeBytes"), 1059);
  EXPECT_EQ(kube::get_int(images.get_array().back(), "sizeBytes"), 1010);
}

TEST_F(NodeImagesTest, WhatANodeTellsIsRead) {
  add("registry.example/small:1", 10);
  add("docker.io/library/large:latest", 2000);
  const std::string node = R"({"metadata":{"name":"n"},"status":{"images":)" + node_images_json(disk_, {}) + "}}";
  EXPECT_THAT(images_of_node(node), ElementsAre("docker.io/library/large:latest", "registry.example/small:1"));
  EXPECT_THAT(images_of_node(R"({"status":{}})"), IsEmpty());
  EXPECT_THAT(images_of_node(R"({"status":{"images":[{"names":[]},{"names":["Not a Name"]},{"sizeBytes":1},7]}})"),
              IsEmpty());
}

}  // namespace
}  // namespace ghostfleet::emulator
