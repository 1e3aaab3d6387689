#include "emulator/images/node_puller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <fmt/format.h>

#include "emulator/images/image_model.h"
#include "emulator/images/pull_test_nodes.h"

namespace ghostfleet::emulator {
namespace {

using testing::HasSubstr;

constexpr int64_t kMega = 1000000;

PullOptions usual() {
  PullOptions o;
  o.cpus = 8;
  o.network_rate = 100e6;
  o.unpack_rate = 50e6;
  o.disk_capacity = int64_t{1} << 40;
  return o;
}

std::vector<StoreZone> one_zone() { return {{"a", 100e9}}; }

// Three layers of 10, 200 and 600 MB; another image with two of them.
ImageCatalogue shared_layers() {
  const ImageLayer base{"base", 10 * kMega, 20 * kMega}, middle{"middle", 200 * kMega, 400 * kMega};
  return {{{"*ml/train:1", {base, middle, {"", 600 * kMega, 1200 * kMega}}},
           {"*ml/train:2", {base, middle, {"", 100 * kMega, 200 * kMega}}}}};
}

constexpr const char* kTrain = "registry.example.test/ml/train:1";
constexpr const char* kTrain2 = "registry.example.test/ml/train:2";

size_t failures(const PullTestNode& node) {
  size_t n = 0;
  for (const auto& [ticket, ended] : node.ended) n += ended.result.error.empty() ? 0 : 1;
  return n;
}

TEST(NodePuller, ManyPodsOfOneImageFetchItOnce) {
  PullTestFleet fleet(one_zone(), {}, shared_layers());
  PullOptions o = usual();
  o.pull_qps = 0;
  PullTestNode& node = fleet.add(o);
  const TimePoint start = fleet.now;
  for (int i = 0; i < 20; ++i) node.pull(kTrain);
  fleet.run();
  ASSERT_EQ(node.ended.size(), 20u);
  EXPECT_EQ(failures(node), 0u);
  TimePoint first{INT64_MAX}, last;
  for (const auto& [ticket, ended] : node.ended) {
    first = std::min(first, ended.at);
    last = std::max(last, ended.at);
    EXPECT_EQ(ended.result.size_bytes, 810 * kMega);
  }
  EXPECT_LE(last - first, std::chrono::seconds(1));
  // Fetching and unpacking go side by side: the slower of the two counts, 810 MB at 50 MB/s.
  EXPECT_NEAR(fleet.seconds_since(start), 16.2 + 1, 0.8);
  EXPECT_NEAR(fleet.stores.load(0).moved, 810e6, 3e6);
  EXPECT_EQ(fleet.stores.stats().requests, 20u);
  // Always: a request for the manifest each, no layer.
  for (int i = 0; i < 20; ++i) node.pull(kTrain);
  fleet.run();
  EXPECT_EQ(fleet.stores.stats().requests, 40u);
  EXPECT_NEAR(fleet.stores.load(0).moved, 810e6, 3e6);
  EXPECT_EQ(failures(node), 0u);
  // The other image: its own layer only.
  node.pull(kTrain2);
  fleet.run();
  EXPECT_NEAR(fleet.stores.load(0).moved, 910e6, 6e6);
  EXPECT_EQ(node.ended.rbegin()->second.result.size_bytes, 310 * kMega);
  EXPECT_EQ(node.puller.disk().images().size(), 2u);
  EXPECT_EQ(node.puller.disk().used(), o.disk_other + (20 + 400 + 1200 + 200) * kMega);
}

TEST(NodePuller, TwoImagesAtOnceFetchWhatTheyShareOnce) {
  PullTestFleet fleet(one_zone(), {}, shared_layers());
  PullTestNode& node = fleet.add(usual());
  node.pull(kTrain);
  node.pull(kTrain2);
  fleet.run();
  EXPECT_EQ(failures(node), 0u);
  EXPECT_EQ(node.ended.size(), 2u);
  EXPECT_NEAR(fleet.stores.load(0).moved, 910e6, 6e6);
}

TEST(NodePuller, InSeriesOneWaitsForTheOther) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 1)}});
  PullOptions o = usual();
  o.serialize = true;
  PullTestNode& node = fleet.add(o);
  const TimePoint start = fleet.now;
  for (const char* image : {"r.example/a:1", "r.example/b:1", "r.example/c:1"}) node.pull(image);
  EXPECT_EQ(node.puller.pulling(), 1u);
  EXPECT_EQ(node.puller.queued(), 2u);
  fleet.run();
  ASSERT_EQ(node.ended.size(), 3u);
  for (agent::PullTicket i = 1; i <= 3; ++i) {
    const double seconds = static_cast<double>((node.ended[i].at - start).count()) * 1e-9;
    EXPECT_NEAR(seconds, 2.9 * static_cast<double>(i), 0.5 * static_cast<double>(i));  // 2 s, and about 0.85
    EXPECT_LT(node.ended[i].result.own, std::chrono::milliseconds(3400));
  }
}

