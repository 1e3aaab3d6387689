#include "agent/image/reference.h"

#include <gtest/gtest.h>

namespace ghostfleet::image {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

std::string full(std::string_view text) {
  auto r = parse_reference(text);
  return r.ok() ? r->to_string() : "error: " + r.error().message();
}

TEST(Reference, FillsInWhatIsUsuallyMeant) {
  EXPECT_EQ(full("busybox"), "docker.io/library/busybox:latest");
  EXPECT_EQ(full("me/tool:1.0"), "docker.io/me/tool:1.0");
  EXPECT_EQ(full("127.0.0.1:5000/a/b"), "127.0.0.1:5000/a/b:latest");
  EXPECT_EQ(full("localhost/a"), "localhost/a:latest");
  EXPECT_EQ(full("[::1]:5000/a:v"), "[::1]:5000/a:v");
  EXPECT_EQ(full("registry.example/a_b/c__d/e--f:V_1.2-x"), "registry.example/a_b/c__d/e--f:V_1.2-x");
}

TEST(Reference, ADigestWinsAndNeedsNoTag) {
  const auto r = parse_reference("registry.example/a@" + kDigest);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->tag, "");
  EXPECT_EQ(r->target(), kDigest);
  EXPECT_EQ(parse_reference("registry.example/a:1@" + kDigest)->target(), kDigest);
}

TEST(Reference, DockerHubHasAnotherHost) { EXPECT_EQ(parse_reference("busybox")->api_host(), "registry-1.docker.io"); }

TEST(Reference, RefusesWhatIsNone) {
  for (const std::string bad :
       {"", "A/b", "registry.example/", "registry.example/a:", "a b", "https://registry.example/a",
        "registry.example/a/../b", "registry.example/.a", "registry.example/a@sha256:12", "a:b:c",
        "registry.example:port/a", "a/-b", "a___b/c", "registry.example/a@sha512:00"})
    EXPECT_EQ(full(bad).substr(0, 7), "error: ") << bad << " was taken as " << full(bad);
  EXPECT_NE(full("Big/name").find("REGISTRY/REPOSITORY:TAG"), std::string::npos);
}

}  // namespace
}  // namespace ghostfleet::image
