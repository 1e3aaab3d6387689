#include "controlplane/auth/tokens.h"

#include <gtest/gtest.h>

#include "base/digest.h"
#include "controlplane/auth/pki.h"

namespace ghostfleet::controlplane {
namespace {

constexpr WallTime kNow{1767607200000000000};

ServiceAccountClaims robot() {
  ServiceAccountClaims c;
  c.ns = "default";
  c.name = "robot";
  c.uid = "u-1";
  c.pod = {"p", "u-2"};
  c.issued = c.not_before = kNow;
  c.expires = kNow + std::chrono::hours(1);
  return c;
}

std::unique_ptr<TokenIssuer> issuer() {
  Result<std::unique_ptr<TokenIssuer>> made = TokenIssuer::create(generate_key_pem());
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

TEST(TokensTest, RoundTrip) {
  const auto it = issuer();
  Result<std::string> token = it->issue(robot());
  ASSERT_TRUE(token.ok());
  EXPECT_TRUE(it->is_own(*token));
  Result<ServiceAccountClaims> claims = it->verify(*token, {}, kNow);
  ASSERT_TRUE(claims.ok()) << claims.error().to_string();
  EXPECT_EQ(claims->name, "robot");
  EXPECT_EQ(claims->ns, "default");
  EXPECT_EQ(claims->pod.uid, "u-2");
  EXPECT_FALSE(claims->node.set());
  EXPECT_EQ(claims->id.size(), 36u);
  EXPECT_EQ(claims->audiences, std::vector<std::string>{kDefaultIssuer});
}

TEST(TokensTest, Refusals) {
  const auto it = issuer();
  const std::string token = *it->issue(robot());
  EXPECT_EQ(it->verify(token, {}, kNow + std::chrono::hours(1)).error().message(), "service account token has expired");
  EXPECT_EQ(it->verify(token, {"other"}, kNow).error().message(),
            "token audiences [\"https://kubernetes.default.svc\"] is invalid for the target audiences [\"other\"]");
  EXPECT_FALSE(it->verify("a.b.c", {}, kNow).ok());
  EXPECT_FALSE(it->verify("nonsense", {}, kNow).ok());
  EXPECT_FALSE(issuer()->verify(token, {}, kNow).ok()) << "signed by another key";
  // One changed character anywhere is noticed.
  for (size_t i = 0; i < token.size(); i += 7) {
    std::string bad = token;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    if (bad == token) continue;
    EXPECT_FALSE(it->verify(bad, {}, kNow).ok() && bad.substr(0, bad.rfind('.')) != token.substr(0, token.rfind('.')));
  }
}

TEST(TokensTest, AlgorithmNoneIsNoSignature) {
  const auto it = issuer();
  const std::string token = *it->issue(robot());
  const size_t first = token.find('.'), last = token.rfind('.');
  const std::string forged = base64url_encode(R"({"alg":"none"})") + token.substr(first, last - first) + ".";
  EXPECT_FALSE(it->verify(forged, {}, kNow).ok());
}

TEST(TokensTest, PublishedKey) {
  const auto it = issuer();
  const kube::Json keys = it->jwks();
  const kube::Json& key = kube::get_array(keys, "keys")->front();
  EXPECT_EQ(kube::get_string(key, "kty"), "EC");
  std::string x;
  EXPECT_TRUE(base64url_decode(kube::get_string(key, "x"), &x));
  EXPECT_EQ(x.size(), 32u);
  const kube::Json configuration = it->openid_configuration();
  EXPECT_EQ(kube::get_string(configuration, "issuer"), kDefaultIssuer);
  EXPECT_EQ(kube::get_array(configuration, "response_types_supported")->size(), 1u);
}

TEST(TokensTest, Base64Url) {
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\xfe"}) {
    std::string back;
    EXPECT_TRUE(base64url_decode(base64url_encode(text), &back));
    EXPECT_EQ(back, text);
  }
  std::string out;
  EXPECT_FALSE(base64url_decode("a", &out));
  EXPECT_FALSE(base64url_decode("a+b=", &out));
  EXPECT_NE(random_token(), random_token());
  EXPECT_EQ(random_uuid()[14], '4');
}

}  // namespace
}  // namespace ghostfleet::controlplane
