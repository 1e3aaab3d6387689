#include "agent/node/node_machine.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>

#include "agent/node/node_requests.h"
#include "kube/api/json.h"
#include "kube/api/kinds.h"
#include "kube/api/patch.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A small API of nodes, leases, CSINodes and events, answering on the machine's own clock.
class FakeApi final : public NodeHost {
 public:
  explicit FakeApi(NodeOptions options = {}, NodeTemplate node_template = small_template()) {
    class_ = *NodeClass::create(std::move(node_template), std::move(options));
    identity_.name = "n-1";
    identity_.internal_ip = "10.0.1.0";
    derive_ids("test", &identity_);
  }

  static NodeTemplate small_template() {
    NodeTemplate t;
    t.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}};
    t.provider_id = "aws:///us-east-1a/{instance_id}";
    return t;
  }

  TimePoint now() const override { return clock_.now(); }
  WallTime wall_now() const override { return clock_.wall_now(); }
  Rng& rng() override { return rng_; }
  void send(ApiRequest request) override { waiting_.push_back(std::move(request)); }
  void arm(Tag tag, TimePoint at) override { timers_[tag] = at; }
  void disarm(Tag tag) override { timers_.erase(tag); }
  const NodeClass& node_class() const override { return *class_; }
  const NodeIdentity& identity() override { return identity_; }
  const std::string& name() override { return identity_.name; }
  void open_watch(NodeWatch watch) override { log.push_back("watch " + std::to_string(static_cast<int>(watch))); }
  void notice(NodeNotice what, std::string_view detail) override { notices.emplace_back(what, detail); }
  void renewed(Duration lateness) override {
    ++renewals;
    worst_lateness = std::max(worst_lateness, lateness);
  }

  void heartbeat_failed() override { ++heartbeat_failures; }
  void found_existing(std::string_view json) override { found.emplace_back(json); }
  std::string images() override { return images_on_disk; }
  std::optional<std::vector<DeviceCount>> device_counts() override { return counts; }

  bool noticed(NodeNotice what) const {
    return std::any_of(notices.begin(), notices.end(), [what](const auto& n) { return n.first == what; });
  }

  // Runs timers and answers until `d` has passed.
  void run(NodeMachine& m, Duration d) {
    const TimePoint end = now() + d;
    for (;;) {
      while (!waiting_.empty()) {
        ApiRequest request = std::move(waiting_.front());
        waiting_.pop_front();
        std::string body;
        const ApiResponse r = answer(request, &body);
        m.on_response(*this, request.tag, {r.status, body, r.retry_after});
      }
      auto next = timers_.end();
      for (auto it = timers_.begin(); it != timers_.end(); ++it) {
        if (next == timers_.end() || it->second < next->second) next = it;
      }
      if (next == timers_.end() || next->second > end) break;
      const Tag tag = next->first;
      if (next->second > now()) clock_.advance(next->second - now());
      timers_.erase(next);
      m.on_timer(*this, tag);
    }
    if (end > now()) clock_.advance(end - now());
  }

  Json* node() { return objects.contains("/api/v1/nodes/n-1") ? &objects["/api/v1/nodes/n-1"] : nullptr; }
  Json* lease() {
    const std::string path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n-1";
    return objects.contains(path) ? &objects[path] : nullptr;
  }
  std::string condition(std::string_view type, std::string_view field = "status") {
    for (const Json& c : *kube::get_array(*node(), "status.conditions")) {
      if (kube::get_string(c, "type") == type) return std::string(kube::get_string(c, field));
    }
    return "absent";
  }
  void set_condition(std::string_view type, std::string_view status) {
    for (Json& c : kube::ensure_array(*node(), "status.conditions")) {
      if (kube::get_string(c, "type") == type) c.get_object()["status"] = status;
    }
    stamp(*node());
  }
  void put_node(std::string_view json) {
    Json node = *kube::parse_json(json);
    kube::set_path(node, "metadata.uid", "5b0c1c7e-0000-4000-8000-00000000aaaa");
    stamp(node);
    objects["/api/v1/nodes/n-1"] = std::move(node);
  }
  void stamp(Json& object) {
    kube::set_path(object, "metadata.resourceVersion", kube::JsonString(std::to_string(++version)));
  }
  int count(std::string_view prefix) const {
    return static_cast<int>(
        std::count_if(log.begin(), log.end(), [prefix](const std::string& l) { return l.starts_with(prefix); }));
  }

  std::map<std::string, Json> objects;
  std::vector<std::string> log;
  std::vector<std::string> patches;  // bodies of status patches
  std::vector<std::pair<NodeNotice, std::string>> notices;
  // Answers instead of the API when it gives a status.
  std::function<std::optional<ApiResponse>(const ApiRequest&)> fault;
  int renewals = 0, heartbeat_failures = 0;
  std::optional<std::vector<DeviceCount>> counts;
  std::string images_on_disk;
  std::vector<std::string> found;
  Duration worst_lateness{0};
  uint64_t version = 100;
  uint64_t uids = 0;

 private:
  static std::string_view verb_name(Verb v) {
    static constexpr std::string_view kNames[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    return kNames[static_cast<size_t>(v)];
  }

  ApiResponse answer(const ApiRequest& r, std::string* body) {
    const auto broken = fault ? fault(r) : std::nullopt;
    const ApiResponse response = broken ? *broken : serve(r, body);
    log.push_back(std::string(verb_name(r.verb)) + " " + r.target + " " + std::to_string(response.status));
    return response;
  }

  ApiResponse serve(const ApiRequest& r, std::string* body) {
    std::string path = r.target.substr(0, r.target.find('?'));
    const bool status = path.ends_with("/status");
    if (status) path.resize(path.size() - 7);
    Json given;
    if (!r.body.empty()) {
      auto parsed = kube::parse_json(r.body);
      EXPECT_TRUE(parsed.ok()) << r.body;
      given = *parsed;
    }
    if (r.verb == Verb::kPost) return create(path, std::move(given), body);
    const auto it = objects.find(path);
    if (it == objects.end()) return {404, {}, {}};
    if (r.verb == Verb::kDelete) {
      objects.erase(it);
      return {200, {}, {}};
    }
    if (r.verb == Verb::kPut) {
      if (kube::get_string(given, "metadata.resourceVersion") !=
          kube::get_string(it->second, "metadata.resourceVersion")) {
        return {409, {}, {}};
      }
      it->second = std::move(given);
    }
    if (r.verb == Verb::kPatch) {
      if (status) patches.push_back(r.body);
      const kube::KindInfo* kind = kube::find_kind("", "v1", status ? "Node" : "Event");
      auto patched = kube::apply_strategic_merge_patch(it->second, given, *kind->type);
      if (!patched.ok()) return {422, {}, {}};
      it->second = std::move(patched).value();
    }
    if (r.verb != Verb::kGet) stamp(it->second);
    *body = kube::to_json(it->second);
    return {200, {}, {}};
  }

  ApiResponse create(const std::string& path, Json given, std::string* body) {
    const std::string target = path + "/" + std::string(kube::get_string(given, "metadata.name"));
    if (objects.contains(target)) return {409, {}, {}};
    kube::set_path(given, "metadata.uid",
                   kube::JsonString("5b0c1c7e-0000-4000-8000-00000000000" + std::to_string(++uids % 10)));
    stamp(given);
    *body = kube::to_json(given);
    objects[target] = std::move(given);
    return {201, {}, {}};
  }

  ManualClock clock_;
  Rng rng_{7};
  std::shared_ptr<const NodeClass> class_;
  NodeIdentity identity_;
  std::deque<ApiRequest> waiting_;
  std::map<Tag, TimePoint> timers_;
};

