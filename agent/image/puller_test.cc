#include "agent/image/puller.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "agent/image/lazy_image.h"
#include "base/files.h"
#include "tests/support/image_builder.h"
#include "tests/support/temporary_folder.h"

namespace ghostfleet::image {
namespace {

using tests::LayerSpec;
using tests::RoughAnswer;
using tests::RoughRegistry;
using tests::RoughRequest;
using tests::Shelf;
using tests::TarFile;

class PullTest : public testing::Test {
 protected:
  PullTest() {
    options_.settings = settings_of(PullMode::kParallel);
    options_.settings.concurrent_download_chunk_size = 64 * 1024;
    options_.platform = {"linux", "amd64", ""};
    options_.http = {.connect = std::chrono::seconds(60), .stall = std::chrono::seconds(60)};
    options_.registry.plain_http = true;
    options_.registry.first_wait = std::chrono::milliseconds(1);
    options_.registry.longest_wait = std::chrono::milliseconds(5);
    options_.registry.max_attempts = 3;
  }
  ~PullTest() override { EXPECT_TRUE(remove_tree(folder_).ok()); }

  void serve(RoughRegistry::Handler handler) { server_ = std::make_unique<RoughRegistry>(std::move(handler)); }
  void serve() {
    serve([this](const RoughRequest& r) { return shelf_.answer(r); });
  }
  std::unique_ptr<ContentStore> open(ContentStore::Lock lock = ContentStore::Lock::kShared) {
    auto store = ContentStore::open(folder_ + "/store", lock);
    EXPECT_TRUE(store.ok()) << store.error().message();
    return store.ok() ? std::move(*store) : nullptr;
  }
  Result<PullReport> pull(const std::string& tag = "v1") {
    auto store = open();
    Puller puller(store.get(), options_);
    CancelFlag cancel;
    return puller.pull(*parse_reference(server_->host() + "/team/app:" + tag), &cancel);
  }
  std::string text(const PullReport& report, const std::string& path) {
    auto bytes = read_file(report.rootfs + "/" + path, 64u << 20);
    return bytes.ok() ? *bytes : "(" + bytes.error().message() + ")";
  }
  std::vector<std::string> names(const std::string& path) {
    const Fd fd(::open((folder_ + "/store/" + path).c_str(), O_RDONLY | O_DIRECTORY));
    auto all = names_in(fd.get());
    return all.ok() ? *all : std::vector<std::string>();
  }
  // No image, no root, no layer, nothing on its way.
  void expect_nothing_half_made(size_t layers = 0) {
    EXPECT_TRUE(names("tmp").empty());
    EXPECT_TRUE(names("ingest").empty());
    EXPECT_TRUE(names("images").empty());
    EXPECT_TRUE(names("rootfs").empty());
    EXPECT_EQ(names("layers").size(), layers);
  }
  std::vector<LayerSpec> three_layers() {
    LayerSpec z;
    z.tar = tests::make_tar({{"z", big_}, {".wh.gone", ""}});
    z.blob = tests::zstd(z.tar);
    z.media_type = "application/vnd.docker.image.rootfs.diff.tar.zstd";
    LayerSpec plain;
    plain.tar = plain.blob = tests::make_tar({{"p", "plain"}});
    plain.media_type = "application/vnd.oci.image.layer.v1.tar";
    return {tests::gzip_layer({{"a", big_}, {"gone", "x"}, {"dir/b", "b"}}), z, plain};
  }

