// Fleets whose image pulls are modelled: from the pod in the API to its events and its node's images.
#include "emulator/fleet/fleet_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/fleet.h"
#include "emulator/fleet/single_node.h"
#include "emulator/fleet/test_fleet.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr const char* kImage = "registry.example/train:1";
constexpr int64_t kSize = 6000000;

ImageModel small_model() {
  ImageModel model;
  ImageEntry entry{"*train*", {}};
  for (int i = 0; i < 3; ++i) entry.layers.push_back({"", kSize / 3, kSize});
  model.images.push_back(std::move(entry));
  return model;
}

FleetOptions options_for(const FakeApi& api, uint32_t nodes, ImageModel model = small_model()) {
  FleetOptions o = small_fleet(api, nodes);
  FleetGroup& g = o.groups.front();
  g.zones = {"a", "b"};
  g.node.images = {{{"registry.k8s.io/pause:3.10"}, 320368}};
  o.images = std::make_shared<const ImageModel>(std::move(model));
  return o;
}

std::string pod_path(const std::string& name) { return "/api/v1/namespaces/default/pods/" + name; }

void put_pod(FakeApi& api, const std::string& name, const std::string& node, const std::string& image = kImage) {
  api.put(pod_path(name), *kube::parse_json(R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
                                            R"(","namespace":"default"},"spec":{"nodeName":")" + node +
                                            R"(","containers":[{"name":"c","image":")" + image +
                                            R"("}]},"status":{"phase":"Pending"}})"));
}

std::string phase_of(FakeApi& api, const std::string& name) {
  const auto pod = api.get(pod_path(name));
  return pod ? std::string(kube::get_string(*pod, "status.phase")) : "gone";
}

// The messages of events with that reason.
std::vector<std::string> told(FakeApi& api, const std::string& pod, const std::string& reason) {
  std::vector<std::string> messages;
  for (const auto& [path, object] : api.objects()) {
    if (path.find("/events/") == std::string::npos || kube::get_string(object, "involvedObject.name") != pod) continue;
    if (kube::get_string(object, "reason") == reason) messages.emplace_back(kube::get_string(object, "message"));
  }
  return messages;
}

bool has_image(FakeApi& api, const std::string& node, const std::string& image) {
  const auto object = api.get("/api/v1/nodes/" + node);
  const kube::JsonArray* images = object ? kube::get_array(*object, "status.images") : nullptr;
  if (images == nullptr) return false;
  for (const kube::Json& one : *images) {
    for (const kube::Json& name : *kube::get_array(one, "names")) {
      if (name.get_string() == image) return true;
    }
  }
  return false;
}

TEST(FleetImages, PodsWaitForTheirImageAndNodesTellIt) {
  FakeApi api;
  auto fleet = Fleet::start(options_for(api, 30));
  ASSERT_TRUE(fleet.ok()) << fleet.error().message();
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 30; }));
  for (int i = 0; i < 30; ++i) put_pod(api, "p-" + std::to_string(i), "n-" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().pods_running == 30; }));
  ASSERT_TRUE(eventually([&] { return !told(api, "p-7", "Pulled").empty(); }));
  EXPECT_EQ(told(api, "p-7", "Pulling").at(0), "Pulling image \"registry.example/train:1\"");
  EXPECT_THAT(told(api, "p-7", "Pulled").at(0), HasSubstr("Image size: 6000000 bytes."));
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().image_pulls["bytes"] == 30 * kSize; }));
  auto pulls = (*fleet)->snapshot().image_pulls;
  EXPECT_EQ(pulls["succeeded"], 30u);
  EXPECT_EQ(pulls["failed"] + pulls["refused"] + pulls["qps_exceeded"] + pulls["in_progress"], 0u);
  const std::string metrics = MetricsRegistry::expose((*fleet)->metrics());
  EXPECT_THAT(metrics, HasSubstr("ghostfleet_image_pulls_total{result=\"succeeded\"} 30\n"));
  EXPECT_THAT(metrics, HasSubstr("ghostfleet_image_pulled_bytes_total 180000000\n"));
  EXPECT_THAT(metrics, HasSubstr("ghostfleet_image_pull_seconds_count 30\n"));
  EXPECT_THAT(metrics, HasSubstr("ghostfleet_image_manifest_requests_total 30\n"));
  // The first node that looks at its images tells them.
  std::string node;
  ASSERT_TRUE(eventually(
      [&] {
        for (int i = 0; i < 30; ++i) {
          if (has_image(api, "n-" + std::to_string(i), kImage)) node = "n-" + std::to_string(i);
        }
        return !node.empty();
      },
      seconds(60)));
  EXPECT_TRUE(has_image(api, node, "registry.k8s.io/pause:3.10"));
  (*fleet)->stop();

  // Started again, the fleet finds the image on that node by its word, and on the others by their pods.
  auto again = Fleet::start(options_for(api, 30));
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE(eventually([&] { return (*again)->snapshot().pods_running == 30; }));
  put_pod(api, "late", node);
  put_pod(api, "later", node == "n-3" ? "n-4" : "n-3");
  ASSERT_TRUE(eventually([&] { return phase_of(api, "late") == "Running" && phase_of(api, "later") == "Running"; }));
  ASSERT_TRUE(
      eventually([&] { return !told(api, "late", "Pulled").empty() && !told(api, "later", "Pulled").empty(); }));
  EXPECT_THAT(told(api, "late", "Pulled").at(0), HasSubstr("already present on machine"));
  EXPECT_THAT(told(api, "later", "Pulled").at(0), HasSubstr("already present on machine"));
  EXPECT_EQ((*again)->snapshot().image_pulls["succeeded"], 0u);
  EXPECT_TRUE(has_image(api, node, kImage));
}

