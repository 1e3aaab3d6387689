// One node in the foreground whose device plugins are on sockets: what its Node and its pods show.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "agent/device/plugin_messages.h"
#include "agent/device/socket/plugin_service.h"
#include "base/event_loop.h"
#include "base/files.h"
#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/single_node.h"
#include "kube/grpc/client.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

constexpr std::string_view kRadio = "example.com/radio";
const std::string kNode = "/api/v1/nodes/alone", kPods = "/api/v1/namespaces/default/pods";

// A plugin program: its own thread, its own loop.
class PluginThread {
 public:
  PluginThread(const std::string& directory, uint32_t count) : thread_([this] { loop_.run(); }) {
    loop_.post([this, directory, count] {
      agent::PluginServiceOptions options;
      options.directory = directory;
      options.socket_name = "radio.sock";
      options.node = "alone";
      auto service = agent::PluginService::start(loop_, options, agent::plain_plugin(std::string(kRadio), count));
      EXPECT_TRUE(service.ok());
      if (service.ok()) service_ = std::move(*service);
    });
  }
  ~PluginThread() {
    loop_.post([this] {
      service_.reset();
      loop_.stop();
    });
    thread_.join();
  }
  void break_device(uint32_t number) {
    loop_.post([this, number] { service_->set_faults({{std::string(kRadio), number, -1}}); });
  }

 private:
  EventLoop loop_;
  std::unique_ptr<agent::PluginService> service_;
  std::thread thread_;
};

