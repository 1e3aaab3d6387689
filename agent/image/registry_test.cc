#include "agent/image/registry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "agent/image/digest.h"
#include "base/digest.h"
#include "tests/support/image_builder.h"

namespace ghostfleet::image {
namespace {

using tests::RoughAnswer;
using tests::RoughRegistry;
using tests::RoughRequest;
using tests::Shelf;

class RegistryTest : public testing::Test {
 protected:
  RegistryTest() {
    image_ = tests::put_image(&shelf_, "v1", {tests::gzip_layer({{"f", tests::noise(200000, 1)}})});
    blob_.digest = tests::digest(content_);
    blob_.size = content_.size();
    shelf_.blobs[blob_.digest] = content_;
    options_.plain_http = true;
    options_.first_wait = std::chrono::milliseconds(1);
    options_.longest_wait = std::chrono::milliseconds(5);
  }
  void serve(RoughRegistry::Handler handler) { server_ = std::make_unique<RoughRegistry>(std::move(handler)); }
  Registry client() {
    const auto reference = parse_reference(server_->host() + "/team/app:v1");
    return Registry(&http_, *reference, options_, &cancel_);
  }
  // All of blob_, in one request or in a range.
  Status fetch(Registry* r, std::string* out, uint64_t first = 0, uint64_t length = 0) {
    const bool ranged = length != 0;
    return r->read_range(blob_, first, ranged ? length : blob_.size, ranged, [&](std::string_view bytes) {
      out->append(bytes);
      return Status();
    });
  }

  const std::string content_ = tests::noise(300000, 7);
  Shelf shelf_;
  tests::BuiltImage image_;
  Descriptor blob_;
  RegistryOptions options_;
  CancelFlag cancel_;
  HttpClient http_{{.connect = std::chrono::seconds(60), .stall = std::chrono::seconds(60)}, "", "ghostfleet-test"};
  std::unique_ptr<RoughRegistry> server_;
};

TEST_F(RegistryTest, FetchesManifestsAndBlobs) {
  serve([&](const RoughRequest& r) { return shelf_.answer(r); });
  Registry registry = client();
  const auto m = registry.manifest("v1");
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(m->digest, image_.digest);
  EXPECT_EQ(server_->requests()[0].header("accept"), manifest_accept());
  std::string whole, part;
  ASSERT_TRUE(fetch(&registry, &whole).ok());
  EXPECT_EQ(whole, content_);
  ASSERT_TRUE(fetch(&registry, &part, 1000, 5000).ok());
  EXPECT_EQ(part, content_.substr(1000, 5000));
  const auto none = registry.manifest("v2");
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_NE(none.error().message().find("MANIFEST_UNKNOWN"), std::string::npos) << none.error().message();
}

TEST_F(RegistryTest, ABodyThatIsNotWhatTheDigestSays) {
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    if (r.target.find("/manifests/") != std::string::npos) a.body += " ";
    return a;
  });
  Registry registry = client();
  for (const std::string& target : {std::string("v1"), image_.digest}) {
    const auto m = registry.manifest(target);
    ASSERT_FALSE(m.ok());
    EXPECT_EQ(m.error().code(), Code::kDataLoss);
    EXPECT_NE(m.error().message().find(image_.digest), std::string::npos);
    EXPECT_NE(m.error().message().find(tests::digest(image_.manifest + " ")), std::string::npos) << m.error().message();
  }
}

