#include "emulator/profile/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ghostfleet::emulator {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHead = "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nspec:\n  images:\n";

std::string complaints(const std::string& images) {
  const auto parsed = parse_image_file(kHead + images, "i.yaml");
  return parsed.ok() ? "" : parsed.error().message();
}

TEST(ImageFile, LayersAndPlainSizes) {
  const auto images = parse_image_file(std::string(kHead) +
                                           "  - match: '*train*'\n"
                                           "    layers:\n"
                                           "    - {id: base, compressed: 600M, unpacked: 1.5Gi}\n"
                                           "    - {compressed: 10000000}\n"
                                           "  - {match: '*', compressed: 100M, unpacked: 250M, layerCount: 3}\n",
                                       "i.yaml");
  ASSERT_TRUE(images.ok()) << images.error().to_string();
  const std::vector<ImageEntry>& entries = images->images;
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].layers[0].id, "base");
  EXPECT_EQ(entries[0].layers[0].compressed, 600000000);
  EXPECT_EQ(entries[0].layers[0].unpacked, 1610612736);
  EXPECT_EQ(entries[0].layers[1].unpacked, 22000000);
  ASSERT_EQ(entries[1].layers.size(), 3u);
  int64_t compressed = 0, unpacked = 0;
  for (const ImageLayer& layer : entries[1].layers) {
    compressed += layer.compressed;
    unpacked += layer.unpacked;
  }
  EXPECT_EQ(compressed, 100000000);
  EXPECT_EQ(unpacked, 250000000);
}

TEST(ImageFile, EveryMistakeIsToldWithItsPlace) {
  const std::string text = complaints(
      "  - match: '*a*'\n"
      "    layers:\n"
      "    - {id: base, compressed: 6OOM}\n"
      "    - {id: other, compresed: 5M}\n"
      "  - {match: '*b*'}\n"
      "  - {compressed: 5M}\n"
      "  - {match: '*c*', compressed: 5M, layerCount: 200}\n"
      "  - {match: '*d*', layers: [], compressed: 5M}\n");
  EXPECT_THAT(text,
              HasSubstr("i.yaml:7: spec.images[0].layers[0].compressed: \"6OOM\": a size from 1 to 1Ti is expected"));
  EXPECT_THAT(text, HasSubstr("i.yaml:8: spec.images[0].layers[1].compresed: unknown field; did you mean compressed?"));
  EXPECT_THAT(text, Not(HasSubstr("layers[1].compressed: is required")));  // told once
  EXPECT_THAT(text, HasSubstr("i.yaml:9: spec.images[1]: layers, or compressed, is expected"));
  EXPECT_THAT(text, HasSubstr("i.yaml:10: spec.images[2].match: is required"));
  EXPECT_THAT(text, HasSubstr("i.yaml:11: spec.images[3].layerCount: 200: a whole number from 1 to 127 is expected"));
  EXPECT_THAT(text, HasSubstr("i.yaml:12: spec.images[4].compressed: 5M: follows from the layers"));
  EXPECT_THAT(text, HasSubstr("i.yaml:12: spec.images[4].layers: at least one layer"));
}

TEST(ImageFile, OneLayerHasOneSize) {
  const std::string text = complaints(
      "  - {match: a, layers: [{id: base, compressed: 5M}]}\n"
      "  - {match: b, layers: [{id: base, compressed: 6M}]}\n"
      "  - {match: a, compressed: 1M}\n");
  EXPECT_THAT(text, HasSubstr("i.yaml:6: spec.images[1].layers[0].id: \"base\": this layer has other sizes at "
                              "spec.images[0].layers[0]: compressed 5000000"));
  EXPECT_THAT(text, HasSubstr("i.yaml:7: spec.images[2].match: \"a\": images[0] matches the same"));
}

TEST(ImageFile, AnotherKindIsToldAlone) {
  const auto parsed = parse_image_file("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nspec: {x: 1}\n", "i.yaml");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message(), HasSubstr("i.yaml:2: kind: \"Fleet\": one of Images is expected"));
}

TEST(ImageFile, TheBuiltInOnesAreRight) {
  const ImageCatalogue catalogue{built_in_images()};
  ASSERT_GT(catalogue.entries.size(), 10u);
  const auto size_of = [&](std::string_view image) {
    int64_t bytes = 0;
    const ImageEntry* entry = catalogue.find(image);
    if (entry == nullptr) return bytes;
    for (const ImageLayer& layer : entry->layers) bytes += layer.compressed;
    return bytes;
  };
  EXPECT_EQ(size_of("vllm/vllm-openai:v0.6"), 10780000000);
  EXPECT_EQ(size_of("registry.example/pytorch-training:2.4"), 10000000000);
  EXPECT_EQ(size_of("registry.example/llama-inference:1"), 5000000000);
  EXPECT_GT(size_of("registry.example/amazon-k8s-cni:v1.23.1"), 10000000);
  EXPECT_EQ(size_of("registry.example/else:1"), 0);
}

