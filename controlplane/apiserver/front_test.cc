// The parts of the HTTP front that need no server: paths, negotiation, continue tokens, looking into stored bytes.
#include <gtest/gtest.h>

#include "controlplane/apiserver/json_scan.h"
#include "controlplane/apiserver/list_options.h"
#include "controlplane/apiserver/negotiation.h"
#include "controlplane/apiserver/request_info.h"

namespace ghostfleet::controlplane {
namespace {

TEST(RequestInfo, Paths) {
  struct Case {
    const char *method, *path, *query, *verb, *group, *ns, *resource, *name, *subresource;
  };
  const Case cases[] = {
      {"GET", "/api/v1/namespaces/a/pods", "", "list", "", "a", "pods", "", ""},
      {"GET", "/api/v1/namespaces/a/pods", "watch=1", "watch", "", "a", "pods", "", ""},
      {"GET", "/api/v1/namespaces/a/pods", "watch=false", "list", "", "a", "pods", "", ""},
      {"GET", "/api/v1/namespaces/a/pods/p", "watch=1", "get", "", "a", "pods", "p", ""},
      {"GET", "/api/v1/watch/namespaces/a/pods/p", "", "watch", "", "a", "pods", "p", ""},
      {"GET", "/api/v1/namespaces//pods", "", "list", "", "", "pods", "", ""},
      {"PUT", "/api/v1/namespaces/a/finalize", "", "update", "", "a", "namespaces", "a", "finalize"},
      {"DELETE", "/apis/apps/v1/namespaces/a/deployments", "", "deletecollection", "apps", "a", "deployments", "", ""},
      {"PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", "", "patch", "apps", "a", "deployments", "d",
       "scale"},
      {"POST", "/api/v1/nodes", "", "create", "", "", "nodes", "", ""},
  };
  for (const Case& c : cases) {
    const RequestInfo info = parse_request_info(c.method, c.path, c.query);
    EXPECT_TRUE(info.is_resource) << c.path;
    EXPECT_EQ(info.verb, c.verb) << c.path << "?" << c.query;
    EXPECT_EQ(info.group, c.group);
    EXPECT_EQ(info.ns, c.ns) << c.path;
    EXPECT_EQ(info.resource, c.resource) << c.path;
    EXPECT_EQ(info.name, c.name) << c.path;
    EXPECT_EQ(info.subresource, c.subresource) << c.path;
  }
  EXPECT_FALSE(parse_request_info("GET", "/apis/apps/v1", "").is_resource);
  EXPECT_FALSE(parse_request_info("GET", "/healthz", "").is_resource);
}

kube::http::HeaderList accept(std::string text) { return {{"accept", std::move(text)}}; }

TEST(Negotiation, FirstAcceptableWins) {
  const std::string table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
  EXPECT_EQ(negotiate(accept(table), "", Endpoint::kList, false)->transform, Transform::kTable);
  EXPECT_EQ(negotiate(accept("application/vnd.kubernetes.protobuf, */*"), "", Endpoint::kObject, false)->media,
            kube::MediaType::kProtobuf);
  EXPECT_EQ(negotiate(accept("application/vnd.kubernetes.protobuf, */*"), "", Endpoint::kObject, true)->media,
            kube::MediaType::kJson);
  EXPECT_EQ(negotiate(accept("application/yaml;q=0.5, application/json;q=0.1"), "", Endpoint::kObject, false)->media,
            kube::MediaType::kYaml);
  EXPECT_EQ(negotiate(accept("application/*"), "", Endpoint::kObject, false).error().code, 406);
  EXPECT_EQ(negotiate(accept("application/yaml"), "", Endpoint::kWatch, false).error().code, 406);
  EXPECT_EQ(
      negotiate(accept("application/json;as=Nonsense;v=v1;g=meta.k8s.io"), "", Endpoint::kObject, false).error().code,
      406);
  EXPECT_TRUE(negotiate({}, "1", Endpoint::kObject, false)->pretty);
}

TEST(ContinueToken, RoundTripAndErrors) {
  const kube::ApiResult<ContinueToken> token = decode_continue(encode_continue({17, "ns/\"name"}));
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->revision, 17);
  EXPECT_EQ(token->start, "ns/\"name");
  EXPECT_EQ(decode_continue("%%%").error().code, 400);
  EXPECT_EQ(decode_continue("abc").error().code, 400);
  EXPECT_FALSE(decode_continue(encode_continue({0, "a"})).ok());
}

TEST(Version, Parsing) {
  Revision revision = 0;
  std::string problem;
  EXPECT_TRUE(parse_version("", &revision, &problem));
  EXPECT_TRUE(parse_version("18446744073709551615", &revision, &problem));
  EXPECT_FALSE(parse_version("18446744073709551616", &revision, &problem));
  EXPECT_EQ(problem, "strconv.ParseUint: parsing \"18446744073709551616\": value out of range");
  EXPECT_FALSE(parse_version("-5", &revision, &problem));
  EXPECT_EQ(problem, "strconv.ParseUint: parsing \"-5\": invalid syntax");
}

TEST(JsonScan, FindsRawValues) {
  const std::string json = R"({"a":{"b":"x\"}","c":[1,{"d":2}]},"n":null,"t":true,"e":{}})";
  EXPECT_EQ(json_at_path(json, "a.b"), R"("x\"}")");
  EXPECT_EQ(json_text(json_at_path(json, "a.b")), "x\"}");
  EXPECT_EQ(json_member(json_member(json, "a"), "c"), R"([1,{"d":2}])");
  EXPECT_EQ(json_text(json_member(json, "t")), "true");
  EXPECT_EQ(json_text(json_member(json, "n")), "");
  EXPECT_EQ(json_at_path(json, "e.x"), "");
  for (size_t cut = 0; cut < json.size(); cut++) {
    json_at_path(std::string_view(json).substr(0, cut), "t");  // cut off anywhere: no answer, no overrun
  }
}

}  // namespace
}  // namespace ghostfleet::controlplane
