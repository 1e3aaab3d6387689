// Binding, eviction, scale, logs and what admission adds or refuses, through the Api.
#include "controlplane/apiserver/subresources/subresources.h"

#include <gmock/gmock.h>

#include "controlplane/apiserver/strategies/test_api.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using testing::HasSubstr;

constexpr std::string_view kPod =
    R"({"metadata":{"name":"p","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}})";

Json json(std::string_view text) {
  auto parsed = kube::parse_json(text);
  EXPECT_TRUE(parsed.ok());
  return parsed.ok() ? *parsed : Json();
}

class SubresourcesTest : public testing::Test {
 protected:
  kube::ApiResult<SubresourceAnswer> call(std::string_view verb, std::string_view group, std::string_view resource,
                                          std::string_view name, std::string_view subresource, Json body = {}) {
    const Resource* r = api_.api().find(group, "v1", resource);
    SubresourceCall c{.verb = verb, .resource = *r, .ns = "ns", .name = name, .subresource = subresource};
    c.body = std::move(body);
    return call_subresource(std::move(c), api_.api(), api_.context());
  }

  TestApi api_;
};

TEST_F(SubresourcesTest, APodIsBoundOnce) {
  ASSERT_TRUE(api_.create("", "pods", kPod).ok());
  Json binding = json(R"({"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}})");
  auto first = call("create", "", "pods", "p", "binding", binding);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->code, 201);
  auto second = call("create", "", "pods", "p", "binding", binding);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message,
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"");
  auto nowhere = call("create", "", "pods", "p", "binding", json(R"({"metadata":{"name":"p"},"target":{}})"));
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().message, "target.name: Required value");
}

TEST_F(SubresourcesTest, EvictionAsksTheBudget) {
  ASSERT_TRUE(api_.create("", "pods", kPod).ok());
  ASSERT_TRUE(call("create", "", "pods", "p", "binding",
                   json(R"({"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}})"))
                  .ok());
  auto running = api_.change("", "pods", "p", "status", [](Json& p) {
    kube::set_path(p, "status.phase", "Running");
    kube::ensure_array(p, "status.conditions").push_back(json(R"({"type":"Ready","status":"True"})"));
  });
  ASSERT_TRUE(running.ok());
  ASSERT_TRUE(
      api_.create("policy", "poddisruptionbudgets",
                  R"({"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}})")
          .ok());
  Json eviction = json(R"({"metadata":{"name":"p"}})");
  auto refused = call("create", "", "pods", "p", "eviction", eviction);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, 429);
  EXPECT_EQ(refused.error().retry_after_seconds, 10);
  auto allowed = api_.change("policy", "poddisruptionbudgets", "b", "status", [](Json& b) {
    kube::set_path(b, "status",
                   json(R"({"observedGeneration":1,"currentHealthy":1,"desiredHealthy":1,)"
                        R"("expectedPods":1,"disruptionsAllowed":1})"));
  });
  ASSERT_TRUE(allowed.ok()) << allowed.error().message;
  auto evicted = call("create", "", "pods", "p", "eviction", eviction);
  ASSERT_TRUE(evicted.ok()) << evicted.error().message;
  const Resource* pods = api_.api().find("", "v1", "pods");
  auto live = api_.api().get(*pods, "ns", "p");
  ASSERT_TRUE(live.ok());
  EXPECT_THAT((*live)->json, HasSubstr("deletionTimestamp"));
  EXPECT_THAT((*live)->json, HasSubstr("EvictionByEvictionAPI"));
}

TEST_F(SubresourcesTest, ScaleShowsAndSetsReplicas) {
  ASSERT_TRUE(api_.create("apps", "deployments",
                          R"({"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":)"
                          R"({"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})")
                  .ok());
  auto shown = call("get", "apps", "deployments", "d", "scale");
  ASSERT_TRUE(shown.ok()) << shown.error().message;
  EXPECT_EQ(text_of(status_of(shown->object), "selector"), "a=b");
  auto set =
      call("update", "apps", "deployments", "d", "scale", json(R"({"metadata":{"name":"d"},"spec":{"replicas":4}})"));
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(int_of(spec_of(set->object), "replicas"), 4);
  auto negative = call("update", "apps", "deployments", "d", "scale", json(R"({"spec":{"replicas":-2}})"));
  ASSERT_FALSE(negative.ok());
  EXPECT_EQ(causes_of(negative.error()), "spec.replicas: Invalid value: -2: must be greater than or equal to 0");
}

TEST_F(SubresourcesTest, LogsOfAPodNobodyRuns) {
  ASSERT_TRUE(api_.create("", "pods", kPod).ok());
  auto log = call("get", "", "pods", "p", "log");
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->code, 204);
  auto exec = call("connect", "", "pods", "p", "exec");
  ASSERT_FALSE(exec.ok());
  EXPECT_EQ(exec.error().message, "pod p does not have a host assigned");
}

TEST_F(SubresourcesTest, LimitRangesFillInAndRefuse) {
  ASSERT_TRUE(api_.create("", "limitranges",
                          R"({"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"500m"},)"
                          R"("max":{"cpu":"2"}}]}})")
                  .ok());
  auto filled = api_.create("", "pods", kPod);
  ASSERT_TRUE(filled.ok()) << filled.error().message;
  EXPECT_THAT(json_text(*member(metadata_of(*filled), "annotations")),
              HasSubstr("LimitRanger plugin set: cpu request for container c; cpu limit for container c"));
  auto large = api_.create("", "pods",
                           R"({"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":)"
                           R"({"limits":{"cpu":"4"}}}]}})");
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().message, "pods \"q\" is forbidden: maximum cpu usage per Container is 2, but limit is 4");
}

TEST_F(SubresourcesTest, PodSecurityHoldsANamespaceToItsLevel) {
  auto labelled = api_.change("", "namespaces", "ns", "", [](Json& ns) {
    kube::ensure_object(ns, "metadata.labels")["pod-security.kubernetes.io/enforce"] = "baseline";
  });
  ASSERT_TRUE(labelled.ok()) << labelled.error().message;
  auto made = api_.create(
      "", "pods", R"({"metadata":{"name":"p"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}})");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)");
}

}  // namespace
}  // namespace ghostfleet::controlplane
