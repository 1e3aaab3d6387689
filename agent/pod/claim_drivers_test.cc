// Pods whose claims are prepared by drivers that are programs, which answer when they like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/pod/claims_test_support.h"
#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using agent::ClaimAnswers;
using agent::ClaimName;
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
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Keeps what it is asked until the test answers.
class SlowDrivers final : public agent::ClaimDrivers {
 public:
  struct Call {
    std::string text;  // "prepare gpu: one two"
    std::vector<ClaimName> claims;
    Done done;
  };
  agent::ClaimCache& cache() override { return cache_; }
  Status save() override {
    ++saves;
    return disk;
  }
  bool has(std::string_view driver) const override { return driver != away; }
  void prepare(std::string_view driver, const std::vector<ClaimName>& claims, Done done) override {
    add("prepare", driver, claims, std::move(done));
  }
  void unprepare(std::string_view driver, const std::vector<ClaimName>& claims, Done done) override {
    add("unprepare", driver, claims, std::move(done));
  }
  agent::DeviceState health_of(std::string_view, std::string_view, std::string_view device) const override {
    return device == sick ? agent::DeviceState{agent::DeviceHealth::kUnhealthy, "too hot"}
                          : agent::DeviceState{agent::DeviceHealth::kHealthy, {}};
  }
  std::vector<std::string> open() const {
    std::vector<std::string> out;
    for (const Call& call : calls) out.push_back(call.text);
    return out;
  }
  // The oldest call: with a device for each claim, or with an error of the first.
  void answer(const std::string& error = "") {
    const Call call = std::move(calls.front());
    calls.erase(calls.begin());
    ClaimAnswers answers;
    for (const ClaimName& claim : call.claims) {
      agent::DriverDevice device{{"r"}, "pool", "dev-of-" + claim.name, {}, {}};
      if (claim.name == "two") device.cdi = {"example.com/gpu=2", "example.com/extra=2"};
      answers[claim.uid].devices.push_back(device);
    }
    answers[call.claims.front().uid].error = error;
    call.done(answers);
  }
  void break_off() {
    const Call call = std::move(calls.front());
    calls.erase(calls.begin());
    call.done(Status(Code::kUnavailable, "rpc error: code = Unavailable desc = gone"));
  }

  std::vector<Call> calls;
  std::string away = "away", sick;
  Status disk;
  int saves = 0;

 private:
  void add(const std::string& what, std::string_view driver, const std::vector<ClaimName>& claims, Done done) {
    std::string text = what + " " + std::string(driver) + ":";
    for (const ClaimName& claim : claims) text += " " + claim.name;
    calls.push_back({text, claims, std::move(done)});
  }
  agent::ClaimCache cache_;
};

