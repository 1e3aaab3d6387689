#include "agent/device/device_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using kube::get_string;
using kube::Json;
using test::FakeCluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json json(std::string_view text) { return kube::parse_json(text).value(); }

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

TEST(DeviceHealth, WithoutPluginsNothingIsToldOfDevices) {
  FakeCluster cluster({});
  cluster.create(pod_of("a", 2));
  cluster.run_for(std::chrono::seconds(3));
  EXPECT_EQ(kube::to_json(*cluster.pod("a")).find("allocatedResourcesStatus"), std::string::npos);
}

}  // namespace
}  // namespace ghostfleet
