// Pods whose addresses come late, or run out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using kube::get_string;
using kube::Json;
using std::chrono::seconds;
using test::FakeCluster;
using test::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A network with so many addresses.
class FewAddresses final : public agent::PodNetwork {
 public:
  std::optional<Refusal> add(uint32_t number, const Sandbox& sandbox) override {
    asked.push_back(std::string(sandbox.name));
    if (on_ask) on_ask();
    if (!ready) return Refusal{"NetworkNotReady", "network is not ready", true};
    if (free.empty()) return Refusal{.message = "no address for sandbox " + std::to_string(asked.size())};
    held[number] = shown[number] = *free.begin();
    free.erase(free.begin());
    return {};
  }
  bool adopt(uint32_t number, const Sandbox& sandbox, std::string_view ip) override {
    adopted.push_back(std::string(sandbox.name) + " " + std::string(ip));
    held[number] = shown[number] = ip;
    return true;
  }
  void remove(uint32_t number) override {
    if (held.count(number) == 0) return;
    free.insert(held[number]);
    held.erase(number);
  }
  void forget(uint32_t number) override {
    remove(number);
    shown.erase(number);
  }

  std::set<std::string> free;
  std::map<uint32_t, std::string> held, shown;
  std::vector<std::string> asked, adopted;
  std::function<void()> on_ask;
  bool ready = true;
};

class NetworkTest : public ::testing::TestWithParam<bool> {
 protected:
  FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    o.network = &network_;
    o.network_ip = [this](uint32_t n) { return network_.shown.count(n) != 0 ? network_.shown[n] : std::string(); };
    return o;
  }
  void create(const std::string& name, const std::string& more = "", const std::string& annotations = "{}") {
    cluster_.create(json(R"({"metadata":{"name":")" + name + R"(","annotations":)" + annotations +
                         R"(},"spec":{"containers":[{"name":"c","image":"x"}])" + more + "}}"));
  }

  FewAddresses network_;
  FakeCluster cluster_{options()};
};

INSTANTIATE_TEST_SUITE_P(Fidelity, NetworkTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(NetworkTest, APodWithoutAddressIsTriedEveryTenToFifteenSeconds) {
  std::vector<double> times;
  network_.on_ask = [&] { times.push_back(cluster_.seconds()); };
  create("a");
  cluster_.run_for(std::chrono::minutes(3));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Pending");
  EXPECT_EQ(cluster_.text("a", "status.podIP"), "");
  EXPECT_EQ(get_string(*cluster_.condition("a", "PodReadyToStartContainers"), "status"), "False");
  const Json& status = kube::get_array(*cluster_.pod("a"), "status.containerStatuses")->at(0);
  EXPECT_EQ(get_string(status, "state.waiting.reason"), "ContainerCreating");
  ASSERT_GE(times.size(), 12u);
  ASSERT_LE(times.size(), 19u);
  for (size_t i = 1; i < times.size(); ++i) {
    EXPECT_GE(times[i] - times[i - 1], 10.0);
    EXPECT_LE(times[i] - times[i - 1], 16.1) << "15 s, and a kubelet looks each second";
  }
  EXPECT_THAT(cluster_.events("a"), Contains("Warning FailedCreatePodSandBox x1 -: no address for sandbox 1"));
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("(combined from similar events): no address for sandbox")));
  network_.free = {"10.1.0.9"};
  cluster_.run_for(seconds(18));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(cluster_.text("a", "status.podIP"), "10.1.0.9");
}

TEST_P(NetworkTest, ANetworkThatIsAboutToBeReadyIsAskedEachSecond) {
  network_.ready = false;
  network_.free = {"10.1.0.9"};
  create("a");
  cluster_.run_for(seconds(8));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Pending");
  EXPECT_GE(network_.asked.size(), 4u);
  EXPECT_LE(network_.asked.size(), 9u);
  EXPECT_THAT(cluster_.events("a"),
              ElementsAre(AllOf(HasSubstr("Warning NetworkNotReady x"), HasSubstr(": network is not ready"))));
  network_.ready = true;
  cluster_.run_for(seconds(4));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
}

