#include "agent/image/layer_unpacker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "tests/support/image_builder.h"
#include "tests/support/temporary_folder.h"

namespace ghostfleet::image {
namespace {

using tests::make_tar;
using tests::TarFile;

class UnpackTest : public testing::Test {
 protected:
  UnpackTest() {
    outside_ = base_ + "/outside";
    EXPECT_TRUE(write_file(outside_, "untouched").ok());
  }
  ~UnpackTest() override {
    EXPECT_EQ(*read_file(outside_), "untouched");
    EXPECT_TRUE(remove_tree(base_).ok());
  }
  std::string folder(const std::string& name) {
    const std::string path = base_ + "/" + name;
    mkdir(path.c_str(), 0755);
    return path;
  }
  Status unpack(const std::vector<TarFile>& files, const std::string& to, LayerMarks* marks = nullptr,
                UnpackLimits limits = {}) {
    auto root = RootFolder::open(folder(to));
    LayerUnpacker unpacker(std::move(*root), limits);
    TarReader reader(&unpacker);
    GF_RETURN_IF_ERROR(reader.feed(make_tar(files)));
    GF_RETURN_IF_ERROR(unpacker.finish());
    if (marks != nullptr) *marks = unpacker.marks();
    return Status();
  }
  // Unpacked as "l0", "l1", ... and merged to "root".
  void stack(const std::vector<std::vector<TarFile>>& layers) {
    auto root = RootFolder::open(folder("root"));
    for (size_t i = 0; i < layers.size(); ++i) {
      LayerMarks marks;
      const std::string name = "l" + std::to_string(i);
      const Status unpacked = unpack(layers[i], name, &marks);
      ASSERT_TRUE(unpacked.ok()) << unpacked.message();
      auto read_back = marks_from_json(marks_to_json(marks));
      ASSERT_TRUE(read_back.ok());
      auto from = RootFolder::open(base_ + "/" + name);
      const Status merged = merge_layer(*from, *read_back, &*root);
      ASSERT_TRUE(merged.ok()) << merged.message();
    }
  }
  std::string text(const std::string& path) {
    auto bytes = read_file(base_ + "/" + path);
    return bytes.ok() ? *bytes : "(" + bytes.error().message() + ")";
  }
  bool there(const std::string& path) {
    struct stat info {};
    return lstat((base_ + "/" + path).c_str(), &info) == 0;
  }
  mode_t mode(const std::string& path) {
    struct stat info {};
    lstat((base_ + "/" + path).c_str(), &info);
    return info.st_mode & 07777;
  }

