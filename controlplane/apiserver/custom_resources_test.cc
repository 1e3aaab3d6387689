// Custom resources over HTTP: what their schema does not know, and what becomes of them when their definition goes.
#include <gmock/gmock.h>

#include "controlplane/apiserver/test_server.h"

namespace ghostfleet::controlplane {
namespace {

using testing::HasSubstr;

constexpr const char* kDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
constexpr const char* kDefinition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
constexpr const char* kWidgets = "/apis/example.com/v1/namespaces/default/widgets";

std::string definition() {
  return R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",)"
         R"("metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",)"
         R"("names":{"plural":"widgets","singular":"widget","kind":"Widget"},"versions":[{"name":"v1","served":true,)"
         R"("storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",)"
         R"("properties":{"size":{"type":"integer"},"parts":{"type":"array","items":{"type":"object","properties":)"
         R"({"name":{"type":"string"}}}},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}}]}})";
}

std::string widget(std::string_view name, std::string_view metadata, std::string_view spec) {
  return R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":")" + std::string(name) + "\"" +
         std::string(metadata) + R"(},"spec":)" + std::string(spec) + "}";
}

std::vector<std::string> warnings(const TestAnswer& answer) {
  std::vector<std::string> out;
  for (const auto& [name, value] : answer.headers) {
    if (name == "warning") out.push_back(value);
  }
  return out;
}

TEST(CustomResourcesTest, UnknownFieldsAreToldOrRefused) {
  TestServer server;
  server.create(kDefinitions, definition());
  const std::string body =
      widget("w", R"(,"colour":"red")", R"({"size":1,"sise":2,"parts":[{"name":"a"},{"nam":"b"}],"free":{"any":1}})");
  const std::string all = kWidgets;
  const TestAnswer strict = server.call("POST", all + "?fieldValidation=Strict", body);
  EXPECT_EQ(strict.status, 400);
  EXPECT_EQ(strict.message(),
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field "
            "\"metadata.colour\", unknown field \"spec.parts[1].nam\", unknown field \"spec.sise\"");
  const TestAnswer ignored = server.call("POST", all + "?fieldValidation=Ignore&dryRun=All", body);
  EXPECT_EQ(ignored.status, 201);
  EXPECT_TRUE(warnings(ignored).empty());
  const TestAnswer warned = server.call("POST", all, body);
  EXPECT_EQ(warned.status, 201);
  EXPECT_EQ(warnings(warned), (std::vector<std::string>{"299 - \"unknown field \\\"metadata.colour\\\"\"",
                                                        "299 - \"unknown field \\\"spec.parts[1].nam\\\"\"",
                                                        "299 - \"unknown field \\\"spec.sise\\\"\""}));
  EXPECT_EQ(kube::to_json(*kube::find_path(warned.json(), "spec")),
            R"({"free":{"any":1},"parts":[{"name":"a"},{}],"size":1})");
}

TEST(CustomResourcesTest, UnknownFieldsOfAPatch) {
  TestServer server;
  server.create(kDefinitions, definition());
  server.create(kWidgets, widget("w", "", R"({"size":1})"));
  const std::string one = std::string(kWidgets) + "/w";
  const std::string patch = R"({"metadata":{"colour":"red"},"spec":{"sise":2}})";
  const TestAnswer strict =
      server.call("PATCH", one + "?fieldValidation=Strict", patch, "application/merge-patch+json");
  EXPECT_EQ(strict.status, 422);
  EXPECT_THAT(strict.message(), HasSubstr("strict decoding error: unknown field \"metadata.colour\", unknown field "
                                          "\"spec.sise\""));
  const TestAnswer warned = server.call("PATCH", one, patch, "application/merge-patch+json");
  EXPECT_EQ(warned.status, 200);
  EXPECT_EQ(warnings(warned).size(), 2u);
  EXPECT_THAT(warned.body, testing::Not(HasSubstr("sise")));
  EXPECT_THAT(warned.body, testing::Not(HasSubstr("colour\":")));
}

TEST(CustomResourcesTest, ADeletedDefinitionTakesItsObjectsAlong) {
  TestServer server;
  server.create(kDefinitions, definition());
  server.create(kWidgets, widget("free", "", R"({"size":1})"));
  server.create(kWidgets, widget("held", R"(,"finalizers":["example.com/hold"])", R"({"size":2})"));
  const TestAnswer deleted = server.call("DELETE", kDefinition);
  EXPECT_EQ(deleted.status, 200);
  EXPECT_THAT(deleted.body, HasSubstr("customresourcecleanup.apiextensions.k8s.io"));
  EXPECT_THAT(deleted.body, HasSubstr("InstanceDeletionPending"));
  // The definition waits for the object that a finalizer holds.
  server.until(kWidgets, [](const TestAnswer& a) { return kube::get_array(a.json(), "items")->size() == 1; });
  const TestAnswer terminating = server.call("GET", kDefinition);
  EXPECT_EQ(terminating.status, 200);
  EXPECT_THAT(terminating.body, HasSubstr("InstanceDeletionInProgress"));
  const TestAnswer late = server.call("POST", kWidgets, widget("late", "", R"({"size":3})"));
  EXPECT_EQ(late.status, 403);
  EXPECT_THAT(late.message(), HasSubstr("create not allowed while custom resource definition is terminating"));
  const std::string held = std::string(kWidgets) + "/held";
  EXPECT_EQ(server.call("PATCH", held, R"({"metadata":{"finalizers":null}})", "application/merge-patch+json").status,
            200);
  server.until(kDefinition, [](const TestAnswer& a) { return a.status == 404; });
  EXPECT_EQ(server.call("GET", kWidgets).status, 404);
  server.create(kDefinitions, definition());
  EXPECT_EQ(kube::get_array(server.call("GET", kWidgets).json(), "items")->size(), 0u);
}

TEST(CustomResourcesTest, AVersionThatIsNoLongerServedGoes) {
  TestServer server;
  server.create(kDefinitions, definition());
  EXPECT_EQ(server.call("GET", kWidgets).status, 200);
  const TestAnswer patched =
      server.call("PATCH", kDefinition, R"([{"op":"replace","path":"/spec/versions/0/served","value":false}])",
                  "application/json-patch+json");
  EXPECT_EQ(patched.status, 200) << patched.body;
  EXPECT_EQ(server.call("GET", kWidgets).status, 404);
}

}  // namespace
}  // namespace ghostfleet::controlplane
