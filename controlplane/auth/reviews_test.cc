#include "controlplane/auth/reviews.h"

#include <gtest/gtest.h>

#include "controlplane/auth/pki.h"
#include "controlplane/auth/test_cluster.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;

Json json(std::string_view text) { return *kube::parse_json(text); }

std::string outcome(const kube::ApiResult<Json>& review) {
  if (!review.ok()) return std::to_string(review.error().code) + " " + review.error().message;
  return kube::to_json(*kube::find_key(*review, "status"));
}

class ReviewTest : public testing::Test {
 protected:
  ReviewTest() : authorizer(make_authorizer({}, cluster.objects())) {
    Result<std::unique_ptr<TokenIssuer>> made = TokenIssuer::create(generate_key_pem());
    EXPECT_TRUE(made.ok());
    issuer = std::move(*made);
    authenticator =
        std::make_unique<Authenticator>(AuthenticatorOptions{}, issuer.get(), cluster.objects(), cluster.clock);
    cluster.put("serviceaccounts", R"({"metadata":{"name":"robot","namespace":"d","uid":"u-1"}})");
    admin.name = "admin";
    admin.groups = {"system:masters"};
  }

  std::string token(std::string_view spec = "{}") {
    kube::ApiResult<Json> made = request_token(json(R"({"metadata":{},"spec":)" + std::string(spec) + "}"), "d",
                                               "robot", cluster.objects(), *issuer, cluster.clock);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::string(kube::get_string(*made, "status.token")) : "";
  }

  kube::http::Request bearer(const std::string& t) {
    kube::http::Request request;
    request.headers.add("authorization", "Bearer " + t);
    return request;
  }

  TestCluster cluster;
  std::unique_ptr<Authorizer> authorizer;
  std::unique_ptr<TokenIssuer> issuer;
  std::unique_ptr<Authenticator> authenticator;
  UserInfo admin, jane;
};

TEST_F(ReviewTest, Access) {
  jane.name = "jane";
  EXPECT_EQ(outcome(review_access(json(R"({"spec":{"resourceAttributes":{"verb":"create","resource":"pods"}}})"),
                                  "SelfSubjectAccessReview", "", admin, *authorizer)),
            R"({"allowed":true})");
  EXPECT_EQ(outcome(review_access(json(R"({"spec":{"resourceAttributes":{"verb":"create","resource":"pods"}}})"),
                                  "SelfSubjectAccessReview", "", jane, *authorizer)),
            R"({"allowed":false})");
  EXPECT_EQ(outcome(review_access(json(R"({"spec":{}})"), "SelfSubjectAccessReview", "", jane, *authorizer)),
            "422 .authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of "
            "nonResourceAttributes or resourceAttributes must be specified");
  EXPECT_EQ(outcome(review_access(json(R"({"spec":{"resourceAttributes":{"verb":"list"}}})"), "SubjectAccessReview", "",
                                  admin, *authorizer)),
            "422 .authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group "
            "must be "
            "specified");
  EXPECT_EQ(
      outcome(review_access(json(R"({"spec":{"user":"jane","resourceAttributes":{"namespace":"other"}}})"),
                            "LocalSubjectAccessReview", "d", admin, *authorizer)),
      "422 .authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must "
      "match metadata.namespace");
  EXPECT_EQ(outcome(review_rules(json(R"({"spec":{}})"), jane, *authorizer)), "400 no namespace on request");
}

TEST_F(ReviewTest, TokensOfServiceAccounts) {
  const std::string t = token();
  kube::ApiResult<UserInfo> user = authenticator->authenticate(bearer(t));
  ASSERT_TRUE(user.ok());
  EXPECT_EQ(user->name, "system:serviceaccount:d:robot");
  EXPECT_EQ(user->groups,
            (std::vector<std::string>{"system:serviceaccounts", "system:serviceaccounts:d", "system:authenticated"}));
  const auto review = [&](std::string_view spec) {
    return outcome(review_token(json(R"({"spec":)" + std::string(spec) + "}"), *authenticator, *issuer));
  };
  EXPECT_EQ(review(R"({"token":"nonsense"})"), R"({"user":{},"error":"invalid bearer token"})");
  EXPECT_EQ(review("{}"), "400 token is required for TokenReview in authentication");
  EXPECT_EQ(
      review(R"({"audiences":["other"],"token":")" + t + "\"}"),
      R"({"user":{},"error":"[invalid bearer token, token audiences [\"https://kubernetes.default.svc\"] is invalid for )"
      R"(the target audiences [\"other\"]]"})");
  EXPECT_EQ(review("{\"token\":\"" + t + "\"}").substr(0, 60),
            R"({"authenticated":true,"user":{"username":"system:serviceacco)");
  cluster.clock.advance(std::chrono::hours(2));
  EXPECT_EQ(authenticator->authenticate(bearer(t)).error().code, 401);
}

