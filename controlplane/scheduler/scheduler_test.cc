// The scheduler against the real Api and Store, in process.
#include "controlplane/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "controlplane/apiserver/api_impl.h"
#include "tests/support/waits.h"

namespace ghostfleet::controlplane {
namespace {

using kube::get_string;
using kube::Json;

class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() : api_(ApiOptions{}, SystemClock::instance()), ctx_(internal_context("test")) {
    make("namespaces", "", R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t"}})");
    make("serviceaccounts", "t", R"({"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}})");
  }
  void start() {
    auto started = Scheduler::start(api_, {});
    ASSERT_TRUE(started.ok()) << started.error().to_string();
    scheduler_ = std::move(*started);
  }
  void make(std::string_view plural, std::string_view ns, const std::string& text) {
    auto object = kube::parse_json(text);
    ASSERT_TRUE(object.ok()) << object.error().to_string();
    auto made = api_.create(*api_.find("", "v1", plural), ns, std::move(*object), ctx_);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  void node(const std::string& name, const std::string& cpu = "2") {
    make("nodes", "",
         R"({"apiVersion":"v1","kind":"Node","metadata":{"name":")" + name + R"("},"status":{"allocatable":{"cpu":")" +
             cpu + R"(","memory":"4Gi","pods":"20"}}})");
    // Whatever admission adds to new nodes, these are ready.
    (void)api_.modify(
        *api_.find("", "v1", "nodes"), "", name, "",
        [](Json& live) -> kube::ApiResult<bool> {
          kube::erase_path(live, "spec.taints");
          return true;
        },
        ctx_);
  }
  void pod(const std::string& name, const std::string& cpu, const std::string& more = "") {
    make("pods", "t",
         R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
             R"("},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":")" + cpu + R"("}}}])" +
             more + "}}");
  }
  Json read(const std::string& name) {
    const ObjectRef object = api_.store().get(api_.find("", "v1", "pods")->store_kind, "t/" + name);
    return object ? std::move(*kube::parse_json(object->json)) : Json();
  }
  std::string node_of(const std::string& name) { return std::string(get_string(read(name), "spec.nodeName")); }
  std::string refusal(const std::string& name) {
    const Json pod = read(name);
    const kube::JsonArray* conditions = kube::get_array(pod, "status.conditions");
    if (conditions == nullptr) return "";
    for (const Json& c : *conditions) {
      if (get_string(c, "type") == "PodScheduled" && get_string(c, "status") == "False") {
        return std::string(get_string(c, "message"));
      }
    }
    return "";
  }
  static bool eventually(const std::function<bool()>& done) {
    return tests::eventually(done, std::chrono::seconds(10));
  }
  ApiImpl api_;
  RequestContext ctx_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, BindsAndTellsIt) {
  start();
  node("n1");
  pod("p", "1");
  ASSERT_TRUE(eventually([&] { return node_of("p") == "n1"; }));
  EXPECT_TRUE(eventually([&] {
    const auto events = api_.store().list(api_.find("", "v1", "events")->store_kind, {.prefix = "t/"});
    // There may be others: the pod may have been seen before the node.
    return events.ok() && std::any_of(events->items.begin(), events->items.end(), [](const auto& event) {
             return event->json.find("Successfully assigned t/p to n1") != std::string::npos;
           });
  }));
}

TEST_F(SchedulerTest, WhatDoesNotFitWaitsAndIsWokenByRoom) {
  start();
  node("n1");
  pod("a", "1900m");
  ASSERT_TRUE(eventually([&] { return node_of("a") == "n1"; }));
  pod("b", "1900m");
  ASSERT_TRUE(eventually([&] { return refusal("b") == "0/1 nodes are available: 1 Insufficient cpu."; }));
  (void)api_.remove(*api_.find("", "v1", "pods"), "t", "a", {.grace_period_seconds = 0}, ctx_);
  EXPECT_TRUE(eventually([&] { return node_of("b") == "n1"; }));
  pod("c", "1500m");
  ASSERT_TRUE(eventually([&] { return !refusal("c").empty(); }));
  node("n2");
  EXPECT_TRUE(eventually([&] { return node_of("c") == "n2"; }));
}