TEST(NodePuller, SideBySideTheyShareTheNode) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 1)}});
  PullTestNode& node = fleet.add(usual());  // 50 MB/s each for two, then the card's 100 MB/s are shared
  const TimePoint start = fleet.now;
  for (const char* image : {"r.example/a:1", "r.example/b:1", "r.example/c:1", "r.example/d:1"}) node.pull(image);
  fleet.run();
  EXPECT_NEAR(fleet.seconds_since(start), 4 + 1, 0.6);
}

TEST(NodePuller, NoMoreThanMaxParallelImagePulls) {
  PullTestFleet fleet(one_zone());
  PullOptions o = usual();
  o.max_parallel = 2;
  PullTestNode& node = fleet.add(o);
  for (int i = 0; i < 5; ++i) node.pull(fmt::format("r.example/image-{}:1", i));
  EXPECT_EQ(node.puller.pulling(), 2u);
  EXPECT_EQ(node.puller.queued(), 3u);
  fleet.run();
  EXPECT_EQ(node.ended.size(), 5u);
  EXPECT_EQ(failures(node), 0u);
}

// The limit of the node itself; the registry hears nothing of what it refuses.
TEST(NodePuller, PullQpsExceeded) {
  PullTestFleet fleet(one_zone());
  PullTestNode& node = fleet.add(usual());
  std::vector<std::string> images;
  for (int i = 0; i < 30; ++i) images.push_back(fmt::format("r.example/image-{}:1", i));
  for (const std::string& image : images) node.pull(image);
  fleet.run_for(FlowModel::kGrain);
  EXPECT_EQ(node.ended.size(), 20u);
  for (const auto& [ticket, ended] : node.ended) EXPECT_EQ(ended.result.error, "pull QPS exceeded");
  EXPECT_EQ(fleet.stores.stats().requests, 10u);
  EXPECT_EQ(fleet.service.counts().over_qps, 20u);
  fleet.run();
  EXPECT_EQ(node.ended.size(), 30u);
  // Five a second come through later.
  const TimePoint again = fleet.now + std::chrono::seconds(2);
  fleet.run_for(again - fleet.now);
  for (int i = 0; i < 20; ++i) {
    node.pull(images[10 + static_cast<size_t>(i)]);
    fleet.run_for(std::chrono::milliseconds(200));
  }
  fleet.run();
  EXPECT_EQ(failures(node), 20u);
  EXPECT_EQ(fleet.stores.stats().requests, 30u);
}

TEST(NodePuller, WithoutALimitNothingIsRefused) {
  PullTestFleet fleet(one_zone());
  PullOptions o = usual();
  o.pull_qps = 0;
  PullTestNode& node = fleet.add(o);
  for (int i = 0; i < 30; ++i) node.pull(fmt::format("r.example/image-{}:1", i));
  fleet.run();
  EXPECT_EQ(node.ended.size(), 30u);
  EXPECT_EQ(failures(node), 0u);
}

