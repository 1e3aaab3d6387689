#include "agent/device/device_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/device/device_test_support.h"
#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using kube::get_string;
using kube::Json;
using test::FakeCluster;
using test::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json pod_of(std::string_view name, int gpus) {
  return json(
      "{\"metadata\":{\"name\":\"" + std::string(name) +
      "\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"x\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"" +
      std::to_string(gpus) + "\"}}}]}}");
}

// Faults of GPUs by number.
std::vector<agent::DeviceManager::Fault> gpus(std::vector<uint32_t> numbers) {
  std::vector<agent::DeviceManager::Fault> out;
  for (const uint32_t n : numbers) out.push_back({"nvidia.com/gpu", n, -1});
  return out;
}

std::string gpu_id(uint32_t index) { return agent::device_uuid("GPU-", "oracle-0", "nvidia.com/gpu", index); }

class DeviceHealthTest : public ::testing::TestWithParam<bool> {
 protected:
  static FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    o.pods.device_plugins = true;
    return o;
  }
  const Json* devices(const std::string& pod) {
    return kube::find_key(kube::get_array(*cluster_.pod(pod), "status.containerStatuses")->at(0),
                          "allocatedResourcesStatus");
  }
  std::string health(const std::string& pod, size_t index) {
    const Json* list = devices(pod);
    if (list == nullptr) return "absent";
    return std::string(get_string(kube::get_array(list->get_array()[0], "resources")->at(index), "health"));
  }
  FakeCluster cluster_{options()};
};

INSTANTIATE_TEST_SUITE_P(Fidelity, DeviceHealthTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(DeviceHealthTest, TheStatusFollowsADevicesHealth) {
  cluster_.create(pod_of("a", 2));
  cluster_.create(pod_of("b", 1));
  cluster_.run_for(std::chrono::seconds(3));
  ASSERT_NE(devices("a"), nullptr);
  EXPECT_EQ(get_string(devices("a")->get_array()[0], "name"), "nvidia.com/gpu");
  EXPECT_EQ(get_string(kube::get_array(devices("a")->get_array()[0], "resources")->at(1), "resourceID"), gpu_id(1));
  EXPECT_EQ(health("a", 1), "Healthy");
  cluster_.devices().set_faults(gpus({1, 7}), cluster_.now());
  cluster_.run_for(std::chrono::seconds(2));
  EXPECT_EQ(health("a", 0), "Healthy");
  EXPECT_EQ(health("a", 1), "Unhealthy");
  EXPECT_EQ(health("b", 0), "Healthy");
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  // NVIDIA's plugin finds it well only when it starts again.
  cluster_.devices().set_faults({}, cluster_.now());
  cluster_.run_for(std::chrono::seconds(2));
  EXPECT_EQ(health("a", 1), "Unhealthy");
  cluster_.start_plugins();
  cluster_.run_for(std::chrono::seconds(2));
  EXPECT_EQ(health("a", 1), "Healthy");
}

TEST_P(DeviceHealthTest, UnhealthyOnesAreNotGivenOut) {
  cluster_.devices().set_faults(gpus({0, 1}), cluster_.now());
  cluster_.create(pod_of("a", 5));
  cluster_.run_for(std::chrono::seconds(3));
  cluster_.create(pod_of("b", 2));
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.text("b", "status.reason"), "UnexpectedAdmissionError");
  EXPECT_EQ(cluster_.text("b", "status.message"),
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
            "Requested: 2, Available: 1, which is unexpected");
  cluster_.remove("a", 0);
  cluster_.run_for(std::chrono::seconds(3));
  cluster_.create(pod_of("c", 6));
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.text("c", "status.phase"), "Running");
}

TEST_P(DeviceHealthTest, ATopologyPolicyRefusesAPod) {
  cluster_.devices().set_topology(agent::TopologyPolicy::kSingleNumaNode, agent::TopologyScope::kContainer);
  cluster_.create(pod_of("a", 5));
  cluster_.create(pod_of("b", 4));
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Failed");
  EXPECT_EQ(cluster_.text("a", "status.reason"), "TopologyAffinityError");
  EXPECT_EQ(cluster_.text("a", "status.message"),
            "Pod was rejected: Resources cannot be allocated with Topology locality");
  EXPECT_EQ(cluster_.text("b", "status.phase"), "Running");
}

