#include "controlplane/scheduler/engine.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <set>

namespace ghostfleet::controlplane::scheduling {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  void node(const std::string& name, const std::string& extra_labels = "", const std::string& spec = "{}",
            const std::string& allocatable = R"({"cpu":"4","memory":"8Gi","pods":"110"})") {
    const std::string labels = fmt::format(R"("kubernetes.io/hostname":"{}"{})", name, extra_labels);
    const auto json = kube::parse_json(
        fmt::format(R"({{"metadata":{{"name":"{}","labels":{{{}}}}},"spec":{},"status":{{"allocatable":{}}}}})", name,
                    labels, spec, allocatable));
    ASSERT_TRUE(json.ok()) << json.error().to_string();
    engine_.set_node(offer_of(*json, engine_.resources()));
  }
  PodNeeds needs(const std::string& spec, const Labels& labels = {}, const std::string& owner = "") {
    const auto json = kube::parse_json(spec);
    EXPECT_TRUE(json.ok()) << spec;
    return needs_of(*json, "default", labels, owner, engine_.resources());
  }
  // Places and assigns; answers the node's name, or the message in brackets.
  std::string run(const PodNeeds& n) {
    const std::string pin = n.pin;
    const auto id = engine_.class_of(n);
    engine_.hold(id);
    const auto place = engine_.place(id, pin);
    if (place.node == Engine::kNoNode) return "[" + place.message + "]";
    engine_.assign(id, place.node);
    return engine_.node_name(place.node);
  }
  static std::string container(const std::string& requests) {
    return fmt::format(R"("containers":[{{"name":"c","resources":{{"requests":{{{}}}}}}}])", requests);
  }
  Engine engine_{7};
};

TEST_F(EngineTest, SpreadsEqualPodsOverEqualNodes) {
  for (int i = 0; i < 10; ++i) node("n" + std::to_string(i));
  const PodNeeds n = needs("{" + container(R"("cpu":"100m")") + "}", {{"app", "a"}}, "owner");
  std::set<std::string> used;
  for (int i = 0; i < 10; ++i) used.insert(run(n));
  EXPECT_EQ(used.size(), 10u);
}

TEST_F(EngineTest, FillsToTheLastMillicoreAndSaysWhyNot) {
  node("a");
  const PodNeeds n = needs("{" + container(R"("cpu":"1900m")") + "}");
  EXPECT_EQ(run(n), "a");
  EXPECT_EQ(run(n), "a");
  EXPECT_EQ(run(n), "[0/1 nodes are available: 1 Insufficient cpu.]");
}

TEST_F(EngineTest, CountsPods) {
  node("a", "", "{}", R"({"cpu":"4","memory":"8Gi","pods":"2"})");
  const PodNeeds n = needs("{" + container("") + "}");
  EXPECT_EQ(run(n), "a");
  EXPECT_EQ(run(n), "a");
  EXPECT_EQ(run(n), "[0/1 nodes are available: 1 Too many pods.]");
}

TEST_F(EngineTest, InitContainersCountByTheirLargestMoment) {
  const PodNeeds n = needs(R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}],
    "initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}},
                      {"name":"i","resources":{"requests":{"cpu":"2"}}}],"overhead":{"cpu":"100m"}})");
  EXPECT_EQ(n.requests[0], (std::pair<int, int64_t>(kCpu, 2600)));  // 500m sidecar + 2 init + overhead
}

TEST_F(EngineTest, ExtendedResources) {
  node("plain");
  node("gpu", "", "{}", R"({"cpu":"4","memory":"8Gi","pods":"110","nvidia.com/gpu":"8"})");
  const PodNeeds n = needs("{" + container(R"("nvidia.com/gpu":"8")") + "}");
  EXPECT_EQ(run(n), "gpu");
  EXPECT_EQ(run(n), "[0/2 nodes are available: 2 Insufficient nvidia.com/gpu.]");
}

TEST_F(EngineTest, TaintsAndUnschedulable) {
  node("t", "", R"({"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]})");
  node("u", "", R"({"unschedulable":true})");
  EXPECT_EQ(run(needs("{" + container("") + "}")),
            "[0/2 nodes are available: 1 node(s) had untolerated taint {k: v}, 1 node(s) were unschedulable.]");
  EXPECT_EQ(run(needs("{" + container("") + R"(,"tolerations":[{"key":"k","operator":"Exists"}]})")), "t");
  EXPECT_EQ(run(needs("{" + container("") +
                      R"(,"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}]})")),
            "u");
}

TEST_F(EngineTest, PreferNoScheduleIsOnlyAvoided) {
  node("soft", "", R"({"taints":[{"key":"k","effect":"PreferNoSchedule"}]})");
  node("free");
  const PodNeeds n = needs("{" + container(R"("cpu":"2")") + "}");
  EXPECT_EQ(run(n), "free");
}