TEST(FleetImages, WhatANodeOnlyTellsIsOnItsDisk) {
  FakeApi api;
  {
    auto fleet = Fleet::start(options_for(api, 4));
    ASSERT_TRUE(fleet.ok());
    ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 4; }));
  }
  api.edit("/api/v1/nodes/n-1", [](kube::Json& node) {
    kube::ensure_array(node, "status.images")
        .push_back(*kube::parse_json(R"({"names":["registry.example/train:1"],"sizeBytes":6000000})"));
  });
  api.clear_log();
  auto fleet = Fleet::start(options_for(api, 4));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 4; }));
  put_pod(api, "p", "n-1");
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running" && !told(api, "p", "Pulled").empty(); }));
  EXPECT_THAT(told(api, "p", "Pulled").at(0), HasSubstr("already present on machine"));
  EXPECT_TRUE(has_image(api, "n-1", kImage));
}

TEST(FleetImages, RulesWithAnErrorGoBeforeTheModel) {
  FakeApi api;
  auto fleet = Fleet::start(options_for(api, 2));
  ASSERT_TRUE(fleet.ok());
  put_pod(api, "bad", "n-0", "registry.example/missing-train:1");
  put_pod(api, "good", "n-0");
  ASSERT_TRUE(eventually([&] { return phase_of(api, "good") == "Running"; }));
  ASSERT_TRUE(eventually([&] { return !told(api, "bad", "Failed").empty(); }));
  EXPECT_THAT(told(api, "bad", "Failed"), ::testing::Contains(HasSubstr("code = NotFound")));
  EXPECT_EQ(phase_of(api, "bad"), "Pending");
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().image_pulls["failed"] >= 1; }));
}

TEST(FleetImages, ARegistryRefusesAndPodsTryAgain) {
  FakeApi api;
  ImageModel model = small_model();
  model.registries.push_back({"*", 5, 5});
  auto fleet = Fleet::start(options_for(api, 12, model));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 12; }));
  for (int i = 0; i < 12; ++i) put_pod(api, "p-" + std::to_string(i), "n-" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().pods_running == 12; }, seconds(90)));
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().image_pulls["succeeded"] == 12; }));
  auto pulls = (*fleet)->snapshot().image_pulls;
  EXPECT_GT(pulls["refused"], 0u);
  size_t refused = 0;
  for (int i = 0; i < 12; ++i) {
    for (const std::string& text : told(api, "p-" + std::to_string(i), "Failed")) {
      refused += text.find("429 Too Many Requests") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_EQ(refused, pulls["refused"]);
}

TEST(FleetImages, ANodeAloneAndWithAConnectionOfItsOwn) {
  FakeApi api;
  FleetOptions o = options_for(api, 3);
  o.connections = ConnectionMode::kPerNode;
  auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok());
  SingleNodeOptions single;
  single.client = api.config();
  single.identity.name = "solo";
  single.identity.zone = "a";
  single.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
  single.images = std::make_shared<const ImageModel>(small_model());
  auto node = SingleNode::start(single);
  ASSERT_TRUE(node.ok()) << node.error().message();
  put_pod(api, "p", "n-1");
  put_pod(api, "q", "solo");
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running" && phase_of(api, "q") == "Running"; }));
  ASSERT_TRUE(eventually([&] { return !told(api, "q", "Pulled").empty() && !told(api, "p", "Pulled").empty(); }));
  EXPECT_THAT(told(api, "p", "Pulled").at(0), HasSubstr("Image size: 6000000 bytes."));
  EXPECT_THAT(told(api, "q", "Pulled").at(0), HasSubstr("Image size: 6000000 bytes."));
}

TEST(FleetImages, ZonesOfAllGroupsHaveAStoreEach) {
  ImageModel model = small_model();
  model.store_rate = 7;
  FleetGroup first, second, third;
  first.zones = {"a", "b"};
  second.zones = {"b", "c"};
  second.pull = PullOptions();
  second.pull->puller = Puller::kLazy;
  FleetImages images(model, {first, second, third}, TimePoint{1});
  EXPECT_EQ(images.stores.zone("a"), 0u);
  EXPECT_EQ(images.stores.zone("c"), 2u);
  EXPECT_EQ(images.stores.zone("unknown"), 0u);
  EXPECT_DOUBLE_EQ(images.stores.load(2).capacity, 7);
  EXPECT_EQ(images.options[0]->puller, Puller::kDefault);
  EXPECT_EQ(images.options[1]->puller, Puller::kLazy);
  FleetImages nowhere(model, {third}, TimePoint{1});
  EXPECT_DOUBLE_EQ(nowhere.stores.load(0).capacity, 7);
}

}  // namespace
}  // namespace ghostfleet::emulator
