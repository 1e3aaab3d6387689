#include "agent/device/device_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/device/allocate_response.h"

namespace ghostfleet::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// As two kubelets wrote them: with and without NUMA nodes.
constexpr std::string_view kTegra =
    R"({"Data":{"PodDeviceEntries":[{"PodUID":"bf52b2cd-b611-4e79-86b1-280b283185c3","ContainerName":"check",)"
    R"("ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["tegra"]},)"
    R"("AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],"RegisteredDevices":{"nvidia.com/gpu":["tegra"]}},)"
    R"("Checksum":3660592824})";

TEST(DeviceCheckpoint, ReadsAndWritesWhatAKubeletWrites) {
  const auto read = parse_device_checkpoint(kTegra);
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read->entries.size(), 1u);
  EXPECT_EQ(read->entries[0].container, "check");
  EXPECT_THAT(read->entries[0].ids, ElementsAre(Pair(-1, ElementsAre("tegra"))));
  EXPECT_THAT(read->registered, ElementsAre(Pair("nvidia.com/gpu", ElementsAre("tegra"))));
  const auto response = decode_response(read->entries[0].response);
  ASSERT_TRUE(response.ok());
  EXPECT_THAT(response->envs, ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", "tegra")));
  EXPECT_EQ(encode_response(*response), read->entries[0].response);
  EXPECT_EQ(render_checkpoint(*read), kTegra);
}

TEST(DeviceCheckpoint, SaysWhatIsWrong) {
  const auto error = [](std::string_view text) {
    const auto read = parse_device_checkpoint(text);
    return read.ok() ? std::string() : read.error().message();
  };
  std::string changed(kTegra);
  changed.replace(changed.find("\"check\""), 7, "\"chess\"");
  EXPECT_THAT(error(changed), HasSubstr("Checksum: \"3660592824\": "));
  EXPECT_THAT(error("[]"), HasSubstr("Data: \"\": an object is expected"));
  EXPECT_THAT(error("{"), HasSubstr("device checkpoint: "));
  EXPECT_THAT(error(R"({"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"","ResourceName":"r/d"}]}})"),
              HasSubstr("Data.PodDeviceEntries[0].ContainerName: \"\": a text of 1 to 1024 bytes"));
  EXPECT_THAT(
      error(
          R"({"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r/d","DeviceIDs":{"a":[]}}]}})"),
      HasSubstr("DeviceIDs: \"a\": the number of a NUMA node"));
  EXPECT_THAT(error(R"({"Data":{"RegisteredDevices":{"a/b":[""]}}})"), HasSubstr("Data.RegisteredDevices.a/b"));
}

TEST(DeviceCheckpoint, NothingIsAllRight) {
  const DeviceCheckpoint empty;
  const auto read = parse_device_checkpoint(render_checkpoint(empty));
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_TRUE(read->entries.empty());
}

TEST(AllocateResponse, ComesBackFromItsBytes) {
  AllocateResponse r;
  r.envs = {{"A", "1"}, {"B", ""}};
  r.annotations = {{"k", "v"}};
  r.mounts = {{"/in", "/out", true}};
  r.nodes = {{"/dev/neuron0", "/dev/neuron0", "rw"}};
  r.cdi_names = {"nvidia.com/gpu=0"};
  const auto back = decode_response(encode_response(r));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, r);
  EXPECT_FALSE(decode_response("\x0a\x7f").ok());
  EXPECT_TRUE(decode_response("")->envs.empty());
  EXPECT_FALSE(decode_response(std::string(AllocateResponse::kMaxBytes + 1, '\0')).ok());
}

}  // namespace
}  // namespace ghostfleet::agent
