#include "base/folder_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/temporary_folder.h"

namespace ghostfleet {
namespace {

using Change = FolderWatch::Change;

class FolderWatchTest : public ::testing::Test {
 protected:
  void open() {
    watch = std::move(FolderWatch::open(loop, folder.path(), [this](const std::string& name, Change change) {
                        seen.emplace_back(name, change);
                      }).value());
  }
  bool sees(const std::string& name, Change change) {
    const TimePoint end = loop.now() + std::chrono::seconds(10);
    while (loop.now() < end) {
      for (const auto& [n, c] : seen) {
        if (n == name && c == change) return true;
      }
      loop.run_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  std::string path(const std::string& name) const { return folder.path() + "/" + name; }

  tests::TemporaryFolder folder;
  EventLoop loop;
  std::unique_ptr<FolderWatch> watch;
  std::vector<std::pair<std::string, Change>> seen;
};

TEST_F(FolderWatchTest, FilesAppearAreWrittenAndGo) {
  open();
  std::ofstream(path("a")) << "text";
  EXPECT_TRUE(sees("a", Change::kAppeared));
  EXPECT_TRUE(sees("a", Change::kWritten));
  std::filesystem::rename(path("a"), path("b"));
  EXPECT_TRUE(sees("a", Change::kGone));
  EXPECT_TRUE(sees("b", Change::kAppeared));
  std::filesystem::remove(path("b"));
  EXPECT_TRUE(sees("b", Change::kGone));
}

TEST_F(FolderWatchTest, TheFolderItselfGoes) {
  const std::string inner = path("inner");
  std::filesystem::create_directory(inner);
  bool gone = false;
  watch = std::move(FolderWatch::open(loop, inner, [&](const std::string& name, Change change) {
                      gone = name.empty() && change == Change::kGone;
                      watch.reset();  // from inside
                    }).value());
  std::filesystem::remove(inner);
  for (int i = 0; i < 5000 && !gone; ++i) loop.run_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(gone);
}

TEST_F(FolderWatchTest, NoFolder) {
  const auto missing = FolderWatch::open(loop, path("none"), nullptr);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message(), "watch " + path("none") + ": No such file or directory");
  std::ofstream(path("file")) << "x";
  EXPECT_FALSE(FolderWatch::open(loop, path("file"), nullptr).ok());
}

}  // namespace
}  // namespace ghostfleet