TEST_P(DeviceHealthTest, ANewAgentKnowsWhoHoldsWhat) {
  cluster_.create(pod_of("a", 3));
  cluster_.run_for(std::chrono::seconds(3));
  const std::string before = kube::to_json(*devices("a"));
  cluster_.restart_agent();
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(kube::to_json(*devices("a")), before);
  cluster_.create(pod_of("b", 5));
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(get_string(kube::get_array(devices("b")->get_array()[0], "resources")->at(0), "resourceID"), gpu_id(3));
}

const Json& status_of(FakeCluster& cluster, const std::string& pod) {
  return kube::get_array(*cluster.pod(pod), "status.containerStatuses")->at(0);
}

TEST_P(DeviceHealthTest, AfterARebootPodsAreAdmittedAgainAndKeepTheirDevices) {
  cluster_.create(pod_of("a", 2));
  cluster_.run_for(std::chrono::seconds(3));
  const std::string before = kube::to_json(*devices("a"));
  // The Node was told of no devices, and its plugins are back: what is given out counts.
  cluster_.patch_node(json(R"({"status":{"allocatable":{"nvidia.com/gpu":"0"}}})"));
  cluster_.restart_agent(true);
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(kube::to_json(*devices("a")), before);
  const Json& status = status_of(cluster_, "a");
  EXPECT_EQ(kube::get_int(status, "restartCount"), 1);
  EXPECT_EQ(kube::get_int(status, "lastState.terminated.exitCode"), 255);
  EXPECT_EQ(get_string(status, "lastState.terminated.reason"), "Unknown");
  EXPECT_NE(kube::find_path(status, "state.running"), nullptr);
}

TEST_P(DeviceHealthTest, AfterARebootPodsThatComeBeforeTheirPluginFail) {
  cluster_.create(pod_of("a", 2));
  cluster_.run_for(std::chrono::seconds(3));
  cluster_.restart_agent(true, false);
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Failed");
  EXPECT_EQ(cluster_.text("a", "status.reason"), "UnexpectedAdmissionError");
  EXPECT_THAT(std::string(cluster_.text("a", "status.message")),
              HasSubstr("no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"));
  cluster_.start_plugins();
  cluster_.create(pod_of("b", 8));
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.text("b", "status.phase"), "Running");
}

TEST_P(DeviceHealthTest, AfterARestartOfTheAgentAlonePodsRunOnWithoutTheirPlugin) {
  const std::string uid = cluster_.create(pod_of("a", 2));
  cluster_.run_for(std::chrono::seconds(3));
  cluster_.restart_agent(false, false);
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(kube::get_int(status_of(cluster_, "a"), "restartCount"), 0);
  EXPECT_EQ(health("a", 0), "Unhealthy");
  EXPECT_EQ(cluster_.devices().allocated("nvidia.com/gpu"), 2u);
  cluster_.start_plugins();
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(health("a", 0), "Healthy");
}

TEST_P(DeviceHealthTest, InitContainersDevicesAreForTheOthersAndInNoStatus) {
  cluster_.create(json(
      R"({"metadata":{"name":"a"},"spec":{"initContainers":[{"name":"i","image":"x","resources":{"limits":)"
      R"({"nvidia.com/gpu":"5"}}}],"containers":[{"name":"c","image":"x","resources":{"limits":{"nvidia.com/gpu":"8"}}}]}})"));
  cluster_.run_for(std::chrono::seconds(8));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  ASSERT_NE(devices("a"), nullptr);
  EXPECT_EQ(kube::get_array(devices("a")->get_array()[0], "resources")->size(), 8u);
  const Json& init = kube::get_array(*cluster_.pod("a"), "status.initContainerStatuses")->at(0);
  EXPECT_EQ(kube::find_key(init, "allocatedResourcesStatus"), nullptr);
}

