#include "agent/image/image_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "agent/image/puller.h"
#include "tests/support/image_builder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waits.h"

namespace ghostfleet::image {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using tests::eventually;
using tests::RoughAnswer;
using tests::RoughRequest;
using tests::TarFile;

// A registry whose tokens expire, and an image of several spans in it.
class ReaderTest : public ::testing::Test {
 protected:
  ReaderTest() {
    options_.settings = settings_of(PullMode::kLazy);
    options_.platform = {"linux", "amd64", ""};
    options_.registry.plain_http = true;
    options_.registry.first_wait = milliseconds(1);
    options_.registry.longest_wait = milliseconds(5);
    options_.registry.max_attempts = 3;
    options_.registry.credentials = user("me", "right");
    settings_.background = false;
    const auto layer = tests::gzip_layer(files());
    tests::put_soci_image(&shelf_, "v1", layer, tests::make_ztoc(layer, files(), 200000));
  }
  ~ReaderTest() override {
    reader_.reset();
    EXPECT_TRUE(remove_tree(folder_.path()).ok());
  }
  static std::vector<TarFile> files() {
    std::vector<TarFile> out;
    for (int i = 0; i < 8; ++i)
      out.push_back({fmt::format("data/f{}", i), tests::prose(400000, static_cast<uint64_t>(i))});
    return out;
  }
  DockerConfig user(const std::string& name, const std::string& password) const {
    return *DockerConfig::parse(
        fmt::format(R"({{"auths":{{"{}":{{"username":"{}","password":"{}"}}}}}})", server_.host(), name, password));
  }
  RoughAnswer answer(const RoughRequest& r) {
    if (refuses) return {.status = 403, .body = R"({"errors":[{"code":"DENIED","message":"expired"}]})"};
    if (r.target.starts_with("/token")) {
      if (r.header("authorization") != "Basic bWU6cmlnaHQ=") return {.status = 401};  // me:right
      return {.body = fmt::format(R"({{"token":"t{}"}})", valid.load())};
    }
    if (!open && r.header("authorization") != fmt::format("Bearer t{}", valid.load()))
      return {.status = r.header("authorization").empty() ? 401 : expired_is.load(),
              .headers = {{"WWW-Authenticate", "Bearer realm=\"" + server_.url() + "/token\",service=\"s\""}}};
    return shelf_.answer(r);
  }
  void pull() {
    auto store = ContentStore::open(folder_.path() + "/store", ContentStore::Lock::kShared);
    ASSERT_TRUE(store.ok());
    store_ = std::move(*store);
    Puller puller(store_.get(), options_);
    CancelFlag cancel;
    const Reference reference = *parse_reference(server_.host() + "/team/app:v1");
    const auto report = puller.pull(reference, &cancel);
    ASSERT_TRUE(report.ok()) << report.error().message();
    record_ = *store_->find_image(reference.to_string());
  }
  void start() {
    reader_ = std::make_unique<ImageReader>(
        store_.get(), options_, std::vector<std::string>{server_.host()},
        [this] { return options_.registry.credentials; }, settings_);
  }
  Status read(const std::string& path, std::vector<DockerConfig> credentials = {}) {
    auto end = std::make_shared<std::promise<Status>>();
    auto told = end->get_future();
    reader_->submit({record_, path, std::move(credentials)}, [end](Status s) { end->set_value(std::move(s)); });
    return told.wait_for(seconds(60)) == std::future_status::ready ? told.get() : Status(Code::kInternal, "never told");
  }