TEST_P(NetworkTest, AWaitingPodWritesNoStatusAgainAndAgain) {
  create("a");
  cluster_.run_for(seconds(5));
  const size_t before = cluster_.count(agent::Verb::kPatch, "/status");
  cluster_.run_for(std::chrono::minutes(5));
  EXPECT_EQ(cluster_.count(agent::Verb::kPatch, "/status"), before);
}

TEST_P(NetworkTest, AnAddressIsFreeWhenItsContainersHaveStopped) {
  network_.free = {"10.1.0.9"};
  create("a", R"(,"terminationGracePeriodSeconds":7)", R"({"behavior.ghostfleet.dev/c":"stop-after=5s"})");
  cluster_.run_for(seconds(5));
  ASSERT_EQ(cluster_.text("a", "status.podIP"), "10.1.0.9");
  cluster_.remove("a");
  cluster_.run_for(seconds(4));
  EXPECT_TRUE(network_.free.empty());
  cluster_.run_for(seconds(4));
  EXPECT_THAT(network_.free, ElementsAre("10.1.0.9"));
  EXPECT_TRUE(network_.shown.empty()) << "the pod is gone";
}

TEST_P(NetworkTest, APodThatEndedShowsTheAddressItNoLongerHolds) {
  network_.free = {"10.1.0.9"};
  create("a", R"(,"restartPolicy":"Never")", R"({"behavior.ghostfleet.dev/c":"exit=0 after=3s"})");
  cluster_.run_for(seconds(20));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Succeeded");
  EXPECT_EQ(cluster_.text("a", "status.podIP"), "10.1.0.9");
  EXPECT_THAT(network_.free, ElementsAre("10.1.0.9"));
  create("b");
  cluster_.run_for(seconds(5));
  EXPECT_EQ(cluster_.text("b", "status.podIP"), "10.1.0.9");
}

TEST_P(NetworkTest, APodOnTheHostsNetworkAsksForNone) {
  create("a", R"(,"hostNetwork":true)");
  cluster_.run_for(seconds(5));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
  EXPECT_EQ(cluster_.text("a", "status.podIP"), "192.0.2.2");
  EXPECT_TRUE(network_.asked.empty());
}

TEST_P(NetworkTest, AWaitingPodCanBeDeleted) {
  create("a");
  cluster_.run_for(seconds(5));
  cluster_.remove("a");
  cluster_.run_for(seconds(5));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  const size_t asked = network_.asked.size();
  cluster_.run_for(std::chrono::minutes(1));
  EXPECT_EQ(network_.asked.size(), asked);
}

TEST_P(NetworkTest, ARestartedAgentTakesTheAddressesOver) {
  network_.free = {"10.1.0.9", "10.1.0.8"};
  create("a");
  create("ended", R"(,"restartPolicy":"Never")", R"({"behavior.ghostfleet.dev/c":"exit=0 after=1s"})");
  cluster_.run_for(seconds(20));
  const std::string before(cluster_.text("a", "status.podIP"));
  network_.held.clear();
  network_.shown.clear();
  network_.asked.clear();
  cluster_.restart_agent();
  cluster_.run_for(seconds(20));
  EXPECT_THAT(network_.adopted, ElementsAre("a " + before)) << "what has ended holds none";
  EXPECT_TRUE(network_.asked.empty());
  EXPECT_EQ(cluster_.text("a", "status.podIP"), before);
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Running");
}

TEST_P(NetworkTest, ADeadlineEndsAPodThatWaits) {
  create("a", R"(,"activeDeadlineSeconds":30)");
  cluster_.run_for(seconds(40));
  EXPECT_EQ(cluster_.text("a", "status.phase"), "Failed");
  EXPECT_EQ(cluster_.text("a", "status.reason"), "DeadlineExceeded");
  EXPECT_THAT(cluster_.events("a"), Not(Contains(HasSubstr("Started"))));
}

}  // namespace
}  // namespace ghostfleet
