#include "agent/image/pull_pool.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/digest.h"
#include "tests/support/image_builder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waits.h"

namespace ghostfleet::image {
namespace {

using std::chrono::milliseconds;
using tests::eventually;
using tests::RoughAnswer;
using tests::RoughRegistry;
using tests::RoughRequest;

// Holds each pull until it is let go, or cancelled.
class HeldSource final : public ImageSource {
 public:
  Result<ImageRecord> pull(const PullWork& work, CancelFlag* cancel) override {
    {
      const std::lock_guard lock(mutex_);
      begun_.push_back(work.reference.tag);
      most_ = std::max(most_, ++busy_);
    }
    while (!let_go() && cancel->sleep(milliseconds(1))) {
    }
    const std::lock_guard lock(mutex_);
    --busy_;
    if (cancel->cancelled()) return Status(Code::kCancelled, "cancelled");
    ImageRecord record;
    record.reference = work.reference.to_string();
    return record;
  }
  void let(int more) {
    const std::lock_guard lock(mutex_);
    free_ += more;
  }
  std::vector<std::string> begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  int busy() const {
    const std::lock_guard lock(mutex_);
    return busy_;
  }
  int most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  bool let_go() {
    const std::lock_guard lock(mutex_);
    if (free_ == 0) return false;
    --free_;
    return true;
  }
  mutable std::mutex mutex_;
  std::vector<std::string> begun_;
  int free_ = 0, busy_ = 0, most_ = 0;
};

PullWork work(int number) { return {*parse_reference("r.example/app:" + std::to_string(number)), {}}; }

// What was told, from whichever thread.
class Told {
 public:
  PullPool::Done done(int number) {
    return [this, number](PullOutcome outcome) {
      const std::lock_guard lock(mutex_);
      all_[number] = std::move(outcome);
    };
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }
  PullOutcome at(int number) const {
    const std::lock_guard lock(mutex_);
    return all_.at(number);
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, PullOutcome> all_;
};

TEST(PullPool, SoManyAtATimeInTheOrderTheyCame) {
  HeldSource source;
  Told told;
  PullPool pool(&source, {2, 0, 1});
  for (int i = 0; i < 6; ++i) pool.submit(work(i), told.done(i));
  ASSERT_TRUE(eventually([&] { return source.busy() == 2; }));
  EXPECT_EQ(source.begun().size(), 2u);
  source.let(1);
  ASSERT_TRUE(eventually([&] { return told.count() == 1 && source.busy() == 2; }));
  source.let(5);
  ASSERT_TRUE(eventually([&] { return told.count() == 6; }));
  EXPECT_EQ(source.most(), 2);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(told.at(i).image.ok());
    EXPECT_EQ(told.at(i).image->reference, "r.example/app:" + std::to_string(i));
  }
}

TEST(PullPool, OneAfterTheOther) {
  HeldSource source;
  Told told;
  PullPool pool(&source, {1, 0, 1});
  for (int i = 0; i < 4; ++i) pool.submit(work(i), told.done(i));
  source.let(4);
  ASSERT_TRUE(eventually([&] { return told.count() == 4; }));
  EXPECT_EQ(source.most(), 1);
  EXPECT_EQ(source.begun(), (std::vector<std::string>{"0", "1", "2", "3"}));
}

TEST(PullPool, ItsOwnTimeIsWithoutTheWaitForItsTurn) {
  HeldSource source;
  Told told;
  PullPool pool(&source, {1, 0, 1});
  pool.submit(work(0), told.done(0));
  pool.submit(work(1), told.done(1));
  ASSERT_TRUE(eventually([&] { return source.begun().size() == 1; }));
  const TimePoint start = SystemClock::instance().now();
  ASSERT_TRUE(eventually([&] { return SystemClock::instance().now() - start > milliseconds(200); }));
  source.let(1);
  ASSERT_TRUE(eventually([&] { return source.begun().size() == 2; }));
  const TimePoint second = SystemClock::instance().now();
  source.let(1);
  ASSERT_TRUE(eventually([&] { return told.count() == 2; }));
  EXPECT_GE(told.at(0).own, milliseconds(200));
  EXPECT_LT(told.at(1).own, SystemClock::instance().now() - second + milliseconds(150));
}

TEST(PullPool, BeyondTheRateItFailsAtOnce) {
  HeldSource source;
  Told told;
  PullPool pool(&source, {4, 1e-6, 2});
  source.let(100);
  for (int i = 0; i < 3; ++i) pool.submit(work(i), told.done(i));
  ASSERT_TRUE(eventually([&] { return told.count() == 3; }));
  int refused = 0;
  for (int i = 0; i < 3; ++i) {
    if (!told.at(i).over_rate) continue;
    ++refused;
    EXPECT_EQ(told.at(i).image.error().message(), "pull QPS exceeded");
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(source.begun().size(), 2u);
}

TEST(PullPool, ItsEndCancelsWhatIsOnItsWayAndTellsNobody) {
  HeldSource source;
  Told told;
  auto pool = std::make_unique<PullPool>(&source, PullLimits{2, 0, 1});
  for (int i = 0; i < 5; ++i) pool->submit(work(i), told.done(i));
  ASSERT_TRUE(eventually([&] { return source.busy() == 2; }));
  pool.reset();
  EXPECT_EQ(source.busy(), 0);
  EXPECT_EQ(source.begun().size(), 2u);
  EXPECT_EQ(told.count(), 0u);
}

// A registry with one user.
class RegistrySourceTest : public testing::Test {
 protected:
  RegistrySourceTest() {
    built_ = tests::put_image(&shelf_, "v1", {tests::gzip_layer({{"f", "content"}})});
    options_.platform = {"linux", "amd64", ""};
    options_.registry.first_wait = milliseconds(1);
    options_.registry.max_attempts = 2;
    auto store = ContentStore::open(folder_.path() + "/store", ContentStore::Lock::kShared);
    EXPECT_TRUE(store.ok());
    store_ = std::move(*store);
  }
  ~RegistrySourceTest() override {
    store_.reset();
    EXPECT_TRUE(remove_tree(folder_.path()).ok());
  }
  RoughAnswer answer(const RoughRequest& request) {
    const std::string user = request.header("authorization");
    if (!needed_.empty() && user != "Basic " + base64_encode(needed_))
      return {.status = 401, .headers = {{"WWW-Authenticate", "Basic realm=\"r\""}}};
    return shelf_.answer(request);
  }
  DockerConfig user(const std::string& text) {
    return *DockerConfig::parse(R"({"auths":{")" + server_.host() + R"(":{"auth":")" + base64_encode(text) + R"("}}})");
  }
  Result<ImageRecord> pull(std::vector<DockerConfig> users, const std::string& tag = "v1") {
    RegistrySource source(store_.get(), options_, plain_, nullptr, records_.get());
    CancelFlag cancel;
    PullWork work{*parse_reference(server_.host() + "/team/app:" + tag), {}};
    for (DockerConfig& config : users)
      work.secrets.push_back({{"default", std::to_string(work.secrets.size()), "uid"}, std::move(config)});
    return source.pull(work, &cancel);
  }

  tests::TemporaryFolder folder_;
  tests::Shelf shelf_;
  tests::BuiltImage built_;
  std::string needed_;
  PullOptions options_;
  RoughRegistry server_{[this](const RoughRequest& r) { return answer(r); }};
  std::vector<std::string> plain_{server_.host()};
  std::unique_ptr<ContentStore> store_;
  std::unique_ptr<PullRecords> records_;
};

TEST_F(RegistrySourceTest, WhoseCredentialsWereUsedIsWrittenDown) {
  records_ = *PullRecords::open(folder_.path(), {}, {});
  needed_ = "me:right";
  ASSERT_FALSE(pull({user("me:wrong")}).ok());
  const auto record = pull({user("me:wrong"), user("me:right")});
  ASSERT_TRUE(record.ok()) << record.error().message();
  const Reference image = *parse_reference(record->reference);
  EXPECT_FALSE(records_->open_to_all(image, *record));
  EXPECT_TRUE(records_->open_to(image, *record, {{{"x", "y", "z"}, user("me:right")}}));
  EXPECT_TRUE(records_->open_to(image, *record, {{{"default", "1", "uid"}, user("me:newer")}}));
  EXPECT_FALSE(records_->open_to(image, *record, {{{"default", "0", "uid"}, user("me:wrong")}}));
  // The node's own are everybody's.
  options_.registry.credentials = user("me:right");
  ASSERT_TRUE(pull({}).ok());
  EXPECT_TRUE(records_->open_to_all(image, *record));
}

TEST_F(RegistrySourceTest, TheRecordHoldsTheDigestTheRegistryAnsweredWith) {
  const auto record = pull({});
  ASSERT_TRUE(record.ok()) << record.error().message();
  EXPECT_EQ(record->manifest, built_.digest);
  EXPECT_EQ(record->target, built_.digest);
  EXPECT_GT(record->size, 0u);
  EXPECT_EQ(store_->find_image(record->reference)->target, built_.digest);
}

TEST_F(RegistrySourceTest, WhatATagStoodForStaysByItsDigest) {
  ASSERT_TRUE(pull({}).ok());
  const auto newer = tests::put_image(&shelf_, "v1", {tests::gzip_layer({{"f", "newer"}})});
  const auto record = pull({});
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->target, newer.digest);
  const auto old = store_->find_image(server_.host() + "/team/app@" + built_.digest);
  ASSERT_TRUE(old.ok()) << old.error().message();
  EXPECT_EQ(old->manifest, built_.digest);
  EXPECT_EQ(store_->images()->size(), 2u);
}

TEST_F(RegistrySourceTest, EachUserIsTriedAndTheOptionsLast) {
  needed_ = "me:right";
  const auto nobody = pull({});
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().code(), Code::kUnauthenticated);
  const auto second = pull({user("me:wrong"), user("me:right")});
  EXPECT_TRUE(second.ok()) << second.error().message();
  options_.registry.credentials = user("me:right");
  const auto last = pull({user("me:wrong")});
  EXPECT_TRUE(last.ok()) << last.error().message();
  options_.registry.credentials = user("me:worse");
  const auto none = pull({user("me:wrong")});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message().find("wrong"), std::string::npos);
  EXPECT_EQ(none.error().message().find("worse"), std::string::npos);
}

TEST_F(RegistrySourceTest, UsersOfOtherRegistriesAreNotShown) {
  const auto other = DockerConfig::parse(R"({"auths":{"other.example":{"username":"me","password":"secret"}}})");
  ASSERT_TRUE(pull({*other}).ok());
  for (const RoughRequest& request : server_.requests()) EXPECT_EQ(request.header("authorization"), "");
}

TEST_F(RegistrySourceTest, TlsUnlessTheRegistryIsNamed) {
  plain_ = {"other.example"};
  EXPECT_FALSE(pull({}).ok());
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(RegistrySourceTest, AMissingTagInTheRegistrysWords) {
  const auto none = pull({}, "none");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_NE(none.error().message().find("404"), std::string::npos) << none.error().message();
}

}  // namespace
}  // namespace ghostfleet::image