  tests::TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  const std::string big_ = tests::prose(700000, 5);
  Shelf shelf_;
  PullOptions options_;
  std::unique_ptr<RoughRegistry> server_;
};

TEST_F(PullTest, PullsAndMergesLayersOfAllKinds) {
  tests::put_image(&shelf_, "v1", three_layers());
  serve();
  for (const PullMode mode : {PullMode::kParallel, PullMode::kDefault}) {
    options_.settings.mode = mode;
    if (mode == PullMode::kDefault) options_.settings = settings_of(mode);
    const auto report = pull();
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(text(*report, "a"), big_);
    EXPECT_EQ(text(*report, "z"), big_);
    EXPECT_EQ(text(*report, "p"), "plain");
    EXPECT_EQ(text(*report, "dir/b"), "b");
    EXPECT_FALSE(file_exists(report->rootfs + "/gone"));
    EXPECT_TRUE(names("tmp").empty());
    EXPECT_TRUE(names("ingest").empty());
    EXPECT_EQ(names("layers").size(), 3u);
    EXPECT_TRUE(remove_tree(folder_ + "/store").ok());
  }
  EXPECT_GT(server_->count("/blobs/"), 8u) << "large layers come in ranges";
}

TEST_F(PullTest, ASecondPullAsksForTheManifestOnly) {
  tests::put_image(&shelf_, "v1", three_layers());
  serve();
  ASSERT_TRUE(pull().ok());
  const size_t blobs = server_->count("/blobs/");
  const auto again = pull();
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(server_->count("/blobs/"), blobs);
  for (const LayerReport& l : again->layers) EXPECT_EQ(l.state, "present");
}

TEST_F(PullTest, SharedLayersAreFetchedOnce) {
  auto layers = three_layers();
  tests::put_image(&shelf_, "v1", layers);
  layers.push_back(tests::gzip_layer({{"only-here", "x"}}));
  layers.push_back(layers[0]);  // the same layer twice in one image
  tests::put_image(&shelf_, "v2", layers);
  serve();
  ASSERT_TRUE(pull("v1").ok());
  const auto second = pull("v2");
  ASSERT_TRUE(second.ok()) << second.error().message();
  int pulled = 0;
  for (const LayerReport& l : second->layers) pulled += l.state == "pulled" ? 1 : 0;
  EXPECT_EQ(pulled, 1);
  EXPECT_EQ(text(*second, "gone"), "x") << "the repeated layer lies on top of the whiteout";
}

TEST_F(PullTest, PullsAtTheSameTimeShareTheirLayers) {
  tests::put_image(&shelf_, "v1", three_layers());
  serve();
  auto store = open();
  Puller puller(store.get(), options_);
  std::vector<std::thread> threads;
  std::vector<std::string> errors(6);
  for (size_t i = 0; i < errors.size(); ++i) {
    threads.emplace_back([&, i] {
      CancelFlag cancel;
      auto report = puller.pull(*parse_reference(server_->host() + "/team/app:v1"), &cancel);
      if (!report.ok()) errors[i] = report.error().message();
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& e : errors) EXPECT_EQ(e, "");
  size_t first_chunks = 0;
  for (const RoughRequest& r : server_->requests()) first_chunks += r.header("range").starts_with("bytes=0-") ? 1 : 0;
  EXPECT_LE(first_chunks, 3u) << "each layer comes once";
}

TEST_F(PullTest, WithoutRangesALayerComesAsOne) {
  tests::put_image(&shelf_, "v1", three_layers());
  shelf_.ranges = false;
  serve();
  const auto report = pull();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(text(*report, "a"), big_);
}

TEST_F(PullTest, BlobsMayBeDiscarded) {
  tests::put_image(&shelf_, "v1", three_layers());
  serve();
  options_.settings.discard_unpacked_layers = true;
  const auto report = pull();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(names("blobs/sha256").size(), 2u) << "manifest and configuration";
  EXPECT_EQ(text(*report, "z"), big_);
}

TEST_F(PullTest, GoesOnWhereItWasCut) {
  const LayerSpec layer = tests::gzip_layer({{"n", tests::noise(1000000, 3)}});
  tests::put_image(&shelf_, "v1", {layer});
  std::atomic<int> chunks{0};
  std::atomic<bool> broken{true};
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    const bool chunk = !r.header("range").empty();
    if (broken && chunk && ++chunks > 5) a.cut_after = 0;
    return a;
  });
  options_.settings.max_concurrent_downloads_per_image = 2;
  const auto first = pull();
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code(), Code::kUnavailable) << first.error().message();
  EXPECT_TRUE(names("layers").empty());
  EXPECT_TRUE(names("images").empty());
  EXPECT_FALSE(names("ingest").empty());
  broken = false;
  const auto second = pull();
  ASSERT_TRUE(second.ok()) << second.error().message();
  EXPECT_GE(second->layers[0].resumed, 4u * 64 * 1024);
  EXPECT_LT(second->bytes, layer.blob.size() - 3 * 64 * 1024);
  EXPECT_EQ(text(*second, "n"), tests::noise(1000000, 3));
}

TEST_F(PullTest, ABlobThatIsNotWhatWasAskedFor) {
  const LayerSpec good = tests::gzip_layer({{"n", tests::noise(300000, 3)}});
  const auto image = tests::put_image(&shelf_, "v1", {good});
  std::string wrong = good.blob;
  wrong[wrong.size() / 2] = static_cast<char>(wrong[wrong.size() / 2] ^ 1);
  shelf_.blobs[tests::digest(good.blob)] = wrong;
  serve();
  const auto report = pull();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Code::kDataLoss);
  EXPECT_NE(report.error().message().find(tests::digest(good.blob)), std::string::npos);
  EXPECT_NE(report.error().message().find(tests::digest(wrong)), std::string::npos) << report.error().message();
  expect_nothing_half_made();
}