class ClaimDriversTest : public ::testing::TestWithParam<bool> {
 protected:
  ClaimDriversTest() {
    cluster_.set_drivers(&drivers_);
    cluster_.intercept = [this](const agent::ApiRequest& r) -> std::optional<agent::ApiResponse> {
      if (!r.target.starts_with(kClaims)) return std::nullopt;
      text_ = kube::to_json(claims_.at(r.target.substr(kClaims.size())));
      return agent::ApiResponse{200, text_, Duration(0)};
    };
  }
  static FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    return o;
  }
  void put_claim(const std::string& name, const std::vector<std::string>& drivers) {
    Json claim = json(R"({"metadata":{"uid":"uid-of-)" + name + R"("},"status":{"reservedFor":[{"uid":")" + kA +
                      R"("},{"uid":")" + kB + R"("}],"allocation":{}}})");
    kube::JsonArray& results = kube::ensure_array(claim, "status.allocation.devices.results");
    for (const std::string& driver : drivers)
      results.push_back(Json{{"request", "r"}, {"driver", driver}, {"pool", "pool"}, {"device", "d"}});
    claims_[name] = std::move(claim);
  }
  void create(const std::string& name, const std::vector<std::string>& claims) {
    std::string refs, uses;
    for (const std::string& claim : claims) {
      refs += (refs.empty() ? "" : ",") + std::string(R"({"name":"c-)") + claim + R"(","resourceClaimName":")" + claim +
              R"("})";
      uses += (uses.empty() ? "" : ",") + std::string(R"({"name":"c-)") + claim + R"("})";
    }
    cluster_.create(json(R"({"metadata":{"name":")" + name +
                         R"("},"spec":{"terminationGracePeriodSeconds":1,"resourceClaims":[)" + refs +
                         R"(],"containers":[{"name":"c","image":"x","resources":{"claims":[)" + uses + "]}}]}}"));
    cluster_.run_for(seconds(5));
  }
  std::string phase(const std::string& pod) { return std::string(cluster_.text(pod, "status.phase")); }
  void answer(const std::string& error = "") {
    ASSERT_FALSE(drivers_.calls.empty());
    drivers_.answer(error);
    cluster_.run_for(seconds(5));
  }
  std::string health(const std::string& pod) {
    const kube::JsonArray* list = kube::get_array(*cluster_.pod(pod), "status.containerStatuses");
    const Json* status = kube::find_key(list->at(0), "allocatedResourcesStatus");
    return status == nullptr ? std::string() : kube::to_json(*status);
  }

  SlowDrivers drivers_;
  std::map<std::string, Json> claims_;
  std::string text_;
  FakeCluster cluster_{options()};
};

