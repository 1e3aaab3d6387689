// Objects in, objects or causes out: what a real kube-apiserver 1.36 answers.
#include <gmock/gmock.h>

#include <deque>

#include "controlplane/apiserver/strategies/test_api.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using testing::HasSubstr;

struct Refused {
  std::string_view group, resource, object;
  std::string_view causes;
};

std::string pod(std::string_view container, std::string_view rest = "") {
  return std::string(R"({"metadata":{"name":"p"},"spec":{)") + std::string(rest) +
         R"("containers":[{"name":"c","image":"i")" + std::string(container) + "}]}}";
}

void expect_refused(const Refused& r) {
  TestApi api;
  auto made = api.create(r.group, r.resource, r.object);
  ASSERT_FALSE(made.ok()) << r.object;
  EXPECT_EQ(causes_of(made.error()), r.causes) << r.object;
}

TEST(Validation, PodsAreRefusedWithTheWordsOfARealServer) {
  const std::string ports = pod(R"(,"ports":[{"containerPort":0},{"containerPort":70000}])");
  const std::string names = pod(R"(,"ports":[{"containerPort":80,"name":"http"},{"containerPort":81,"name":"http"}])");
  const std::string probe = pod(R"(,"livenessProbe":{"httpGet":{"port":80},"exec":{"command":["x"]}})");
  const std::string gpu = pod(R"(,"resources":{"requests":{"nvidia.com/gpu":"1"}})");
  const std::string more = pod(R"(,"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}})");
  const std::string image = R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":" i"}]}})";
  const std::string policy = pod("", R"("restartPolicy":"Sometimes",)");
  const std::string toleration = pod("", R"("tolerations":[{"key":"a","operator":"Like"}],)");
  const std::string mount = pod(R"(,"volumeMounts":[{"name":"v","mountPath":"/m"}])");
  const Refused cases[] = {
      {"", "pods", R"({"metadata":{"name":"p"},"spec":{}})", "spec.containers: Required value"},
      {"", "pods", ports,
       "spec.containers[0].ports[0].containerPort: Required value; spec.containers[0].ports[1].containerPort: Invalid "
       "value: 70000: must be between 1 and 65535, inclusive"},
      {"", "pods", names, "spec.containers[0].ports[1].name: Duplicate value: \"http\""},
      {"", "pods", probe,
       "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type"},
      {"", "pods", gpu,
       "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"},
      {"", "pods", more,
       "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"},
      {"", "pods", image,
       "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace"},
      {"", "pods", policy,
       "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\""},
      {"", "pods", toleration,
       "spec.tolerations[0].operator: Unsupported value: \"Like\": supported values: \"Equal\", \"Exists\""},
      {"", "pods", mount, "spec.containers[0].volumeMounts[0].name: Not found: \"v\""},
  };
  for (const Refused& r : cases) expect_refused(r);
}

TEST(Validation, ClaimsOfPodsAreRefusedWithTheWordsOfARealServer) {
  const std::string whole = R"("resourceClaims":[{"name":"g","resourceClaimName":"a"}],)";
  const std::string both =
      R"("resourceClaims":[{"name":"g","resourceClaimName":"a","resourceClaimTemplateName":"b"}],)";
  const std::string twice =
      R"("resourceClaims":[{"name":"g","resourceClaimName":"a"},{"name":"g","resourceClaimName":"b"}],)";
  const auto uses = [](const std::string& claims) { return R"(,"resources":{"claims":[)" + claims + "]}"; };
  std::deque<std::string> kept;  // a case only looks at its text
  const auto claiming = [&](const std::string& container, const std::string& spec) -> std::string_view {
    return kept.emplace_back(pod(container, spec));
  };
  const Refused cases[] = {
      {"", "pods", claiming(uses(R"({"name":"gg"})"), whole),
       "spec.containers[0].resources.claims[0]: Not found: \"gg\": must be one of the names in "
       "pod.spec.resourceClaims: g"},
      {"", "pods", claiming(uses(R"({"name":"gg"})"), ""),
       "spec.containers[0].resources.claims[0]: Not found: \"gg\": must be one of the names in "
       "pod.spec.resourceClaims which is empty"},
      {"", "pods", claiming("", both),
       R"(spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":"a","ResourceClaimTemplateName":"b"}: )"
       "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"},
      {"", "pods", claiming("", R"("resourceClaims":[{"name":"g"}],)"),
       R"(spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":null,"ResourceClaimTemplateName":null})"
       ": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"},
      {"", "pods", claiming("", twice), "spec.resourceClaims[1].name: Duplicate value: \"g\""},
      {"", "pods", claiming(uses(R"({"name":"g"},{"name":"g"})"), whole),
       "spec.containers[0].resources.claims[1]: Duplicate value: \"g\""},
      {"", "pods", claiming(uses(R"({"name":"g","request":"r"},{"name":"g"})"), whole),
       "spec.containers[0].resources.claims[1]: Duplicate value: \"g\""},
  };
  for (const Refused& r : cases) expect_refused(r);
  TestApi api;
  const auto parts = uses(R"({"name":"g","request":"r"},{"name":"g","request":"s"})");
  EXPECT_TRUE(api.create("", "pods", pod(parts, whole)).ok());
}

