#include "agent/device/plugin_messages.h"

#include <gtest/gtest.h>

#include "kube/api/protobuf_fields.h"

namespace ghostfleet::agent {
namespace {

// Bytes as protoc writes them: what another program sends.
std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out += static_cast<char>(b);
  return out;
}

TEST(PluginMessagesTest, RegisterRequestOnTheWire) {
  RegisterRequest request{"v1", "a.sock", "x.y/z", {true, true}};
  const std::string wire =
      "\x0a\x02v1\x12\x06"
      "a.sock\x1a\x05x.y/z\x22\x04\x08\x01\x10\x01";
  EXPECT_EQ(encode_register_request(request), wire);
  const auto back = decode_register_request(wire);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->version, "v1");
  EXPECT_EQ(back->endpoint, "a.sock");
  EXPECT_EQ(back->resource, "x.y/z");
  EXPECT_TRUE(back->options.pre_start);
  EXPECT_TRUE(back->options.preferred_allocation);
}

TEST(PluginMessagesTest, AbsentFieldsAreEmpty) {
  const auto request = decode_register_request("");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->version + request->endpoint + request->resource, "");
  EXPECT_FALSE(request->options.pre_start || request->options.preferred_allocation);
  EXPECT_EQ(encode_plugin_options({}), "");
}

TEST(PluginMessagesTest, DevicesOnTheWire) {
  const std::string wire = bytes({0x0a, 0x0f, 0x0a, 2, 'G', '0', 0x12, 2, 'o', 'k', 0x1a, 5, 0x0a, 0, 0x0a, 1, 8});
  EXPECT_FALSE(decode_device_list(wire).ok()) << "cut off inside";
  const std::string whole = bytes({0x0a, 0x10, 0x0a, 2, 'G', '0', 0x12, 2, 'o', 'k', 0x1a, 6, 0x0a, 0, 0x0a, 2, 8, 1});
  const auto devices = decode_device_list(whole);
  ASSERT_TRUE(devices.ok()) << devices.error().message();
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ((*devices)[0].id, "G0");
  EXPECT_EQ((*devices)[0].health, "ok");
  EXPECT_EQ((*devices)[0].numa_nodes, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ((*devices)[0].numa_bits(), 3u);
  EXPECT_EQ(encode_device_list(*devices), whole);
}

TEST(PluginMessagesTest, NumaNodesThatAreNoBits) {
  PluginDevice device{"d", "Healthy", {-1, 64, 63, 0}};
  EXPECT_EQ(device.numa_bits(), uint64_t{1} << 63 | 1);
  const auto back = decode_device_list(encode_device_list({device}));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)[0].numa_nodes, device.numa_nodes);
}

TEST(PluginMessagesTest, AllocationsThereAndBack) {
  const std::vector<PreferredRequest> preferred = {{{"a", "b", "c"}, {"b"}, 2}, {{}, {}, -1}};
  const auto asked = decode_preferred_request(encode_preferred_request(preferred));
  ASSERT_TRUE(asked.ok());
  ASSERT_EQ(asked->size(), 2u);
  EXPECT_EQ((*asked)[0].available, preferred[0].available);
  EXPECT_EQ((*asked)[0].must_include, preferred[0].must_include);
  EXPECT_EQ((*asked)[0].size, 2);
  EXPECT_EQ((*asked)[1].size, -1);

  const std::vector<TextList> lists = {{"a", "b"}, {}, {""}};
  EXPECT_EQ(decode_preferred_response(encode_preferred_response(lists)).value(), lists);
  EXPECT_EQ(decode_allocate_request(encode_allocate_request(lists)).value(), lists);
  EXPECT_EQ(encode_allocate_request({{"a"}}), bytes({0x0a, 3, 0x0a, 1, 'a'}));
  EXPECT_EQ(decode_pre_start_request(encode_pre_start_request({"x", "y"})).value(), (TextList{"x", "y"}));

  AllocateResponse response;
  response.envs = {{"NVIDIA_VISIBLE_DEVICES", "GPU-1"}};
  response.cdi_names = {"nvidia.com/gpu=0"};
  const auto answers = decode_allocate_answers(encode_allocate_answers({encode_response(response), ""}));
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 2u);
  EXPECT_EQ(decode_response((*answers)[0]).value(), response);
}

