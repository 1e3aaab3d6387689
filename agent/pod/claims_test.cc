// Pods with claims of devices: what a kubelet asks, prepares, tells and gives back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/pod/claims_test_support.h"
#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using agent::DraDevices;
using agent::DraDriver;
using kube::get_array;
using kube::get_string;
using kube::Json;
using std::chrono::seconds;
using test::failed;
using test::FakeCluster;
using test::json;
using test::kA;
using test::kB;
using test::kClaims;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClaimsTest : public ::testing::TestWithParam<bool> {
 protected:
  ClaimsTest() {
    devices_.count = 8;
    cluster_.set_driver(driver());
    cluster_.intercept = [this](const agent::ApiRequest& r) { return answer(r); };
  }
  static FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    return o;
  }
  std::shared_ptr<const DraDriver> driver(std::string_view faults = "") {
    return std::make_shared<const DraDriver>(
        DraDriver{&devices_, "oracle-0", agent::parse_faults(faults, devices_).value()});
  }
  std::optional<agent::ApiResponse> answer(const agent::ApiRequest& r) {
    if (!r.target.starts_with(kClaims)) return std::nullopt;
    const std::string name = r.target.substr(kClaims.size());
    const auto at = claims_.find(name);
    text_ = at != claims_.end() ? kube::to_json(at->second)
                                : R"({"kind":"Status","code":404,"message":"resourceclaims.resource.k8s.io \")" + name +
                                      R"(\" not found"})";
    return agent::ApiResponse{at != claims_.end() ? 200 : 404, text_, Duration(0)};
  }
  // As the scheduler leaves it: `devices` by request.
  void put_claim(const std::string& name, const std::vector<std::string>& users,
                 const std::vector<std::pair<std::string, std::string>>& devices, const std::string& owner = "") {
    Json claim = json(R"({"metadata":{"uid":"uid-of-)" + name + R"("},"status":{}})");
    if (!owner.empty()) {
      kube::set_path(claim, "metadata.ownerReferences",
                     json(R"([{"controller":true,"kind":"Pod","uid":")" + owner + R"("}])"));
    }
    kube::JsonArray& reserved = kube::ensure_array(claim, "status.reservedFor");
    for (const std::string& user : users) reserved.push_back(Json{{"uid", user}});
    kube::JsonArray& results = kube::ensure_array(claim, "status.allocation.devices.results");
    for (const auto& [request, device] : devices) {
      results.push_back(
          Json{{"request", request}, {"driver", "gpu.nvidia.com"}, {"pool", "oracle-0"}, {"device", device}});
    }
    claims_[name] = std::move(claim);
  }
  std::string create(const std::string& name, const std::string& claims, const std::string& uses,
                     const std::string& annotations = "{}", const std::string& status = "{}") {
    return cluster_.create(json(R"({"metadata":{"name":")" + name + R"(","annotations":)" + annotations +
                                R"(},"spec":{"terminationGracePeriodSeconds":5,"resourceClaims":)" + claims +
                                R"(,"containers":[{"name":"c","image":"x","resources":{"claims":)" + uses +
                                R"(}}]},"status":)" + status + "}"));
  }
  size_t asked(const std::string& claim) { return cluster_.count(agent::Verb::kGet, std::string(kClaims) + claim); }
  std::string health(const std::string& pod) {
    const kube::JsonArray* list = get_array(*cluster_.pod(pod), "status.containerStatuses");
    const Json* status = kube::find_key(list->at(0), "allocatedResourcesStatus");
    return status == nullptr ? std::string() : kube::to_json(*status);
  }

  DraDevices devices_;
  std::map<std::string, Json> claims_;
  std::string text_;
  FakeCluster cluster_{options()};
};

INSTANTIATE_TEST_SUITE_P(Fidelity, ClaimsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

constexpr const char* kOne = R"([{"name":"gpus","resourceClaimName":"one"}])";
constexpr const char* kUses = R"([{"name":"gpus"}])";

TEST_P(ClaimsTest, AClaimIsReadOnceAndItsDevicesAreTold) {
  put_claim("one", {kA}, {{"r", "gpu-2"}, {"r", "gpu-3"}});
  create("a", kOne, kUses);
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(asked("one"), 1u);
  EXPECT_EQ(health("a"), R"([{"name":"claim:gpus","resources":[{"health":"Healthy","resourceID":)"
                         R"("k8s.gpu.nvidia.com/device=gpu-2"},{"health":"Healthy","resourceID":)"
                         R"("k8s.gpu.nvidia.com/device=gpu-3"}]}])");
}

TEST_P(ClaimsTest, WhatPodResourcesTellOfIt) {
  put_claim("one", {kA}, {{"r", "gpu-2"}, {"s", "gpu-3"}});
  create("a", kOne, R"([{"name":"gpus","request":"r"}])");
  cluster_.run_for(seconds(10));
  const auto claims = cluster_.manager().describe({}).at(0).containers.at(0).claims;
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].claim, "one");
  EXPECT_EQ(claims[0].ns, "default");
  ASSERT_EQ(claims[0].devices.size(), 2u) << "the whole claim, as by a kubelet";
  EXPECT_EQ(claims[0].devices[0].driver, "gpu.nvidia.com");
  EXPECT_EQ(claims[0].devices[0].device, "gpu-2");
  EXPECT_THAT(claims[0].devices[0].cdi_names, ElementsAre("k8s.gpu.nvidia.com/device=gpu-2"));
  EXPECT_THAT(claims[0].devices[1].cdi_names,
              ElementsAre("k8s.gpu.nvidia.com/device=gpu-2", "k8s.gpu.nvidia.com/device=gpu-3"));
}

