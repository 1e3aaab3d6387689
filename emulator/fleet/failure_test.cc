// API servers that misbehave: nothing crashes, nothing waits for ever, and what one node suffers no other node notices.
#include <gtest/gtest.h>

#include <mutex>

#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/fleet.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

using std::chrono::seconds;

constexpr const char* kLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

FleetOptions options_for(const FakeApi& api, uint32_t nodes, bool full) {
  FleetOptions o;
  o.client = api.config();
  o.name = "f1";
  o.shards = 1;
  FleetGroup g;
  g.count = nodes;
  g.name_template = "n-{index}";
  g.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
  o.groups.push_back(g);
  o.lease_duration = seconds(4);
  o.connections = full ? ConnectionMode::kPerNode : ConnectionMode::kShared;
  o.full_fidelity = full;
  return o;
}

class Failures : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(LightAndFull, Failures, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

uint64_t renewals_of(FakeApi& api, const std::string& node) {
  return api.requests("PUT", std::string(kLeases) + "/" + node + "?");
}

// What a fault at some nodes must not do to the others.
void expect_others_renew(FakeApi& api, Fleet& fleet) {
  api.clear_log();
  ASSERT_TRUE(eventually([&] { return renewals_of(api, "n-7") >= 4 && renewals_of(api, "n-8") >= 4; }));
  EXPECT_LT(fleet.snapshot().lateness_p50, 0.5);
}

TEST_P(Failures, TooManyRequestsForOneNode) {
  FakeApi api;
  auto fleet = Fleet::start(options_for(api, 10, GetParam()));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 10; }));
  api.set_fault([](const std::string&, const std::string& target) {
    return target.find("n-3") != std::string::npos ? std::optional<int>(429) : std::nullopt;
  });
  expect_others_renew(api, **fleet);
  // Told to come back in a second, the node asks no more often than that.
  EXPECT_LE(api.requests("PUT", std::string(kLeases) + "/n-3"), 8u);
  api.set_fault(nullptr);
  api.clear_log();
  ASSERT_TRUE(eventually([&] { return renewals_of(api, "n-3") >= 2; }));
}

TEST_P(Failures, AnHtmlPageInsteadOfTheApi) {
  FakeApi api;
  api.set_raw_fault([](const std::string&, const std::string&) {
    return FakeApi::RawAnswer{200, "text/html", "<html><body>Welcome to the portal</body></html>"};
  });
  auto fleet = Fleet::start(options_for(api, 10, GetParam()));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return api.log().size() > 4; }));
  EXPECT_EQ((*fleet)->snapshot().ready, 0u);
  api.set_raw_fault(nullptr);
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 10; }, seconds(60)));
}

TEST_P(Failures, HalfABodyForOneNode) {
  FakeApi api;
  auto fleet = Fleet::start(options_for(api, 10, GetParam()));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 10; }));
  api.set_raw_fault([](const std::string&, const std::string& target) -> std::optional<FakeApi::RawAnswer> {
    if (target.find("n-3") == std::string::npos) return std::nullopt;
    return FakeApi::RawAnswer{200, "application/json",
                              R"({"kind":"Lease","metadata":{"name":"n-3","resourceVersion":"1)"};
  });
  expect_others_renew(api, **fleet);
  api.set_raw_fault(nullptr);
  api.clear_log();
  ASSERT_TRUE(eventually([&] { return renewals_of(api, "n-3") >= 2; }));
  EXPECT_EQ((*fleet)->snapshot().ready, 10u);
}

TEST_P(Failures, ServerErrorsForAll) {
  FakeApi api;
  auto fleet = Fleet::start(options_for(api, 10, GetParam()));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 10; }));
  api.set_fault([](const std::string&, const std::string&) { return std::optional<int>(500); });
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().errors["500"] > 30; }));
  api.set_fault(nullptr);
  api.clear_log();
  ASSERT_TRUE(eventually([&] { return renewals_of(api, "n-0") >= 2 && renewals_of(api, "n-9") >= 2; }));
}