TEST_F(PullTest, ATarThatIsNotWhatTheConfigurationSays) {
  LayerSpec layer = tests::gzip_layer({{"n", "content"}});
  layer.tar += "x";  // another diff id
  tests::put_image(&shelf_, "v1", {layer});
  serve();
  const auto report = pull();
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message().find("tar: the digest is"), std::string::npos) << report.error().message();
  expect_nothing_half_made();
}

TEST_F(PullTest, WickedLayersLeaveNothing) {
  const std::vector<std::vector<TarFile>> wicked = {{{"../escape", "x"}},
                                                    {{"l", "", '2', "../.."}, {"l/escape", "x"}},
                                                    {{"dev", "", '3'}},
                                                    {{"h", "", '1', "../../escape"}}};
  serve();
  for (const auto& files : wicked) {
    tests::put_image(&shelf_, "v1", {tests::gzip_layer(files)});
    const auto report = pull();
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code(), Code::kInvalidArgument) << report.error().message();
    expect_nothing_half_made();
  }
  EXPECT_FALSE(file_exists(folder_ + "/escape"));
  EXPECT_FALSE(file_exists(folder_ + "/store/escape"));
}

TEST_F(PullTest, ZstdBombsAreCutOff) {
  LayerSpec bomb;
  bomb.tar = tests::make_tar({{"zeros", std::string(30u << 20, '\0')}});
  bomb.blob = tests::zstd(bomb.tar);
  bomb.media_type = "application/vnd.oci.image.layer.v1.tar+zstd";
  EXPECT_LT(bomb.blob.size(), 100000u);
  tests::put_image(&shelf_, "v1", {bomb});
  serve();
  options_.limits.max_bytes = 1u << 20;
  const auto large = pull();
  EXPECT_EQ(large.error().code(), Code::kResourceExhausted) << large.error().message();
  expect_nothing_half_made();
}

TEST_F(PullTest, BombsAreCutOff) {
  LayerSpec bomb = tests::gzip_layer({{"zeros", std::string(30u << 20, '\0')}});
  serve();
  tests::put_image(&shelf_, "v1", {bomb});
  options_.limits.max_bytes = 1u << 20;
  const auto large = pull();
  EXPECT_EQ(large.error().code(), Code::kResourceExhausted) << large.error().message();
  expect_nothing_half_made();
  options_.limits = UnpackLimits();
  options_.limits.ratio_from = 1u << 20;
  options_.limits.max_ratio = 100;
  const auto dense = pull();
  EXPECT_EQ(dense.error().code(), Code::kResourceExhausted) << dense.error().message();
  EXPECT_NE(dense.error().message().find("100 times"), std::string::npos);
  expect_nothing_half_made();
}

TEST_F(PullTest, AStalledLayerIsCutAndPulledOn) {
  tests::put_image(&shelf_, "v1", three_layers());
  std::atomic<bool> stalled{false};
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    if (r.target.find("/blobs/") != std::string::npos && a.body.size() > 50000 && !stalled.exchange(true)) {
      a.cut_after = 10000;
      a.stall = true;
    }
    return a;
  });
  options_.http.stall = std::chrono::seconds(1);
  options_.registry.max_attempts = 60;  // a busy machine may look like a stall, too
  const auto report = pull();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_GE(report->stalls, 1u);
}

TEST_F(PullTest, ManifestsThatDoNotFit) {
  tests::put_image(&shelf_, "v1", three_layers());
  serve();
  options_.strict_media_types = true;
  const auto strict = pull();
  ASSERT_FALSE(strict.ok());
  EXPECT_NE(strict.error().message().find("rootfs.diff.tar.zstd"), std::string::npos) << strict.error().message();
  expect_nothing_half_made();
  shelf_.manifests["v1"] = {"application/json", R"({"schemaVersion":1,"name":"team/app","fsLayers":[]})"};
  EXPECT_NE(pull().error().message().find("schemaVersion 1"), std::string::npos);
}

TEST_F(PullTest, ForeignLayersAreNotFetchedFromHere) {
  auto layers = three_layers();
  LayerSpec foreign = tests::gzip_layer({{"elsewhere", "x"}});
  foreign.media_type = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip";
  foreign.urls = R"(["https://elsewhere.invalid/l"])";
  layers.insert(layers.begin(), foreign);
  tests::put_image(&shelf_, "v1", layers);
  serve();
  const auto report = pull();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->layers[0].state, "foreign");
  EXPECT_EQ(server_->count(tests::digest(foreign.blob)), 0u);
}

TEST_F(PullTest, AnIndexOfPlatforms) {
  const auto image = tests::put_image(&shelf_, "one", {tests::gzip_layer({{"f", "amd64"}})});
  const std::string type = "application/vnd.docker.distribution.manifest.list.v2+json";
  shelf_.manifests["v1"] = {
      type,
      fmt::format(
          R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":{},"digest":"{}","platform":{{"os":"linux","architecture":"amd64"}}}}]}})",
          type, image.manifest.size(), image.digest)};
  serve();
  const auto report = pull();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(text(*report, "f"), "amd64");
  options_.platform = {"linux", "arm64", ""};
  EXPECT_NE(pull().error().message().find("not there for linux/arm64"), std::string::npos);
}