TEST_P(ClaimsTest, ARequestNamesItsDevicesAlone) {
  put_claim("one", {kA}, {{"big/first", "gpu-2"}, {"small", "gpu-3"}});
  create("a", kOne, R"([{"name":"gpus","request":"big"}])");
  cluster_.run_for(seconds(10));
  EXPECT_EQ(health("a"), R"([{"name":"claim:gpus/big","resources":[{"health":"Healthy","resourceID":)"
                         R"("k8s.gpu.nvidia.com/device=gpu-2"}]}])");
}

TEST_P(ClaimsTest, WhatKeepsAPodFromItsClaim) {
  create("a", kOne, kUses);
  cluster_.run_for(seconds(5));
  EXPECT_THAT(cluster_.events("a"),
              ElementsAre(failed("fetch ResourceClaim one: resourceclaims.resource.k8s.io \"one\" not found")));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Pending");
  put_claim("one", {"somebody"}, {{"r", "gpu-1"}});
  cluster_.run_for(seconds(100));
  EXPECT_THAT(cluster_.events("a"),
              Contains(failed("pod a (" + kA + ") is not allowed to use ResourceClaim one (uid-of-one)")));
  EXPECT_GE(asked("one"), 2u);
  EXPECT_LE(asked("one"), 3u) << "a kubelet tries again each 60 to 90 s";
  claims_["one"] = json(R"({"metadata":{"uid":"u"},"status":{"reservedFor":[{"uid":")" + kA + R"("}]}})");
  cluster_.run_for(seconds(100));
  EXPECT_THAT(cluster_.events("a"), Contains(failed("ResourceClaim one: not allocated")));
  put_claim("one", {kA}, {{"r", "gpu-9"}});
  cluster_.run_for(seconds(100));
  EXPECT_THAT(cluster_.events("a"),
              Contains(failed("NodePrepareResources failed for ResourceClaim one: requested device is "
                              "not allocatable: gpu-9")));
  cluster_.set_driver(nullptr);
  put_claim("one", {kA}, {{"r", "gpu-1"}});
  cluster_.run_for(seconds(100));
  EXPECT_THAT(cluster_.events("a"), Contains(failed("DRA driver gpu.nvidia.com is not registered")));
  cluster_.set_driver(driver());
  cluster_.run_for(seconds(100));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
}

TEST_P(ClaimsTest, AClaimOfATemplateMustBeMadeForThePod) {
  constexpr const char* kTemplate = R"([{"name":"gpus","resourceClaimTemplateName":"t"}])";
  create("a", kTemplate, kUses);
  cluster_.run_for(seconds(5));
  EXPECT_THAT(cluster_.events("a"), ElementsAre(failed("pod \"default/a\": ResourceClaim not created yet")));
  put_claim("a-gpus-x", {kA}, {{"r", "gpu-1"}}, "another");
  cluster_.patch_status("a", json(R"({"resourceClaimStatuses":[{"name":"gpus","resourceClaimName":"a-gpus-x"}]})"));
  cluster_.run_for(seconds(5));
  EXPECT_THAT(cluster_.events("a"), Contains(failed("ResourceClaim default/a-gpus-x was not created "
                                                    "for Pod default/a (Pod is not owner)")));
  put_claim("a-gpus-x", {kA}, {{"r", "gpu-1"}}, kA);
  cluster_.run_for(seconds(100));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
}

TEST_P(ClaimsTest, WithoutItsDriverAPodDoesNotEnd) {
  put_claim("one", {kA}, {{"r", "gpu-1"}});
  create("a", kOne, kUses, R"({"behavior.ghostfleet.dev/c":"exit=0 after=20s"})");
  cluster_.run_for(seconds(10));
  cluster_.set_driver(driver("driver=down"));
  cluster_.run_for(seconds(2));
  EXPECT_THAT(health("a"), HasSubstr(R"("health":"Unknown")"));
  cluster_.remove("a");
  cluster_.run_for(seconds(60));
  ASSERT_NE(cluster_.pod("a"), nullptr);
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running") << "the terminal phase waits for it";
  cluster_.set_driver(driver());
  cluster_.run_for(seconds(20));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
}