TEST_F(RegistryTest, LogsInOnceAndShowsTheTokenToNobodyElse) {
  RoughRegistry elsewhere([&](const RoughRequest& r) { return Shelf::bytes(r, content_, true); });
  options_.credentials =
      *DockerConfig::parse(R"({"auths":{"127.0.0.1":{"auth":")" + base64_encode("me:secret") + R"("}}})");
  serve([&](const RoughRequest& r) -> RoughAnswer {
    if (r.target.starts_with("/token")) return {.body = R"({"token":"tok-1","expires_in":60})"};
    if (r.header("authorization") != "Bearer tok-1") {
      return {.status = 401,
              .headers = {{"WWW-Authenticate",
                           fmt::format(R"(Bearer realm="{}/token",service="here",scope="repository:team/app:pull")",
                                       server_->url())}}};
    }
    if (r.target.find("/blobs/") != std::string::npos)
      return {.status = 307, .headers = {{"Location", elsewhere.url() + "/signed?key=s3cret"}}};
    return shelf_.answer(r);
  });
  Registry registry = client();
  ASSERT_TRUE(registry.manifest("v1").ok());
  std::string first, second;
  ASSERT_TRUE(fetch(&registry, &first).ok());
  ASSERT_TRUE(fetch(&registry, &second, 10, 20).ok());
  EXPECT_EQ(first, content_);
  EXPECT_EQ(registry.stats().logins, 1u);
  EXPECT_EQ(server_->count("/token"), 1u);
  EXPECT_EQ(server_->count("/blobs/"), 1u) << "the second read goes to where the first was led";
  for (const RoughRequest& r : elsewhere.requests()) EXPECT_EQ(r.header("authorization"), "");
  for (const RoughRequest& r : server_->requests()) {
    if (!r.target.starts_with("/token")) continue;
    EXPECT_NE(r.target.find("scope=repository%3Ateam%2Fapp%3Apull"), std::string::npos) << r.target;
    EXPECT_NE(r.target.find("service=here"), std::string::npos);
  }
}

TEST_F(RegistryTest, BasicCredentialsGoToTheirRegistry) {
  serve([&](const RoughRequest& r) -> RoughAnswer {
    if (r.header("authorization").empty())
      return {.status = 401, .headers = {{"WWW-Authenticate", "Basic realm=\"r\""}}};
    return shelf_.answer(r);
  });
  options_.credentials =
      *DockerConfig::parse(R"({"auths":{")" + server_->host() + R"(":{"username":"me","password":"secret"}}})");
  Registry registry = client();
  const auto m = registry.manifest("v1");
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(server_->requests().back().header("authorization"), "Basic " + base64_encode("me:secret"));
}

TEST_F(RegistryTest, WrongCredentialsAreToldOnceAndWithoutThem) {
  serve([&](const RoughRequest&) -> RoughAnswer {
    return {.status = 401,
            .headers = {{"WWW-Authenticate", "Basic realm=\"r\""}, {"Content-Type", "application/json"}},
            .body = R"({"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]})"};
  });
  options_.credentials =
      *DockerConfig::parse(R"({"auths":{")" + server_->host() + R"(":{"username":"me","password":"hunter2"}}})");
  Registry registry = client();
  const auto m = registry.manifest("v1");
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().code(), Code::kUnauthenticated);
  EXPECT_EQ(m.error().message().find("hunter2"), std::string::npos);
  EXPECT_EQ(server_->requests().size(), 2u) << "no hot loop";
}

TEST_F(RegistryTest, ARefusedSignedAddressIsAskedForAnew) {
  std::atomic<int> given{0};
  RoughRegistry elsewhere([&](const RoughRequest& r) -> RoughAnswer {
    if (r.target.find("key=1") != std::string::npos) return {.status = 403, .body = "expired"};
    return Shelf::bytes(r, content_, true);
  });
  serve([&](const RoughRequest&) -> RoughAnswer {
    return {.status = 307, .headers = {{"Location", fmt::format("{}/x?key={}", elsewhere.url(), ++given)}}};
  });
  Registry registry = client();
  std::string out;
  const Status s = fetch(&registry, &out);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out, content_);
  EXPECT_EQ(given, 2);
}

TEST_F(RegistryTest, RefusalOfEverythingEnds) {
  RoughRegistry elsewhere([&](const RoughRequest&) -> RoughAnswer { return {.status = 403, .body = "no"}; });
  serve([&](const RoughRequest&) -> RoughAnswer {
    return {.status = 307, .headers = {{"Location", elsewhere.url() + "/x?key=s3cret"}}};
  });
  Registry registry = client();
  std::string out;
  const Status s = fetch(&registry, &out);
  EXPECT_EQ(s.code(), Code::kPermissionDenied);
  EXPECT_EQ(s.message().find("s3cret"), std::string::npos) << s.message();
  EXPECT_LE(elsewhere.requests().size(), 2u);
}