INSTANTIATE_TEST_SUITE_P(Fidelity, ClaimDriversTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(ClaimDriversTest, APodWaitsForItsDriversOneAfterTheOther) {
  put_claim("one", {"gpu", "net"});
  put_claim("two", {"gpu"});
  create("a", {"one", "two"});
  EXPECT_THAT(drivers_.open(), ElementsAre("prepare gpu: one two"));
  EXPECT_EQ(drivers_.saves, 1) << "noted before anybody is asked";
  EXPECT_EQ(drivers_.cache().find("default", "one")->pods, std::vector<std::string>{kA});
  cluster_.run_for(seconds(300));
  EXPECT_EQ(phase("a"), "Pending");
  answer();
  EXPECT_THAT(drivers_.open(), ElementsAre("prepare net: one"));
  EXPECT_EQ(phase("a"), "Pending");
  answer();
  EXPECT_EQ(phase("a"), "Running");
  EXPECT_TRUE(drivers_.cache().find("default", "two")->prepared);
  EXPECT_EQ(health("a"),
            R"([{"name":"claim:c-one","resources":[{"health":"Healthy","resourceID":"gpu/pool/dev-of-one"},)"
            R"({"health":"Healthy","resourceID":"net/pool/dev-of-one"}]},)"
            R"({"name":"claim:c-two","resources":[{"health":"Healthy","resourceID":"example.com/gpu=2"}]}])");
  drivers_.sick = "dev-of-two";
  cluster_.drivers_changed();
  cluster_.run_for(seconds(5));
  EXPECT_THAT(health("a"),
              EndsWith(R"([{"health":"Unhealthy","message":"too hot","resourceID":"example.com/gpu=2"}]}])"));
}

TEST_P(ClaimDriversTest, WhatADriverRefusesIsToldAndTriedAgain) {
  put_claim("one", {"gpu"});
  create("a", {"one"});
  answer("no power");
  EXPECT_THAT(cluster_.events("a"), ElementsAre(failed("NodePrepareResources failed for ResourceClaim one: no power")));
  EXPECT_THAT(drivers_.open(), IsEmpty());
  cluster_.run_for(seconds(95));
  ASSERT_THAT(drivers_.open(), ElementsAre("prepare gpu: one"));
  drivers_.break_off();
  cluster_.run_for(seconds(5));
  EXPECT_THAT(cluster_.events("a"),
              Contains(failed("NodePrepareResources: rpc error: code = Unavailable desc = gone")));
  drivers_.disk = Status(Code::kUnavailable, "disk full");
  cluster_.run_for(seconds(95));
  EXPECT_THAT(cluster_.events("a"), Contains(failed("checkpoint ResourceClaim cache: disk full")));
  drivers_.disk = Status();
  cluster_.run_for(seconds(95));
  answer();
  EXPECT_EQ(phase("a"), "Running");
}

TEST_P(ClaimDriversTest, WithoutItsDriverNothingIsNoted) {
  put_claim("one", {"gpu", "away"});
  create("a", {"one"});
  EXPECT_THAT(cluster_.events("a"), ElementsAre(failed("DRA driver away is not registered")));
  EXPECT_EQ(drivers_.cache().size(), 0u);
  cluster_.remove("a");
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  EXPECT_THAT(drivers_.open(), IsEmpty());
}

TEST_P(ClaimDriversTest, APodEndsWhenItsClaimsAreGivenBack) {
  put_claim("one", {"gpu", "net"});
  create("a", {"one"});
  answer();
  answer();
  cluster_.remove("a");
  cluster_.run_for(seconds(60));
  EXPECT_THAT(drivers_.open(), ElementsAre("unprepare gpu: one"));
  answer();
  EXPECT_THAT(drivers_.open(), ElementsAre("unprepare net: one"));
  answer("busy");
  EXPECT_NE(cluster_.pod("a"), nullptr);
  EXPECT_EQ(phase("a"), "Running") << "the terminal phase waits for it";
  cluster_.run_for(seconds(20));
  EXPECT_THAT(drivers_.open(), ElementsAre("unprepare gpu: one")) << "from the beginning";
  answer();
  drivers_.away = "net";
  ASSERT_THAT(drivers_.open(), ElementsAre("unprepare net: one"));
  drivers_.break_off();
  cluster_.run_for(seconds(20));
  answer();
  EXPECT_THAT(drivers_.open(), IsEmpty()) << "one is away";
  drivers_.away.clear();
  cluster_.run_for(seconds(20));
  answer();
  answer();
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  EXPECT_EQ(drivers_.cache().size(), 0u);
}

TEST_P(ClaimDriversTest, APodThatIsDeletedWhileItsDriverIsAsked) {
  put_claim("one", {"gpu"});
  create("a", {"one"});
  cluster_.remove("a");
  cluster_.run_for(seconds(10));
  ASSERT_THAT(drivers_.open(), ElementsAre("prepare gpu: one", "unprepare gpu: one"));
  answer();  // too late
  EXPECT_NE(cluster_.pod("a"), nullptr);
  answer();
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  EXPECT_EQ(drivers_.cache().size(), 0u);
}

TEST_P(ClaimDriversTest, TheLastPodOfAClaimGivesItBack) {
  put_claim("one", {"gpu"});
  create("a", {"one"});
  answer();
  create("b", {"one"});
  EXPECT_EQ(phase("b"), "Running") << "it is prepared already";
  cluster_.remove("a");
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  EXPECT_THAT(drivers_.open(), IsEmpty());
  cluster_.remove("b");
  cluster_.run_for(seconds(10));
  answer();
  EXPECT_EQ(cluster_.pod("b"), nullptr);
}

TEST_P(ClaimDriversTest, AnswersThatComeAfterTheirPodOrAgent) {
  put_claim("one", {"gpu"});
  create("a", {"one"});
  cluster_.restart_agent();
  cluster_.run_for(seconds(5));
  ASSERT_THAT(drivers_.open(), ElementsAre("prepare gpu: one", "prepare gpu: one"));
  answer();
  EXPECT_EQ(phase("a"), "Pending") << "of an agent that is not there any more";
  answer();
  EXPECT_EQ(phase("a"), "Running");
  cluster_.restart_agent();
  cluster_.run_for(seconds(5));
  EXPECT_THAT(drivers_.open(), IsEmpty());
  EXPECT_THAT(health("a"), StartsWith(R"([{"name":"claim:c-one")"));
  cluster_.remove("a");
  cluster_.run_for(seconds(10));
  answer();
  EXPECT_EQ(cluster_.pod("a"), nullptr);
}

}  // namespace
}  // namespace ghostfleet