// A plugin of its own process, which answers when the test says so.
class RealPluginTest : public DeviceHealthTest {
 protected:
  void add(agent::PluginOptions options) {
    cluster_.patch_node(json(R"({"status":{"allocatable":{"a.b/radio":"2"},"capacity":{"a.b/radio":"2"}}})"));
    id_ = cluster_.devices().register_plugin("a.b/radio", plugin_, options, cluster_.now()).value();
    ASSERT_TRUE(cluster_.devices().list_devices(id_, {{"r0", true, 0}, {"r1", true, 0}}, cluster_.now()).ok());
    plugin_->later = true;
  }
  static Json radio_pod(const std::string& name) {
    return json(R"({"metadata":{"name":")" + name +
                R"("},"spec":{"containers":[{"name":"c","image":"x","resources":{"limits":{"a.b/radio":"1"}}}]}})");
  }
  std::shared_ptr<agent::ScriptedPlugin> plugin_ = std::make_shared<agent::ScriptedPlugin>();
  agent::DeviceManager::PluginId id_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Fidelity, RealPluginTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(RealPluginTest, OnlyPodsThatWantItsDevicesWait) {
  add({});
  cluster_.create(radio_pod("a"));
  cluster_.create(pod_of("none", 0));
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.text("a", "status.startTime"), "");
  EXPECT_EQ(cluster_.text("none", "status.phase"), "Running");
  plugin_->answer_one();
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(get_string(kube::get_array(devices("a")->get_array()[0], "resources")->at(0), "resourceID"), "r0");
}

TEST_P(RealPluginTest, APodMayBeDeletedWhileItWaits) {
  add({});
  cluster_.create(radio_pod("a"));
  cluster_.run_for(std::chrono::seconds(1));
  cluster_.remove("a", 0);
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  plugin_->answer_one();
  cluster_.run_for(std::chrono::seconds(1));
  EXPECT_EQ(cluster_.devices().allocated("a.b/radio"), 0u);
}

TEST_P(RealPluginTest, APluginThatDiesFailsThePodThatWaits) {
  add({});
  cluster_.create(radio_pod("a"));
  cluster_.run_for(std::chrono::seconds(1));
  cluster_.devices().plugin_gone(id_, cluster_.now());
  cluster_.run_for(std::chrono::seconds(2));
  EXPECT_EQ(cluster_.text("a", "status.reason"), "UnexpectedAdmissionError");
  plugin_->answer_one();
  cluster_.run_for(std::chrono::seconds(2));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Failed");
}

TEST_P(RealPluginTest, AContainerStartsWhenItsPluginIsReady) {
  add({.pre_start = true});
  cluster_.create(radio_pod("a"));
  cluster_.run_for(std::chrono::seconds(1));
  plugin_->answer_one();
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_THAT(plugin_->pre_started, ElementsAre(ElementsAre("r0")));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Pending");
  plugin_->answer_one();
  cluster_.run_for(std::chrono::seconds(3));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
}

TEST_P(RealPluginTest, WhatPreStartContainerSaysIsShownAndItIsTriedAgain) {
  add({.pre_start = true});
  plugin_->pre_start_error = "rpc error: code = Unknown desc = the antenna is off";
  plugin_->later = false;
  cluster_.create(radio_pod("a"));
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(get_string(status_of(cluster_, "a"), "state.waiting.reason"), "CreateContainerConfigError");
  EXPECT_EQ(get_string(status_of(cluster_, "a"), "state.waiting.message"), plugin_->pre_start_error);
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr(" spec.containers{c}: Error: " + plugin_->pre_start_error)));
  plugin_->pre_start_error.clear();
  cluster_.run_for(std::chrono::seconds(20));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
}

TEST(DeviceHealth, WithoutPluginsNothingIsToldOfDevices) {
  FakeCluster cluster({});
  cluster.create(pod_of("a", 2));
  cluster.run_for(std::chrono::seconds(3));
  EXPECT_EQ(kube::to_json(*cluster.pod("a")).find("allocatedResourcesStatus"), std::string::npos);
}

}  // namespace
}  // namespace ghostfleet