TEST_F(SchedulerTest, OtherSchedulersPodsAndGatesAreLeftAlone) {
  node("n1");
  pod("other", "1m", R"(,"schedulerName":"theirs")");
  pod("gated", "1m", R"(,"schedulingGates":[{"name":"g"}])");
  start();
  pod("mine", "1m");
  ASSERT_TRUE(eventually([&] { return node_of("mine") == "n1"; }));
  EXPECT_EQ(node_of("other"), "");
  EXPECT_EQ(node_of("gated"), "");
}

TEST_F(SchedulerTest, AMoreImportantPodSendsAnotherAwayAndGetsItsRoom) {
  start();
  for (const auto& [name, more] : {std::pair("high", ""), std::pair("polite", R"(,"preemptionPolicy":"Never")")}) {
    auto object = kube::parse_json(
        std::string(R"({"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":")") + name +
        R"("},"value":1000)" + more + "}");
    ASSERT_TRUE(
        api_.create(*api_.find("scheduling.k8s.io", "v1", "priorityclasses"), "", std::move(*object), ctx_).ok());
  }
  node("n1");
  pod("small", "100m");
  pod("low", "1500m");
  ASSERT_TRUE(eventually([&] { return node_of("low") == "n1" && node_of("small") == "n1"; }));
  pod("polite", "1500m", R"(,"priorityClassName":"polite")");
  ASSERT_TRUE(eventually([&] { return !refusal("polite").empty(); }));
  EXPECT_TRUE(get_string(read("low"), "metadata.deletionTimestamp").empty());
  pod("high", "1500m", R"(,"priorityClassName":"high")");
  ASSERT_TRUE(eventually([&] { return !get_string(read("low"), "metadata.deletionTimestamp").empty(); }));
  ASSERT_TRUE(eventually([&] { return get_string(read("high"), "status.nominatedNodeName") == "n1"; }));
  const std::string low = kube::to_json(read("low"));
  EXPECT_NE(low.find(R"("reason":"PreemptionByScheduler")"), std::string::npos) << low;
  EXPECT_EQ(node_of("high"), "");
  EXPECT_TRUE(get_string(read("small"), "metadata.deletionTimestamp").empty());
  // The room is kept: nobody else gets it when the victim has left.
  pod("other", "400m");
  (void)api_.remove(*api_.find("", "v1", "pods"), "t", "low", {.grace_period_seconds = 0}, ctx_);
  EXPECT_TRUE(eventually([&] { return node_of("high") == "n1" && node_of("other") == "n1"; }));
  EXPECT_EQ(node_of("polite"), "");
}

TEST_F(SchedulerTest, WhoABudgetSpeaksForStaysWhenAnotherCanLeave) {
  auto high = kube::parse_json(
      R"({"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":1000})");
  ASSERT_TRUE(api_.create(*api_.find("scheduling.k8s.io", "v1", "priorityclasses"), "", std::move(*high), ctx_).ok());
  // Nobody keeps its status here: no disruption is allowed.
  auto budget = kube::parse_json(
      R"({"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"},
          "spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"kept"}}}})");
  ASSERT_TRUE(api_.create(*api_.find("policy", "v1", "poddisruptionbudgets"), "t", std::move(*budget), ctx_).ok());
  start();
  node("n1");
  const auto labelled = [this](const std::string& name, const std::string& app) {
    make("pods", "t",
         R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name + R"(","labels":{"app":")" + app +
             R"("}},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}})");
  };
  labelled("first", "free");
  ASSERT_TRUE(eventually([&] { return node_of("first") == "n1"; }));
  labelled("second", "kept");  // made later: without the budget it would be the one to leave
  ASSERT_TRUE(eventually([&] { return node_of("second") == "n1"; }));
  pod("important", "1", R"(,"priorityClassName":"high")");
  ASSERT_TRUE(eventually([&] { return get_string(read("important"), "status.nominatedNodeName") == "n1"; }));
  // Who leaves is told after the nomination.
  ASSERT_TRUE(eventually([&] { return !get_string(read("first"), "metadata.deletionTimestamp").empty(); }));
  EXPECT_TRUE(get_string(read("second"), "metadata.deletionTimestamp").empty());
}

