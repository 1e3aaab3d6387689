#include "emulator/fleet/fleet.h"

#include <gtest/gtest.h>

#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/remove.h"
#include "emulator/fleet/single_node.h"
#include "emulator/fleet/test_fleet.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kLease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/";

kube::Json pod_on(const std::string& node, const std::string& name) {
  return *kube::parse_json(R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
                           R"(","namespace":"default"},"spec":{"nodeName":")" + node +
                           R"(","containers":[{"name":"c","image":"registry.example.test/web:1"}]},)" +
                           R"("status":{"phase":"Pending"}})");
}

std::string phase_of(FakeApi& api, const std::string& name) {
  const auto pod = api.get("/api/v1/namespaces/default/pods/" + name);
  return pod ? std::string(kube::get_string(*pod, "status.phase")) : "gone";
}

TEST(Fleet, RegistersRenewsAndStopsCleanly) {
  FakeApi api;
  FleetOptions o = small_fleet(api, 300);
  o.lease_duration = seconds(2);
  std::atomic<bool> all_ready = false;
  FleetCallbacks callbacks;
  callbacks.all_ready = [&] { all_ready = true; };
  auto fleet = Fleet::start(o, callbacks);
  ASSERT_TRUE(fleet.ok()) << fleet.error().message();
  ASSERT_TRUE(eventually([&] { return all_ready.load(); }));
  EXPECT_EQ(api.count_ready(), 300u);
  EXPECT_EQ(api.count("/apis/storage.k8s.io/v1/csinodes/"), 300u);
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().renewals > 1500; }));
  const FleetStats s = (*fleet)->snapshot();
  EXPECT_EQ(s.ready, 300u);
  EXPECT_GT(s.ready_seconds, 0);
  EXPECT_EQ(s.not_ready_transitions, 0u);
  EXPECT_TRUE(s.errors.empty());
  EXPECT_EQ(s.requests.at("POST nodes"), 300u);
  EXPECT_LT(s.lateness_p99, 0.5);
  (*fleet)->stop();
  EXPECT_EQ(api.count("/api/v1/nodes/"), 300u);
}

TEST(Fleet, LeasesAreWrittenInProtobufButToOurOwnServer) {
  for (const bool own : {false, true}) {
    FakeApi api;
    api.set_raw_fault([own](const std::string&, const std::string& target) -> std::optional<FakeApi::RawAnswer> {
      if (!own || target != "/version") return std::nullopt;
      return FakeApi::RawAnswer{200, "application/json", R"({"gitVersion":"v1.36.3+ghostfleet"})"};
    });
    FleetOptions o = small_fleet(api, 5);
    o.lease_duration = seconds(2);
    auto fleet = Fleet::start(o);
    ASSERT_TRUE(fleet.ok()) << fleet.error().message();
    ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().renewals > 30; }));
    (*fleet)->stop();
    const size_t created = api.requests("POST", "/apis/coordination.k8s.io/");
    const size_t renewed = api.requests("PUT", kLease);
    EXPECT_EQ(created, 5u);
    EXPECT_EQ(api.in_protobuf("POST /apis/coordination.k8s.io/"), own ? 0 : created);
    EXPECT_EQ(api.in_protobuf(std::string("PUT ") + kLease), own ? 0 : renewed);
    EXPECT_EQ(api.in_protobuf("POST /api/v1/nodes"), 0u);  // the rest is JSON for both
    EXPECT_EQ(api.requests("GET", kLease), 0u);            // no version was lost
    const auto lease = api.get(std::string(kLease) + "n-3");
    ASSERT_TRUE(lease);
    EXPECT_EQ(kube::get_string(*lease, "spec.holderIdentity"), "n-3");
    EXPECT_EQ(kube::get_int(*lease, "spec.leaseDurationSeconds"), 2);
    EXPECT_TRUE((*fleet)->snapshot().errors.empty());
  }
}

