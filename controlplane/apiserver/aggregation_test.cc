// API services that another server answers: discovery, requests with the user in headers, and the condition Available.
#include <gmock/gmock.h>

#include <mutex>

#include "controlplane/apiserver/proxy/aggregation.h"
#include "controlplane/apiserver/test_server.h"

namespace ghostfleet::controlplane {
namespace {

using kube::http::Exchange;
using testing::HasSubstr;

constexpr const char* kApiServices = "/apis/apiregistration.k8s.io/v1/apiservices";
constexpr const char* kApiService = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.example.com";
constexpr const char* kGroupVersion = "/apis/metrics.example.com/v1beta1";
constexpr const char* kResources =
    R"({"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.example.com/v1beta1","resources":[)"
    R"({"name":"nodes","singularName":"node","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]},)"
    R"({"name":"nodes/raw","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get"]}]})";

// Answers its resources, and what it was asked and by whom.
void answer(const std::shared_ptr<Exchange>& e) {
  const kube::http::Request& request = e->request();
  if (request.path() == kGroupVersion) {
    return e->respond(200, {{"content-type", "application/json"}}, share(kResources));
  }
  std::string said = request.method + " " + request.target + " by ";
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-remote-") || name == "authorization") said += name + "=" + value + " ";
  }
  said += "certificate=" + (request.peer_certificate ? request.peer_certificate->common_name : "none");
  e->respond(200, {{"content-type", "text/plain"}}, share(said));
}

std::string api_service(std::string_view more) {
  return R"({"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService",)"
         R"("metadata":{"name":"v1beta1.metrics.example.com"},"spec":{"group":"metrics.example.com",)"
         R"("version":"v1beta1","groupPriorityMinimum":100,"versionPriority":100,"service":)" +
         std::string(more) + "}}";
}

std::string external(std::string_view name) {
  return R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"metrics"},"spec":{"type":"ExternalName",)"
         R"("externalName":")" +
         std::string(name) + "\"}}";
}

std::string at_port(uint16_t port, std::string_view more = R"(,"insecureSkipTLSVerify":true)") {
  return R"({"namespace":"default","name":"metrics","port":)" + std::to_string(port) + "}" + std::string(more);
}

bool has_condition(const TestAnswer& a, std::string_view status, std::string_view reason) {
  const kube::Json json = a.json();
  const kube::JsonArray* conditions = kube::get_array(json, "status.conditions");
  return conditions && conditions->size() == 1 && kube::get_string((*conditions)[0], "status") == status &&
         kube::get_string((*conditions)[0], "reason") == reason;
}

