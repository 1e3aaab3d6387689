#include "emulator/fleet/object_watches.h"

#include <gtest/gtest.h>

#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/single_node.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

constexpr const char* kConfigMaps = "/api/v1/namespaces/default/configmaps";

kube::Json pod_with(const std::string& name, const std::string& more) {
  return *kube::parse_json(R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
                           R"(","namespace":"default"},"spec":{"nodeName":"alone",)" + more +
                           R"("containers":[{"name":"c","image":"registry.example.test/web:1"}]},)" +
                           R"("status":{"phase":"Pending"}})");
}

TEST(ObjectReferences, OfVolumesVariablesAndPullSecrets) {
  const auto pod = kube::parse_json(R"({"spec":{
    "imagePullSecrets":[{"name":"pull"}],
    "initContainers":[{"name":"i","envFrom":[{"configMapRef":{"name":"from"}}]}],
    "containers":[{"name":"c","env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"key","key":"k"}}},
                                     {"name":"B","valueFrom":{"configMapKeyRef":{"name":"volume","key":"k"}}}]}],
    "volumes":[{"name":"v","configMap":{"name":"volume"}},{"name":"s","secret":{"secretName":"secret"}},
               {"name":"p","projected":{"sources":[{"configMap":{"name":"kube-root-ca.crt"}},{"secret":{"name":"key"}}]}}]}})");
  std::map<std::string, bool> kept;
  for (const ObjectReference& r : object_references(*pod)) kept[(r.secret ? "s/" : "c/") + r.name] = r.kept;
  const std::map<std::string, bool> expected = {
      {"s/pull", true},  {"c/from", false}, {"s/key", true}, {"c/volume", true}, {"c/kube-root-ca.crt", true},
      {"s/secret", true}};
  EXPECT_EQ(kept, expected);
}

TEST(ObjectReferences, TargetsAreTakenApart) {
  bool secret = false;
  std::string ns, name;
  ASSERT_TRUE(parse_object_target("/api/v1/namespaces/a/secrets/b", &secret, &ns, &name));
  EXPECT_TRUE(secret && ns == "a" && name == "b");
  EXPECT_FALSE(parse_object_target("/api/v1/namespaces/a/pods/b", &secret, &ns, &name));
  EXPECT_FALSE(parse_object_target("/api/v1/namespaces/a/serviceaccounts/b/token", &secret, &ns, &name));
  EXPECT_FALSE(parse_object_target("/api/v1/nodes/a", &secret, &ns, &name));
}

class ObjectWatchesTest : public ::testing::Test {
 protected:
  void start() {
    SingleNodeOptions o;
    o.client = api_.config();
    o.identity.name = "alone";
    o.node.capacity = {{"cpu", "4"}, {"memory", "8Gi"}, {"pods", "110"}};
    auto node = SingleNode::start(o);
    ASSERT_TRUE(node.ok()) << node.error().message();
    node_ = std::move(*node);
    ASSERT_TRUE(eventually([&] { return node_->snapshot().ready == 1; }));
  }
  size_t watches(const std::string& name) {
    return api_.requests(
        "GET", std::string(kConfigMaps) + "?allowWatchBookmarks=true&fieldSelector=metadata.name%3D" + name + "&");
  }
  bool running(const std::string& pod) {
    const auto object = api_.get("/api/v1/namespaces/default/pods/" + pod);
    return object && kube::get_string(*object, "status.phase") == "Running";
  }
  FakeApi api_;
  std::unique_ptr<SingleNode> node_;
};

constexpr const char* kVolume = R"("volumes":[{"name":"v","configMap":{"name":"settings"}}],)";

TEST_F(ObjectWatchesTest, OneWatchForAllPodsAndNoGet) {
  api_.put(std::string(kConfigMaps) + "/settings",
           *kube::parse_json(
               R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings","namespace":"default"}})"));
  start();
  api_.put("/api/v1/namespaces/default/pods/a", pod_with("a", kVolume));
  api_.put("/api/v1/namespaces/default/pods/b", pod_with("b", kVolume));
  ASSERT_TRUE(eventually([&] { return running("a") && running("b"); }));
  EXPECT_EQ(watches("settings"), 1u);
  EXPECT_EQ(api_.requests("GET", std::string(kConfigMaps) + "/settings"), 0u);
  // The watch ends with its last pod, and begins anew with the next.
  api_.erase("/api/v1/namespaces/default/pods/a");
  api_.erase("/api/v1/namespaces/default/pods/b");
  api_.put("/api/v1/namespaces/default/pods/c", pod_with("c", kVolume));
  ASSERT_TRUE(eventually([&] { return running("c"); }));
  EXPECT_EQ(watches("settings"), 2u);
}

TEST_F(ObjectWatchesTest, AnObjectThatComesLateIsMountedWithoutAnotherRequest) {
  start();
  api_.put("/api/v1/namespaces/default/pods/a", pod_with("a", kVolume));
  ASSERT_TRUE(eventually([&] { return watches("settings") == 1; }));
  api_.put(std::string(kConfigMaps) + "/settings",
           *kube::parse_json(
               R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings","namespace":"default"}})"));
  ASSERT_TRUE(eventually([&] { return running("a"); }));
  EXPECT_EQ(watches("settings"), 1u);
}

constexpr const char* kOneKey = R"("volumes":[{"name":"v","configMap":{"name":"settings","items":[{"key":"wanted",)"
                                R"("path":"p"}]}}],)";

TEST_F(ObjectWatchesTest, AKeyThatIsMissingKeepsThePodWaiting) {
  const auto settings = [](const std::string& data) {
    return *kube::parse_json(
        R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings","namespace":"default"},"data":)" + data +
        "}");
  };
  api_.put(std::string(kConfigMaps) + "/settings", settings(R"({"other":"x"})"));
  start();
  api_.put("/api/v1/namespaces/default/pods/a", pod_with("a", kOneKey));
  ASSERT_TRUE(eventually([&] { return api_.requests("POST", "/api/v1/namespaces/default/events") >= 2; }));
  EXPECT_FALSE(running("a"));
  api_.put(std::string(kConfigMaps) + "/settings", settings(R"({"other":"x","wanted":"y"})"));
  ASSERT_TRUE(eventually([&] { return running("a"); }));
}

}  // namespace
}  // namespace ghostfleet::emulator