TEST_F(PullTest, RemovingTakesWhatOnlyThatImageNeeds) {
  auto layers = three_layers();
  tests::put_image(&shelf_, "v1", layers);
  layers.push_back(tests::gzip_layer({{"only-here", "x"}}));
  tests::put_image(&shelf_, "v2", layers);
  serve();
  ASSERT_TRUE(pull("v1").ok());
  ASSERT_TRUE(pull("v2").ok());
  {
    auto user = open();
    EXPECT_EQ(ContentStore::open(folder_ + "/store", ContentStore::Lock::kAlone).error().code(),
              Code::kResourceExhausted);
  }
  auto store = open(ContentStore::Lock::kAlone);
  ASSERT_TRUE(store->remove_image(server_->host() + "/team/app:v2").ok());
  EXPECT_EQ(store->remove_image(server_->host() + "/team/app:v2").code(), Code::kNotFound);
  auto gone = store->collect();
  ASSERT_TRUE(gone.ok()) << gone.error().message();
  EXPECT_EQ(gone->layers, 1u);
  EXPECT_EQ(gone->roots, 1u);
  EXPECT_EQ(gone->blobs, 3u) << "a layer, a manifest, a configuration";
  EXPECT_EQ(names("layers").size(), 3u);
  ASSERT_EQ(store->images()->size(), 1u);
}

TEST_F(PullTest, CancellingEndsIt) {
  tests::put_image(&shelf_, "v1", {tests::gzip_layer({{"n", tests::noise(500000, 3)}})});
  CancelFlag cancel;
  serve([&](const RoughRequest& r) {
    RoughAnswer a = shelf_.answer(r);
    if (!r.header("range").empty()) {
      cancel.cancel();
      a.cut_after = 1000;
      a.stall = true;
    }
    return a;
  });
  auto store = open();
  options_.http.stall = std::chrono::minutes(5);
  Puller puller(store.get(), options_);
  const auto report = puller.pull(*parse_reference(server_->host() + "/team/app:v1"), &cancel);
  EXPECT_EQ(report.error().code(), Code::kCancelled) << report.error().message();
}

// Lazy reading.
class LazyTest : public PullTest {
 protected:
  // Several files so large that only a part of the layer holds each.
  std::vector<TarFile> files() {
    std::vector<TarFile> out{{"etc/", "", '5', "", 0755}};
    for (int i = 0; i < 8; ++i)
      out.push_back({fmt::format("data/f{}", i), tests::prose(400000, static_cast<uint64_t>(i))});
    out.push_back({"etc/small", "small"});
    out.push_back({"etc/empty", ""});
    out.push_back({"etc/link", "", '2', "../data/f3"});
    out.push_back({"etc/abs", "", '2', "/etc/link"});
    out.push_back({"etc/hard", "", '1', "data/f5"});
    return out;
  }
  Result<std::string> cat(const std::string& path) {
    auto store = open();
    HttpClient http(options_.http, "", "test");
    CancelFlag cancel;
    const auto reference = parse_reference(server_->host() + "/team/app:v1");
    Registry registry(&http, *reference, options_.registry, &cancel);
    auto image = resolve_image(&registry, *reference, options_.platform, store.get());
    if (!image.ok()) return image.error();
    LazyImage lazy(&registry, store.get(), *image, options_.limits);
    std::string out;
    const Status s = lazy.read(path, [&](std::string_view bytes) {
      out.append(bytes);
      return Status();
    });
    fetched_ = registry.stats().bytes;
    if (!s.ok()) return s;
    return out;
  }
  void expect_files_read(size_t whole) {
    const auto f3 = cat("data/f3");
    ASSERT_TRUE(f3.ok()) << f3.error().message();
    EXPECT_EQ(*f3, tests::prose(400000, 3));
    EXPECT_LT(fetched_, whole / 2) << "only a part of the layer is fetched";
    const auto kept = cat("/data/f3");
    EXPECT_EQ(*kept, *f3);
    EXPECT_LT(fetched_, whole / 4) << "and kept";
    EXPECT_EQ(*cat("etc/link"), *f3);
    EXPECT_EQ(*cat("etc/abs"), *f3);
    EXPECT_EQ(*cat("etc/hard"), tests::prose(400000, 5));
    EXPECT_EQ(*cat("etc/small"), "small");
    EXPECT_EQ(*cat("etc/empty"), "");
    EXPECT_EQ(cat("etc/none").error().code(), Code::kNotFound);
    EXPECT_FALSE(cat("etc").ok());
  }
  uint64_t fetched_ = 0;
};