TEST_F(ReviewTest, TokensDieWithWhatTheyAreBoundTo) {
  cluster.put(
      "pods",
      R"({"metadata":{"name":"p","namespace":"d","uid":"u-2"},"spec":{"serviceAccountName":"robot","nodeName":"n"}})");
  const std::string t = token(R"({"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"u-2"}})");
  EXPECT_TRUE(authenticator->authenticate(bearer(t)).ok());
  cluster.remove("pods", "d/p");
  EXPECT_EQ(authenticator->authenticate(bearer(t)).error().code, 401);
  const std::string free = token();
  cluster.put("serviceaccounts", R"({"metadata":{"name":"robot","namespace":"d","uid":"u-9"}})");
  EXPECT_EQ(authenticator->authenticate(bearer(free)).error().code, 401) << "another account of that name";
}

TEST_F(ReviewTest, TokenRequestsAreChecked) {
  const auto ask = [&](std::string_view body, std::string_view name = "robot") {
    return outcome(request_token(json(body), "d", name, cluster.objects(), *issuer, cluster.clock));
  };
  EXPECT_EQ(ask("{}", "nosuch"), "404 serviceaccounts \"nosuch\" not found");
  EXPECT_EQ(
      ask(R"({"spec":{"expirationSeconds":599}})"),
      "422 TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not "
      "specify a duration less than 10 minutes");
  EXPECT_EQ(ask(R"({"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"gone"}}})"),
            "404 pods \"gone\" not found");
}

TEST_F(ReviewTest, OtherIdentities) {
  UserInfo fixed;
  fixed.name = "admin";
  fixed.groups = {"system:masters"};
  authenticator->add_token("secret", fixed);
  EXPECT_EQ(authenticator->authenticate(bearer("secret"))->name, "admin");
  EXPECT_EQ(authenticator->authenticate(bearer("wrong")).error().code, 401);
  EXPECT_EQ(authenticator->authenticate({})->name, "system:anonymous");
  kube::http::Request basic;
  basic.headers.add("authorization", "Basic YTpi");
  EXPECT_EQ(authenticator->authenticate(basic).error().code, 401);
  kube::http::Request certificate;
  certificate.peer_certificate =
      std::make_shared<kube::http::PeerCertificate>(kube::http::PeerCertificate{"system:node:n", {"system:nodes"}, ""});
  EXPECT_TRUE(authenticator->authenticate(certificate)->in_group("system:nodes"));
}

TEST_F(ReviewTest, Impersonation) {
  kube::http::HeaderList headers = {{"impersonate-user", "jane"}, {"impersonate-group", "dev"}};
  kube::ApiResult<UserInfo> as = impersonate(admin, headers, *authorizer);
  ASSERT_TRUE(as.ok());
  EXPECT_EQ(as->name, "jane");
  EXPECT_EQ(as->groups, (std::vector<std::string>{"dev", "system:authenticated"}));
  UserInfo nobody;
  nobody.name = "nobody";
  EXPECT_EQ(
      impersonate(nobody, headers, *authorizer).error().message,
      "users \"jane\" is forbidden: User \"nobody\" cannot impersonate resource \"users\" in API group \"\" at the "
      "cluster scope");
  EXPECT_EQ(impersonate(admin, {{"impersonate-group", "dev"}}, *authorizer).error().code, 400);
  EXPECT_EQ(impersonate(admin, {{"impersonate-user", "system:serviceaccount:d:robot"}}, *authorizer)->groups[1],
            "system:serviceaccounts:d");
  EXPECT_EQ(impersonate(nobody, {}, *authorizer)->name, "nobody");
}

}  // namespace
}  // namespace ghostfleet::controlplane