// Claims of devices: a driver "d.io" with two devices on each node.
class ClaimsTest : public SchedulerTest {
 protected:
  ClaimsTest() {
    make_resource(
        "deviceclasses", "",
        R"({"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"gpu"},"spec":{"selectors":)"
        R"([{"cel":{"expression":"device.driver == 'd.io'"}}]}})");
  }
  void make_resource(std::string_view plural, std::string_view ns, const std::string& text) {
    auto object = kube::parse_json(text);
    ASSERT_TRUE(object.ok()) << object.error().to_string();
    auto made = api_.create(*api_.find("resource.k8s.io", "v1", plural), ns, std::move(*object), ctx_);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  void slice(const std::string& node) {
    make_resource("resourceslices", "",
                  R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s-)" + node +
                      R"("},"spec":{"driver":"d.io","nodeName":")" + node + R"(","pool":{"name":")" + node +
                      R"(","generation":1,"resourceSliceCount":1},"devices":[{"name":"g0"},{"name":"g1"}]}})");
  }
  void claim(const std::string& name, int count = 1) {
    make_resource("resourceclaims", "t",
                  R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":")" + name +
                      R"("},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu","count":)" +
                      std::to_string(count) + "}}]}}}");
  }
  void claimant(const std::string& name, const std::string& claim, const std::string& more = "") {
    pod(name, "100m", R"(,"resourceClaims":[{"name":"c","resourceClaimName":")" + claim + "\"}]" + more);
  }
  Json read_claim(const std::string& name) {
    const ObjectRef object =
        api_.store().get(api_.find("resource.k8s.io", "v1", "resourceclaims")->store_kind, "t/" + name);
    return object ? std::move(*kube::parse_json(object->json)) : Json();
  }
  size_t devices_of(const std::string& name) {
    const Json claim = read_claim(name);
    const kube::JsonArray* results = kube::get_array(claim, "status.allocation.devices.results");
    return results == nullptr ? 0 : results->size();
  }
};

TEST_F(ClaimsTest, AClaimIsAllocatedReservedAndBound) {
  start();
  node("n1");
  node("n2");
  slice("n2");
  claim("a", 2);
  claimant("p", "a");
  ASSERT_TRUE(eventually([&] { return node_of("p") == "n2"; })) << refusal("p");
  const Json a = read_claim("a");
  EXPECT_EQ(devices_of("a"), 2u);
  EXPECT_EQ(get_string(kube::get_array(a, "status.reservedFor")->at(0), "uid"), get_string(read("p"), "metadata.uid"));
  EXPECT_EQ(kube::get_array(a, "metadata.finalizers")->at(0).get_string(), "resource.kubernetes.io/delete-protection");
  claimant("q", "a");
  ASSERT_TRUE(eventually([&] { return node_of("q") == "n2"; })) << "a claim is shared where it is";
  EXPECT_EQ(kube::get_array(read_claim("a"), "status.reservedFor")->size(), 2u);
}

TEST_F(ClaimsTest, AtMostAsManyAsThereAreDevices) {
  for (int n = 0; n < 3; ++n) node("n" + std::to_string(n), "8");
  for (int n = 0; n < 3; ++n) slice("n" + std::to_string(n));
  for (int i = 0; i < 8; ++i) {
    claim("c" + std::to_string(i));
    claimant("p" + std::to_string(i), "c" + std::to_string(i));
  }
  start();
  const auto count = [&](const auto& test) {
    int n = 0;
    for (int i = 0; i < 8; ++i) n += test("p" + std::to_string(i)) ? 1 : 0;
    return n;
  };
  const auto placed = [&](const std::string& p) { return !node_of(p).empty(); };
  const auto refused = [&](const std::string& p) { return !refusal(p).empty(); };
  ASSERT_TRUE(eventually([&] { return count(placed) == 6 && count(refused) == 2; }));
  std::set<std::string> given;
  for (int i = 0; i < 8; ++i) {
    const Json c = read_claim("c" + std::to_string(i));
    const kube::JsonArray* results = kube::get_array(c, "status.allocation.devices.results");
    if (results == nullptr) continue;
    given.insert(std::string(get_string(results->at(0), "pool")) + std::string(get_string(results->at(0), "device")));
  }
  EXPECT_EQ(given.size(), 6u) << "no device is given twice";
  for (int i = 0; i < 8; ++i) {
    const std::string name = "p" + std::to_string(i);
    if (refused(name)) {
      EXPECT_EQ(refusal(name), "0/3 nodes are available: 3 cannot allocate all claims.");
    }
  }
  node("n3", "8");
  slice("n3");
  EXPECT_TRUE(eventually([&] { return count(placed) == 8; })) << "who waits goes on when devices come";
}