TEST_F(LazyTest, ReadsFilesOfAnEStargz) {
  const LayerSpec layer = tests::stargz_layer(files(), 150000);
  tests::put_image(&shelf_, "v1", {layer});
  serve();
  expect_files_read(layer.blob.size());
  const auto report = pull();
  ASSERT_TRUE(report.ok()) << "an eStargz is a layer like any other: " << report.error().message();
  EXPECT_EQ(text(*report, "data/f7"), tests::prose(400000, 7));
}

TEST_F(LazyTest, ReadsFilesOfAZstdChunked) {
  for (const bool position : {true, false}) {
    EXPECT_TRUE(remove_tree(folder_ + "/store").ok());
    auto all = files();
    all.push_back({"zeros", std::string(500000, '\0')});
    const LayerSpec layer = tests::chunked_layer(all, 150000, position);
    tests::put_image(&shelf_, "v1", {layer});
    serve();
    expect_files_read(layer.blob.size());
    const auto zeros = cat("zeros");
    ASSERT_TRUE(zeros.ok()) << zeros.error().message();
    EXPECT_EQ(*zeros, std::string(500000, '\0'));
    EXPECT_LT(fetched_, layer.blob.size() / 4);
    options_.settings = settings_of(PullMode::kLazy);
    ASSERT_TRUE(pull().ok());
    options_.settings = settings_of(PullMode::kParallel);
    const auto report = pull();
    ASSERT_TRUE(report.ok()) << "it is a layer like any other: " << report.error().message();
    EXPECT_EQ(text(*report, "data/f7"), tests::prose(400000, 7));
  }
}

TEST_F(LazyTest, ABadZstdChunkedIsRefused) {
  struct Row {
    std::string key, value;
    Code code;
  };
  const std::string prefix = "io.github.containers.zstd-chunked.manifest-";
  const Row rows[] = {{"checksum", tests::digest("other"), Code::kDataLoss},
                      {"checksum", "md5:1", Code::kDataLoss},
                      {"position", "99999999:10:10:1", Code::kDataLoss},
                      {"position", "10:18446744073709551615:10:1", Code::kResourceExhausted},
                      {"position", "10:20:30", Code::kDataLoss},
                      {"position", "10:20:30:1x", Code::kDataLoss}};
  for (const Row& row : rows) {
    LayerSpec layer = tests::chunked_layer(files(), 150000);
    for (auto& [key, value] : layer.annotations) {
      if (key == prefix + row.key) value = row.value;
    }
    tests::put_image(&shelf_, "v1", {layer});
    serve();
    const auto f = cat("data/f1");
    ASSERT_FALSE(f.ok()) << row.value;
    EXPECT_EQ(f.error().code(), row.code) << f.error().message();
  }
  // Of a kind that we do not know: as a whole layer.
  LayerSpec layer = tests::chunked_layer(files(), 150000);
  layer.annotations[1].second = layer.annotations[1].second.substr(0, layer.annotations[1].second.size() - 1) + "2";
  tests::put_image(&shelf_, "v1", {layer});
  serve();
  EXPECT_EQ(*cat("data/f1"), tests::prose(400000, 1));
}

// The same wicked things where nothing is unpacked: names and links by a table, in every kind of layer.
TEST_F(LazyTest, WickedTablesLeadNowhere) {
  const auto kinds = {
      +[](const std::vector<TarFile>& f) { return tests::stargz_layer(f, 150000); },
      +[](const std::vector<TarFile>& f) { return tests::chunked_layer(f, 150000); },
      +[](const std::vector<TarFile>& f) { return tests::gzip_layer(f); },
  };
  for (const auto make : kinds) {
    const auto first = [&](const std::vector<TarFile>& content, const std::string& path) {
      EXPECT_TRUE(remove_tree(folder_ + "/store").ok());
      tests::put_image(&shelf_, "v1", {make(content)});
      serve();
      return cat(path);
    };
    // Names and hard links that lead out spoil the table.
    for (const auto& content : std::vector<std::vector<TarFile>>{
             {{"../escape", "x"}}, {{"a/../../escape", "x"}}, {{"f", "x"}, {"h", "", '1', "../../escape"}}}) {
      const auto f = first(content, "escape");
      ASSERT_FALSE(f.ok());
      EXPECT_EQ(f.error().code(), Code::kDataLoss) << f.error().message();
    }
    // Links are followed as if the image were the machine's root.
    EXPECT_EQ(first({{"up", "", '2', "../../../../etc/passwd"}}, "up").error().code(), Code::kNotFound);
    EXPECT_EQ(first({{"abs", "", '2', "/etc/passwd"}}, "abs").error().code(), Code::kNotFound);
    EXPECT_EQ(first({{"loop", "", '2', "loop"}}, "loop").error().code(), Code::kInvalidArgument);
    EXPECT_EQ(first({{"h", "", '1', "h"}}, "h").error().code(), Code::kInvalidArgument);
    EXPECT_EQ(first({{"h", "", '1', "none"}}, "h").error().code(), Code::kNotFound);
    EXPECT_EQ(first({{"f", "x"}}, "../store/lock").error().code(), Code::kInvalidArgument);
    options_.limits.max_bytes = 100000;
    EXPECT_EQ(first({{"zeros", std::string(30u << 20, '\0')}}, "zeros").error().code(), Code::kResourceExhausted);
    options_.limits = UnpackLimits();
  }
}