TEST(Validation, OtherKinds) {
  const Refused cases[] = {
      {"apps", "replicasets",
       R"({"metadata":{"name":"r"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"a":"b"}}}}})",
       "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`; "
       "spec.template.spec.containers: Required value"},
      {"", "services", R"({"metadata":{"name":"s"},"spec":{}})", "spec.ports: Required value"},
      {"", "services", R"({"metadata":{"name":"s"},"spec":{"clusterIP":"192.168.1.1","ports":[{"port":80}]}})",
       "spec.clusterIPs: Invalid value: [\"192.168.1.1\"]: failed to allocate IP 192.168.1.1: the provided network "
       "does not match the current range"},
      {"", "services", R"({"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":80}]}})",
       "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports "
       "is 30000-32767"},
      {"coordination.k8s.io", "leases",
       R"({"metadata":{"name":"bad"},"spec":{"leaseDurationSeconds":-1,"leaseTransitions":-2}})",
       "spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0; spec.leaseTransitions: Invalid value: "
       "-2: must be greater than or equal to 0"},
      {"rbac.authorization.k8s.io", "roles",
       R"({"metadata":{"name":"bad"},"rules":[{"resources":["pods"],"verbs":[]}]})",
       "rules[0].verbs: Required value: verbs must contain at least one value; rules[0].apiGroups: Required value: "
       "resource rules must supply at least one api group"},
      {"batch", "cronjobs",
       R"({"metadata":{"name":"c"},"spec":{"schedule":"every day","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}})",
       "spec.schedule: Invalid value: \"every day\": expected exactly 5 fields, found 2: [every day]"},
      {"", "limitranges", R"({"metadata":{"name":"l"},"spec":{"limits":[{"type":"Pod","default":{"cpu":"1"}}]}})",
       "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"},
  };
  for (const Refused& r : cases) expect_refused(r);
}