TEST_P(ClaimsTest, TheLastPodGivesASharedClaimBack) {
  put_claim("one", {kA, kB}, {{"r", "gpu-1"}});
  create("a", kOne, kUses);
  create("b", kOne, kUses);
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.text("b", "status.phase"), "Running");
  cluster_.set_driver(driver("driver=down"));
  cluster_.remove("a");
  cluster_.run_for(seconds(20));
  EXPECT_EQ(cluster_.pod("a"), nullptr) << "another pod has the claim: no driver is asked";
  cluster_.remove("b");
  cluster_.run_for(seconds(20));
  EXPECT_NE(cluster_.pod("b"), nullptr);
}

TEST_P(ClaimsTest, HealthFollowsTheDriverAlsoAfterARestart) {
  put_claim("one", {kA}, {{"r", "gpu-1"}});
  create("a", kOne, kUses);
  cluster_.run_for(seconds(10));
  const size_t before = asked("one");
  cluster_.restart_agent();
  cluster_.run_for(seconds(10));
  cluster_.set_driver(driver("gpu-1=xid:79"));
  cluster_.run_for(seconds(3));
  EXPECT_EQ(health("a"), R"([{"name":"claim:gpus","resources":[{"health":"Unhealthy","message":"XID 79","resourceID":)"
                         R"("k8s.gpu.nvidia.com/device=gpu-1"}]}])");
  EXPECT_EQ(asked("one"), before) << "nothing is prepared twice";
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  cluster_.set_driver(driver("driver=down"));
  cluster_.remove("a");
  cluster_.run_for(seconds(30));
  EXPECT_NE(cluster_.pod("a"), nullptr) << "what was prepared before is given back all the same";
  cluster_.set_driver(driver());
  cluster_.run_for(seconds(20));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
}

TEST_P(ClaimsTest, AClaimOfTheSameNameThatIsAnotherMustWait) {
  put_claim("one", {kA, kB}, {{"r", "gpu-1"}});
  create("a", kOne, kUses);
  cluster_.run_for(seconds(5));
  kube::set_path(claims_["one"], "metadata.uid", Json("new"));
  create("b", kOne, kUses);
  cluster_.run_for(seconds(5));
  EXPECT_THAT(cluster_.events("b"),
              ElementsAre(failed("old ResourceClaim with same name one and different UID uid-of-one "
                                 "still exists (previous pod force-deleted?!)")));
  cluster_.remove_by_force("a");
  cluster_.run_for(seconds(100));
  EXPECT_EQ(cluster_.text("b", "status.phase"), "Running");
}

TEST_P(ClaimsTest, AWaitingPodCanBeDeleted) {
  create("a", kOne, kUses);
  cluster_.run_for(seconds(5));
  cluster_.remove("a");
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
}

TEST_P(ClaimsTest, PodsWithoutClaimsAskForNone) {
  cluster_.create(json(R"({"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}})"));
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(cluster_.count(agent::Verb::kGet, "resourceclaims"), 0u);
  EXPECT_EQ(health("a"), "");
}

TEST(ExtendedClaims, SkipTheDevicePlugin) {
  FakeCluster::Options o;
  o.pods.device_plugins = true;
  FakeCluster cluster(o);
  DraDevices devices;
  devices.count = 8;
  cluster.set_driver(std::make_shared<const DraDriver>(DraDriver{&devices, "oracle-0", {}}));
  std::string body;
  cluster.intercept = [&body](const agent::ApiRequest& r) -> std::optional<agent::ApiResponse> {
    if (!r.target.starts_with(kClaims)) return std::nullopt;
    body = R"({"metadata":{"uid":"u"},"status":{"reservedFor":[{"uid":")" + kA +
           R"("}],"allocation":{"devices":{"results":[)"
           R"({"request":"r0","driver":"gpu.nvidia.com","pool":"oracle-0","device":"gpu-0"}]}}}})";
    return agent::ApiResponse{200, body, Duration(0)};
  };
  cluster.create(json(
      R"({"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x","resources":{"limits":)"
      R"({"nvidia.com/gpu":"1"}}}]},"status":{"extendedResourceClaimStatus":{"resourceClaimName":"e","requestMappings":[)"
      R"({"containerName":"c","resourceName":"nvidia.com/gpu","requestName":"r0"}]}}})"));
  cluster.run_for(seconds(5));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Running");
  EXPECT_EQ(cluster.count(agent::Verb::kGet, "resourceclaims/e"), 1u);
  const kube::JsonArray* list = get_array(*cluster.pod("a"), "status.containerStatuses");
  EXPECT_EQ(kube::find_key(list->at(0), "allocatedResourcesStatus"), nullptr);
  const auto claims = cluster.manager().describe({}).at(0).containers.at(0).claims;
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].devices.at(0).device, "gpu-0");
}

}  // namespace
}  // namespace ghostfleet
