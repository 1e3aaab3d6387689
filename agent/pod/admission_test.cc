#include "agent/pod/admission.h"

#include <gtest/gtest.h>

#include "agent/pod/images.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;

Json json(std::string_view text) { return kube::parse_json(text).value(); }

Json node() {
  return json(R"({"metadata":{"name":"n","labels":{"zone":"a","size":"8"}},"spec":{"taints":[]},
      "status":{"allocatable":{"cpu":"16","memory":"64Gi","pods":"3","nvidia.com/gpu":"8"}}})");
}

// "reason: message", or empty when the pod is taken.
std::string verdict(const Json& pod, const Json& node, const std::vector<std::string>& running = {}) {
  std::vector<std::shared_ptr<const PodTemplate>> held;
  std::vector<const PodTemplate*> templates;
  for (const std::string& text : running) {
    held.push_back(make_template(json(text)));
    templates.push_back(held.back().get());
  }
  const auto bad = admit(pod, *make_template(pod), &node, "n", templates);
  return bad ? bad->reason + ": " + bad->message : "";
}

std::string with(const std::string& requests) {
  return R"({"spec":{"containers":[{"name":"c","resources":{"requests":)" + requests + "}}]}}";
}

TEST(Admission, ResourcesInTheKubeletsUnitsAndOrder) {
  EXPECT_EQ(verdict(json(with(R"({"cpu":"16","memory":"64Gi","nvidia.com/gpu":"8"})")), node()), "");
  EXPECT_EQ(verdict(json(with(R"({"cpu":"1000"})")), node()),
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: 16000");
  EXPECT_EQ(verdict(json(with(R"({"memory":"60Gi"})")), node(), {with(R"({"memory":"5Gi"})")}),
            "OutOfmemory: Node didn't have enough resource: memory, requested: 64424509440, used: 5368709120, "
            "capacity: 68719476736");
  EXPECT_EQ(
      verdict(json(with(R"({"nvidia.com/gpu":"1"})")), node(), {with(R"({"nvidia.com/gpu":"8"})")}),
      "OutOfnvidia.com/gpu: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8");
  // cpu is complained of before devices, pods before all.
  EXPECT_EQ(verdict(json(with(R"({"nvidia.com/gpu":"9","cpu":"17"})")), node()).substr(0, 9), "OutOfcpu:");
  const std::vector<std::string> three(3, with("{}"));
  EXPECT_EQ(verdict(json(with(R"({"cpu":"17"})")), node(), three),
            "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3");
}

TEST(Admission, UnknownExtendedResourcesAreNotTheNodesToRefuse) {
  EXPECT_EQ(verdict(json(with(R"({"example.test/x":"5"})")), node()), "");
  EXPECT_EQ(verdict(json(with(R"({"hugepages-2Mi":"2Mi"})")), node()).substr(0, 19), "OutOfhugepages-2Mi:");
}

TEST(Admission, LimitsStandInAndInitContainersCountByTheirPeak) {
  const Json pod = json(R"({"spec":{"initContainers":[
      {"name":"i","resources":{"requests":{"cpu":"15"}}},
      {"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
      {"name":"j","resources":{"requests":{"cpu":"15"}}}],
      "containers":[{"name":"c","resources":{"limits":{"cpu":"3"}}}]}})");
  EXPECT_EQ(make_template(pod)->requests, (Amounts{{"cpu", 17000}}));
  EXPECT_EQ(verdict(pod, node()).substr(0, 8), "OutOfcpu");
}

TEST(Admission, SelectorAffinityNameTaintsPorts) {
  const std::string affinity =
      "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
  EXPECT_EQ(verdict(json(R"({"spec":{"nodeSelector":{"zone":"a"}}})"), node()), "");
  EXPECT_EQ(verdict(json(R"({"spec":{"nodeSelector":{"zone":"b"}}})"), node()), affinity);
  const auto term = [](const std::string& e) {
    return json(R"({"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms":[)" +
                e + "]}}}}}");
  };
  const auto expression = [&](const std::string& e) { return term(R"({"matchExpressions":[)" + e + "]}"); };
  EXPECT_EQ(verdict(expression(R"({"key":"zone","operator":"In","values":["b","a"]})"), node()), "");
  EXPECT_EQ(verdict(expression(R"({"key":"zone","operator":"NotIn","values":["a"]})"), node()), affinity);
  EXPECT_EQ(verdict(expression(R"({"key":"size","operator":"Gt","values":["7"]})"), node()), "");
  EXPECT_EQ(verdict(expression(R"({"key":"size","operator":"Lt","values":["8"]})"), node()), affinity);
  EXPECT_EQ(verdict(expression(R"({"key":"none","operator":"DoesNotExist"})"), node()), "");
  EXPECT_EQ(verdict(term(R"({"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]})"), node()), "");
  EXPECT_EQ(verdict(term("{}"), node()), affinity);
  EXPECT_EQ(verdict(json(R"({"spec":{"nodeName":"m"}})"), node()).substr(0, 9), "NodeName:");
  Json tainted = node();
  kube::ensure_array(tainted, "spec.taints").push_back(json(R"({"key":"k","value":"v","effect":"NoExecute"})"));
  EXPECT_EQ(verdict(json(R"({"spec":{}})"), tainted),
            "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate");
  EXPECT_EQ(verdict(json(R"({"spec":{"tolerations":[{"key":"k","operator":"Exists"}]}})"), tainted), "");
  EXPECT_EQ(verdict(json(R"({"spec":{"tolerations":[{"key":"k","value":"w"}]}})"), tainted).substr(0, 15),
            "TaintToleration");
  const std::string port = R"({"spec":{"containers":[{"name":"c","ports":[{"hostPort":80}]}]}})";
  EXPECT_EQ(verdict(json(port), node(), {port}).substr(0, 10), "NodePorts:");
}

