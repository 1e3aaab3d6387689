// The scheduler against the real Api and Store, in process.
#include "controlplane/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace ghostfleet::controlplane