TEST_F(LazyTest, ReadsFilesByASociIndex) {
  const LayerSpec layer = tests::gzip_layer(files());
  tests::put_soci_image(&shelf_, "v1", layer, tests::make_ztoc(layer, files(), 200000));
  serve();
  expect_files_read(layer.blob.size() * 2);  // the table itself is as large as these layers are
}

std::string index_of(const std::string& entries) {
  return R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[)" + entries + "]}";
}

TEST_F(LazyTest, FindsASociIndexByWhatRefersToTheManifest) {
  const LayerSpec layer = tests::gzip_layer(files());
  const std::string ztoc = tests::make_ztoc(layer, files(), 200000);
  for (const int version : {1, 2}) {
    for (const bool api : {true, false}) {
      SCOPED_TRACE(fmt::format("version {}, {}", version, api ? "API" : "tag"));
      EXPECT_TRUE(remove_tree(folder_ + "/store").ok());
      shelf_ = {};
      const std::string digest = tests::put_image(&shelf_, "v1", {layer}).digest;
      const std::string other = R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,)"
                                R"("artifactType":"application/x-signature","digest":")" +
                                tests::digest("signature") + R"("},)";
      const std::string index = index_of(other + tests::put_soci_index(&shelf_, version, digest, layer, ztoc));
      if (api) shelf_.referrers.emplace()[digest] = index;
      if (!api) shelf_.manifests["sha256-" + digest.substr(7)] = {"application/vnd.oci.image.index.v1+json", index};
      serve();
      expect_files_read(layer.blob.size() * 2);
      EXPECT_EQ(server_->count("/referrers/"), 1u) << "what was found is kept";
      EXPECT_EQ(server_->count("/manifests/sha256-"), api ? 0u : 1u);
    }
  }
}

TEST_F(LazyTest, WithoutReferrersTheLayerIsFetchedWholeAndTheyAreAskedForWithTheNextPull) {
  const LayerSpec layer = tests::gzip_layer(files());
  const std::string ztoc = tests::make_ztoc(layer, files(), 200000);
  const std::string digest = tests::put_image(&shelf_, "v1", {layer}).digest;
  serve();
  EXPECT_EQ(*cat("data/f3"), tests::prose(400000, 3));
  EXPECT_EQ(*cat("data/f4"), tests::prose(400000, 4));
  EXPECT_EQ(server_->count("/referrers/"), 1u);
  shelf_.referrers.emplace()[digest] = index_of(tests::put_soci_index(&shelf_, 1, digest, layer, ztoc));
  options_.settings = settings_of(PullMode::kLazy);
  ASSERT_TRUE(pull().ok());
  EXPECT_EQ(server_->count("/referrers/"), 2u);
  EXPECT_EQ(open()->images()->at(0).extra.size(), 2u);  // the index and its zTOC
}

TEST_F(LazyTest, ReferrersThatAreWrongAreRefused) {
  const LayerSpec layer = tests::gzip_layer(files());
  const std::string ztoc = tests::make_ztoc(layer, files(), 200000);
  const std::string digest = tests::put_image(&shelf_, "v1", {layer}).digest;
  // About another image.
  shelf_.referrers.emplace()[digest] = index_of(tests::put_soci_index(&shelf_, 1, tests::digest("other"), layer, ztoc));
  serve();
  EXPECT_EQ(cat("data/f1").error().code(), Code::kDataLoss);
  // No JSON, then a page of HTML, which is what a registry without the API may say.
  EXPECT_TRUE(remove_tree(folder_ + "/store").ok());
  shelf_.referrers.emplace()[digest] = "{";
  serve();
  EXPECT_FALSE(cat("data/f1").ok());
  serve([&](const RoughRequest& r) -> RoughAnswer {
    if (r.target.find("/referrers/") != std::string::npos)
      return {.headers = {{"Content-Type", "text/html"}}, .body = "<html>"};
    return shelf_.answer(r);
  });
  EXPECT_EQ(*cat("data/f1"), tests::prose(400000, 1));
  // Refused: an error, and no layer that is fetched as a whole.
  EXPECT_TRUE(remove_tree(folder_ + "/store").ok());
  serve([&](const RoughRequest& r) -> RoughAnswer {
    if (r.target.find("/referrers/") != std::string::npos) return {.status = 403};
    return shelf_.answer(r);
  });
  EXPECT_EQ(cat("data/f1").error().code(), Code::kPermissionDenied);
}