TEST(Admission, Pressure) {
  const auto said = [](std::string_view pod, unsigned pressure) {
    const Json p = json(pod);
    const Json n = node();
    const auto bad = admit(p, *make_template(p), &n, "n", {}, pressure);
    return bad ? bad->reason + ": " + bad->message : "";
  };
  const char* best_effort = R"({"status":{"qosClass":"BestEffort"}})";
  const char* burstable = R"({"status":{"qosClass":"Burstable"}})";
  EXPECT_EQ(said(best_effort, 0), "");
  EXPECT_EQ(said(best_effort, kMemoryPressure), "Evicted: The node had condition: [MemoryPressure]. ");
  EXPECT_EQ(said(R"({"spec":{"tolerations":[{"key":"node.kubernetes.io/memory-pressure","operator":"Exists"}]},
      "status":{"qosClass":"BestEffort"}})",
                 kMemoryPressure),
            "");
  EXPECT_EQ(said(burstable, kMemoryPressure), "");
  EXPECT_EQ(said(burstable, kMemoryPressure | kDiskPressure),
            "Evicted: The node had condition: [MemoryPressure DiskPressure]. ");
  EXPECT_EQ(said(burstable, kPidPressure), "Evicted: The node had condition: [PIDPressure]. ");
  EXPECT_EQ(said(R"({"spec":{"priority":2000001000}})", kMemoryPressure | kDiskPressure), "");
}

TEST(Images, NamesAndErrors) {
  EXPECT_EQ(normal_image_name("nginx"), "docker.io/library/nginx:latest");
  EXPECT_EQ(normal_image_name("bitnami/redis:7"), "docker.io/bitnami/redis:7");
  EXPECT_EQ(normal_image_name("registry.example:5000/app"), "registry.example:5000/app:latest");
  EXPECT_EQ(image_id("registry.example/app:1").substr(0, 28), "registry.example/app@sha256:");
  EXPECT_EQ(image_id("registry.example/app:1").size(), 28 + 64u);
  EXPECT_EQ(NodeImages::pull_error("x/y:1", {"", Duration(0), "NotFound"}),
            "rpc error: code = NotFound desc = failed to pull and unpack image \"x/y:1\": failed to resolve reference "
            "\"x/y:1\": x/y:1: not found");
  PodOptions options;
  options.image_rules = {{"a/*", std::chrono::seconds(2), ""}, {"*", Duration(0), "Unavailable"}};
  NodeImages images(options);
  const TimePoint t{5'000'000'000};
  EXPECT_FALSE(images.present("a/b", t));
  EXPECT_EQ(images.begin(1, "a/b", t), t + std::chrono::seconds(2));
  EXPECT_EQ(images.begin(2, "a/c", t), t + std::chrono::seconds(4));  // one after the other
  const PullResult result = images.end(1, "a/b", t + std::chrono::seconds(2));
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.own, std::chrono::seconds(2));
  EXPECT_TRUE(images.present("a/b", t));
  EXPECT_FALSE(images.present("a/c", t));
  images.adopt("a/d", t);
  images.adopt("else", t);
  EXPECT_TRUE(images.present("a/d", t));
  EXPECT_FALSE(images.present("else", t));
  EXPECT_NE(images.end(3, "else", t).error, "");
}

TEST(Template, IsSharedByPodsThatAreAlike) {
  const auto pod = [](const std::string& five, const std::string& image) {
    return json(R"({"metadata":{"name":"x"},"spec":{"nodeName":")" + five +
                R"(","volumes":[{"name":"kube-api-access-)" + five + R"("}],"containers":[{"name":"c","image":")" +
                image + R"(","volumeMounts":[{"name":"kube-api-access-)" + five + R"(","mountPath":"/t"}]}]}})");
  };
  const auto a = intern_template(pod("aaaaa", "i"));
  EXPECT_EQ(a.get(), intern_template(pod("bbbbb", "i")).get());
  EXPECT_NE(a.get(), intern_template(pod("aaaaa", "j")).get());
  EXPECT_EQ(token_suffix(pod("abcde", "i")), "abcde");
}

TEST(Template, OddSpecsTakeDefaults) {
  const auto t = make_template(json(R"({"spec":{"containers":[7,{"name":5,"image":null,"resources":{"requests":[1]},
      "livenessProbe":{"periodSeconds":-4,"failureThreshold":"x"}}],"terminationGracePeriodSeconds":-9}})"));
  ASSERT_EQ(t->containers.size(), 1u);
  EXPECT_EQ(t->grace_seconds, 0);
  EXPECT_EQ(t->containers[0].probes[static_cast<int>(ProbeKind::kLiveness)].period, std::chrono::seconds(1));
  EXPECT_EQ(make_template(json("[]"))->containers.size(), 0u);
}

}  // namespace
}  // namespace ghostfleet::agent