NodeOptions fleet_options() {
  NodeOptions o;
  o.fleet = "f1";
  return o;
}

NodeOptions full_options() {
  NodeOptions o;
  o.full_fidelity = true;
  o.events = NodeEvents::kAll;
  return o;
}

constexpr std::string_view kLease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

TEST(NodeMachine, IsSmall) { EXPECT_LE(sizeof(NodeMachine), 96u); }

TEST(NodeMachine, LightNodeIsReadyAfterFourWrites) {
  NodeOptions options = fleet_options();
  options.events = NodeEvents::kNone;
  FakeApi api(options);
  NodeMachine m;
  m.start(api);
  api.run(m, milliseconds(1));
  EXPECT_TRUE(m.ready());
  EXPECT_EQ(api.log,
            (std::vector<std::string>{"POST /api/v1/nodes 201", "POST " + std::string(kLease) + "?timeout=10s 201",
                                      "POST /apis/storage.k8s.io/v1/csinodes 201",
                                      "PATCH /api/v1/nodes/n-1/status?timeout=10s 200"}));
  EXPECT_EQ(api.condition("Ready"), "True");
  EXPECT_EQ(kube::get_string(*api.node(), "status.capacity.cpu"), "16");
  EXPECT_EQ(api.node()->at("metadata").at("labels").at("ghostfleet.dev/fleet"), "f1");
  EXPECT_EQ(kube::get_string(*api.lease(), "spec.holderIdentity"), "n-1");
  EXPECT_FALSE(kube::find_path(*api.lease(), "spec.acquireTime"));
}

