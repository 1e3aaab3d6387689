#include "agent/behavior/behavior_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/pod/pod_template.h"
#include "tests/support/pod_test_host.h"

namespace ghostfleet::agent {
namespace {

using kube::get_string;
using kube::Json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeCluster;
using test::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Of a Job unless said otherwise; labels app=train.
Json pod_of(const std::string& name, const std::string& annotation = "", const std::string& owner = "Job") {
  std::string text = R"({"metadata":{"name":")" + name + R"(","namespace":"default","labels":{"app":"train"})";
  if (!annotation.empty()) text += R"(,"annotations":{"behavior.ghostfleet.dev/c":")" + annotation + "\"}";
  if (!owner.empty()) text += R"(,"ownerReferences":[{"kind":")" + owner + R"(","controller":true}])";
  return json(text +
              R"(},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"registry.example/app:1"}]}})");
}

BehaviorRule rule(std::vector<std::pair<std::string, std::string>> words, BehaviorMatch match = {}) {
  return {std::move(match), std::move(words)};
}

std::shared_ptr<const BehaviorRules> rules(std::vector<BehaviorRule> list, Histograms histograms = {}) {
  return std::make_shared<const BehaviorRules>(std::move(list), std::move(histograms));
}

TEST(BehaviorRules, EverythingGivenMustFit) {
  const Json pod = pod_of("a");
  const Json& container = kube::get_array(pod, "spec.containers")->at(0);
  const auto fits = [&](auto change) {
    BehaviorMatch match;
    change(match);
    return match.fits(pod, container);
  };
  EXPECT_TRUE(fits([](BehaviorMatch&) {}));
  EXPECT_TRUE(fits([](BehaviorMatch& m) { m.ns = "def*"; }));
  EXPECT_FALSE(fits([](BehaviorMatch& m) { m.ns = "kube-*"; }));
  EXPECT_TRUE(fits([](BehaviorMatch& m) { m.owner = "Job"; }));
  EXPECT_FALSE(fits([](BehaviorMatch& m) { m.owner = "None"; }));
  EXPECT_TRUE(fits([](BehaviorMatch& m) { m.image = "*/app:?"; }));
  EXPECT_FALSE(fits([](BehaviorMatch& m) { m.container = "d"; }));
  EXPECT_TRUE(fits([](BehaviorMatch& m) { m.labels = kube::LabelSelector::parse("app in (train,serve)").value(); }));
  EXPECT_FALSE(fits([](BehaviorMatch& m) { m.labels = kube::LabelSelector::parse("app!=train").value(); }));
  EXPECT_FALSE(fits([](BehaviorMatch& m) {
    m.ns = "default";
    m.owner = "ReplicaSet";
  }));
}

TEST(BehaviorRules, TheFirstThatFitsCountsAndTheAnnotationGoesOverIt) {
  BehaviorMatch other;
  other.ns = "elsewhere";
  const auto list = rules({rule({{"after", "1s"}}, other), rule({{"after", "10s"}, {"exit", "3"}, {"ready", "4s"}}),
                           rule({{"after", "99s"}})});
  const Script plain = make_template(pod_of("a"), false, list.get())->containers[0].script;
  EXPECT_EQ(plain.after, seconds(10));
  EXPECT_EQ(plain.exits, std::vector<int>{3});
  const Script own = make_template(pod_of("a", "after=2s"), false, list.get())->containers[0].script;
  EXPECT_EQ(own.after, seconds(2));
  EXPECT_EQ(own.exits, std::vector<int>{3});
  EXPECT_EQ(own.ready, seconds(4));
}

TEST(BehaviorRules, ARuleWithARunTimeAloneEndsWell) {
  const auto list = rules({rule({{"after", "10s"}})});
  EXPECT_EQ(make_template(pod_of("a", "", ""), false, list.get())->containers[0].script.exits, std::vector<int>{0});
}

TEST(BehaviorRules, TellTheCourseInsteadOfTheCommandLine) {
  Json pod = pod_of("a", "", "");
  kube::set_path(pod, "spec.containers",
                 json(R"([{"name":"c","image":"busybox","command":["sh","-c","sleep 3; exit 4"]}])"));
  EXPECT_EQ(make_template(pod, true)->containers[0].script.exits, std::vector<int>{4});
  const auto course = rules({rule({{"exit", "9"}})});
  EXPECT_EQ(make_template(pod, true, course.get())->containers[0].script.exits, std::vector<int>{9});
  const auto cpu = rules({rule({{"cpu", "50%"}})});
  EXPECT_EQ(make_template(pod, true, cpu.get())->containers[0].script.exits, std::vector<int>{4});
  EXPECT_FALSE(make_template(pod, true, cpu.get())->containers[0].script.cpu.empty());
}

TEST(BehaviorRules, PodsOfDifferentRulesShareNothing) {
  BehaviorMatch train;
  train.labels = kube::LabelSelector::parse("app=train").value();
  const auto list = rules({rule({{"exit", "5"}}, train)});
  Json other = pod_of("b");
  kube::set_path(other, "metadata.labels", json(R"({"app":"serve"})"));
  const auto a = intern_template(pod_of("a"), false, list.get());
  EXPECT_EQ(a.get(), intern_template(pod_of("c"), false, list.get()).get());
  EXPECT_NE(a.get(), intern_template(other, false, list.get()).get());
  EXPECT_NE(a.get(), intern_template(pod_of("a")).get());
}

class RulesTest : public ::testing::TestWithParam<bool> {
 protected:
  FakeCluster& start(std::shared_ptr<const BehaviorRules> list, uint64_t seed = 1) {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    o.pods.behaviors = std::move(list);
    o.pods.seed = seed;
    cluster_ = std::make_unique<FakeCluster>(o);
    return *cluster_;
  }
  // Seconds from Ready to the end; -1: it has not ended.
  static double run_time(FakeCluster& cluster, const std::string& pod) {
    const auto& list = *kube::get_array(*cluster.pod(pod), "status.containerStatuses");
    WallTime from, to;
    if (!parse_time(get_string(list.at(0), "state.terminated.startedAt"), &from)) return -1;
    if (!parse_time(get_string(list.at(0), "state.terminated.finishedAt"), &to)) return -1;
    return static_cast<double>((to - from).count()) * 1e-9;
  }
  std::unique_ptr<FakeCluster> cluster_;
};

INSTANTIATE_TEST_SUITE_P(Fidelity, RulesTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "full" : "light"; });