TEST(AggregationTest, AnotherServerAnswersItsGroup) {
  TestServer server;
  TestBackend backend(answer);
  server.create(kApiServices, api_service(at_port(backend.port())));
  server.until(kApiService, [](const TestAnswer& a) { return has_condition(a, "False", "ServiceNotFound"); });
  const TestAnswer unavailable = server.call("GET", kGroupVersion);
  EXPECT_EQ(unavailable.status, 503);
  EXPECT_EQ(unavailable.body, "service unavailable\n");
  server.create("/api/v1/namespaces/default/services", external("localhost"));
  server.until(kApiService, [](const TestAnswer& a) { return has_condition(a, "True", "Passed"); });
  EXPECT_EQ(server.call("GET", kGroupVersion).body, kResources);
  EXPECT_THAT(server.call("GET", "/apis").body, HasSubstr("metrics.example.com/v1beta1"));
  EXPECT_THAT(server.call("GET", "/apis/metrics.example.com").body, HasSubstr("APIGroup"));
  TestAnswer aggregated;
  kube::http::HeaderList headers = server.headers();
  headers.add("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
  server.client().start("GET", "/apis", &headers, "", {}, &aggregated);
  ASSERT_TRUE(run_until(server.loop(), [&] { return aggregated.done; }));
  EXPECT_THAT(aggregated.body, HasSubstr("NodeMetrics"));
  EXPECT_THAT(aggregated.body, HasSubstr(R"("subresource":"raw")"));
}

TEST(AggregationTest, TheUserIsNamedAndCannotBeForged) {
  TestServer server;
  TestBackend backend(answer);
  server.create("/api/v1/namespaces/default/services", external("localhost"));
  server.create(kApiServices, api_service(at_port(backend.port())));
  server.until(kApiService, [](const TestAnswer& a) { return has_condition(a, "True", "Passed"); });
  TestAnswer said;
  kube::http::HeaderList headers = server.headers();
  headers.add("x-remote-user", "somebody-else");
  headers.add("impersonate-user", "jane");
  headers.add("impersonate-group", "system:masters");
  headers.add("impersonate-extra-scopes%2fx", "view");
  server.client().start("GET", std::string(kGroupVersion) + "/nodes?limit=%31", &headers, "", {}, &said);
  ASSERT_TRUE(run_until(server.loop(), [&] { return said.done; }));
  EXPECT_EQ(said.status, 200);
  EXPECT_EQ(said.body, std::string("GET ") + kGroupVersion +
                           "/nodes?limit=%31 by x-remote-user=jane x-remote-group=system:masters "
                           "x-remote-group=system:authenticated x-remote-extra-scopes%2fx=view "
                           "certificate=front-proxy-client");
}

TEST(AggregationTest, ACertificateIsVerifiedUnlessToldOtherwise) {
  TestServer server;
  TestBackend backend(answer);
  server.create("/api/v1/namespaces/default/services", external("localhost"));
  server.create(kApiServices, api_service(at_port(backend.port(), "")));
  const TestAnswer refused =
      server.until(kApiService, [](const TestAnswer& a) { return has_condition(a, "False", "FailedDiscoveryCheck"); });
  EXPECT_THAT(refused.body, HasSubstr("tls: failed to verify certificate"));
  EXPECT_EQ(server.call("DELETE", kApiService).status, 200);
  EXPECT_EQ(server.call("GET", kGroupVersion).status, 404);
}

TEST(AggregationTest, AnApiServiceIsChecked) {
  TestServer server;
  const TestAnswer wrong = server.call(
      "POST", kApiServices,
      R"({"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"wrong"},)"
      R"("spec":{"group":"a.b","version":"v1","caBundle":"eA==","groupPriorityMinimum":0,"versionPriority":1}})");
  EXPECT_EQ(wrong.status, 422);
  EXPECT_THAT(wrong.message(), HasSubstr("must be `spec.version+\".\"+spec.group`: \"v1.a.b\""));
  EXPECT_THAT(wrong.message(), HasSubstr("local APIServices may not have a caBundle"));
  EXPECT_THAT(wrong.message(), HasSubstr("spec.groupPriorityMinimum: Invalid value: 0"));
}

TEST(AggregationTest, AServiceWithAnAddressOfItsOwn) {
  TestServer server;
  TestBackend backend(answer);
  const std::string port = std::to_string(backend.port());
  server.create("/api/v1/namespaces/default/services",
                R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"metrics"},)"
                R"("spec":{"ports":[{"name":"https","port":443}]}})");
  server.create(kApiServices, api_service(at_port(443)));
  server.until(kApiService, [](const TestAnswer& a) { return has_condition(a, "False", "EndpointsNotFound"); });
  const auto slice = [&](std::string_view name, std::string_view endpoint) {
    return R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":")" + std::string(name) +
           R"(","labels":{"kubernetes.io/service-name":"metrics"}},"addressType":"IPv4","endpoints":[)" +
           std::string(endpoint) + R"(],"ports":[{"name":"https","port":)" + port + "}]}";
  };
  const std::string slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
  // A pod of an emulated node has no network: nobody asks there.
  server.create(slices, slice("pods", R"({"addresses":["127.0.0.1"],"targetRef":{"kind":"Pod","name":"x"}})"));
  server.until(kApiService, [](const TestAnswer& a) { return has_condition(a, "False", "MissingEndpoints"); });
  server.create(slices, slice("own", R"({"addresses":["127.0.0.1"]})"));
  server.until(kApiService, [](const TestAnswer& a) { return has_condition(a, "True", "Passed"); });
  EXPECT_THAT(server.call("GET", std::string(kGroupVersion) + "/nodes").body, HasSubstr("x-remote-user=admin"));
}

TEST(AggregationTest, KindsOfAResourceList) {
  const std::vector<kube::KindInfo> kinds = kinds_of_resource_list(*kube::parse_json(kResources));
  ASSERT_EQ(kinds.size(), 1u);
  EXPECT_EQ(kinds[0].api_version(), "metrics.example.com/v1beta1");
  EXPECT_FALSE(kinds[0].namespaced);
  EXPECT_TRUE(kinds[0].has_subresource("raw"));
  for (const char* rubbish : {"null", "[]", "{}", R"({"groupVersion":"v1","resources":[{"name":"a"}]})",
                              R"({"groupVersion":"a/v1","resources":[1,{"name":"/"},{"name":7}]})"}) {
    EXPECT_TRUE(kinds_of_resource_list(*kube::parse_json(rubbish)).empty()) << rubbish;
  }
}

}  // namespace
}  // namespace ghostfleet::controlplane