TEST(NodeMachine, FullNodeStartsAsTheRecordedKubelet) {
  FakeApi api(full_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(30));
  ASSERT_TRUE(m.ready());
  std::vector<std::string> order;
  for (const std::string& line : api.log) {
    if (line.find("/events") == std::string::npos) order.push_back(line);
  }
  const std::string lease = std::string(kLease);
  const std::vector<std::string> wanted = {
      "watch 0",
      "watch 1",
      "watch 2",
      "watch 3",
      "GET /apis/storage.k8s.io/v1/csinodes/n-1?resourceVersion=0 404",
      "GET /api/v1/nodes/n-1 404",
      "GET " + lease + "/n-1?timeout=10s 404",
      "GET /api/v1/nodes/n-1?timeout=10s 404",
      "POST /api/v1/nodes 201",
      "watch 4",
      "PATCH /api/v1/nodes/n-1/status?timeout=10s 200",
      "GET /api/v1/nodes/n-1 200",
      "GET /apis/storage.k8s.io/v1/csinodes/n-1 404",
      "POST /apis/storage.k8s.io/v1/csinodes 201",
      "PATCH /api/v1/nodes/n-1/status?timeout=10s 200",
      "GET " + lease + "/n-1?timeout=10s 404",
      "GET /api/v1/nodes/n-1?timeout=10s 200",
      "POST " + lease + "?timeout=10s 201",
      "PUT " + lease + "/n-1?timeout=10s 200",
  };
  ASSERT_GE(order.size(), wanted.size());
  order.resize(wanted.size());
  EXPECT_EQ(order, wanted);
  EXPECT_EQ(api.count("POST /api/v1/namespaces/default/events 201"), 6);
  EXPECT_EQ(api.count("PATCH /api/v1/namespaces/default/events/"), 3);
}

TEST(NodeMachine, RenewsEveryTenSecondsAndReportsEveryFiveMinutes) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(3600));
  EXPECT_GE(api.renewals, 340);
  EXPECT_LE(api.renewals, 362);
  EXPECT_EQ(api.worst_lateness, Duration(0));
  EXPECT_GE(api.patches.size(), 11u);
  EXPECT_LE(api.patches.size(), 15u);
  EXPECT_EQ(api.patches.back().find("lastTransitionTime"), std::string::npos);
}

TEST(NodeMachine, ALeaseOfTwelveSecondsIsRenewedEveryThree) {
  NodeOptions options = fleet_options();
  options.lease_duration = seconds(12);
  FakeApi api(options);
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(60));
  EXPECT_GE(api.renewals, 19);
  EXPECT_LE(api.renewals, 22);
  EXPECT_EQ(kube::get_int(*api.lease(), "spec.leaseDurationSeconds"), 12);
}

TEST(NodeMachine, ANodeOfSomebodyElseIsNotTouched) {
  FakeApi api(fleet_options());
  api.put_node(R"({"metadata":{"name":"n-1","labels":{"ghostfleet.dev/fleet":"other"}},"status":{}})");
  const Json before = *api.node();
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(60));
  EXPECT_EQ(m.phase(), NodeMachine::Phase::kNotOurs);
  EXPECT_TRUE(api.noticed(NodeNotice::kNotOurs));
  EXPECT_TRUE(kube::json_equal(before, *api.node()));
  EXPECT_EQ(api.lease(), nullptr);
}

TEST(NodeMachine, AnAdoptedBareNodeIsFilledAndMarked) {
  NodeOptions options = fleet_options();
  options.adopt = true;
  FakeApi api(options);
  api.put_node(
      R"({"metadata":{"name":"n-1"},"spec":{},"status":{"capacity":{"example.test/dongle":"4"},
          "conditions":[{"type":"GpuDbeProblem","status":"False","reason":"NoProblem"},
                        {"type":"Ready","status":"True","reason":"KubeletReady","lastTransitionTime":null}]}})");
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(1));
  EXPECT_TRUE(m.ready());
  EXPECT_EQ(kube::get_string(*api.node(), "status.capacity.cpu"), "16");
  EXPECT_EQ(api.node()->at("status").at("capacity").at("example.test/dongle"), "4");
  EXPECT_EQ(api.node()->at("metadata").at("annotations").at("ghostfleet.dev/adopted"), "true");
  EXPECT_EQ(api.node()->at("metadata").at("labels").at("kubernetes.io/hostname"), "n-1");
  EXPECT_EQ(api.condition("GpuDbeProblem", "reason"), "NoProblem");
  EXPECT_EQ(api.condition("Ready"), "True");
  EXPECT_NE(api.condition("Ready", "lastTransitionTime"), "");
  EXPECT_EQ(kube::get_string(*api.node(), "status.nodeInfo.kubeletVersion"), "v1.36.3");
}