TEST_F(EngineTest, SelectorsAndAffinity) {
  node("a", R"(,"zone":"x","n":"5")");
  node("b", R"(,"zone":"y","n":"9")");
  EXPECT_EQ(run(needs("{" + container("") + R"(,"nodeSelector":{"zone":"y"}})")), "b");
  EXPECT_EQ(run(needs("{" + container("") + R"(,"nodeSelector":{"kubernetes.io/hostname":"a"}})")), "a");
  const char* affinity =
      R"(,"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
         {"matchExpressions":[{"key":"n","operator":"Gt","values":["6"]}]}]}}}})";
  EXPECT_EQ(run(needs("{" + container("") + affinity)), "b");
  EXPECT_EQ(run(needs("{" + container("") + R"(,"nodeSelector":{"zone":"z"}})")),
            "[0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.]");
}

TEST_F(EngineTest, PreferredAffinityWins) {
  for (int i = 0; i < 20; ++i) node("n" + std::to_string(i), i == 13 ? R"(,"good":"yes")" : "");
  const char* affinity =
      R"(,"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":50,"preference":
         {"matchExpressions":[{"key":"good","operator":"Exists"}]}}]}}})";
  EXPECT_EQ(run(needs("{" + container("") + affinity)), "n13");
}

TEST_F(EngineTest, DaemonPodsShareAClassAndGoToTheirNode) {
  for (int i = 0; i < 5; ++i) node("n" + std::to_string(i));
  for (int i = 0; i < 5; ++i) {
    const std::string spec =
        "{" + container("") +
        fmt::format(
            R"(,"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[
           {{"matchFields":[{{"key":"metadata.name","operator":"In","values":["n{}"]}}]}}]}}}}}}}})",
            i);
    EXPECT_EQ(run(needs(spec)), "n" + std::to_string(i));
  }
  EXPECT_EQ(engine_.class_count(), 1u);
}

TEST_F(EngineTest, HostPorts) {
  node("a");
  node("b");
  const PodNeeds n = needs(R"({"containers":[{"name":"c","ports":[{"hostPort":80}]}]})");
  const std::string first = run(n), second = run(n);
  EXPECT_NE(first, second);
  EXPECT_EQ(run(n), "[0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.]");
}

TEST_F(EngineTest, HardTopologySpread) {
  node("a", R"(,"zone":"x")");
  node("b", R"(,"zone":"y")");
  const std::string rule =
      R"(,"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",
          "labelSelector":{"matchLabels":{"app":"a"}}}])";
  const PodNeeds n = needs("{" + container("") + rule + "}", {{"app", "a"}});
  const std::string first = run(n), second = run(n);
  EXPECT_NE(first, second);
  node("b", R"(,"zone":"y")", R"({"unschedulable":true})");
  const std::string third = run(n);
  EXPECT_EQ(third, "a");
  EXPECT_EQ(run(n),
            "[0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) were "
            "unschedulable.]");
}

TEST_F(EngineTest, AntiAffinityIsSymmetric) {
  node("a");
  node("b");
  const std::string anti =
      R"(,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
          {"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"a"}}}]}})";
  const PodNeeds lonely = needs("{" + container("") + anti + "}", {{"app", "a"}});
  const std::string first = run(lonely), second = run(lonely);
  EXPECT_NE(first, second);
  EXPECT_EQ(run(lonely), "[0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.]");
  EXPECT_EQ(run(needs("{" + container("") + "}", {{"app", "a"}})),
            "[0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.]");
  EXPECT_NE(run(needs("{" + container("") + "}", {{"app", "b"}})).front(), '[');
}

TEST_F(EngineTest, AffinityNeedsAFriendUnlessThePodIsItsOwn) {
  node("a", R"(,"zone":"x")");
  node("b", R"(,"zone":"y")");
  const auto rule = [](const std::string& app) {
    return fmt::format(R"(,"affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[
          {{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"{}"}}}}}}]}}}}}})",
                       app);
  };
  EXPECT_EQ(run(needs("{" + container("") + rule("friend"), {{"app", "a"}})),
            "[0/2 nodes are available: 2 node(s) didn't match pod affinity rules.]");
  const PodNeeds group = needs("{" + container("") + rule("g"), {{"app", "g"}});
  const std::string first = run(group);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(group), first);
}

TEST_F(EngineTest, FreedRoomAndNewNodesWakeAClass) {
  node("a");
  const PodNeeds n = needs("{" + container(R"("cpu":"3")") + "}");
  ASSERT_EQ(run(n), "a");
  const auto id = engine_.class_of(n);
  EXPECT_EQ(engine_.place(id, "").node, Engine::kNoNode);
  EXPECT_FALSE(engine_.may_fit_now(id));
  engine_.unassign(id, engine_.find_node("a"));
  EXPECT_TRUE(engine_.may_fit_now(id));
  ASSERT_EQ(run(n), "a");
  EXPECT_EQ(engine_.place(id, "").node, Engine::kNoNode);
  node("b");
  EXPECT_TRUE(engine_.may_fit_now(id));
  EXPECT_EQ(run(n), "b");
}

TEST_F(EngineTest, ARemovedNodeIsNoCandidate) {
  node("a");
  const PodNeeds n = needs("{" + container("") + "}");
  ASSERT_EQ(run(n), "a");
  engine_.remove_node("a");
  EXPECT_EQ(run(n), "[no nodes available to schedule pods]");
}

