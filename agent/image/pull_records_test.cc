#include "agent/image/pull_records.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/support/temporary_folder.h"

namespace ghostfleet::image {
namespace {

class RecordsTest : public ::testing::Test {
 protected:
  RecordsTest() { open(); }
  void open(VerificationRules rules = {}) { open(std::move(rules), {record("r.example/app:1")}); }
  void open(VerificationRules rules, const std::vector<ImageRecord>& images) {
    records_.reset();
    auto records = PullRecords::open(folder_.path(), std::move(rules), images);
    ASSERT_TRUE(records.ok()) << records.error().message();
    records_ = std::move(*records);
  }
  static PodSecret secret(const std::string& name, const std::string& password,
                          const std::string& registry = "r.example") {
    return {{"default", name, "uid-" + name},
            *DockerConfig::parse(
                fmt::format(R"({{"auths":{{"{}":{{"username":"me","password":"{}"}}}}}})", registry, password))};
  }
  static ImageRecord record(const std::string& reference = "r.example/app:1") {
    ImageRecord r;
    r.reference = reference;
    r.config = "sha256:" + std::string(64, 'c');
    return r;
  }
  bool all(const std::string& image = "r.example/app:1") {
    return records_->open_to_all(*parse_reference(image), record());
  }
  bool to(const std::vector<PodSecret>& secrets, const std::string& image = "r.example/app:1") {
    return records_->open_to(*parse_reference(image), record(), secrets);
  }
  void pull(const PodSecret* secret, const std::string& image = "r.example/app:1") {
    records_->begun(*parse_reference(image));
    records_->pulled(*parse_reference(image), record(), secret);
  }

  tests::TemporaryFolder folder_;
  std::unique_ptr<PullRecords> records_;
};

TEST_F(RecordsTest, AnImageIsForThoseWhoHaveWhatItWasPulledWith) {
  EXPECT_TRUE(all()) << "nobody has pulled it: it was there before";
  const PodSecret one = secret("one", "right");
  pull(&one);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(all());
    EXPECT_FALSE(to({}));
    EXPECT_TRUE(to({one}));
    EXPECT_TRUE(to({secret("x", "y"), secret("other", "right")})) << "the same password from another Secret";
    EXPECT_TRUE(to({secret("one", "changed")})) << "the same Secret with another password";
    EXPECT_FALSE(to({secret("two", "wrong")}));
    EXPECT_FALSE(to({secret("three", "right", "elsewhere.example")}));
    EXPECT_FALSE(all("r.example/mirror:1")) << "the same image by another name";
    EXPECT_FALSE(to({one}, "r.example/mirror:1"));
    EXPECT_TRUE(to({one}, "r.example/app:2")) << "the tag does not matter";
    open();  // it is written down
  }
  records_->forget(record().config);
  EXPECT_TRUE(all());
  open();
  EXPECT_TRUE(all());
  // Of an image that somebody else has removed.
  pull(&one);
  open({}, {});
  open();
  EXPECT_TRUE(all());
}

TEST_F(RecordsTest, WhatWasPulledAsNobodyIsForEverybody) {
  const PodSecret one = secret("one", "right");
  pull(&one);
  pull(nullptr);
  EXPECT_TRUE(all());
  pull(&one);
  EXPECT_TRUE(all());
  open();
  EXPECT_TRUE(all());
  EXPECT_TRUE(to({}));
}

TEST_F(RecordsTest, APullThatWasCutShortIsKnownAndItsImageNobodys) {
  const Reference image = *parse_reference("r.example/app:1");
  records_->begun(image);
  EXPECT_FALSE(all()) << "on its way";
  open({}, {record()});
  EXPECT_FALSE(all());
  EXPECT_FALSE(to({secret("one", "right")}));
  open({}, {record()});
  EXPECT_FALSE(all());
  // One that failed leaves nothing.
  const Reference other = *parse_reference("r.example/other:1");
  records_->forget(record().config);
  records_->begun(other);
  records_->failed(other);
  open({}, {record("r.example/other:1")});
  EXPECT_TRUE(all());
}

TEST_F(RecordsTest, Policies) {
  const PodSecret one = secret("one", "right");
  open({VerificationPolicy::kAlwaysVerify, {}});
  EXPECT_FALSE(all());
  EXPECT_FALSE(to({one}));
  pull(&one);
  EXPECT_TRUE(to({one}));
  open({VerificationPolicy::kNeverVerify, {}});
  EXPECT_TRUE(all());
  open({VerificationPolicy::kNeverVerifyAllowlistedImages, {"r.example/app", "other.example/team/*"}});
  EXPECT_TRUE(all());
  EXPECT_FALSE(all("r.example/app2:1"));
  EXPECT_TRUE(all("other.example/team/x:1"));
  EXPECT_FALSE(all("other.example/teams:1"));
  for (const char* name : {"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"})
    EXPECT_TRUE(parse_verification_policy(name).ok()) << name;
  EXPECT_FALSE(parse_verification_policy("never").ok());
  for (const char* good : {"r.example/app", "r.example/*", "r.example/a/b/*"})
    EXPECT_TRUE(check_allowed_image(good).ok()) << good;
  for (const char* bad :
       {"", "*", "/*", "r.example/app:1", "r.example/a*", "r.example/*/b", "app", "r.example/app@sha256:1"})
    EXPECT_FALSE(check_allowed_image(bad).ok()) << bad;
}

TEST_F(RecordsTest, NoPasswordIsWrittenDownAndABadRecordLetsNobodyIn) {
  const PodSecret one = secret("one", "hunter2-hunter2");
  pull(&one);
  const std::string path = folder_.path() + "/pulled/" + std::string(64, 'c') + ".json";
  const auto text = read_file(path, 1 << 20);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->find("hunter2"), std::string::npos);
  EXPECT_EQ(text->find("\"me\""), std::string::npos);
  for (const char* bad : {"{", "[]", R"({"salt":"x","images":[1]})", R"({"salt":"x","images":[{"secrets":[2]}]})"}) {
    ASSERT_TRUE(write_file(path, bad, 0600, false).ok());
    open();
    EXPECT_FALSE(all()) << bad;
    EXPECT_FALSE(to({one})) << bad;
  }
}

}  // namespace
}  // namespace ghostfleet::image