TEST(NodeMachine, ANodeLeftByAnEarlierRunIsTakenOverWithoutAFlap) {
  FakeApi api(fleet_options());
  NodeMachine first;
  first.start(api);
  api.run(first, seconds(15));
  const std::string transition = api.condition("Ready", "lastTransitionTime");
  const auto version = std::stoull(std::string(kube::get_string(*api.lease(), "metadata.resourceVersion")));
  api.log.clear();
  NodeMachine second;
  EXPECT_TRUE(second.take_over(api, kube::to_json(*api.node()), version));
  EXPECT_TRUE(second.ready());
  api.run(second, seconds(11));
  EXPECT_EQ(api.count("POST"), 0);
  EXPECT_EQ(api.count("PUT " + std::string(kLease) + "/n-1?timeout=10s 200"), 1);
  EXPECT_EQ(api.condition("Ready", "lastTransitionTime"), transition);
}

TEST(NodeMachine, ANodeThatWentUnknownIsTakenOverLeaseFirst) {
  FakeApi api(fleet_options());
  NodeMachine first;
  first.start(api);
  api.run(first, seconds(15));
  api.set_condition("Ready", "Unknown");
  NodeMachine second;
  EXPECT_FALSE(second.take_over(api, kube::to_json(*api.node()), 0));
  api.run(second, milliseconds(1));
  EXPECT_GE(api.renewals, 2);
  EXPECT_FALSE(second.ready());
  second.resume(api);
  api.run(second, milliseconds(1));
  EXPECT_TRUE(second.ready());
  EXPECT_EQ(api.condition("Ready"), "True");
}

TEST(NodeMachine, ForeignConditionsSurviveHeartbeatsAndTheUnknownCycle) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(1));
  kube::ensure_array(*api.node(), "status.conditions")
      .push_back({{"type", "AcceleratedHardwareReady"}, {"status", "False"}, {"reason", "NvidiaXID79Error"}});
  for (const char* type : {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"})
    api.set_condition(type, "Unknown");
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(10));
  EXPECT_EQ(api.condition("Ready"), "True");
  EXPECT_EQ(api.condition("MemoryPressure"), "False");
  EXPECT_EQ(api.condition("AcceleratedHardwareReady", "reason"), "NvidiaXID79Error");
  api.run(m, seconds(1200));
  EXPECT_EQ(api.condition("AcceleratedHardwareReady"), "False");
}

TEST(NodeMachine, WhatAWatchTellsOfThePastChangesNothing) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  Json early;
  api.fault = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.verb == Verb::kPatch) early = *api.node();
    return std::nullopt;
  };
  api.run(m, seconds(1));
  ASSERT_EQ(kube::get_string(early, "metadata.name"), "n-1");
  m.on_node_seen(api, kube::to_json(early));  // Ready was False then
  api.run(m, seconds(20));
  EXPECT_EQ(api.patches.size(), 1u);
}

TEST(NodeMachine, AConflictOnTheLeaseIsReadAndRepeated) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(1));
  api.stamp(*api.lease());
  api.run(m, seconds(12));
  EXPECT_EQ(api.count("PUT " + std::string(kLease) + "/n-1?timeout=10s 409"), 1);
  EXPECT_GE(api.count("PUT " + std::string(kLease) + "/n-1?timeout=10s 200"), 1);
}

TEST(NodeMachine, ALeaseThatWasDeletedIsMadeAgain) {
  for (const bool full : {false, true}) {
    FakeApi api(full ? full_options() : fleet_options());
    NodeMachine m;
    m.start(api);
    api.run(m, seconds(15));
    api.objects.erase(std::string(kLease) + "/n-1");
    api.run(m, seconds(12));
    EXPECT_NE(api.lease(), nullptr) << full;
  }
}