// "NODE: priority x count, ..." of whom a pod would send away.
class PreemptionTest : public EngineTest {
 protected:
  PodNeeds pod(int priority, const std::string& cpu, const std::string& more = "") {
    return needs(
        fmt::format(R"({{"priority":{},{}{}}})", priority, container(fmt::format(R"("cpu":"{}")", cpu)), more));
  }
  std::string victims(const PodNeeds& n, const std::string& pin = "") {
    const auto id = engine_.class_of(n);
    engine_.hold(id);
    const Engine::Preemption plan = engine_.preempt(id, pin);
    if (plan.node == Engine::kNoNode) return "none";
    std::string out = engine_.node_name(plan.node) + ":";
    for (const auto& [victim, count] : plan.victims) out += fmt::format(" {} x{}", engine_.priority(victim), count);
    return out;
  }
};

TEST_F(PreemptionTest, OnlyLowerPrioritiesAndAsFewAsPossible) {
  node("a");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run(pod(0, "1")), "a");
  EXPECT_EQ(victims(pod(0, "1")), "none");
  EXPECT_EQ(victims(pod(10, "1")), "a: 0 x1");
  EXPECT_EQ(victims(pod(10, "2500m")), "a: 0 x3");
  EXPECT_EQ(victims(pod(10, "5")), "none");  // nobody's leaving would help
}

TEST_F(PreemptionTest, TheLeastImportantGoFirst) {
  node("a");
  EXPECT_EQ(run(pod(5, "2")), "a");
  EXPECT_EQ(run(pod(1, "2")), "a");
  EXPECT_EQ(victims(pod(10, "1")), "a: 1 x1");
  node("b");
  EXPECT_EQ(run(pod(0, "4")), "b");
  EXPECT_EQ(victims(pod(10, "1")), "b: 0 x1");  // on the other node a more important one would have to go
  EXPECT_EQ(victims(pod(10, "1"), "a"), "a: 1 x1");
  EXPECT_EQ(victims(pod(10, "4")), "b: 0 x1");
}

TEST_F(PreemptionTest, WhoABudgetSpeaksForGoesLast) {
  const auto labelled = [this](int priority, const std::string& cpu, const std::string& app) {
    PodNeeds n = pod(priority, cpu);
    n.labels = {{"app", app}};
    return n;
  };
  const auto budget = [this](const std::string& name, const std::string& selector, int64_t allowed) {
    engine_.set_budget("default/" + name, {"default", kube::LabelSelector::parse(selector).value(), allowed});
  };
  node("a");
  EXPECT_EQ(run(labelled(1, "2", "web")), "a");
  EXPECT_EQ(run(labelled(5, "2", "batch")), "a");
  EXPECT_EQ(victims(pod(10, "1")), "a: 1 x1");
  budget("web", "app=web", 0);
  EXPECT_EQ(victims(pod(10, "1")), "a: 5 x1");       // the more important one, which violates nothing
  EXPECT_EQ(victims(pod(10, "3")), "a: 5 x1 1 x1");  // a budget holds nobody back when it must be
  budget("web", "app=web", 1);
  EXPECT_EQ(victims(pod(10, "1")), "a: 1 x1");
  engine_.set_budget("other/web", {"other", kube::LabelSelector::parse("app=web").value(), 0});  // of another namespace
  budget("all", "", 0);  // an empty selector selects nothing
  EXPECT_EQ(victims(pod(10, "1")), "a: 1 x1");
  budget("web", "app=web", 0);
  engine_.remove_budget("default/web");
  EXPECT_EQ(victims(pod(10, "1")), "a: 1 x1");
}

TEST_F(PreemptionTest, ANodeWithFewerViolationsIsChosen) {
  const auto web = [this] {
    PodNeeds n = pod(0, "1");
    n.labels = {{"app", "web"}};
    return n;
  };
  node("a");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run(web()), "a");
  node("b");
  EXPECT_EQ(run(pod(5, "4")), "b");
  engine_.set_budget("default/web", {"default", kube::LabelSelector::parse("app=web").value(), 1});
  EXPECT_EQ(victims(pod(10, "1")), "a: 0 x1");  // one may be disrupted
  EXPECT_EQ(victims(pod(10, "2")), "b: 5 x1");  // two of a's violate it, the more important one of b does not
  EXPECT_EQ(victims(pod(10, "2"), "a"), "a: 0 x2");
}

TEST_F(PreemptionTest, PortsTaintsAndRoomThatIsKept) {
  node("a", "", R"({"taints":[{"key":"k","effect":"NoSchedule"}]})");
  node("b");
  const PodNeeds with_port =
      needs(R"({"priority":0,"containers":[{"name":"c","ports":[{"containerPort":80,"hostPort":80}]}]})");
  EXPECT_EQ(run(with_port), "b");
  PodNeeds important = with_port;
  important.priority = 10;
  EXPECT_EQ(victims(important), "b: 0 x1");
  EXPECT_EQ(run(pod(10, "4")), "b");
  EXPECT_EQ(victims(pod(10, "1")), "none");  // a is tainted, and what is on b is no less important
}

}  // namespace
}  // namespace ghostfleet::controlplane::scheduling
