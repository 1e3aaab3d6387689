// The device manager of a node behind its sockets: plugins, checkpoint and PodResources together.
#include "agent/device/socket/node_sockets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "agent/device/device_checkpoint.h"
#include "agent/device/socket/socket_harness.h"
#include "base/files.h"

namespace ghostfleet::agent {
namespace {

constexpr std::string_view kGpu = "example.com/gpu";

class NodeSocketsTest : public ::testing::Test, public SocketHarness, public DeviceListener {
 protected:
  void device_counts_changed() override { ++count_changes; }
  void device_health_changed() override {}
  void device_checkpoint_changed() override {
    if (node) node->checkpoint_changed();
  }
  void SetUp() override { std::filesystem::create_directory(path("device-plugins")); }
  void TearDown() override {
    stop_node();
    loop.run_for(std::chrono::milliseconds(1));
  }

  std::string plugin_dir() const { return path("device-plugins"); }
  std::string checkpoint() const { return plugin_dir() + "/kubelet_internal_checkpoint"; }
  void start_node() {
    manager = std::make_unique<DeviceManager>("n1", *this);
    node = std::move(NodeSockets::open(loop, {plugin_dir(), "", taken}, *manager, [this] { return pods; }).value());
  }
  void stop_node() {
    node.reset();
    manager.reset();
  }
  std::unique_ptr<PluginService> start_gpus(uint32_t count) { return start("gpu.sock", std::string(kGpu), count); }
  std::unique_ptr<PluginService> start(const std::string& socket, const std::string& resource, uint32_t count) {
    PluginServiceOptions options;
    options.directory = plugin_dir();
    options.socket_name = socket;
    options.node = "n1";
    return std::move(PluginService::start(loop, options, std::make_shared<TestModel>(resource, count)).value());
  }
  bool shows(uint32_t capacity, uint32_t allocatable) {
    return run_until([&] {
      return manager->counts() == std::vector<DeviceCount>{{std::string(kGpu), capacity, allocatable}};
    });
  }
  // What admit() came to; "none" while it waits.
  std::string admit(const std::string& uid, uint32_t count) {
    std::string answer = "none";
    PodDemand demand;
    demand.uid = uid;
    demand.containers.push_back({.name = "c", .limits = {{std::string(kGpu), count}}});
    manager->admit(std::move(demand), [&](const Status& s) { answer = s.ok() ? "" : s.message(); });
    run_until([&] { return answer != "none"; });
    return answer;
  }

  std::unique_ptr<DeviceManager> manager;
  std::unique_ptr<NodeSockets> node;
  std::vector<PodContainers> pods;
  std::string taken;
  int count_changes = 0;
};

TEST_F(NodeSocketsTest, PodsGetDevicesOfAPluginProcess) {
  start_node();
  auto plugin = start_gpus(4);
  ASSERT_TRUE(shows(4, 4));
  EXPECT_EQ(admit("u1", 2), "");
  const auto held = manager->held("u1", "c");
  ASSERT_EQ(held.size(), 1u);
  ASSERT_EQ(held[0].devices.size(), 2u);
  EXPECT_EQ(held[0].devices[0].id, "n1-2") << "what the plugin prefers";
  EXPECT_EQ(manager->response_of("u1", "c").envs.size(), 2u);
  EXPECT_EQ(admit("u2", 3), "requested number of devices unavailable for example.com/gpu. Requested: 3, Available: 2");
  plugin->set_faults({{std::string(kGpu), 0, -1}});
  EXPECT_TRUE(shows(4, 3));
  plugin.reset();
  EXPECT_TRUE(shows(4, 0)) << "the process has ended";
  plugin = start_gpus(4);
  EXPECT_TRUE(shows(4, 4));
}

TEST_F(NodeSocketsTest, APluginOfWhatADraDriverGivesIsRefused) {
  taken = kGpu;
  start_node();
  const auto plugin = start_gpus(4);
  const auto other = start("other.sock", "example.com/other", 2);
  ASSERT_TRUE(run_until([&] { return !manager->counts().empty(); }));
  EXPECT_EQ(manager->counts(), (std::vector<DeviceCount>{{"example.com/other", 2, 2}}));
}

TEST_F(NodeSocketsTest, TheCheckpointIsReadByTheNextAgent) {
  start_node();
  EXPECT_FALSE(node->restored());
  const auto plugin = start_gpus(4);
  ASSERT_TRUE(shows(4, 4));
  ASSERT_EQ(admit("u1", 2), "");
  stop_node();
  ASSERT_TRUE(file_exists(checkpoint()));
  start_node();
  EXPECT_TRUE(node->restored());
  const auto held = manager->held("u1", "c");
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].devices.size(), 2u);
  ASSERT_TRUE(shows(4, 4)) << "the plugin has registered again";
  EXPECT_EQ(admit("u2", 3), "requested number of devices unavailable for example.com/gpu. Requested: 3, Available: 2");
}

TEST_F(NodeSocketsTest, ACheckpointThatIsCorrupt) {
  std::ofstream(checkpoint()) << R"({"Data":{},"Checksum":1})";
  start_node();
  EXPECT_FALSE(node->restored());
  const auto plugin = start_gpus(1);
  EXPECT_TRUE(shows(1, 1));
  ASSERT_TRUE(run_until([&] {
    const auto text = read_file(checkpoint());
    return text.ok() && parse_device_checkpoint(*text).ok();
  })) << "it is written anew";
}

TEST_F(NodeSocketsTest, PodResourcesTellWhatContainersHold) {
  start_node();
  EXPECT_EQ(node->pod_resources_path(), path("pod-resources/kubelet.sock"));
  const auto plugin = start_gpus(3);
  ASSERT_TRUE(shows(3, 3));
  ASSERT_EQ(admit("u1", 1), "");
  pods = {{"ns", "p1", "u1", {{"c", false, {}}}}};
  kube::grpc::RpcClientOptions options;
  options.host = "unix:" + node->pod_resources_path();
  const auto lister = kube::grpc::RpcClient::create(loop, options);
  std::string reply, allocatable;
  lister->call("/v1.PodResourcesLister/Get", encode_pod_resources_request("p1", "ns"), {},
               [&](const kube::grpc::RpcStatus& s, std::string r) { reply = s.ok() ? std::move(r) : s.text(); });
  lister->call("/v1.PodResourcesLister/GetAllocatableResources", "", {},
               [&](const kube::grpc::RpcStatus& s, std::string r) { allocatable = s.ok() ? std::move(r) : s.text(); });
  ASSERT_TRUE(run_until([&] { return !reply.empty() && !allocatable.empty(); }));
  const PodResources expected{"p1", "ns", {{"c", {{std::string(kGpu), {"n1-2"}, 1}}}}};
  EXPECT_EQ(decode_pod_resources(reply).value(), expected);
  EXPECT_EQ(decode_allocatable(allocatable).value().size(), 3u);
}

}  // namespace
}  // namespace ghostfleet::agent