TEST(NodeMachine, RetryAfterIsHonoured) {
  FakeApi api(fleet_options());
  api.fault = [](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.target == "/api/v1/nodes") return ApiResponse{429, {}, seconds(3)};
    return std::nullopt;
  };
  NodeMachine m;
  m.start(api);
  api.run(m, milliseconds(2900));
  EXPECT_EQ(api.count("POST /api/v1/nodes"), 1);
  api.fault = nullptr;
  api.run(m, seconds(3));
  EXPECT_TRUE(m.ready());
}

TEST(NodeMachine, AnOutageOfTwoMinutesSpreadsTheReturn) {
  // A hundred nodes lose the server and get it back: their renewals do not come within one second.
  std::vector<TimePoint> back;
  for (uint64_t i = 0; i < 100; ++i) {
    FakeApi api(fleet_options());
    for (uint64_t k = 0; k < i; ++k) api.rng().next();
    NodeMachine m;
    m.start(api);
    api.run(m, seconds(20));
    api.fault = [](const ApiRequest&) { return std::optional<ApiResponse>(ApiResponse{}); };
    api.run(m, seconds(120));
    api.fault = nullptr;
    const int renewals = api.renewals;
    const TimePoint start = api.now();
    while (api.renewals == renewals) api.run(m, milliseconds(100));
    back.push_back({(api.now() - start).count()});
    EXPECT_LE(api.now() - start, seconds(10));
  }
  int busiest = 0;
  for (const TimePoint a : back) {
    busiest = std::max(busiest, static_cast<int>(std::count_if(back.begin(), back.end(), [a](TimePoint b) {
                         return b >= a && b - a < seconds(1);
                       })));
  }
  EXPECT_LE(busiest, 35);
}

TEST(NodeMachine, AKubeletTriesFiveTimesInARowThenEnsures) {
  FakeApi api(full_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(30));
  api.log.clear();
  api.fault = [](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.priority == Priority::kHeartbeat) return ApiResponse{500, {}, {}};
    return std::nullopt;
  };
  api.run(m, seconds(12));
  EXPECT_EQ(api.count("PUT"), 5);
  EXPECT_GE(api.count("GET"), 2);
}

TEST(NodeMachine, ADeletedNodeIsNotMadeAgainUnlessAskedFor) {
  for (const bool recreate : {false, true}) {
    NodeOptions options = fleet_options();
    options.recreate_deleted = recreate;
    FakeApi api(options);
    NodeMachine m;
    m.start(api);
    api.run(m, seconds(5));
    const NodeUid uid = m.uid();
    api.objects.clear();
    m.on_node_deleted(api, uid);
    api.run(m, seconds(60));
    EXPECT_EQ(api.node() != nullptr, recreate);
    EXPECT_EQ(m.ready(), recreate);
    EXPECT_TRUE(api.noticed(NodeNotice::kDeleted));
  }
}

TEST(NodeMachine, ANodeMadeAgainBySomebodyIsResumed) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  api.objects.clear();
  m.on_node_deleted(api, m.uid());
  api.run(m, seconds(5));
  api.put_node(R"({"metadata":{"name":"n-1","labels":{"ghostfleet.dev/fleet":"f1"}},"spec":{},"status":{}})");
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(15));
  EXPECT_TRUE(m.ready());
  EXPECT_EQ(api.condition("Ready"), "True");
  ASSERT_NE(api.lease(), nullptr);
}

TEST(NodeMachine, APressureIsWrittenAtTheNextTickAndTakenBack) {
  FakeApi api;
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  m.set_pressure(api, 1u << static_cast<unsigned>(NodeCondition::kMemoryPressure));
  m.reclaiming(api, "memory");
  api.run(m, seconds(11));
  EXPECT_EQ(api.condition("MemoryPressure"), "True");
  EXPECT_EQ(api.condition("MemoryPressure", "reason"), "KubeletHasInsufficientMemory");
  EXPECT_EQ(api.condition("DiskPressure"), "False");
  EXPECT_EQ(api.condition("Ready"), "True");
  // Its own condition, seen in the watch, is no reason to write; one that somebody clears is.
  const auto writes = api.patches.size();
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(11));
  EXPECT_EQ(api.patches.size(), writes);
  api.set_condition("MemoryPressure", "False");
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(11));
  EXPECT_EQ(api.condition("MemoryPressure"), "True");
  m.set_pressure(api, 0);
  api.run(m, seconds(11));
  EXPECT_EQ(api.condition("MemoryPressure"), "False");
  EXPECT_EQ(api.condition("MemoryPressure", "reason"), "KubeletHasSufficientMemory");
  std::vector<std::string> reasons;
  for (const auto& [path, object] : api.objects) {
    if (path.find("/events") != std::string::npos) reasons.emplace_back(kube::get_string(object, "reason"));
  }
  for (const char* reason : {"EvictionThresholdMet", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"}) {
    EXPECT_EQ(std::count(reasons.begin(), reasons.end(), reason), 1) << reason;
  }
}