  tests::TemporaryFolder folder_;
  tests::Shelf shelf_;
  std::atomic<int> valid{1}, expired_is{401};
  std::atomic<bool> refuses{false}, open{false};
  tests::RoughRegistry server_{[this](const RoughRequest& r) { return answer(r); }};
  PullOptions options_;
  ReadSettings settings_;
  std::unique_ptr<ContentStore> store_;
  ImageRecord record_;
  std::unique_ptr<ImageReader> reader_;
};

TEST_F(ReaderTest, ATokenThatExpiredIsRenewedOnceForEachReadThatNeedsIt) {
  pull();
  start();
  ASSERT_TRUE(read("/data/f0").ok());
  for (const int status : {401, 403}) {  // registries call it one or the other
    expired_is = status;
    ++valid;
    const size_t tokens = server_.count("/token"), requests = server_.requests().size();
    EXPECT_TRUE(read(status == 401 ? "/data/f3" : "/data/f7").ok());
    EXPECT_EQ(server_.count("/token"), tokens + 1);
    EXPECT_LE(server_.requests().size(), requests + 3 + 4);  // what was refused, the login, the spans
  }
}

TEST_F(ReaderTest, ARegistryThatRefusesIsNoStormAndRecovers) {
  pull();
  start();
  ASSERT_TRUE(read("/data/f0").ok());
  refuses = true;
  const size_t before = server_.requests().size();
  for (int i = 0; i < 5; ++i) {
    const Status s = read("/data/f6");
    EXPECT_EQ(s.code(), Code::kPermissionDenied);
    EXPECT_THAT(s.message(), HasSubstr("expired"));
    EXPECT_THAT(s.message(), Not(HasSubstr("right")));
  }
  EXPECT_LE(server_.requests().size(), before + 5 + 1);  // the first one tries without its token, too
  EXPECT_TRUE(read("/data/f0").ok()) << "what was read is there";
  refuses = false;
  ++valid;
  EXPECT_TRUE(read("/data/f6").ok());
}

TEST_F(ReaderTest, NewCredentialsCountFromTheNextReadOn) {
  pull();
  start();
  options_.registry.credentials = user("me", "wrong");
  const Status refused = read("/data/f1");
  EXPECT_EQ(refused.code(), Code::kUnauthenticated);
  EXPECT_TRUE(read("/data/f1", {user("me", "right")}).ok());
  options_.registry.credentials = user("me", "right");
  EXPECT_TRUE(read("/data/f4").ok());
}

TEST_F(ReaderTest, TheRestComesInTheBackgroundAndTheRegistryMayGo) {
  pull();
  settings_.background = true;
  settings_.silence = settings_.period = milliseconds(1);
  start();
  reader_->fetch_rest(record_, {});
  ASSERT_TRUE(eventually([&] { return reader_->stats().background_pieces >= 12; }));
  ASSERT_TRUE(eventually([&, last = size_t{0}]() mutable {
    const size_t now = server_.requests().size();
    return std::exchange(last, now) == now;
  }));
  refuses = true;
  reader_.reset();
  start();
  const size_t before = server_.requests().size();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(read(fmt::format("/data/f{}", i)).ok()) << i;
  EXPECT_EQ(server_.requests().size(), before);
}

TEST_F(ReaderTest, WhatCannotBeFetchedInTheBackgroundIsGivenUp) {
  pull();
  settings_.background = true;
  settings_.silence = settings_.period = milliseconds(1);
  start();
  refuses = true;
  const size_t before = server_.requests().size();
  reader_->fetch_rest(record_, {});
  ASSERT_TRUE(eventually([&] { return server_.requests().size() > before; }));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(read("/data/f6").ok());
  EXPECT_LE(server_.requests().size(), before + 21);
}

TEST_F(ReaderTest, WhatIsNotInTheImageAndWhatIsGoneFromTheRegistryDiffer) {
  pull();
  start();
  EXPECT_EQ(read("/data/none").code(), Code::kNotFound);
  EXPECT_EQ(read("/data").code(), Code::kInvalidArgument);
  shelf_.blobs.clear();
  const Status s = read("/data/f2");
  EXPECT_EQ(s.code(), Code::kDataLoss) << s.message();
}

TEST_F(ReaderTest, AnUnpackedImageIsReadWithoutItsRegistry) {
  options_.settings = settings_of(PullMode::kParallel);
  pull();
  start();
  refuses = true;
  EXPECT_TRUE(read("/data/f2").ok());
  EXPECT_EQ(read("/data/none").code(), Code::kNotFound);
  EXPECT_EQ(read("/data").code(), Code::kInvalidArgument);
  EXPECT_EQ(read("/../etc/passwd").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ghostfleet::image