TEST_F(RegistryTest, RedirectsInALoopEnd) {
  serve([&](const RoughRequest& r) -> RoughAnswer {
    return {.status = 307, .headers = {{"Location", server_->url() + r.target}}};
  });
  Registry registry = client();
  const auto m = registry.manifest("v1");
  ASSERT_FALSE(m.ok());
  EXPECT_NE(m.error().message().find("redirected more than 5 times"), std::string::npos) << m.error().message();
}

TEST_F(RegistryTest, RedirectsToOtherSchemesAreNotFollowed) {
  serve([&](const RoughRequest&) -> RoughAnswer {
    return {.status = 307, .headers = {{"Location", "file:///etc/passwd"}}};
  });
  Registry registry = client();
  EXPECT_NE(registry.manifest("v1").error().message().find("leads nowhere"), std::string::npos);
}

TEST_F(RegistryTest, ACutBodyIsGoneOnWith) {
  std::atomic<int> cuts{0};
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    if (++cuts <= 3) a.cut_after = a.body.size() / 2;
    return a;
  });
  Registry registry = client();
  std::string out;
  const Status s = fetch(&registry, &out);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out, content_);
  EXPECT_EQ(registry.stats().repeats, 3u);
  EXPECT_EQ(server_->requests()[1].header("range"),
            fmt::format("bytes={}-{}", content_.size() / 2, content_.size() - 1));
}

TEST_F(RegistryTest, ACutBodyOfARegistryWithoutRanges) {
  std::atomic<int> cuts{0};
  shelf_.ranges = false;
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    if (++cuts == 1) a.cut_after = a.body.size() / 2;
    return a;
  });
  Registry registry = client();
  std::string out, part;
  const Status s = fetch(&registry, &out);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out, content_);
  EXPECT_EQ(fetch(&registry, &part, 5, 10).code(), Code::kUnimplemented);
}

TEST_F(RegistryTest, AlwaysCutEndsAfterItsAttempts) {
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    a.cut_after = 0;
    return a;
  });
  options_.max_attempts = 3;
  Registry registry = client();
  std::string out;
  const Status s = fetch(&registry, &out);
  EXPECT_EQ(s.code(), Code::kUnavailable);
  EXPECT_NE(s.message().find("given up after 3 attempts"), std::string::npos) << s.message();
  EXPECT_EQ(server_->requests().size(), 3u);
  const auto m = registry.manifest("v1");
  EXPECT_EQ(m.error().code(), Code::kUnavailable);
}

TEST_F(RegistryTest, AStalledTransferIsCutAndGoneOnWith) {
  std::atomic<int> stalls{0};
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    if (++stalls == 1) {
      a.cut_after = 1000;
      a.stall = true;
    }
    return a;
  });
  HttpClient impatient({.connect = std::chrono::seconds(60), .stall = std::chrono::seconds(1)}, "", "ghostfleet-test");
  options_.max_attempts = 60;  // a busy machine may look like a stall, too
  Registry registry(&impatient, *parse_reference(server_->host() + "/team/app:v1"), options_, &cancel_);
  std::string out;
  const Status s = fetch(&registry, &out);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out, content_);
  EXPECT_GE(registry.stats().stalls, 1u);
}

TEST_F(RegistryTest, TooManyRequestsWaitsAsTold) {
  std::atomic<int> refused{0};
  serve([&](const RoughRequest& r) -> RoughAnswer {
    if (++refused <= 2)
      return {.status = 429,
              .headers = {{"Retry-After", refused == 1 ? "0" : "1"}, {"Content-Type", "application/json"}},
              .body = R"({"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]})"};
    return shelf_.answer(r);
  });
  Registry registry = client();
  const auto m = registry.manifest("v1");
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(registry.stats().throttled, 2u);
}