// A rule's own delay counts where there is no annotation, and where there is one that makes no sense.
TEST_P(RulesTest, DelayOfARuleAndOfAnAnnotation) {  // C003
  BehaviorMatch jobs;
  jobs.owner = "Job";
  FakeCluster& cluster = start(rules({rule({{"after", "10s"}}, jobs)}));
  cluster.create(pod_of("plain"));
  cluster.create(pod_of("three", "after=3s"));
  cluster.create(pod_of("bad", "after=soon"));
  cluster.run_for(milliseconds(2900));
  for (const char* pod : {"plain", "three", "bad"}) EXPECT_EQ(cluster.text(pod, "status.phase"), "Running") << pod;
  cluster.run_for(milliseconds(2600));
  EXPECT_EQ(cluster.text("three", "status.phase"), "Succeeded");
  cluster.run_for(milliseconds(4400));
  EXPECT_EQ(cluster.text("plain", "status.phase"), "Running");
  EXPECT_EQ(cluster.text("bad", "status.phase"), "Running");
  cluster.run_for(milliseconds(4000));
  EXPECT_EQ(cluster.text("plain", "status.phase"), "Succeeded");
  EXPECT_EQ(cluster.text("bad", "status.phase"), "Succeeded");
  std::vector<std::string> warnings;
  for (const std::string& event : cluster.events("bad")) {
    if (event.starts_with("Warning")) warnings.push_back(event);
  }
  EXPECT_THAT(warnings, ElementsAre("Warning InvalidBehavior x1 -: annotation behavior.ghostfleet.dev/c: after=soon: "
                                    "not a duration such as 5s or 1m30s; what behaviorRules[0] says is used"));
  EXPECT_THAT(cluster.events("plain"), Not(Contains(HasSubstr("InvalidBehavior"))));
}

TEST_P(RulesTest, TheSameSeedAndNameIsTheSameOutcome) {
  const auto list = rules({rule({{"after", "uniform(2s, 30s)"}, {"exit", "odds(0:0.5, 7:0.5)"}})});
  std::vector<double> first;
  for (int round = 0; round < 2; ++round) {
    FakeCluster& cluster = start(list);
    std::vector<double> times;
    for (int i = 0; i < 6; ++i) cluster.create(pod_of("p" + std::to_string(i)));
    cluster.run_for(seconds(45));
    for (int i = 0; i < 6; ++i) times.push_back(run_time(cluster, "p" + std::to_string(i)));
    if (round == 0) first = times;
    EXPECT_EQ(times, first);
    EXPECT_GT(*std::max_element(times.begin(), times.end()), *std::min_element(times.begin(), times.end()) + 1);
    EXPECT_GE(*std::min_element(times.begin(), times.end()), 1);  // whole seconds
  }
  FakeCluster& other = start(list, 2);
  other.create(pod_of("p0"));
  other.create(pod_of("p1"));
  other.run_for(seconds(45));
  EXPECT_NE((std::vector<double>{run_time(other, "p0"), run_time(other, "p1")}),
            (std::vector<double>{first[0], first[1]}));
}