TEST(Fleet, ARestartTakesItsNodesOver) {
  FakeApi api;
  {
    auto fleet = Fleet::start(small_fleet(api, 100));
    ASSERT_TRUE(fleet.ok());
    ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 100; }));
    ASSERT_TRUE(eventually([&] { return api.count(kLease) == 100; }));
  }
  const auto before = api.get("/api/v1/nodes/n-7");
  api.clear_log();
  FleetOptions o = small_fleet(api, 120);
  o.lease_duration = seconds(4);
  auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 120; }));
  ASSERT_TRUE(eventually([&] { return api.requests("PUT", kLease) >= 120; }));
  EXPECT_EQ(api.requests("POST", "/api/v1/nodes"), 20u);
  EXPECT_EQ((*fleet)->snapshot().taken_over, 100u);
  EXPECT_EQ((*fleet)->snapshot().not_ready_transitions, 0u);
  EXPECT_TRUE(kube::json_equal(kube::Json(*kube::get_array(*before, "status.conditions")),
                               kube::Json(*kube::get_array(*api.get("/api/v1/nodes/n-7"), "status.conditions"))));
}

TEST(Fleet, ARestartAfterTheGracePeriodBringsEveryNodeBack) {
  FakeApi api;
  {
    auto fleet = Fleet::start(small_fleet(api, 60));
    ASSERT_TRUE(fleet.ok());
    ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 60 && api.count(kLease) == 60; }));
  }
  for (int i = 0; i < 60; ++i) {
    api.edit("/api/v1/nodes/n-" + std::to_string(i), [](kube::Json& node) {
      for (kube::Json& c : kube::ensure_array(node, "status.conditions")) c.get_object()["status"] = "Unknown";
    });
  }
  api.clear_log();
  auto fleet = Fleet::start(small_fleet(api, 60));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 60; }));
  EXPECT_EQ(api.count_ready(), 60u);
  EXPECT_EQ(api.requests("POST", "/api/v1/nodes"), 0u);
}

TEST(Fleet, ANodeMayHaveAConnectionOfItsOwn) {
  FakeApi api;
  FleetOptions o = small_fleet(api, 12);
  o.connections = ConnectionMode::kPerNode;
  auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 12; }));
  EXPECT_EQ(api.requests("GET", "/api/v1/services?"), 12u);
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().connections == 12; }));
  api.put("/api/v1/namespaces/default/pods/p", pod_on("n-3", "p"));
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running"; }));
}

TEST(Fleet, NodesOfOthersAreLeftAlone) {
  FakeApi api;
  api.put("/api/v1/nodes/n-3", *kube::parse_json(R"({"metadata":{"name":"n-3"},"status":{}})"));
  auto fleet = Fleet::start(small_fleet(api, 10));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 9 && (*fleet)->snapshot().not_ours == 1; }));
  EXPECT_EQ((*fleet)->snapshot().not_ours_examples, std::vector<std::string>{"n-3"});
  EXPECT_GE((*fleet)->snapshot().ready_seconds, 0);
  (*fleet)->stop();
  auto report = remove_fleet(api.config(), "f1");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->nodes, 9u);
  EXPECT_EQ(api.count("/api/v1/nodes/"), 1u);
  EXPECT_EQ(api.count(kLease), 0u);
  EXPECT_EQ(api.count("/apis/storage.k8s.io/v1/csinodes/"), 0u);
}

TEST(Fleet, PodsFromBeforeAndPodsOfLateNodesRun) {
  FakeApi api;
  api.put("/api/v1/namespaces/default/pods/early", pod_on("n-2", "early"));
  api.put("/api/v1/namespaces/default/pods/other", pod_on("elsewhere", "other"));
  FleetOptions o = small_fleet(api, 20);
  o.register_rate = 20;  // the last node comes a second after its pod
  api.put("/api/v1/namespaces/default/pods/late", pod_on("n-19", "late"));
  auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return phase_of(api, "early") == "Running" && phase_of(api, "late") == "Running"; }));
  api.put("/api/v1/namespaces/default/pods/now", pod_on("n-5", "now"));
  ASSERT_TRUE(eventually([&] { return phase_of(api, "now") == "Running"; }));
  EXPECT_EQ(phase_of(api, "other"), "Pending");
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().pods_running == 3; }));
}

TEST(Fleet, APodStartsAtOnceOnAFleetThatReadsAnswersTogether) {
  FakeApi api;
  FleetOptions o = small_fleet(api, 40);
  o.lease_duration = seconds(2);  // renewed every half a second
  auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok());
  // Long after the last registration only heartbeats are on their way.
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().renewals > 40 * 9; }));
  const TimePoint begin = SystemClock::instance().now();
  api.put("/api/v1/namespaces/default/pods/p", pod_on("n-7", "p"));
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running"; }));
  EXPECT_LT(SystemClock::instance().now() - begin, milliseconds(900));
  EXPECT_LT((*fleet)->snapshot().lateness_p99, 0.5);
}

