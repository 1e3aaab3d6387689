#include "emulator/vpc/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"

namespace ghostfleet::emulator {
namespace {

using testing::HasSubstr;

agent::Cidr cidr(std::string_view text) {
  agent::Cidr c;
  EXPECT_TRUE(agent::parse_cidr(text, &c)) << text;
  return c;
}

class ClaimsTest : public testing::Test {
 protected:
  ClaimsTest() : path(testing::TempDir() + "claims-" + std::to_string(getpid())) { ::unlink(path.c_str()); }
  ~ClaimsTest() override { ::unlink(path.c_str()); }

  std::unique_ptr<Claims> open(const std::string& fleet) {
    auto c = Claims::open(path, fleet);
    EXPECT_TRUE(c.ok()) << c.error().message();
    return std::move(*c);
  }
  std::string path;
};

TEST_F(ClaimsTest, APartBelongsToOneFleet) {
  auto a = open("a"), b = open("b");
  EXPECT_TRUE(a->claim(cidr("10.0.0.0/22")));
  EXPECT_FALSE(b->claim(cidr("10.0.0.0/22")));
  EXPECT_FALSE(b->claim(cidr("10.0.0.0/20"))) << "it overlaps";
  EXPECT_TRUE(b->claim(cidr("10.0.4.0/22")));
  EXPECT_TRUE(a->claim(cidr("10.0.0.0/22"))) << "again";
  EXPECT_TRUE(open("a")->claim(cidr("10.0.0.0/22"))) << "after a restart";
  EXPECT_TRUE(a->claim(cidr("fd00::/70")));
  EXPECT_EQ(*read_file(path), "10.0.0.0/22 a\n10.0.4.0/22 b\nfd00::/70 a\n");
  ASSERT_TRUE(Claims::remove(path, "a").ok());
  EXPECT_TRUE(b->claim(cidr("10.0.0.0/22")));
  EXPECT_EQ(*read_file(path), "10.0.4.0/22 b\n10.0.0.0/22 b\n");
}

TEST_F(ClaimsTest, ALineThatWasCutOffIsOverwritten) {
  ASSERT_TRUE(write_file(path, "10.0.0.0/22 a\n10.0.4.0/2").ok());
  EXPECT_TRUE(open("b")->claim(cidr("10.0.8.0/22")));
  EXPECT_EQ(*read_file(path), "10.0.0.0/22 a\n10.0.8.0/22 b\n");
}

TEST_F(ClaimsTest, AnotherKindOfFileIsNamedByLine) {
  ASSERT_TRUE(write_file(path, "# claims\nkind: VPC\n").ok());
  auto c = Claims::open(path, "a");
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(c.error().message(), HasSubstr(path + ":2: \"kind: VPC\": a range and the name of its fleet"));
  EXPECT_FALSE(Claims::open("/nowhere/at/all", "a").ok());
  EXPECT_TRUE(Claims::remove("/nowhere/at/all", "a").ok()) << "nothing was claimed there";
}

TEST_F(ClaimsTest, AFileThatTurnsBadGrantsNothing) {
  auto a = open("a");
  ASSERT_TRUE(write_file(path, "nonsense\n").ok());
  EXPECT_FALSE(a->claim(cidr("10.0.0.0/22")));
  EXPECT_FALSE(a->status().ok());
}

}  // namespace
}  // namespace ghostfleet::emulator