TEST_F(ClaimsTest, WaitsForWhatIsMissing) {
  start();
  node("n1");
  slice("n1");
  claimant("p", "later");
  ASSERT_TRUE(eventually([&] { return !refusal("p").empty(); }));
  EXPECT_EQ(refusal("p"), "0/1 nodes are available: resourceclaim \"later\" not found.");
  claim("later");
  EXPECT_TRUE(eventually([&] { return node_of("p") == "n1"; }));
}

TEST_F(ClaimsTest, AnExtendedResourceComesFromAPluginOrFromDevices) {
  start();
  node("n1", "8");
  slice("n1");
  const auto user = [this](const std::string& name) {
    make("pods", "t",
         R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
             R"("},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"d.io/gpu":"2"}}}]}})");
  };
  user("p");
  ASSERT_TRUE(eventually([&] { return refusal("p") == "0/1 nodes are available: 1 Insufficient d.io/gpu."; }))
      << refusal("p");
  make_resource(
      "deviceclasses", "",
      R"({"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"ext"},"spec":{)"
      R"("extendedResourceName":"d.io/gpu","selectors":[{"cel":{"expression":"device.driver == 'd.io'"}}]}})");
  ASSERT_TRUE(eventually([&] { return node_of("p") == "n1"; })) << refusal("p");
  const std::string claim(get_string(read("p"), "status.extendedResourceClaimStatus.resourceClaimName"));
  EXPECT_TRUE(claim.starts_with("p-extended-resources-")) << claim;
  EXPECT_EQ(devices_of(claim), 2u);
  user("q");
  ASSERT_TRUE(eventually([&] { return !refusal("q").empty(); }));
  EXPECT_EQ(refusal("q"), "0/1 nodes are available: 1 cannot allocate all claims.");
  make("nodes", "",
       R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n2"},"status":{"allocatable":{"cpu":"2","memory":"4Gi",)"
       R"("pods":"20","d.io/gpu":"4"}}})");
  (void)api_.modify(
      *api_.find("", "v1", "nodes"), "", "n2", "",
      [](Json& live) -> kube::ApiResult<bool> {
        kube::erase_path(live, "spec.taints");
        return true;
      },
      ctx_);
  ASSERT_TRUE(eventually([&] { return node_of("q") == "n2"; })) << refusal("q");
  EXPECT_EQ(kube::find_path(read("q"), "status.extendedResourceClaimStatus"), nullptr) << "a plugin gives them there";
}

TEST_F(ClaimsTest, AnAllocationThatHoldsItsOnlyPodBackIsGivenUp) {
  node("n1", "1");
  node("n2", "4");
  slice("n1");
  slice("n2");
  claim("a");
  // As left by a scheduler that died: on a node where the pod does not fit.
  (void)api_.modify(
      *api_.find("resource.k8s.io", "v1", "resourceclaims"), "t", "a", "status",
      [](Json& live) -> kube::ApiResult<bool> {
        kube::set_path(
            live, "status.allocation",
            *kube::parse_json(R"({"devices":{"results":[{"request":"r","driver":"d.io","pool":"n1","device":"g0"}]},)"
                              R"("nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name",)"
                              R"("operator":"In","values":["n1"]}]}]}})"));
        return true;
      },
      ctx_);
  pod("p", "2", R"(,"resourceClaims":[{"name":"c","resourceClaimName":"a"}])");
  start();
  EXPECT_TRUE(eventually([&] { return node_of("p") == "n2"; })) << refusal("p");
}

}  // namespace
}  // namespace ghostfleet::controlplane