TEST(NodePuller, TheRegistryAnswers429) {
  PullTestFleet fleet(one_zone(), {{"registry.example.test/*", 5, 5}});
  for (int i = 0; i < 20; ++i) fleet.add(usual()).pull("registry.example.test/team/app:2.0");
  fleet.run_for(std::chrono::milliseconds(1050));
  size_t refused = 0;
  for (const auto& node : fleet.nodes) {
    if (failures(*node) == 0) continue;
    ++refused;
    EXPECT_EQ(node->ended[1].result.error,
              "rpc error: code = Unknown desc = failed to pull and unpack image "
              "\"registry.example.test/team/app:2.0\": failed to resolve reference "
              "\"registry.example.test/team/app:2.0\": unexpected status from HEAD request to "
              "https://registry.example.test/v2/team/app/manifests/2.0: 429 Too Many Requests");
  }
  EXPECT_EQ(refused, 15u);
  EXPECT_EQ(fleet.stores.stats().refused, 15u);
  EXPECT_EQ(fleet.service.counts().refused, 15u);
  // Another registry is not concerned.
  fleet.nodes[0]->pull("other.example/app:1");
  fleet.run();
  EXPECT_EQ(fleet.stores.stats().refused, 15u);
}

TEST(NodePuller, ThePlaceOfADigestAndOfDockerHub) {
  PullTestFleet fleet(one_zone(), {{"*", 0.001, 1}});
  PullTestNode& node = fleet.add(usual());
  node.pull("busybox");
  node.pull("nginx");
  node.pull("a.example:5000/x@sha256:0123456789abcdef0123456789abcdef");
  fleet.run();
  EXPECT_THAT(node.ended[2].result.error,
              HasSubstr("https://registry-1.docker.io/v2/library/nginx/manifests/latest: 429"));
  EXPECT_THAT(node.ended[3].result.error,
              HasSubstr("https://a.example:5000/v2/x/manifests/sha256:0123456789abcdef0123456789abcdef: 429"));
}

TEST(NodePuller, WhatDoesNotMoveIsCutAndOthersTakeOver) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 2)}});
  PullOptions o = usual();
  o.stalled_share = 0.1;
  for (int i = 0; i < 100; ++i) fleet.add(o).pull("r.example/app:1");
  const TimePoint start = fleet.now;
  fleet.run_for(std::chrono::seconds(60));
  const int64_t stuck = fleet.service.counts().stalled;
  EXPECT_GT(stuck, 2);
  EXPECT_LT(stuck, 25);
  EXPECT_EQ(fleet.service.counts().pulling, stuck);
  EXPECT_EQ(fleet.service.counts().succeeded, 100u - static_cast<uint64_t>(stuck));
  fleet.run();
  EXPECT_EQ(fleet.service.counts().stalled, 0);
  EXPECT_LT(fleet.seconds_since(start), 300 + 10);
  for (const auto& node : fleet.nodes) {
    if (failures(*node) == 0) continue;
    EXPECT_EQ(
        node->ended[1].result.error,
        "rpc error: code = Canceled desc = failed to pull and unpack image \"r.example/app:1\": context canceled");
  }
  // In the end everybody has it.
  for (int round = 0; round < 20; ++round) {
    for (const auto& node : fleet.nodes) {
      if (!node->puller.present("r.example/app:1", fleet.now)) node->pull("r.example/app:1");
    }
    fleet.run();
  }
  for (const auto& node : fleet.nodes) EXPECT_TRUE(node->puller.present("r.example/app:1", fleet.now));
}

// Ten kilobytes a second are progress.
TEST(NodePuller, APullThatStalledIsAsLuckyTheNextTimeAsAnyOther) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 10 * kMega, 2)}});
  PullOptions o = usual();
  o.stalled_share = 0.2;
  o.progress_timeout = std::chrono::seconds(5);
  o.pull_qps = 0;
  for (int i = 0; i < 500; ++i) fleet.add(o).pull("r.example/app:1");
  size_t before = 500;
  for (int round = 0; round < 3; ++round) {
    fleet.run();
    size_t failed = 0;
    for (const auto& node : fleet.nodes) {
      if (node->ended.rbegin()->second.result.error.empty()) continue;
      ++failed;
      node->pull("r.example/app:1");
    }
    EXPECT_NEAR(static_cast<double>(failed), 0.2 * static_cast<double>(before),
                4 * std::sqrt(0.16 * static_cast<double>(before)) + 1);
    before = failed;
  }
}

