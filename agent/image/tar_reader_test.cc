#include "agent/image/tar_reader.h"

#include <gtest/gtest.h>

#include "agent/image/decompress.h"
#include "tests/support/image_builder.h"

namespace ghostfleet::image {
namespace {

using tests::make_tar;
using tests::TarFile;

struct Collector : TarSink {
  std::vector<TarEntry> entries;
  std::vector<std::string> contents;
  int ended = 0;
  Status on_entry(const TarEntry& e) override {
    entries.push_back(e);
    contents.emplace_back();
    return Status();
  }
  Status on_content(std::string_view bytes) override {
    contents.back().append(bytes);
    return Status();
  }
  Status on_entry_end() override {
    ++ended;
    return Status();
  }
};

// Fed in pieces of `step`.
Status read_all(const std::string& tar, size_t step, Collector* out) {
  TarReader reader(out);
  for (size_t at = 0; at < tar.size(); at += step) {
    if (Status s = reader.feed(std::string_view(tar).substr(at, step)); !s.ok()) return s;
  }
  return reader.finish();
}

TEST(TarReader, ReadsEntriesWhicheverWayTheyAreCut) {
  const std::string tar = make_tar({{"a/", "", '5', "", 0755},
                                    {"a/file", std::string(1000, 'x')},
                                    {"a/empty", ""},
                                    {"a/link", "", '2', "/etc/passwd"},
                                    {std::string(300, 'n'), "long"}});
  for (const size_t step : {1u, 7u, 512u, 100000u}) {
    Collector c;
    const Status s = read_all(tar, step, &c);
    ASSERT_TRUE(s.ok()) << s.message();
    ASSERT_EQ(c.entries.size(), 5u);
    EXPECT_EQ(c.ended, 5);
    EXPECT_EQ(c.entries[0].type, TarType::kDirectory);
    EXPECT_EQ(c.entries[0].mode, 0755u);
    EXPECT_EQ(c.contents[1], std::string(1000, 'x'));
    EXPECT_EQ(c.entries[1].content_offset, 1024u);
    EXPECT_EQ(c.entries[1].mtime_seconds, 1767607200);
    EXPECT_EQ(c.entries[3].link, "/etc/passwd");
    EXPECT_EQ(c.entries[4].name, std::string(300, 'n'));
    EXPECT_EQ(c.contents[4], "long");
  }
}

TEST(TarReader, ACutArchiveIsAnError) {
  const std::string tar = make_tar({{"file", std::string(1000, 'x')}});
  for (const size_t size : {100u, 512u, 700u, 1536u}) {
    Collector c;
    const Status s = read_all(tar.substr(0, size), 4096, &c);
    if (size == 1536) continue;  // complete but for the end blocks: other readers take that, too
    EXPECT_EQ(s.code(), Code::kDataLoss) << size;
  }
}

TEST(TarReader, AWrongChecksumIsAnError) {
  std::string tar = make_tar({{"file", "x"}});
  tar[3] = 'X';
  Collector c;
  EXPECT_EQ(read_all(tar, 512, &c).code(), Code::kDataLoss);
}

TEST(TarReader, HugeExtendedHeadersAreRefused) {
  std::string tar = make_tar({{"pax", std::string(2u << 20, 'x')}});
  tar[156] = 'x';
  // The checksum of the header with another type.
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(tar[i]);
  std::snprintf(&tar[148], 8, "%06o", sum);
  Collector c;
  EXPECT_EQ(read_all(tar, 512, &c).code(), Code::kResourceExhausted);
}

std::string inflated(Compression kind, const std::string& packed, size_t step, Status* status) {
  std::string out;
  const auto d = make_decompressor(kind);
  const auto sink = [&](std::string_view bytes) {
    out.append(bytes);
    return Status();
  };
  for (size_t at = 0; at < packed.size() && status->ok(); at += step)
    *status = d->feed(std::string_view(packed).substr(at, step), sink);
  if (status->ok()) *status = d->finish();
  return out;
}

TEST(Decompress, GzipOfSeveralMembersInAnyPieces) {
  const std::string a = tests::prose(300000, 1), b = tests::noise(70000, 2);
  const std::string packed = tests::gzip(a) + tests::gzip("") + tests::gzip(b, 0) + tests::gzip("end", 9);
  for (const size_t step : {1u, 2u, 3u, 7u, 1000u, 65536u, 10000000u}) {
    Status s;
    EXPECT_EQ(inflated(Compression::kGzip, packed, step, &s), a + b + "end") << step;
    EXPECT_TRUE(s.ok()) << s.message();
  }
  Status padded;
  EXPECT_EQ(inflated(Compression::kGzip, tests::gzip("x") + std::string(600, '\0'), 100, &padded), "x");
  EXPECT_TRUE(padded.ok()) << padded.message();
}

TEST(Decompress, ZstdOfSeveralFrames) {
  const std::string a = tests::prose(3000000, 1);
  for (const size_t step : {1u, 1000u, 10000000u}) {
    Status s;
    EXPECT_EQ(inflated(Compression::kZstd, tests::zstd(a) + tests::zstd("b"), step, &s), a + "b");
    EXPECT_TRUE(s.ok()) << s.message();
  }
}

TEST(Decompress, CorruptAndCutInputIsAnError) {
  const std::string text = tests::prose(100000, 3);
  for (const Compression kind : {Compression::kGzip, Compression::kZstd}) {
    const std::string good = kind == Compression::kGzip ? tests::gzip(text) : tests::zstd(text);
    Status cut;
    inflated(kind, good.substr(0, good.size() - 3), 1000, &cut);
    EXPECT_EQ(cut.code(), Code::kDataLoss);
    Status none;
    inflated(kind, "<html>no archive</html>", 1000, &none);
    EXPECT_EQ(none.code(), Code::kDataLoss);
    Status empty;
    inflated(kind, "", 1000, &empty);
    EXPECT_EQ(empty.code(), Code::kDataLoss);
  }
  std::string wrong = tests::gzip(text);
  wrong[wrong.size() - 6] = static_cast<char>(wrong[wrong.size() - 6] ^ 1);
  Status sum;
  inflated(Compression::kGzip, wrong, 1000, &sum);
  EXPECT_EQ(sum.code(), Code::kDataLoss);
}

}  // namespace
}  // namespace ghostfleet::image