TEST(Pods, GetTheirDefaults) {
  TestApi api;
  auto made = api.create("", "pods", pod(R"(,"resources":{"limits":{"cpu":"1"}})"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Json& spec = spec_of(*made);
  EXPECT_EQ(text_of(spec, "dnsPolicy"), "ClusterFirst");
  EXPECT_EQ(int_of(spec, "terminationGracePeriodSeconds"), 30);
  EXPECT_EQ(int_of(spec, "priority", -1), 0);
  EXPECT_EQ(text_of(spec, "serviceAccountName"), "default");
  EXPECT_EQ(array_of(spec, "tolerations")->size(), 2U);
  EXPECT_THAT(json_text(*member(spec, "volumes")), HasSubstr("kube-api-access-"));
  const Json& container = (*array_of(spec, "containers"))[0];
  EXPECT_EQ(text_of(container, "imagePullPolicy"), "Always");
  EXPECT_THAT(json_text(*member(container, "resources")), HasSubstr(R"("requests":{"cpu":"1"})"));
  EXPECT_EQ(text_of(status_of(*made), "qosClass"), "Burstable");
  EXPECT_EQ(generation_of(*made), 1);
}

TEST(Pods, OnlySomeFieldsMayChange) {
  TestApi api;
  ASSERT_TRUE(api.create("", "pods", pod("", R"("automountServiceAccountToken":false,)")).ok());
  auto image = api.change("", "pods", "p", "",
                          [](Json& p) { kube::ensure_array(p, "spec.containers")[0].get_object()["image"] = "i2"; });
  ASSERT_TRUE(image.ok()) << image.error().message;
  EXPECT_EQ(generation_of(*image), 2);
  auto node = api.change("", "pods", "p", "", [](Json& p) { kube::set_path(p, "spec.nodeName", "n"); });
  ASSERT_FALSE(node.ok());
  EXPECT_EQ(
      causes_of(node.error()),
      "spec: Forbidden: pod updates may not change fields other than "
      "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
      "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if "
      "it was previously negative)\n@@ -42,7 +42,7 @@\n  \"NodeSelector\": null,\n  \"ServiceAccountName\": "
      "\"default\",\n  \"AutomountServiceAccountToken\": false,\n- \"NodeName\": \"\",\n+ \"NodeName\": \"n\",\n  "
      "\"SecurityContext\": {\n   \"HostNetwork\": false,\n   \"HostPID\": false,\n");
}

TEST(Pods, StatusAndSpecAreKeptApart) {
  TestApi api;
  ASSERT_TRUE(api.create("", "pods", pod("")).ok());
  auto done = api.change("", "pods", "p", "status", [](Json& p) {
    kube::set_path(p, "spec.activeDeadlineSeconds", 5);
    kube::set_path(p, "status.phase", "Running");
    kube::set_path(p, "status.podIP", "10.1.2.3");
  });
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(member(spec_of(*done), "activeDeadlineSeconds"), nullptr);
  EXPECT_THAT(json_text(*member(status_of(*done), "podIPs")), HasSubstr("10.1.2.3"));
  EXPECT_EQ(generation_of(*done), 1);
}

TEST(Nodes, KeepTheirStatusAndGetATaint) {
  TestApi api;
  auto made = api.create(
      "", "nodes",
      R"({"metadata":{"name":"n"},"spec":{"podCIDR":"10.244.1.0/24"},"status":{"capacity":{"cpu":"4","memory":"1Gi"}}})");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(json_text(*member(spec_of(*made), "podCIDRs")), R"(["10.244.1.0/24"])");
  EXPECT_THAT(json_text(*member(spec_of(*made), "taints")), HasSubstr("node.kubernetes.io/not-ready"));
  EXPECT_EQ(json_text(*member(status_of(*made), "allocatable")), R"({"cpu":"4","memory":"1Gi"})");
  auto moved = api.change("", "nodes", "n", "", [](Json& n) { kube::set_path(n, "spec.podCIDR", "10.244.2.0/24"); });
  ASSERT_FALSE(moved.ok());
  EXPECT_THAT(causes_of(moved.error()), HasSubstr("may not change podCIDR except from \"\" to valid"));
}

TEST(Services, AddressesAndPortsAreGivenOnceAndComeBack) {
  TestApi api;
  auto first =
      api.create("", "services", R"({"metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80}]}})");
  ASSERT_TRUE(first.ok()) << first.error().message;
  std::string address(text_of(spec_of(*first), "clusterIP"));
  EXPECT_FALSE(address.empty());
  std::string same = R"({"metadata":{"name":"b"},"spec":{"clusterIP":")" + address + R"(","ports":[{"port":80}]}})";
  auto taken = api.create("", "services", same);
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(causes_of(taken.error()), HasSubstr("provided IP is already allocated"));
  const Resource* services = api.api().find("", "v1", "services");
  ASSERT_TRUE(api.api().remove(*services, "ns", "a", {}, api.context()).ok());
  EXPECT_TRUE(api.create("", "services", same).ok());
}

TEST(Jobs, GetASelectorFromTheirUid) {
  TestApi api;
  auto made = api.create(
      "batch", "jobs",
      R"({"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}})");
  ASSERT_TRUE(made.ok()) << made.error().message;
  std::string uid(uid_of(*made));
  EXPECT_EQ(json_text(*member(spec_of(*made), "selector")),
            R"({"matchLabels":{"batch.kubernetes.io/controller-uid":")" + uid + "\"}}");
  EXPECT_EQ(text_of(*member(metadata_of(*made), "labels"), "job-name"), "j");
  auto changed = api.change("batch", "jobs", "j", "", [](Json& j) { kube::set_path(j, "spec.completions", 3); });
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(causes_of(changed.error()), "spec.completions: Invalid value: 3: field is immutable");
}

TEST(Namespaces, TerminatingOnesTakeNothingNew) {
  TestApi api;
  const Resource* namespaces = api.api().find("", "v1", "namespaces");
  auto marked = api.api().remove(*namespaces, "", "ns", {}, api.context());
  ASSERT_TRUE(marked.ok());
  EXPECT_FALSE(marked->gone);
  auto made = api.create("", "configmaps", R"({"metadata":{"name":"c"}})");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "configmaps \"c\" is forbidden: unable to create new content in namespace ns because it is being "
            "terminated");
  EXPECT_EQ(made.error().causes.at(0).reason, "NamespaceTerminating");
}

TEST(Warnings, OddPodsAreLetThroughWithAWord) {
  TestApi api;
  auto made = api.create("", "pods", pod(R"(,"ports":[{"containerPort":80},{"containerPort":80}])"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_THAT(
      api.context().warnings,
      testing::ElementsAre("spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"));
}

}  // namespace
}  // namespace ghostfleet::controlplane
