// Fleets whose nodes have DRA drivers: their slices come, change and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "agent/device/plugin_model.h"
#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/fleet.h"
#include "emulator/fleet/remove.h"
#include "emulator/fleet/single_node.h"
#include "emulator/fleet/test_fleet.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using kube::get_array;
using kube::get_int;
using kube::get_string;
using kube::Json;
using tests::eventually;

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";

std::shared_ptr<const agent::DraDevices> gpus() {
  auto d = std::make_shared<agent::DraDevices>();
  d->count = 8;
  d->product = "NVIDIA H100 80GB HBM3";
  d->driver_version = "580.95.5";
  d->memory_mib = 81920;
  return d;
}

FleetOptions dra_fleet(const FakeApi& api, uint32_t nodes) {
  FleetOptions o = small_fleet(api, nodes);
  o.groups.front().dra = gpus();
  return o;
}

std::vector<Json> slices(FakeApi& api) {
  std::vector<Json> out;
  for (const auto& [path, object] : api.objects()) {
    if (path.starts_with(kSlices)) out.push_back(object);
  }
  return out;
}

std::set<std::string> uids(FakeApi& api) {
  std::set<std::string> out;
  for (const Json& s : slices(api)) out.emplace(get_string(s, "metadata.uid"));
  return out;
}

void annotate(FakeApi& api, const std::string& node, const std::string& faults) {
  api.edit("/api/v1/nodes/" + node, [&faults](Json& n) {
    kube::ensure_object(n, "metadata.annotations")["dra.ghostfleet.dev/faults"] = faults;
  });
}

TEST(DraFleet, EveryNodePublishesItsDevices) {
  FakeApi api;
  auto fleet = Fleet::start(dra_fleet(api, 60));
  ASSERT_TRUE(fleet.ok()) << fleet.error().message();
  ASSERT_TRUE(eventually([&] { return api.count_ready() == 60 && slices(api).size() == 60; }));
  std::set<std::string> nodes;
  for (const Json& s : slices(api)) {
    const std::string node(get_string(s, "spec.nodeName"));
    nodes.insert(node);
    const auto object = api.get("/api/v1/nodes/" + node);
    ASSERT_TRUE(object.has_value());
    EXPECT_EQ(get_string(get_array(s, "metadata.ownerReferences")->at(0), "uid"), get_string(*object, "metadata.uid"));
    EXPECT_EQ(get_string(get_array(s, "spec.devices")->at(3), "attributes.uuid.string"),
              agent::device_uuid("GPU-", node, "nvidia.com/gpu", 3));
  }
  EXPECT_EQ(nodes.size(), 60u);
  EXPECT_EQ(api.requests("DELETE", kSlices), 0u) << "of fresh nodes there is nothing to remove";
}

TEST(DraFleet, ARestartMakesThemAnew) {
  FakeApi api;
  {
    auto fleet = Fleet::start(dra_fleet(api, 4));
    ASSERT_TRUE(fleet.ok());
    ASSERT_TRUE(eventually([&] { return api.count_ready() == 4 && slices(api).size() == 4; }));
  }
  const std::set<std::string> before = uids(api);
  api.clear_log();
  auto fleet = Fleet::start(dra_fleet(api, 4));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return api.requests("POST", kSlices) == 4 && slices(api).size() == 4; }));
  for (const std::string& uid : uids(api)) EXPECT_EQ(before.count(uid), 0u);
  EXPECT_EQ(api.requests("DELETE", kSlices), 4u);
}

TEST(DraFleet, FaultsAreTaintsAndADriverThatIsDownComesBack) {
  FakeApi api;
  std::vector<std::string> notices;
  std::mutex mutex;
  FleetCallbacks callbacks;
  callbacks.notice = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    notices.push_back(text);
  };
  auto fleet = Fleet::start(dra_fleet(api, 1), callbacks);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return slices(api).size() == 1 && api.count_ready() == 1; }));
  const auto taint = [&api] {
    const Json s = slices(api).at(0);
    const Json* taints = kube::find_key(get_array(s, "spec.devices")->at(2), "taints");
    return taints == nullptr ? std::string() : std::string(get_string(taints->get_array().at(0), "key"));
  };
  annotate(api, "n-0", "gpu-2=gpu-lost");
  ASSERT_TRUE(eventually([&] { return taint() == "gpu.nvidia.com/gpu-lost"; }));
  EXPECT_EQ(get_int(slices(api).at(0), "spec.pool.generation"), 2);
  annotate(api, "n-0", "driver=down");
  annotate(api, "n-0", "gpu-2=unmonitored");
  ASSERT_TRUE(eventually([&] { return taint() == "gpu.nvidia.com/unmonitored"; }));
  annotate(api, "n-0", "gpu-99=gpu-lost");
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return std::any_of(notices.begin(), notices.end(), [](const std::string& n) {
      return n.find("annotation dra.ghostfleet.dev/faults: faults: \"gpu-99=gpu-lost\"") != std::string::npos;
    });
  }));
}

TEST(DraFleet, WhatTheServerRefusesIsToldAndTriedAgain) {
  FakeApi api;
  std::atomic<bool> refuse{true};
  api.set_fault([&refuse](const std::string&, const std::string& target) -> std::optional<int> {
    if (refuse && target.starts_with(kSlices)) return 403;
    return std::nullopt;
  });
  std::atomic<int> told{0};
  FleetCallbacks callbacks;
  callbacks.notice = [&](const std::string& text) {
    if (text.find("ResourceSlices:") != std::string::npos) ++told;
  };
  auto fleet = Fleet::start(dra_fleet(api, 3), callbacks);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return told > 0 && api.count_ready() == 3; }));
  refuse = false;
  EXPECT_TRUE(eventually([&] { return slices(api).size() == 3; }));
}

TEST(DraFleet, ANodeOfItsOwnRemovesAsAKubelet) {
  FakeApi api;
  SingleNodeOptions o;
  o.client = api.config();
  o.identity.name = "alone";
  o.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
  o.dra = gpus();
  auto node = SingleNode::start(std::move(o));
  ASSERT_TRUE(node.ok()) << node.error().message();
  ASSERT_TRUE(eventually([&] { return slices(api).size() == 1; }));
  EXPECT_EQ(api.requests("DELETE", std::string(kSlices) + "?fieldSelector=spec.nodeName%3Dalone"), 1u);
}

TEST(DraFleet, DownRemovesThem) {
  FakeApi api;
  {
    auto fleet = Fleet::start(dra_fleet(api, 3));
    ASSERT_TRUE(fleet.ok());
    ASSERT_TRUE(eventually([&] { return slices(api).size() == 3; }));
  }
  api.put(std::string(kSlices) + "/others", *kube::parse_json(R"({"metadata":{"name":"others"},"spec":{}})"));
  auto dry = remove_fleet(api.config(), "f1", {.dry_run = true});
  ASSERT_TRUE(dry.ok());
  EXPECT_EQ(dry->resource_slices, 3u);
  auto report = remove_fleet(api.config(), "f1");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->resource_slices, 3u);
  EXPECT_EQ(slices(api).size(), 1u);
}

}  // namespace
}  // namespace ghostfleet::emulator