TEST(NodePuller, WhatIsSlowIsNotCut) {
  PullTestFleet fleet({{"a", 10e3}}, {}, {{test_image("*", 30 * kMega, 1)}});
  PullTestNode& node = fleet.add(usual());
  const TimePoint start = fleet.now;
  node.pull("r.example/app:1");
  fleet.run();
  EXPECT_EQ(failures(node), 0u);
  EXPECT_NEAR(fleet.seconds_since(start), 3000, 5);
}

TEST(NodePuller, AStalledLayerIsFetchedByWhoeverWaitsForIt) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 2)}});
  PullOptions o = usual();
  o.pull_qps = 0;
  o.stalled_share = 0.5;
  for (int i = 0; i < 20; ++i) {
    PullTestNode& node = fleet.add(o);
    for (int k = 0; k < 6; ++k) node.pull("r.example/app:1");
  }
  fleet.run();
  // Only who fetched can have been cut: once, as the next one begins without bad luck of its own.
  for (const auto& node : fleet.nodes) {
    EXPECT_EQ(node->ended.size(), 6u);
    EXPECT_LE(failures(*node), 1u);
    EXPECT_TRUE(node->puller.present("r.example/app:1", fleet.now));
  }
}

TEST(NodePuller, RulesGoFirst) {
  PullTestFleet fleet(one_zone(), {}, {},
                      {{"*missing*", Duration(0), "NotFound"}, {"*slow*", std::chrono::seconds(5), ""}});
  PullTestNode& node = fleet.add(usual());
  const TimePoint start = fleet.now;
  node.pull("r.example/missing:1");
  node.pull("r.example/slow:1");
  EXPECT_FALSE(node.puller.present("r.example/missing:1", fleet.now));
  fleet.run();
  EXPECT_EQ(
      node.ended[1].result.error,
      "rpc error: code = NotFound desc = failed to pull and unpack image \"r.example/missing:1\": failed to resolve "
      "reference \"r.example/missing:1\": r.example/missing:1: not found");
  EXPECT_EQ(node.ended[2].result.error, "");
  EXPECT_DOUBLE_EQ(fleet.seconds_since(start), 5);
  EXPECT_EQ(fleet.stores.load(0).moved, 0);
  EXPECT_TRUE(node.puller.present("r.example/slow:1", fleet.now));
}

TEST(NodePuller, AFullDiskFailsThePull) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 2)}});
  PullOptions o = usual();
  o.disk_capacity = o.disk_other + 150 * kMega;  // 200 are needed
  PullTestNode& node = fleet.add(o);
  node.pull("r.example/app:1");
  fleet.run();
  EXPECT_THAT(node.ended[1].result.error,
              HasSubstr("code = Unknown desc = failed to pull and unpack image \"r.example/app:1\""));
  EXPECT_THAT(node.ended[1].result.error, HasSubstr("no space left on device"));
  EXPECT_NEAR(fleet.stores.load(0).moved, 75e6, 3e6);
  EXPECT_EQ(node.puller.disk().used(), o.disk_other);
  EXPECT_EQ(fleet.service.counts().failed, 1u);
}

