#include "agent/image/auth.h"

#include <gtest/gtest.h>

#include "base/digest.h"

namespace ghostfleet::image {
namespace {

TEST(Auth, ReadsABearerChallenge) {
  const auto all =
      parse_challenges(R"(Bearer realm="https://auth.example/token",service="r, \"s\"",scope="repository:a/b:pull")");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].scheme, "bearer");
  EXPECT_EQ(all[0].param("realm"), "https://auth.example/token");
  EXPECT_EQ(all[0].param("service"), "r, \"s\"");
  EXPECT_EQ(all[0].param("scope"), "repository:a/b:pull");
}

TEST(Auth, ReadsSeveralChallenges) {
  const auto all = parse_challenges(R"(Negotiate, Basic realm=plain, Bearer realm="x" , service=y)");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].scheme, "basic");
  EXPECT_EQ(all[1].param("realm"), "plain");
  EXPECT_EQ(all[2].param("service"), "y");
  EXPECT_TRUE(parse_challenges("").empty());
  EXPECT_LE(parse_challenges(R"(Bearer realm="never ends)").size(), 1u);
}

TEST(Auth, FindsUsersOfADockerConfig) {
  const std::string packed = base64_encode("me:se:cret");
  const auto c = DockerConfig::parse(
      R"({"auths":{"https://index.docker.io/v1/":{"auth":")" + packed +
      R"("},"r.example:5000":{"username":"u","password":"p"},"empty":{}},"credHelpers":{"h.example":"x"}})");
  ASSERT_TRUE(c.ok()) << c.error().message();
  const auto hub = c->find("docker.io", "registry-1.docker.io");
  ASSERT_TRUE(hub.has_value());
  EXPECT_EQ(hub->user, "me");
  EXPECT_EQ(hub->password, "se:cret");
  EXPECT_EQ(c->find("r.example:5000", "r.example:5000")->password, "p");
  EXPECT_FALSE(c->find("empty", "empty").has_value());
  EXPECT_TRUE(c->left_to_helper("h.example"));
  EXPECT_FALSE(c->left_to_helper("r.example:5000"));
}

TEST(Auth, AWrongConfigIsNamedWithoutItsSecret) {
  const auto c = DockerConfig::parse(R"({"auths":{"r.example":{"auth":"c2VjcmV0"}}})");
  ASSERT_FALSE(c.ok());
  EXPECT_NE(c.error().message().find("r.example"), std::string::npos);
  EXPECT_EQ(c.error().message().find("c2VjcmV0"), std::string::npos);
  EXPECT_EQ(c.error().message().find("secret"), std::string::npos);
}

TEST(Auth, Tokens) {
  EXPECT_EQ(parse_token(R"({"token":"t","expires_in":300})")->expires_in, 300);
  EXPECT_EQ(parse_token(R"({"access_token":"a"})")->value, "a");
  EXPECT_FALSE(parse_token("{}").ok());
  EXPECT_FALSE(parse_token("<html>").ok());
  EXPECT_FALSE(parse_token("{\"token\":\"a\\r\\nX: y\"}").ok());
}

}  // namespace
}  // namespace ghostfleet::image
