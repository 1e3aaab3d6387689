#include "agent/image/manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "agent/image/digest.h"

namespace ghostfleet::image {
namespace {

const std::string kA = "sha256:" + std::string(64, 'a');
const std::string kB = "sha256:" + std::string(64, 'b');
constexpr std::string_view kManifest = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view kIndex = "application/vnd.oci.image.index.v1+json";

std::string manifest_with(const std::string& layers) {
  return fmt::format(R"({{"schemaVersion":2,"config":{{"digest":"{}","size":2}},"layers":{}}})", kA, layers);
}

Status error_of(const std::string& bytes, std::string_view type = kManifest) {
  auto d = parse_document(bytes, type);
  return d.ok() ? Status() : d.error();
}

TEST(Manifest, ReadsLayersAndAnnotations) {
  const auto d =
      parse_document(manifest_with(fmt::format(
                         R"([{{"mediaType":"t","digest":"{}","size":7,"annotations":{{"k":"v"}},"urls":["u"]}}])", kB)),
                     kManifest);
  ASSERT_TRUE(d.ok()) << d.error().message();
  EXPECT_FALSE(d->is_index);
  ASSERT_EQ(d->manifest.layers.size(), 1u);
  EXPECT_EQ(d->manifest.layers[0].size, 7u);
  EXPECT_EQ(d->manifest.layers[0].annotation("k"), "v");
  EXPECT_EQ(d->manifest.layers[0].annotation("none"), "");
}

TEST(Manifest, RefusesSchemaOne) {
  const Status s = error_of(R"({"schemaVersion":1,"name":"team/app","fsLayers":[]})", "application/json");
  EXPECT_NE(s.message().find("schemaVersion 1"), std::string::npos) << s.message();
}

TEST(Manifest, WrongFieldsAreNamed) {
  EXPECT_NE(error_of(manifest_with(R"([{"digest":"md5:1","size":1}])")).message().find("layers[0]"), std::string::npos);
  EXPECT_NE(
      error_of(manifest_with(fmt::format(R"([{{"digest":"{}","size":-1}}])", kB))).message().find("layers[0].size"),
      std::string::npos);
  EXPECT_NE(
      error_of(manifest_with(fmt::format(R"([{{"digest":"{}","size":"1"}}])", kB))).message().find("layers[0].size"),
      std::string::npos);
  EXPECT_EQ(error_of(manifest_with(fmt::format(R"([{{"digest":"{}","size":9000000000000000}}])", kB))).code(),
            Code::kResourceExhausted);
  EXPECT_FALSE(error_of("<html>").ok());
  EXPECT_FALSE(error_of("[]").ok());
  EXPECT_FALSE(error_of("{}", "text/plain").ok());
  EXPECT_FALSE(error_of(R"({"schemaVersion":2,"layers":[],"manifests":[]})").ok());
}

TEST(Manifest, HasLimits) {
  EXPECT_EQ(error_of(std::string(kMaxManifestBytes + 1, ' ')).code(), Code::kResourceExhausted);
  std::string layers = "[";
  for (size_t i = 0; i <= kMaxLayers; ++i)
    layers += fmt::format(R"({}{{"digest":"{}","size":1}})", i == 0 ? "" : ",", kB);
  EXPECT_EQ(error_of(manifest_with(layers + "]")).code(), Code::kResourceExhausted);
}

TEST(Manifest, AnIndexGivesThePlatformAskedFor) {
  const std::string index = fmt::format(
      R"({{"schemaVersion":2,"manifests":[
          {{"digest":"{}","size":1,"platform":{{"os":"linux","architecture":"arm64","variant":"v8"}}}},
          {{"digest":"{}","size":1,"platform":{{"os":"linux","architecture":"amd64"}}}}]}})",
      kA, kB);
  const auto d = parse_document(index, kIndex);
  ASSERT_TRUE(d.ok()) << d.error().message();
  ASSERT_TRUE(d->is_index);
  EXPECT_EQ(choose_platform(d->manifests, {"linux", "amd64", ""})->digest, kB);
  EXPECT_EQ(choose_platform(d->manifests, {"linux", "arm64", ""})->digest, kA);
  const auto none = choose_platform(d->manifests, {"linux", "s390x", ""});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message().find("linux/arm64/v8, linux/amd64"), std::string::npos) << none.error().message();
}

TEST(Manifest, AsksForAllFourTypes) {
  for (const char* type :
       {"oci.image.index.v1", "oci.image.manifest.v1", "manifest.list.v2", "distribution.manifest.v2"})
    EXPECT_NE(manifest_accept().find(type), std::string_view::npos) << type;
}

TEST(Manifest, ZstdInDockersTypesIsTakenUnlessStrict) {
  constexpr std::string_view kLoose = "application/vnd.docker.image.rootfs.diff.tar.zstd";
  EXPECT_EQ(layer_kind(kLoose, false)->compression, Compression::kZstd);
  const auto strict = layer_kind(kLoose, true);
  ASSERT_FALSE(strict.ok());
  EXPECT_NE(strict.error().message().find(kLoose), std::string::npos);
  EXPECT_TRUE(layer_kind("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", true)->foreign);
}

TEST(Manifest, ConfigurationAndChain) {
  const auto c = parse_config(
      fmt::format(R"({{"os":"linux","architecture":"amd64","rootfs":{{"diff_ids":["{}","{}"]}}}})", kA, kB));
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(chain_id({kA}), kA);
  EXPECT_EQ(chain_id(c->diff_ids), digest_of(kA + " " + kB));
  EXPECT_FALSE(parse_config(R"({"rootfs":{"diff_ids":[1]}})").ok());
  EXPECT_FALSE(parse_config("{}").ok());
}

TEST(Manifest, Platforms) {
  EXPECT_EQ(parse_platform("linux/arm/v7")->to_string(), "linux/arm/v7");
  for (const char* bad : {"linux", "/amd64", "linux/", "a/b/c/d"}) EXPECT_FALSE(parse_platform(bad).ok()) << bad;
}

}  // namespace
}  // namespace ghostfleet::image