TEST(NodePuller, GarbageIsCollectedEveryFiveMinutesAboveTheThreshold) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 1)}});
  PullOptions o = usual();
  o.disk_other = 0;
  o.disk_capacity = 1000 * kMega;
  PullTestNode& node = fleet.add(o);
  node.in_use = {"r.example/a:1", "r.example/b:1"};
  for (const char* image : {"r.example/a:1", "r.example/b:1", "r.example/c:1", "r.example/d:1"}) {
    node.pull(image);
    fleet.run_for(std::chrono::seconds(20));
  }
  EXPECT_EQ(node.puller.disk().usage_percent(), 80);
  fleet.run_for(std::chrono::minutes(12));
  EXPECT_EQ(node.puller.disk().images().size(), 4u);
  node.pull("r.example/e:1");
  fleet.run_for(std::chrono::seconds(20));
  const int changes = node.changes;
  EXPECT_EQ(node.puller.disk().usage_percent(), 100);
  fleet.run_for(std::chrono::minutes(6));
  // Twice 100 MB as compressed: c and d, which were used last before e.
  EXPECT_EQ(node.puller.disk().images().size(), 3u);
  EXPECT_TRUE(node.puller.disk().has("r.example/e:1"));
  EXPECT_EQ(fleet.service.counts().collected, 2u);
  EXPECT_EQ(node.changes, changes + 1);
  EXPECT_TRUE(node.warnings.empty());
}

TEST(NodePuller, CollectionThatFailsTellsSo) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 1)}});
  PullOptions o = usual();
  o.disk_other = 0;
  o.disk_capacity = 210 * kMega;
  PullTestNode& node = fleet.add(o);
  node.in_use = {"r.example/a:1"};
  node.pull("r.example/a:1");
  fleet.run_for(std::chrono::minutes(5) + std::chrono::seconds(10));
  const std::string text =
      "Failed to garbage collect required amount of images. Attempted to free 32000000 bytes, but only found 0 bytes "
      "eligible to free.";
  ASSERT_EQ(node.warnings.size(), 1u);
  EXPECT_EQ(node.warnings[0], std::make_pair(std::string("FreeDiskSpaceFailed"), text));
  // The second time in a row the kubelet says more.
  fleet.run_for(std::chrono::minutes(5));
  ASSERT_EQ(node.warnings.size(), 3u);
  EXPECT_EQ(node.warnings[1].first, "FreeDiskSpaceFailed");
  EXPECT_EQ(node.warnings[2], std::make_pair(std::string("ImageGCFailed"), text));
  node.in_use.clear();
  fleet.run_for(std::chrono::minutes(5));
  EXPECT_EQ(node.warnings.size(), 3u);
  EXPECT_TRUE(node.puller.disk().images().empty());
  EXPECT_TRUE(fleet.service.idle());
}

TEST(NodePuller, WhatIsThereFromTheBeginningIsNotFetched) {
  PullTestFleet fleet(one_zone());
  PullTestNode& node = fleet.add(usual());
  node.puller.preload("registry.k8s.io/pause:3.10", 320368, fleet.now);
  node.puller.adopt("r.example/running:1", fleet.now);
  EXPECT_TRUE(node.puller.present("registry.k8s.io/pause:3.10", fleet.now));
  EXPECT_TRUE(node.puller.present("r.example/running:1", fleet.now));
  EXPECT_FALSE(node.puller.present("r.example/other:1", fleet.now));
  node.pull("r.example/running:1");
  fleet.run();
  EXPECT_EQ(fleet.stores.load(0).moved, 0);
  EXPECT_EQ(failures(node), 0u);
}

TEST(NodePuller, ANodeThatGoesLeavesNothingBehind) {
  PullTestFleet fleet(one_zone());
  fleet.add(usual()).pull("r.example/app:1");
  fleet.nodes.clear();
  EXPECT_EQ(fleet.service.counts().pulling, 0);
  fleet.run();
  EXPECT_TRUE(fleet.service.idle());
}

TEST(ImageModel, TheMachineSaysWhatTheFileDoesNot) {
  ImageModel model;
  const auto o = pull_options_for(model, {16, 5e9, 1 << 20});
  EXPECT_EQ(o->cpus, 16);
  EXPECT_DOUBLE_EQ(o->network_rate, 5e9);
  EXPECT_EQ(o->disk_capacity, 1 << 20);
  model.pull.network_rate = 1e6;
  EXPECT_DOUBLE_EQ(pull_options_for(model, {16, 5e9, 1 << 20})->network_rate, 1e6);
}