TEST(NodeMachine, UnhealthyDevicesAreNotAllocatable) {
  FakeApi api;
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  const auto gpus = [&](const char* list) {
    return std::string(kube::find_key(*kube::find_path(*api.node(), list), "nvidia.com/gpu")->get_string());
  };
  m.report_devices(api, {{"nvidia.com/gpu", 8, 5}}, kube::to_json(*api.node()));
  api.run(m, seconds(1));
  EXPECT_EQ(gpus("status.allocatable"), "5");
  EXPECT_EQ(gpus("status.capacity"), "8");
  const auto writes = api.patches.size();
  m.report_devices(api, {{"nvidia.com/gpu", 8, 5}}, kube::to_json(*api.node()));
  api.run(m, seconds(1));
  EXPECT_EQ(api.patches.size(), writes);
  m.report_devices(api, {}, kube::to_json(*api.node()));
  api.run(m, seconds(1));
  EXPECT_EQ(api.patches.size(), writes);
  m.report_devices(api, {{"nvidia.com/gpu", 0, 0}}, kube::to_json(*api.node()));
  api.run(m, seconds(1));
  EXPECT_EQ(gpus("status.capacity"), "0");
  api.counts = {{"nvidia.com/gpu", 8, 8}};
  bool refused = false;
  api.fault = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.tag == kTagDevices && !std::exchange(refused, true)) return ApiResponse{500, {}, {}};
    return std::nullopt;
  };
  m.devices_changed(api);
  api.run(m, seconds(1));
  EXPECT_EQ(gpus("status.allocatable"), "0");
  api.run(m, seconds(11));  // the write is tried again
  EXPECT_EQ(gpus("status.allocatable"), "8");
}

TEST(NodeMachine, AllocatableFollowsACapacityThatSomebodyGaveTheNode) {
  FakeApi api;
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  for (const char* amount : {"4", "6"}) {
    kube::ensure_object(*api.node(), "status.capacity")["example.test/dongle"] = amount;
    api.stamp(*api.node());
    m.on_node_seen(api, kube::to_json(*api.node()));
    api.run(m, seconds(10));
    EXPECT_EQ(api.node()->at("status").at("allocatable").at("example.test/dongle"), amount);
    const auto writes = api.patches.size();
    m.on_node_seen(api, kube::to_json(*api.node()));
    api.run(m, seconds(1));
    EXPECT_EQ(api.patches.size(), writes);
  }
}

TEST(NodeMachine, ALabelSomebodyTookAwayComesBack) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  kube::get_object(*api.node(), "metadata.labels");
  api.node()->at("metadata").at("labels").get_object().erase("kubernetes.io/os");
  api.stamp(*api.node());
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(11));
  EXPECT_EQ(api.node()->at("metadata").at("labels").at("kubernetes.io/os"), "linux");
}

TEST(NodeMachine, ForbiddenToCreateFallsBackToReading) {
  FakeApi api(fleet_options());
  api.put_node(R"({"metadata":{"name":"n-1","labels":{"ghostfleet.dev/fleet":"f1"}},"spec":{},"status":{}})");
  api.fault = [](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.target == "/api/v1/nodes") return ApiResponse{403, {}, {}};
    return std::nullopt;
  };
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(1));
  EXPECT_TRUE(m.ready());
}

TEST(NodeMachine, GarbageAnswersEndInRetriesNotInACrash) {
  FakeApi api(fleet_options());
  api.fault = [&](const ApiRequest&) -> std::optional<ApiResponse> {
    static constexpr std::string_view kBodies[] = {
        "", "{", "[]", R"({"metadata":{"uid":3}})", "\"", R"({"metadata":[)"};
    return ApiResponse{200, kBodies[api.log.size() % std::size(kBodies)], {}};
  };
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(100));
  EXPECT_FALSE(m.ready());
  api.fault = nullptr;
  api.run(m, seconds(20));
  EXPECT_TRUE(m.ready());
}

