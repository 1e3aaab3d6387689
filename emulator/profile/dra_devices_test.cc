#include "emulator/profile/dra_devices.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "kube/api/codec.h"
#include "kube/api/kinds.h"

namespace ghostfleet::emulator {
namespace {

TEST(DraDevices, AreKnownForEveryProfileWithAccelerators) {
  const auto profiles = ProfileCatalogue::load("");
  ASSERT_TRUE(profiles.ok());
  size_t known = 0;
  for (const std::string& name : profiles->names()) {
    const Profile profile = *profiles->find(name);
    if (profile.accelerator.manufacturer.empty()) continue;
    const auto devices = make_dra_devices(profile, make_node_template(profile, {}));
    ASSERT_TRUE(devices.ok()) << devices.error().message();
    if ((*devices)->kind == agent::DriverKind::kGpu) {
      EXPECT_FALSE((*devices)->architecture.empty()) << name;
    }
    ++known;
  }
  EXPECT_GE(known, 15u);
}

TEST(DraDevices, ClassesAndExampleAreValidObjects) {
  for (const char* file : {"deviceclasses.yaml", "example.yaml"}) {
    const auto text = read_file(std::string(GF_SOURCE_DIR "/manifests/dra/") + file);
    ASSERT_TRUE(text.ok());
    const auto documents = kube::parse_yaml_documents(*text);
    ASSERT_TRUE(documents.ok()) << documents.error().message();
    EXPECT_GE(documents->size(), 2u);
    for (const kube::Json& object : *documents) {
      const std::string_view version = kube::get_string(object, "apiVersion");
      const size_t slash = version.find('/');
      const kube::KindInfo* kind =
          kube::find_kind(version.substr(0, slash), version.substr(slash + 1), kube::get_string(object, "kind"));
      ASSERT_NE(kind, nullptr);
      std::vector<std::string> unknown;
      ASSERT_TRUE(kube::normalize(object, *kind->type, &unknown).ok());
      EXPECT_TRUE(unknown.empty()) << file << ": " << unknown.front();
    }
  }
}

}  // namespace
}  // namespace ghostfleet::emulator