TEST_F(LazyTest, PagesOfReferrersAreFollowedAndEnd) {
  const LayerSpec layer = tests::gzip_layer(files());
  const std::string ztoc = tests::make_ztoc(layer, files(), 200000);
  const std::string digest = tests::put_image(&shelf_, "v1", {layer}).digest;
  const std::string last = index_of(tests::put_soci_index(&shelf_, 1, digest, layer, ztoc));
  int pages = 2;
  serve([&](const RoughRequest& r) -> RoughAnswer {
    if (r.target.find("/referrers/") == std::string::npos) return shelf_.answer(r);
    RoughAnswer a{.headers = {{"Content-Type", "application/vnd.oci.image.index.v1+json"}}, .body = index_of("")};
    if (pages-- == 0) {
      a.body = last;
    } else {
      a.headers.emplace_back("Link", "</v2/team/app/referrers/" + digest + "?last=x>; rel=\"next\"");
    }
    return a;
  });
  ASSERT_TRUE(cat("data/f1").ok());
  EXPECT_EQ(server_->count("/referrers/"), 3u);
  EXPECT_TRUE(remove_tree(folder_ + "/store").ok());
  pages = 1000;
  ASSERT_TRUE(cat("data/f1").ok());
  EXPECT_EQ(server_->count("/referrers/"), 3u + Registry::kMaxReferrerPages);
}

TEST_F(LazyTest, ChangedPiecesAreFound) {
  LayerSpec layer = tests::gzip_layer(files());
  tests::put_soci_image(&shelf_, "v1", layer, tests::make_ztoc(layer, files(), 200000));
  std::string& blob = shelf_.blobs[tests::digest(layer.blob)];
  blob[blob.size() / 2] = static_cast<char>(blob[blob.size() / 2] ^ 1);
  serve();
  int failed = 0;
  for (int i = 0; i < 8; ++i) {
    const auto f = cat(fmt::format("data/f{}", i));
    if (f.ok()) continue;
    ++failed;
    EXPECT_EQ(f.error().code(), Code::kDataLoss) << f.error().message();
  }
  EXPECT_GE(failed, 1);
}

TEST_F(LazyTest, WithoutATableTheLayerIsFetchedWhole) {
  tests::put_image(&shelf_, "v1",
                   {tests::gzip_layer(files()),
                    tests::gzip_layer({{"data/f1", "upper"}, {"data/.wh.f2", ""}, {"etc/.wh..wh..opq", ""}})});
  serve();
  EXPECT_EQ(*cat("data/f1"), "upper");
  EXPECT_EQ(*cat("data/f4"), tests::prose(400000, 4));
  EXPECT_EQ(cat("data/f2").error().code(), Code::kNotFound);
  EXPECT_EQ(cat("etc/small").error().code(), Code::kNotFound);
}

TEST_F(LazyTest, ARegistryThatRefusesLaterIsAskedAgainWithTheNextRead) {
  const LayerSpec layer = tests::stargz_layer(files(), 150000);
  tests::put_image(&shelf_, "v1", {layer});
  std::atomic<bool> refuses{false};
  serve([&](const RoughRequest& r) -> RoughAnswer {
    if (refuses && r.target.find("/blobs/") != std::string::npos) return {.status = 403, .body = "expired"};
    return shelf_.answer(r);
  });
  ASSERT_TRUE(cat("data/f1").ok());
  refuses = true;
  const size_t before = server_->requests().size();
  EXPECT_EQ(cat("data/f2").error().code(), Code::kPermissionDenied);
  EXPECT_LE(server_->requests().size(), before + 4);
  refuses = false;
  EXPECT_TRUE(cat("data/f2").ok());
}

TEST_F(LazyTest, ALazyPullFetchesTablesOnly) {
  const LayerSpec layer = tests::stargz_layer(files(), 150000);
  tests::put_image(&shelf_, "v1", {layer});
  serve();
  options_.settings = settings_of(PullMode::kLazy);
  const auto report = pull();
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->layers[0].state, "lazy");
  EXPECT_LT(report->bytes, layer.blob.size() / 2);
  EXPECT_TRUE(names("layers").empty());
  EXPECT_EQ(open()->images()->at(0).chain, "");
}