TEST(NodeMachine, AKubeletWhoseNodeIsDeletedGoesOnAsking) {
  FakeApi api(full_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(30));
  ASSERT_TRUE(m.ready());
  api.objects.clear();
  m.on_node_deleted(api, m.uid());
  api.log.clear();
  api.run(m, seconds(32));
  EXPECT_EQ(api.count("POST"), 0);
  EXPECT_EQ(api.count("GET /api/v1/nodes/n-1 404"), 12);             // four in each of three periods
  EXPECT_GE(api.count("GET /api/v1/nodes/n-1?timeout=10s 404"), 3);  // of the lease
  api.put_node(R"({"metadata":{"name":"n-1"},"spec":{},"status":{}})");
  api.log.clear();
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(25));
  EXPECT_TRUE(m.ready());
  EXPECT_EQ(api.condition("Ready"), "True");
  ASSERT_NE(api.lease(), nullptr);
  EXPECT_EQ(kube::get_string((*kube::get_array(*api.lease(), "metadata.ownerReferences"))[0], "uid"),
            "5b0c1c7e-0000-4000-8000-00000000aaaa");
  EXPECT_EQ(api.count("POST /apis/storage.k8s.io/v1/csinodes"), 0);
}

TEST(NodeMachine, ARebootIsTold) {
  FakeApi api(full_options());
  api.put_node(R"({"metadata":{"name":"n-1"},"spec":{},"status":{"nodeInfo":{"bootID":"another"}}})");
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(20));
  const std::string boot_id(kube::get_string(*api.node(), "status.nodeInfo.bootID"));
  EXPECT_EQ(boot_id, api.identity().boot_id);
  size_t told = 0;
  for (const auto& [path, object] : api.objects) {
    if (kube::get_string(object, "reason") != "Rebooted") continue;
    ++told;
    EXPECT_EQ(kube::get_string(object, "type"), "Warning");
    EXPECT_EQ(kube::get_string(object, "message"), "Node n-1 has been rebooted, boot id: " + boot_id);
  }
  EXPECT_EQ(told, 1u);
}

TEST(NodeMachine, WithoutACheckpointDevicesAreZeroUntilTheirPluginsRegister) {
  for (const int delay : {-1, 20}) {
    NodeOptions options = full_options();
    options.device_plugin_delay = seconds(delay);
    FakeApi api(options);
    api.put_node(
        R"({"metadata":{"name":"n-1"},"spec":{},"status":{"capacity":{"cpu":"16","nvidia.com/gpu":"8",)"
        R"("example.test/dongle":"4"},"allocatable":{"cpu":"16","nvidia.com/gpu":"8","example.test/dongle":"4"}}})");
    NodeMachine m;
    m.start(api);
    api.run(m, seconds(5));
    const auto capacity = [&](const char* name) {
      return std::string(api.node()->at("status").at("capacity").at(name).as_string().c_str());
    };
    EXPECT_EQ(capacity("nvidia.com/gpu"), delay < 0 ? "8" : "0");
    EXPECT_EQ(capacity("example.test/dongle"), delay < 0 ? "4" : "0");
    api.run(m, seconds(30));
    EXPECT_EQ(capacity("cpu"), "16");
    EXPECT_EQ(capacity("nvidia.com/gpu"), "8");
    EXPECT_EQ(capacity("example.test/dongle"), delay < 0 ? "4" : "0");
    EXPECT_EQ(api.node()->at("status").at("allocatable").at("nvidia.com/gpu"), "8");
  }
}

TEST(NodeMachine, WhatAnEarlierAgentLeftLowIsBroughtBack) {
  struct Row {
    const char *annotations, *capacity, *allocatable, *shown;
  };
  for (const Row& row : {Row{"{}", "8", "6", "8/8"}, Row{"{}", "0", "0", "8/8"}, Row{"{}", "4", "3", "4/3"},
                         Row{R"({"devices.ghostfleet.dev/unhealthy":"nvidia.com/gpu=0,1"})", "8", "6", "8/6"}}) {
    FakeApi api(full_options());
    api.put_node(std::string(R"({"metadata":{"name":"n-1","annotations":)") + row.annotations +
                 R"(},"spec":{},"status":{"capacity":{"cpu":"16","nvidia.com/gpu":")" + row.capacity +
                 R"("},"allocatable":{"cpu":"16","nvidia.com/gpu":")" + row.allocatable + R"("}}})");
    NodeMachine m;
    m.start(api);
    api.run(m, seconds(20));
    const auto of = [&](const char* list) {
      return std::string(api.node()->at("status").at(list).at("nvidia.com/gpu").as_string().c_str());
    };
    EXPECT_EQ(of("capacity") + "/" + of("allocatable"), row.shown);
  }
}