TEST_F(RegistryTest, TooManyRequestsToTheEndIsTold) {
  serve([&](const RoughRequest&) -> RoughAnswer { return {.status = 429, .headers = {{"Retry-After", "3600"}}}; });
  options_.max_attempts = 3;
  Registry registry = client();
  const auto m = registry.manifest("v1");
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().code(), Code::kResourceExhausted);
  EXPECT_NE(m.error().message().find("429"), std::string::npos);
  EXPECT_NE(m.error().message().find("toomanyrequests"), std::string::npos) << m.error().message();
  EXPECT_EQ(server_->requests().size(), 1u) << "an hour is not waited for";
}

TEST_F(RegistryTest, AManifestThatNeverEnds) {
  serve([&](const RoughRequest&) -> RoughAnswer {
    return {.headers = {{"Content-Type", "application/json"}}, .body = std::string(100000, ' '), .endless = true};
  });
  Registry registry = client();
  const auto m = registry.manifest("v1");
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().code(), Code::kResourceExhausted);
  EXPECT_LE(registry.stats().bytes, kMaxManifestBytes + (2u << 20));
  std::string out;
  EXPECT_EQ(fetch(&registry, &out).code(), Code::kDataLoss) << "a blob that never ends, either";
  EXPECT_LE(out.size(), blob_.size);
}

TEST_F(RegistryTest, AnErrorThatNeverEnds) {
  serve([&](const RoughRequest&) -> RoughAnswer {
    return {.status = 500, .body = std::string(100000, 'x'), .endless = true};
  });
  Registry registry = client();
  EXPECT_FALSE(registry.manifest("v1").ok());
}

TEST_F(RegistryTest, HtmlIsSaidToBeHtml) {
  std::atomic<int> status{200};
  serve([&](const RoughRequest&) -> RoughAnswer {
    return {.status = status,
            .headers = {{"Content-Type", "text/html; charset=utf-8"}},
            .body = "<html>log in here</html>"};
  });
  Registry registry = client();
  for (const int s : {200, 404}) {
    status = s;
    const auto m = registry.manifest("v1");
    ASSERT_FALSE(m.ok());
    EXPECT_NE(m.error().message().find("HTML page"), std::string::npos) << m.error().message();
  }
  status = 200;
  std::string out;
  EXPECT_NE(fetch(&registry, &out).message().find("HTML page"), std::string::npos);
}

TEST_F(RegistryTest, AWrongRangeIsNotTaken) {
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    for (auto& [name, value] : a.headers) {
      if (name == "Content-Range") value = "bytes 0-9/10";
    }
    return a;
  });
  Registry registry = client();
  std::string out;
  EXPECT_EQ(fetch(&registry, &out, 5, 10).code(), Code::kDataLoss);
  EXPECT_TRUE(out.empty());
}

TEST_F(RegistryTest, ProxiesOfTheEnvironment) {
  RoughRegistry proxy([&](const RoughRequest& r) { return shelf_.answer(r); });
  serve([&](const RoughRequest& r) { return shelf_.answer(r); });
  setenv("http_proxy", proxy.url().c_str(), 1);
  const auto reference = parse_reference("registry.invalid/team/app:v1");
  Registry far(&http_, *reference, options_, &cancel_);
  const auto through = far.manifest("v1");
  Registry near = client();
  const auto direct = near.manifest("v1");
  unsetenv("http_proxy");
  ASSERT_TRUE(through.ok()) << through.error().message();
  EXPECT_EQ(proxy.requests().at(0).target, "http://registry.invalid/v2/team/app/manifests/v1");
  ASSERT_TRUE(direct.ok()) << direct.error().message();
  EXPECT_EQ(proxy.requests().size(), 1u) << "loopback is reached directly";
}

TEST(Origin, OfUrls) {
  EXPECT_EQ(origin_of("https://Host.example/x?y"), "https://host.example:443");
  EXPECT_EQ(origin_of("http://u:p@h:5000/"), "http://h:5000");
  EXPECT_EQ(origin_of("http://[::1]/x"), "http://[::1]:80");
  for (const char* none : {"", "http", "ftp://h/", "file:///x", "http:///x", "//h/x"})
    EXPECT_EQ(origin_of(none), "") << none;
}

}  // namespace
}  // namespace ghostfleet::image