TEST(PullOptions, TheLevelOfANode) {
  const double caps[] = {10, 40, 1000};
  EXPECT_DOUBLE_EQ(level_of(100, caps, 3), 50);
  EXPECT_DOUBLE_EQ(level_of(30, caps, 3), 10);
  EXPECT_GE(level_of(5000, caps, 3), 1000);
  EXPECT_DOUBLE_EQ(level_of(100, caps + 2, 1), 100);
}

TEST(NodePuller, PodsLeaveLessRoom) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 2)}});
  PullOptions o = usual();
  o.disk_capacity = o.disk_other + 250 * kMega;  // 200 are needed
  PullTestNode& node = fleet.add(o);
  node.storage = 100 * kMega;
  EXPECT_EQ(node.puller.disk_room()->available, 150 * kMega);
  node.pull("r.example/app:1");
  fleet.run();
  EXPECT_THAT(node.ended[1].result.error, HasSubstr("no space left on device"));
  node.storage = 0;
  node.pull("r.example/app:1");
  fleet.run([&] { return node.ended.size() == 2; });  // garbage is looked for ever after
  EXPECT_EQ(node.ended[2].result.error, "");
  EXPECT_EQ(node.puller.disk_room()->available, 50 * kMega);
  EXPECT_EQ(fleet.service.counts().bytes, 175u * kMega);
}

TEST(NodePuller, BeforePodsGoImagesDo) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 100 * kMega, 2)}});
  PullTestNode& node = fleet.add(usual());
  node.in_use = {"r.example/a:1"};
  node.puller.preload("registry.k8s.io/pause:3.10", 320368, fleet.now);
  node.pull("r.example/a:1");
  node.pull("r.example/b:1");
  fleet.run();
  node.puller.remove_unused(fleet.now);
  EXPECT_EQ(node.puller.disk().images().size(), 3u);  // too young
  fleet.run_for(std::chrono::minutes(3));
  const int changes = node.changes;
  node.puller.remove_unused(fleet.now);
  EXPECT_TRUE(node.puller.present("r.example/a:1", fleet.now));
  EXPECT_FALSE(node.puller.present("r.example/b:1", fleet.now));
  EXPECT_TRUE(node.puller.present("registry.k8s.io/pause:3.10", fleet.now));
  EXPECT_EQ(node.changes, changes + 1);
  EXPECT_EQ(fleet.service.counts().collected, 1u);
}

TEST(NodePuller, WhatAnEarlierAgentPulledIsThereAndNotTold) {
  PullTestFleet fleet(one_zone());
  PullTestNode& node = fleet.add(usual());
  node.puller.restore("r.example/app:1", fleet.now);
  EXPECT_EQ(node.changes, 0);
  EXPECT_TRUE(node.puller.present("r.example/app:1", fleet.now));
}

TEST(PullService, TellsOnlySoManyAtATime) {
  PullTestFleet fleet(one_zone(), {}, {{test_image("*", 10 * kMega, 1)}});
  Histogram durations;
  fleet.service.set_durations(&durations);
  for (int i = 0; i < 50; ++i) fleet.add(usual()).pull("r.example/app:1");
  fleet.now = fleet.now + std::chrono::minutes(1);
  const auto ended = [&] {
    return std::count_if(fleet.nodes.begin(), fleet.nodes.end(), [](const auto& node) { return !node->ended.empty(); });
  };
  for (int round = 1; round <= 5; ++round) {
    fleet.service.poll(fleet.now, 10);
    EXPECT_EQ(ended(), 10 * round);
    EXPECT_EQ(fleet.service.behind(), round < 5);
  }
  EXPECT_TRUE(fleet.service.idle());
  EXPECT_EQ(fleet.service.counts().bytes, 500u * kMega);
  EXPECT_EQ(fleet.service.counts().requests, 50u);
  EXPECT_EQ(durations.count(), 50u);
}

}  // namespace
}  // namespace ghostfleet::emulator