TEST(NodeMachine, AnotherPodCidrForcesAStatusWrite) {
  FakeApi api(full_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(30));
  const size_t before = api.patches.size();
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(11));
  EXPECT_EQ(api.patches.size(), before);
  kube::set_path(*api.node(), "spec.podCIDR", "10.1.2.0/24");
  api.stamp(*api.node());
  m.on_node_seen(api, kube::to_json(*api.node()));
  api.run(m, seconds(11));
  EXPECT_EQ(api.patches.size(), before + 1);
}

TEST(NodeMachine, FromTheSecondFailedHeartbeatOnIdleConnectionsAreClosed) {
  FakeApi api(full_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(30));
  int failures = 0;
  api.fault = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.verb == Verb::kPut && failures < 3) return ++failures, ApiResponse{0, {}, {}};
    return std::nullopt;
  };
  api.run(m, seconds(12));
  EXPECT_EQ(failures, 3);
  EXPECT_EQ(api.heartbeat_failures, 2);
}

// ---- images

size_t patches_with_images(const FakeApi& api) {
  return static_cast<size_t>(std::count_if(api.patches.begin(), api.patches.end(), [](const std::string& body) {
    return body.find("\"images\"") != std::string::npos;
  }));
}

constexpr const char* kTwoImages =
    R"([{"names":["r.example/app@sha256:aa","r.example/app:1"],"sizeBytes":7},{"names":["b:1"],"sizeBytes":3}])";

TEST(NodeMachine, ImagesAreToldWithinFortySecondsInOneWrite) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  const size_t before = api.patches.size();
  api.images_on_disk = R"([{"names":["b:1"],"sizeBytes":3}])";
  m.images_changed(api);
  api.images_on_disk = kTwoImages;
  m.images_changed(api);
  api.run(m, seconds(41));
  EXPECT_EQ(patches_with_images(api), 1u);
  EXPECT_EQ(api.patches.size(), before + 1);
  EXPECT_EQ(kube::to_json(*kube::find_path(*api.node(), "status.images")), kTwoImages);
  EXPECT_TRUE(kube::parse_json(api.patches.back()).ok());
  // A shorter list takes the place of the longer one.
  api.images_on_disk = "[]";
  m.images_changed(api);
  api.run(m, seconds(41));
  EXPECT_EQ(kube::get_array(*api.node(), "status.images")->size(), 0u);
}

TEST(NodeMachine, ImagesThatCouldNotBeWrittenAreWrittenAgain) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  int refused = 0;
  api.fault = [&](const ApiRequest& r) -> std::optional<ApiResponse> {
    if (r.body.find("\"images\"") == std::string::npos || ++refused > 2) return std::nullopt;
    return ApiResponse{500, {}, {}};
  };
  api.images_on_disk = kTwoImages;
  m.images_changed(api);
  api.run(m, seconds(70));
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(kube::get_array(*api.node(), "status.images")->size(), 2u);
}

TEST(NodeMachine, ANodeFoundKeepsTheImagesOnItsDisk) {
  FakeApi api(fleet_options());
  {
    NodeMachine m;
    m.start(api);
    api.run(m, seconds(5));
  }
  kube::set_path(*api.node(), "status.images", *kube::parse_json(kTwoImages));
  api.patches.clear();
  NodeTemplate with_images = FakeApi::small_template();
  with_images.images = {{{"pause:1"}, 5}};
  FakeApi again(fleet_options(), with_images);
  again.objects = api.objects;
  again.images_on_disk = kTwoImages;
  NodeMachine m;
  EXPECT_TRUE(m.take_over(again, kube::to_json(*again.node()), 0));
  again.run(m, seconds(20));
  EXPECT_EQ(again.found.size(), 1u);
  EXPECT_EQ(patches_with_images(again), 0u);
  EXPECT_EQ(kube::get_array(*again.node(), "status.images")->size(), 2u);
}

TEST(NodeMachine, AWarningIsAnEventAboutTheNode) {
  FakeApi api(fleet_options());
  NodeMachine m;
  m.start(api);
  api.run(m, seconds(5));
  m.warn(api, "FreeDiskSpaceFailed", "Failed to garbage collect required amount of images.");
  api.run(m, seconds(1));
  int told = 0;
  for (const auto& [path, object] : api.objects) {
    if (kube::get_string(object, "reason") != "FreeDiskSpaceFailed") continue;
    ++told;
    EXPECT_EQ(kube::get_string(object, "type"), "Warning");
    EXPECT_EQ(kube::get_string(object, "involvedObject.name"), "n-1");
  }
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace ghostfleet::agent