// Images that go while others of this process pull.
TEST_F(PullTest, ImagesAreRemovedWithWhatOnlyTheyNeed) {
  tests::put_image(&shelf_, "v1", three_layers());
  tests::put_image(&shelf_, "v2", {three_layers()[0], tests::gzip_layer({{"own", "x"}})});
  serve();
  const auto one = pull("v1"), two = pull("v2");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(names("layers").size(), 4u);
  auto store = open();
  const std::string name = server_->host() + "/team/app:v1";
  {
    const auto other = open();
    const auto refused = store->remove_images({name});
    EXPECT_EQ(refused.error().code(), Code::kResourceExhausted) << refused.error().message();
    EXPECT_EQ(names("images").size(), 2u);
  }
  const auto gone = store->remove_images({name, "r.example/none:1"});
  ASSERT_TRUE(gone.ok()) << gone.error().message();
  EXPECT_EQ(gone->layers, 2u);
  EXPECT_EQ(gone->roots, 1u);
  EXPECT_GT(gone->bytes, 0u);
  EXPECT_EQ(names("layers").size(), 2u);
  EXPECT_EQ(text(*two, "a"), big_);
  EXPECT_EQ(text(*two, "own"), "x");
  EXPECT_TRUE(names("tmp").empty());
  // The lock is shared again.
  EXPECT_NE(open(), nullptr);
  EXPECT_FALSE(ContentStore::open(folder_ + "/store", ContentStore::Lock::kAlone).ok());
}

TEST_F(PullTest, WhatIsPinnedIsNotRemoved) {
  tests::put_image(&shelf_, "v1", three_layers());
  serve();
  ASSERT_TRUE(pull("v1").ok());
  auto store = open();
  const ImageRecord record = store->images()->at(0);
  {
    const auto pin = store->pin({record.diffs[0], record.layers[1], record.chain, ""});
    ASSERT_TRUE(store->remove_images({record.reference}).ok());
    EXPECT_TRUE(store->has_layer(record.diffs[0]));
    EXPECT_FALSE(store->has_layer(record.diffs[1]));
    EXPECT_TRUE(store->has_blob(record.layers[1]));
    EXPECT_FALSE(store->has_blob(record.layers[0]));
    EXPECT_TRUE(store->has_rootfs(record.chain));
    EXPECT_FALSE(store->has_blob(record.config));
  }
  ASSERT_TRUE(store->remove_images({}).ok());
  EXPECT_FALSE(store->has_layer(record.diffs[0]));
  EXPECT_TRUE(names("blobs/sha256").empty());
}

// Removal again and again while other threads pull: what a pull says it has pulled is there, as a whole.
TEST_F(PullTest, PullsAndRemovalsSideBySide) {
  tests::put_image(&shelf_, "v1", three_layers());
  tests::put_image(&shelf_, "v2", {three_layers()[0], tests::gzip_layer({{"own", "x"}})});
  serve();
  auto store = open();
  Puller puller(store.get(), options_);
  std::atomic<bool> over{false};
  std::thread remover([&] {
    while (!over) EXPECT_TRUE(store->remove_images({server_->host() + "/team/app:v1"}).ok());
  });
  for (int i = 0; i < 12; ++i) {
    CancelFlag cancel;
    const auto report = puller.pull(*parse_reference(server_->host() + "/team/app:v2"), &cancel);
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(text(*report, "a"), big_);
    EXPECT_EQ(text(*report, "own"), "x");
    const auto other = puller.pull(*parse_reference(server_->host() + "/team/app:v1"), &cancel);
    ASSERT_TRUE(other.ok()) << other.error().message();
    if (i % 3 == 2) {
      EXPECT_TRUE(store->remove_image(server_->host() + "/team/app:v2").ok());
    }
  }
  over = true;
  remover.join();
}

TEST(Settings, OfThePullers) {
  EXPECT_EQ(settings_of(PullMode::kParallel).max_concurrent_downloads_per_image, 20);
  EXPECT_EQ(settings_of(PullMode::kParallel).concurrent_download_chunk_size, 16u << 20);
  EXPECT_EQ(settings_of(PullMode::kParallel).max_concurrent_unpacks_per_image, 12);
  EXPECT_EQ(settings_of(PullMode::kDefault).max_concurrent_downloads_per_image, 3);
  EXPECT_EQ(settings_of(PullMode::kDefault).max_concurrent_unpacks_per_image, 1);
  EXPECT_EQ(*parse_size("16mb"), 16u << 20);
  EXPECT_EQ(*parse_size(""), 0u);
  EXPECT_EQ(*parse_size("512"), 512u);
  for (const char* bad : {"mb", "1tb!", "-1", "99999999999gb"}) EXPECT_FALSE(parse_size(bad).ok()) << bad;
}

}  // namespace
}  // namespace ghostfleet::image