// ---- what a person is told

class Notices {
 public:
  FleetCallbacks callbacks() {
    FleetCallbacks c;
    c.notice = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      all_.push_back(text);
    };
    return c;
  }
  size_t count(const std::string& part) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(
        all_.begin(), all_.end(), [&part](const std::string& text) { return text.find(part) != std::string::npos; }));
  }
  std::string first(const std::string& part) {
    const std::lock_guard lock(mutex_);
    for (const std::string& text : all_) {
      if (text.find(part) != std::string::npos) return text;
    }
    return {};
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

TEST(FleetNotices, ALostServerIsToldOnceAndItsReturnToo) {
  Notices notices;
  auto api = std::make_unique<FakeApi>();
  const uint16_t port = api->port();
  FleetOptions o = options_for(*api, 10, false);
  o.lease_duration = seconds(2);
  auto fleet = Fleet::start(o, notices.callbacks());
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 10; }));
  api.reset();
  ASSERT_TRUE(eventually([&] {
    (void)(*fleet)->snapshot();
    return notices.count("the API server is lost") == 1;
  }));
  EXPECT_NE(notices.first("is lost").find("refused"), std::string::npos) << notices.first("is lost");
  api = std::make_unique<FakeApi>(port);
  ASSERT_TRUE(eventually(
      [&] {
        (void)(*fleet)->snapshot();
        return notices.count("answers again") == 1;
      },
      seconds(60)));
  EXPECT_EQ(notices.count("is lost"), 1u);
}

TEST(FleetNotices, OtherSettingsUnderTheSameNameAreNamed) {
  FakeApi api;
  {
    auto fleet = Fleet::start(options_for(api, 10, false));
    ASSERT_TRUE(fleet.ok());
    ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 10; }));
  }
  Notices notices;
  FleetOptions o = options_for(api, 6, false);
  o.groups[0].node.capacity[0].second = "32";
  auto fleet = Fleet::start(o, notices.callbacks());
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 6; }));
  const std::string settings = notices.first("other settings");
  EXPECT_NE(settings.find("6 nodes of fleet f1"), std::string::npos) << settings;
  EXPECT_NE(settings.find("cpu 16 there, 32 asked for"), std::string::npos) << settings;
  EXPECT_NE(settings.find("ghostfleet down --fleet f1"), std::string::npos);
  EXPECT_NE(notices.first("not asked for").find("4 nodes of fleet f1"), std::string::npos);
}

TEST(FleetNotices, NodesOfOthersLeadToAdopt) {
  FakeApi api;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "n-" + std::to_string(i);
    api.put("/api/v1/nodes/" + name, *kube::parse_json(R"({"metadata":{"name":")" + name + R"("},"status":{}})"));
  }
  Notices notices;
  auto fleet = Fleet::start(options_for(api, 4, false), notices.callbacks());
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return notices.count("--adopt") == 1; }));
  EXPECT_NE(notices.first("--adopt").find("all nodes of the wanted names"), std::string::npos);
}

TEST(FleetNotices, ASecondFleetOfOneNameIsNamed) {
  FakeApi api;
  Notices notices;
  FleetOptions o = options_for(api, 10, false);
  o.lease_duration = seconds(1);
  auto one = Fleet::start(o, notices.callbacks());
  ASSERT_TRUE(one.ok());
  ASSERT_TRUE(eventually([&] { return (*one)->snapshot().ready == 10; }));
  auto two = Fleet::start(o);
  ASSERT_TRUE(two.ok());
  ASSERT_TRUE(eventually([&] { return notices.count("runs a fleet of this name") == 1; }));
  EXPECT_TRUE(notices.first("runs a fleet of this name").starts_with("fleet f1: "));
}

}  // namespace
}  // namespace ghostfleet::emulator