TEST(PluginMessagesTest, PodResourcesThereAndBack) {
  const ResourceDevices gpus{"nvidia.com/gpu", {"GPU-0", "GPU-1"}, 1}, efa{"vpc.amazonaws.com/efa", {"efa0"}, 0};
  const PodResources pod{"train-0", "ml", {{"main", {gpus, efa}}, {"log", {}}}};
  EXPECT_EQ(decode_pod_resources_list(encode_pod_resources_list({pod, {"idle", "ml", {}}})).value(),
            (std::vector<PodResources>{pod, {"idle", "ml", {}}}));
  EXPECT_EQ(decode_pod_resources(encode_pod_resources(pod)).value(), pod);
  EXPECT_EQ(decode_allocatable(encode_allocatable({gpus, efa})).value(), (std::vector<ResourceDevices>{gpus, efa}));
  EXPECT_EQ(decode_pod_resources_request(encode_pod_resources_request("train-0", "ml")).value(),
            (std::pair<std::string, std::string>{"train-0", "ml"}));
}

// As Kubernetes' own code writes it.
TEST(PluginMessagesTest, PodResourcesAreWrittenAsByKubernetes) {
  const PodResources pod{"a", "b", {{"c", {{"d/e", {"f"}, 2}}, {{"g", "b", {{{"h"}, "i", "j", "k"}}}}}}};
  EXPECT_EQ(
      encode_pod_resources_list({pod}),
      bytes({0x0a, 0x33, 0x0a, 1,    'a', 0x12, 1, 'b',  0x1a, 0x2b, 0x0a, 1,    'c',  0x12, 0x0e, 0x0a, 3,    'd',
             '/',  'e',  0x12, 1,    'f', 0x1a, 4, 0x0a, 2,    8,    1,    0x2a, 0x16, 0x12, 1,    'g',  0x1a, 1,
             'b',  0x22, 0x0e, 0x0a, 3,   0x0a, 1, 'h',  0x12, 1,    'i',  0x1a, 1,    'j',  0x22, 1,    'k'}));
  EXPECT_EQ(decode_pod_resources_list(encode_pod_resources_list({pod})).value(), std::vector<PodResources>{pod});
}

TEST(PluginMessagesTest, UnknownFieldsArePassedOver) {
  std::string wire = bytes({0x99, 6, 1, 2, 3, 4, 5, 6, 7, 8});  // 99: fixed64
  wire += bytes({0xa5, 6, 1, 2, 3, 4, 0xa8, 6, 0x7f});          // 100: fixed32; 101: varint
  wire += bytes({0x0a, 7}) + "v1beta1" + bytes({0x1a, 3}) + "a/b";
  wire += bytes({0x08, 5});  // 1 as a number: not ours
  const auto request = decode_register_request(wire);
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(request->version, "v1beta1");
  EXPECT_EQ(request->resource, "a/b");
}

TEST(PluginMessagesTest, BadBytesSayWhat) {
  EXPECT_NE(decode_register_request(bytes({0x0a, 9, 'x'})).error().message().find("invalid wire-format data"),
            std::string::npos);
  EXPECT_EQ(decode_register_request(bytes({0x1a, 2, 0xff, 0xfe})).error().message(),
            "field 3: string field contains invalid UTF-8");
  const std::string fits(kube::kMaxMessageText, 'x');
  EXPECT_TRUE(decode_pre_start_request(encode_pre_start_request({fits})).ok());
  EXPECT_EQ(decode_pre_start_request(encode_pre_start_request({fits + "x"})).error().message(),
            "field 1: a text of 4097 bytes; at most 4096 are taken");
}

}  // namespace
}  // namespace ghostfleet::agent