class DeviceSocketsTest : public ::testing::Test {
 protected:
  void start_node() {
    SingleNodeOptions o;
    o.client = api.config();
    o.identity.name = "alone";
    // What the plugin gives comes from the plugin alone.
    o.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}, {std::string(kRadio), "99"}};
    o.pods.device_plugins = true;
    o.device_sockets = agent::NodeSocketOptions{directory(), ""};
    auto started = SingleNode::start(std::move(o));
    ASSERT_TRUE(started.ok()) << started.error().message();
    node = std::move(*started);
    ASSERT_TRUE(eventually([&] { return api.count_ready() == 1; }));
  }
  std::string directory() const { return folder.path() + "/device-plugins"; }
  std::string amount(std::string_view list) {
    const auto object = api.get(kNode);
    const kube::JsonObject* amounts = object ? kube::get_object(*object, "status." + std::string(list)) : nullptr;
    const kube::Json* at = amounts ? amounts->if_contains(kRadio) : nullptr;
    return at ? std::string(at->get_string()) : "none";
  }
  bool shows(const std::string& capacity, const std::string& allocatable) {
    return eventually([&] { return amount("capacity") == capacity && amount("allocatable") == allocatable; });
  }
  void create_pod(const std::string& name, int count) {
    auto pod = kube::parse_json(
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name + R"(","namespace":"default","uid":"uid-)" +
        name + R"("},"spec":{"nodeName":"alone","containers":[{"name":"c","image":"i","resources":{)" +
        R"("limits":{"example.com/radio":")" + std::to_string(count) + R"("}}}]},"status":{"phase":"Pending"}})");
    ASSERT_TRUE(pod.ok());
    api.put(kPods + "/" + name, *pod);
  }
  bool reaches(const std::string& name, std::string_view phase) {
    return eventually([&] {
      const auto pod = api.get(kPods + "/" + name);
      return pod && kube::get_string(*pod, "status.phase") == phase;
    });
  }
  // "id Healthy,id Unhealthy" of the pod's container.
  std::string held(const std::string& name) {
    const auto pod = api.get(kPods + "/" + name);
    std::string out;
    if (!pod) return out;
    const kube::JsonArray* containers = kube::get_array(*pod, "status.containerStatuses");
    if (containers == nullptr || containers->empty()) return out;
    const kube::JsonArray* told = kube::get_array(containers->front(), "allocatedResourcesStatus");
    if (told == nullptr || told->empty()) return out;
    for (const kube::Json& device : *kube::get_array(told->front(), "resources"))
      out += (out.empty() ? "" : ",") + std::string(kube::get_string(device, "resourceID")) + " " +
             std::string(kube::get_string(device, "health"));
    return out;
  }
  // What PodResources say of a pod.
  std::string resources_of(const std::string& name) {
    EventLoop loop;
    kube::grpc::RpcClientOptions options;
    options.host = "unix:" + folder.path() + "/pod-resources/kubelet.sock";
    const auto client = kube::grpc::RpcClient::create(loop, options);
    std::string out;
    bool done = false;
    client->call("/v1.PodResourcesLister/Get", agent::encode_pod_resources_request(name, "default"), {},
                 [&](const kube::grpc::RpcStatus& status, const std::string& reply) {
                   done = true;
                   if (!status.ok()) return void(out = status.text());
                   const auto pod = agent::decode_pod_resources(reply);
                   for (const auto& container : pod->containers) {
                     for (const auto& one : container.devices) out += container.name + ":" + one.ids.front() + " ";
                   }
                 });
    const TimePoint end = loop.now() + std::chrono::seconds(10);
    while (!done && loop.now() < end) loop.run_for(std::chrono::milliseconds(1));
    return out;
  }

  FakeApi api;
  tests::TemporaryFolder folder;
  std::unique_ptr<SingleNode> node;
};

TEST_F(DeviceSocketsTest, PodsOfTheNodeHoldWhatAPluginProcessLists) {
  start_node();
  EXPECT_EQ(amount("capacity"), "none") << "the template's are not shown";
  auto plugin = std::make_unique<PluginThread>(directory(), 2);
  ASSERT_TRUE(shows("2", "2"));
  create_pod("one", 1);
  ASSERT_TRUE(reaches("one", "Running"));
  EXPECT_EQ(held("one"), "radio-0 Healthy");
  EXPECT_EQ(resources_of("one"), "c:radio-0 ");
  EXPECT_EQ(resources_of("none"), "rpc error: code = Unknown desc = pod none in namespace default not found");
  plugin->break_device(0);
  ASSERT_TRUE(shows("2", "1"));
  EXPECT_TRUE(eventually([&] { return held("one") == "radio-0 Unhealthy"; }));
  plugin.reset();
  ASSERT_TRUE(shows("2", "0"));
  plugin = std::make_unique<PluginThread>(directory(), 2);
  ASSERT_TRUE(shows("2", "2"));
  EXPECT_TRUE(eventually([&] { return held("one") == "radio-0 Healthy"; }));
}

TEST_F(DeviceSocketsTest, AnAgentThatStartsAgainKnowsWhoHoldsWhat) {
  start_node();
  auto plugin = std::make_unique<PluginThread>(directory(), 2);
  ASSERT_TRUE(shows("2", "2"));
  create_pod("one", 1);
  ASSERT_TRUE(reaches("one", "Running"));
  node->stop();
  node.reset();
  plugin.reset();
  ASSERT_TRUE(file_exists(directory() + "/kubelet_internal_checkpoint"));
  start_node();
  ASSERT_TRUE(shows("0", "0")) << "the plugin is not there yet";
  EXPECT_TRUE(eventually([&] { return held("one") == "radio-0 Unhealthy"; }));
  plugin = std::make_unique<PluginThread>(directory(), 2);
  ASSERT_TRUE(shows("2", "2"));
  EXPECT_TRUE(eventually([&] { return held("one") == "radio-0 Healthy"; }));
  EXPECT_TRUE(eventually([&] { return resources_of("one") == "c:radio-0 "; }));
  create_pod("two", 1);
  ASSERT_TRUE(reaches("two", "Running"));
  EXPECT_EQ(held("two"), "radio-1 Healthy");
}

TEST_F(DeviceSocketsTest, AFolderThatSomebodyElseServes) {
  start_node();
  SingleNodeOptions o;
  o.client = api.config();
  o.identity.name = "second";
  o.node.capacity = {{"cpu", "1"}, {"memory", "1Gi"}, {"pods", "1"}};
  o.device_sockets = agent::NodeSocketOptions{directory(), ""};
  const auto second = SingleNode::start(std::move(o));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message(),
            "listen on unix:" + directory() + "/kubelet.sock: another process listens on this socket");
}

}  // namespace
}  // namespace ghostfleet::emulator