TEST(Fleet, SurvivesAServerThatRefusesAndWatchesThatAreCut) {
  FakeApi api;
  std::atomic<int> turn = 0;
  api.set_fault([&](const std::string& method, const std::string& target) -> std::optional<int> {
    if (method == "GET" || turn++ % 5 != 0) return std::nullopt;
    return target.find("leases") != std::string::npos ? 500 : 429;
  });
  auto fleet = Fleet::start(small_fleet(api, 50));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 50; }));
  EXPECT_GT((*fleet)->snapshot().errors.at("429"), 0u);
  api.set_fault(nullptr);
  api.cut_watches();
  api.edit("/api/v1/nodes/n-4", [](kube::Json& node) {
    for (kube::Json& c : kube::ensure_array(node, "status.conditions")) c.get_object()["status"] = "Unknown";
  });
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().not_ready_transitions == 1; }));
  ASSERT_TRUE(eventually([&] { return api.count_ready() == 50; }));
}

TEST(Fleet, ADeletedNodeStaysDeleted) {
  FakeApi api;
  auto fleet = Fleet::start(small_fleet(api, 5));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 5; }));
  api.erase("/api/v1/nodes/n-1");
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().deleted == 1; }));
  EXPECT_EQ((*fleet)->snapshot().ready, 4u);
  EXPECT_FALSE(api.get("/api/v1/nodes/n-1"));
}

TEST(Fleet, TheServerGoesAwayAndComesBack) {
  auto api = std::make_unique<FakeApi>();
  FleetOptions o = small_fleet(*api, 40);
  o.lease_duration = seconds(2);
  auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 40 && api->count(kLease) == 40; }));
  const uint16_t port = api->port();
  const auto objects = api->objects();
  api.reset();
  ASSERT_TRUE(eventually([&] {
    const auto errors = (*fleet)->snapshot().errors;
    uint64_t all = 0;
    for (const auto& [kind, n] : errors) all += n;
    return all > 40;
  }));
  api = std::make_unique<FakeApi>(port);
  for (const auto& [path, object] : objects) api->put(path, object);
  ASSERT_TRUE(eventually([&] { return api->requests("PUT", kLease) > 200; }));
  EXPECT_EQ((*fleet)->snapshot().ready, 40u);
  EXPECT_EQ(api->requests("POST", "/api/v1/nodes"), 0u);
}

TEST(Fleet, StartingSaysWhatIsWrong) {
  FakeApi api;
  FleetOptions o = small_fleet(api, 5);
  o.name = "Not A Name";
  EXPECT_FALSE(Fleet::start(o).ok());
  o = small_fleet(api, 5);
  o.groups[0].node.capacity = {{"cpu", "2"}, {"pods", "110"}};
  o.groups[0].node.allocatable = {{"cpu", "2500m"}, {"pods", "110"}};
  EXPECT_EQ(Fleet::start(o).error().message(), "nodes n-{index}: allocatable cpu: 2500m is more than the capacity, 2");
  o = small_fleet(api, 5);
  api.set_fault([](const std::string&, const std::string&) { return std::optional<int>(403); });
  auto refused = Fleet::start(o);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("list nodes"), std::string::npos) << refused.error().message();
}

TEST(SingleNode, OpensTheWatchesOfAKubelet) {
  FakeApi api;
  SingleNodeOptions o;
  o.client = api.config();
  o.identity.name = "solo";
  o.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
  auto node = SingleNode::start(o);
  ASSERT_TRUE(node.ok()) << node.error().message();
  ASSERT_TRUE(eventually([&] { return (*node)->snapshot().ready == 1; }));
  api.put("/api/v1/namespaces/default/pods/p", pod_on("solo", "p"));
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running"; }));
  for (const char* path : {"/api/v1/nodes?", "/api/v1/services?", "/api/v1/pods?",
                           "/apis/storage.k8s.io/v1/csidrivers?", "/apis/node.k8s.io/v1/runtimeclasses?"}) {
    EXPECT_GE(api.requests("GET", path), 1u) << path;
  }
  const auto object = api.get("/api/v1/nodes/solo");
  EXPECT_EQ(kube::get_object(*object, "metadata.labels")->if_contains("ghostfleet.dev/fleet"), nullptr);
}

}  // namespace
}  // namespace ghostfleet::emulator