// The settings, as the only object of a document.
Result<ImageModel> model_of(const std::string& text) {
  auto document = Document::parse(text, "f.yaml");
  if (!document.ok()) return document.error();
  ObjectReader root(&*document, &document->root(), "");
  ObjectReader images = root.object("images");
  ImageModel model;
  read_image_model(&images, &model);
  root.finish();
  GF_RETURN_IF_ERROR(document->status());
  return model;
}

std::string model_complaint(const std::string& text) {
  const auto model = model_of(text);
  return model.ok() ? "" : model.error().message();
}

TEST(ImageModelSettings, AllOfThem) {
  const auto model = model_of(
      "images:\n  puller: parallel\n  serializeImagePulls: false\n  maxParallelImagePulls: 4\n  registryPullQPS: 0\n"
      "  imageGCHighThresholdPercent: 90\n  imageMinimumGCAge: 3m\n  storeMBps: 50000\n  diskMBps: 240\n"
      "  networkMBps: 12500\n  diskSize: 500Gi\n  discardUnpackedLayers: false\n  stalledShare: 0.1\n"
      "  registries: [{match: 'a*', requestsPerSecond: 5}]\n  catalogue: [{match: '*mine*', compressed: 9G}]\n");
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->pull.puller, Puller::kParallel);
  EXPECT_EQ(model->pull.max_parallel, 4);
  EXPECT_DOUBLE_EQ(model->pull.pull_qps, 0);
  EXPECT_EQ(model->pull.gc_high_percent, 90);
  EXPECT_EQ(model->pull.gc_minimum_age, std::chrono::minutes(3));
  EXPECT_DOUBLE_EQ(model->store_rate, 50e9);
  EXPECT_DOUBLE_EQ(model->pull.disk_rate, 240e6);
  EXPECT_DOUBLE_EQ(model->pull.network_rate, 12.5e9);
  EXPECT_EQ(model->pull.disk_capacity, int64_t{500} << 30);
  EXPECT_TRUE(model->pull.keep_compressed);
  EXPECT_DOUBLE_EQ(model->registries.at(0).requests_per_second, 5);
  EXPECT_EQ(model->registries.at(0).burst, 5);
  EXPECT_GT(with_built_in_images(*model)->images.size(), 10u);
  EXPECT_EQ(with_built_in_images(*model)->images.at(0).match, "*mine*");
}

TEST(ImageModelSettings, Mistakes) {
  EXPECT_EQ(model_complaint("images: {puller: eager}\n"),
            "f.yaml:1: images.puller: \"eager\": one of default, parallel, lazy is expected");
  EXPECT_EQ(model_complaint("images: {imageGCLowThresholdPercent: 90}\n"),
            "f.yaml:1: images.imageGCLowThresholdPercent: 90: less than imageGCHighThresholdPercent (85) is expected");
  EXPECT_EQ(model_complaint("images: {serializeImagePulls: true, maxParallelImagePulls: 3}\n"),
            "f.yaml:1: images.maxParallelImagePulls: 3: needs serializeImagePulls: false");
  EXPECT_EQ(model_complaint("images: {registries: [{match: x}]}\n"),
            "f.yaml:1: images.registries[0].requestsPerSecond: is required");
  EXPECT_THAT(model_complaint("images: {diskMBp: 5}\n"),
              HasSubstr("f.yaml:1: images.diskMBp: unknown field; did you mean diskMBps?"));
}

TEST(ImageFile, SettingsBesideTheImages) {
  const auto model = parse_image_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nspec:\n  settings:\n    puller: lazy\n    storeMBps: 5\n"
      "    registries: [{match: '*', requestsPerSecond: 2}]\n  images: [{match: '*mine*', compressed: 9G}]\n",
      "i.yaml");
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->pull.puller, Puller::kLazy);
  EXPECT_DOUBLE_EQ(model->store_rate, 5e6);
  EXPECT_EQ(model->registries.size(), 1u);
  EXPECT_EQ(model->images.size(), 1u);
  const auto bad = parse_image_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nspec:\n  settings: {diskMBps: fast, catalogue: []}\n",
      "i.yaml");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message(), HasSubstr("i.yaml:4: spec.settings.diskMBps: \"fast\""));
  EXPECT_THAT(bad.error().message(), HasSubstr("i.yaml:4: spec.settings.catalogue: unknown field"));
}

}  // namespace
}  // namespace ghostfleet::emulator