  tests::TemporaryFolder temporary_;
  const std::string& base_ = temporary_.path();
  std::string outside_;
};

TEST_F(UnpackTest, FilesFoldersAndLinks) {
  const Status s = unpack({{"d/", "", '5', "", 0711},
                           {"d/file", "content", '0', "", 04755},
                           {"d/same", "", '1', "d/file"},
                           {"abs", "", '2', "/etc/passwd"},
                           {"new/deep/file", "x"},
                           {"./dot/./file", "y"},
                           {"/rooted", "z"}},
                          "l");
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(text("l/d/file"), "content");
  EXPECT_EQ(text("l/d/same"), "content");
  EXPECT_EQ(mode("l/d"), 0711u);
  EXPECT_EQ(mode("l/d/file"), 04755u);
  EXPECT_EQ(text("l/new/deep/file"), "x");
  EXPECT_EQ(text("l/dot/file"), "y");
  EXPECT_EQ(text("l/rooted"), "z");
  char target[64] = "";
  EXPECT_GT(readlink((base_ + "/l/abs").c_str(), target, sizeof target), 0);
  EXPECT_STREQ(target, "/etc/passwd");
}

TEST_F(UnpackTest, TheLaterEntryCounts) {
  const Status s = unpack(
      {{"a", "first"}, {"a", "second"}, {"b/c", "x"}, {"b", "now a file"}, {"d", "x"}, {"d/", "", '5'}, {"d/e", "y"}},
      "l");
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(text("l/a"), "second");
  EXPECT_EQ(text("l/b"), "now a file");
  EXPECT_EQ(text("l/d/e"), "y");
}

TEST_F(UnpackTest, NothingLeadsOut) {
  const struct {
    std::vector<TarFile> files;
    const char* word;
  } kCases[] = {
      {{{"../outside", "bad"}}, "leads out"},
      {{{"a/../../outside", "bad"}}, "leads out"},
      {{{"a/b/../c", "bad"}}, "leads out"},
      {{{"up", "", '2', ".."}, {"up/outside", "bad"}}, "through a link out"},
      {{{"up", "", '2', "../.."}, {"up/x", "bad"}}, "through a link out"},
      {{{"up", "", '2', base_}, {"up/outside", "bad"}}, "out of the image"},
      {{{"h", "", '1', "../outside"}}, "leads out"},
      {{{"h", "", '1', outside_}}, "not in this layer"},
      {{{"up", "", '2', ".."}, {"h", "", '1', "up/outside"}}, "through a link out"},
      {{{"dev", "", '3'}}, "device files"},
      {{{"dev", "", '4'}}, "device files"},
      {{{"a/.wh...", ""}}, "removes nothing"},
      {{{".wh.", ""}}, "removes nothing"},
      {{{".wh...", ""}}, "removes nothing"},
      {{{"loop", "", '2', "loop"}, {"loop/x", "bad"}}, "links"},
      {{{std::string(300, 'n'), "bad"}}, "a name of 300 bytes"},
  };
  int n = 0;
  for (const auto& c : kCases) {
    const Status s = unpack(c.files, "case" + std::to_string(n++));
    EXPECT_FALSE(s.ok()) << c.files.back().name;
    EXPECT_NE(s.message().find(c.word), std::string::npos) << c.files.back().name << ": " << s.message();
  }
}

TEST_F(UnpackTest, ALinkThatStaysInsideIsFollowed) {
  const Status s = unpack({{"usr/bin/", "", '5'}, {"bin", "", '2', "usr/bin"}, {"bin/tool", "x"}}, "l");
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(text("l/usr/bin/tool"), "x");
}

TEST_F(UnpackTest, HasLimits) {
  UnpackLimits limits;
  limits.max_entries = 2;
  EXPECT_EQ(unpack({{"a", ""}, {"b", ""}, {"c", ""}}, "l", nullptr, limits).code(), Code::kResourceExhausted);
  std::string deep;
  for (int i = 0; i < 600; ++i) deep += "d/";
  EXPECT_FALSE(unpack({{deep + "f", "x"}}, "m").ok());
}

TEST_F(UnpackTest, WhiteoutsRemoveWhatIsBelow) {
  stack({{{"keep", "k"}, {"gone", "g"}, {"dir/a", "a"}, {"dir/b", "b"}, {"opaque/old", "o"}},
         {{".wh.gone", ""},
          {"dir/.wh.a", ""},
          {"opaque/.wh..wh..opq", ""},
          {"opaque/new", "n"},
          {"x/.wh.never-there", ""}}});
  EXPECT_EQ(text("root/keep"), "k");
  EXPECT_FALSE(there("root/gone"));
  EXPECT_FALSE(there("root/dir/a"));
  EXPECT_EQ(text("root/dir/b"), "b");
  EXPECT_FALSE(there("root/opaque/old"));
  EXPECT_EQ(text("root/opaque/new"), "n");
  EXPECT_FALSE(there("root/.wh.gone"));
}

TEST_F(UnpackTest, UpperLayersReplace) {
  stack({{{"f", "old"}, {"was-dir/x", "x"}, {"was-file", "x"}, {"d/", "", '5', "", 0700}},
         {{"f", "new"}, {"was-dir", "file"}, {"was-file/y", "y"}, {"d/in", "z"}, {"again", "1"}},
         {{".wh.f", ""}, {"f", "third"}, {"d/", "", '5', "", 0711}}});
  EXPECT_EQ(text("root/f"), "third");
  EXPECT_EQ(text("root/was-dir"), "file");
  EXPECT_EQ(text("root/was-file/y"), "y");
  EXPECT_EQ(text("root/d/in"), "z");
  EXPECT_EQ(mode("root/d"), 0711u);
  EXPECT_EQ(text("l0/f"), "old") << "layers are shared: merging must not change them";
}

TEST_F(UnpackTest, AFolderThatIsOnlyNamedKeepsItsMode) {
  stack({{{"d/", "", '5', "", 0700}}, {{"d/in", "z"}}});
  EXPECT_EQ(mode("root/d"), 0700u);
}

TEST_F(UnpackTest, ANamedFolderThatIsALinkBelowIsGoneThrough) {
  stack({{{"usr/bin/", "", '5'}, {"bin", "", '2', "usr/bin"}, {"run/", "", '5'}, {"var/run", "", '2', "/run"}},
         {{"bin/tool", "t"}, {"var/run/pid", "1"}}});
  EXPECT_EQ(text("root/usr/bin/tool"), "t");
  EXPECT_EQ(text("root/run/pid"), "1");
}

TEST_F(UnpackTest, MergingStaysInsideAsWell) {
  stack({{{"up", "", '2', "../../.."}, {"abs", "", '2', base_}},
         {{"up/file", "contained"}, {"abs/.wh.outside", ""}, {"up/.wh..wh..opq", ""}}});
  EXPECT_EQ(text("outside"), "untouched");
  EXPECT_FALSE(there("file"));
}

TEST_F(UnpackTest, FilesAreReadInside) {
  ASSERT_TRUE(unpack({{"etc/passwd", "of the image"},
                      {"abs", "", '2', "/etc/passwd"},
                      {"up", "", '2', "../../../etc/passwd"},
                      {"fifo", "", '6'}},
                     "l")
                  .ok());
  auto root = RootFolder::open(base_ + "/l");
  for (const char* path : {"etc/passwd", "/abs", "up"}) {
    auto file = root->file(path);
    ASSERT_TRUE(file.ok()) << path << ": " << file.error().message();
    char buffer[64] = "";
    EXPECT_EQ(read(file->get(), buffer, sizeof buffer), 12) << path;
  }
  EXPECT_FALSE(root->file("fifo").ok());
  EXPECT_FALSE(root->file("../outside").ok());
  EXPECT_EQ(root->file("none").error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace ghostfleet::image