TEST_P(RulesTest, AnAgentThatComesBackKnowsTheSameEnd) {
  const auto list = rules({rule({{"after", "uniform(20s, 40s)"}})});
  FakeCluster& cluster = start(list);
  cluster.create(pod_of("a"));
  cluster.run_for(seconds(60));
  const double undisturbed = run_time(cluster, "a");
  FakeCluster& again = start(list);
  again.create(pod_of("a"));
  again.run_for(seconds(10));
  again.restart_agent();
  again.run_for(seconds(50));
  EXPECT_NEAR(run_time(again, "a"), undisturbed, 1);
}

TEST_P(RulesTest, ReadyWhenTheRuleSaysSo) {
  FakeCluster& cluster = start(rules({rule({{"ready", "uniform(6s, 8s)"}})}));
  Json pod = pod_of("a", "", "");
  kube::set_path(pod, "spec.containers",
                 json(R"([{"name":"c","image":"x","readinessProbe":{"httpGet":{"port":80},"periodSeconds":1}}])"));
  cluster.create(pod);
  cluster.run_for(seconds(5));
  EXPECT_EQ(get_string(*cluster.condition("a", "Ready"), "status"), "False");
  cluster.run_for(seconds(6));
  EXPECT_EQ(get_string(*cluster.condition("a", "Ready"), "status"), "True");
}

TEST_P(RulesTest, DeclarationsForExecAreCheckedWhenThePodComes) {
  FakeCluster& cluster = start(nullptr);
  Json pod = pod_of("a", "", "");
  kube::set_path(pod, "metadata.annotations", json(R"({"files.ghostfleet.dev/c":"{\"etc/x\":\"1\",\"/y\":2}",
      "exec.ghostfleet.dev/c":"{\"date\":{\"stout\":\"\",\"exit\":300}}"})"));
  cluster.create(pod);
  Json broken = pod_of("b", "", "");
  kube::set_path(broken, "metadata.annotations", json(R"({"files.ghostfleet.dev/c":"/etc/x=1"})"));
  cluster.create(broken);
  cluster.run_for(seconds(3));
  EXPECT_THAT(cluster.events("a"),
              Contains("Warning InvalidBehavior x1 -: annotation files.ghostfleet.dev/c: \"etc/x\": a path from / on "
                       "is expected; \"/y\": its content as a text is expected; what is wrong is left out"));
  EXPECT_THAT(cluster.events("a"),
              Contains("Warning InvalidBehavior x1 -: annotation exec.ghostfleet.dev/c: \"date\": stout: unknown; "
                       "known are stdout, stderr, exit; \"date\": exit: a code from 0 to 255 is expected; what is "
                       "wrong is left out"));
  EXPECT_THAT(cluster.events("b"), Contains(HasSubstr("annotation files.ghostfleet.dev/c: no JSON (")));
}

TEST_P(RulesTest, AnAnnotationForNoContainerIsTold) {
  FakeCluster& cluster = start(nullptr);
  Json pod = pod_of("a", "", "");
  kube::set_path(pod, "spec.containers", json(R"([{"name":"worker-1","image":"registry.example/app:1"}])"));
  kube::set_path(pod, "metadata.annotations", json(R"({"behavior.ghostfleet.dev/wroker-1":"exit=0"})"));
  cluster.create(pod);
  cluster.run_for(seconds(3));
  EXPECT_THAT(cluster.events("a"),
              Contains("Warning InvalidBehavior x1 -: annotation behavior.ghostfleet.dev/wroker-1: "
                       "the pod has no container of this name (there are: worker-1)"));
}

TEST_P(RulesTest, AnAnnotationForAnotherContainerIsPassedOver) {
  FakeCluster& cluster = start(nullptr);
  Json pod = pod_of("a", "", "");
  kube::set_path(pod, "metadata.annotations", json(R"({"behavior.ghostfleet.dev/d":"exit=0"})"));
  cluster.create(pod);
  kube::set_path(pod, "metadata.name", "b");
  kube::set_path(pod, "spec.containers", json(R"([{"name":"worker-1","image":"registry.example/app:1"}])"));
  kube::set_path(pod, "metadata.annotations", json(R"({"behavior.ghostfleet.dev/worker-2":"exit=0"})"));
  cluster.create(pod);
  cluster.run_for(seconds(3));
  for (const char* name : {"a", "b"}) {
    EXPECT_THAT(cluster.events(name), Not(Contains(HasSubstr("InvalidBehavior")))) << name;
  }
}

}  // namespace
}  // namespace ghostfleet::agent
