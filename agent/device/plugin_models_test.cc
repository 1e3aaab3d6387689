// The models of NVIDIA's, Neuron's, EFA's and any other plugin, and what a node's file says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/device/device_control.h"

namespace ghostfleet::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::shared_ptr<const PluginModel>> nvidia(const NvidiaConfig& config) {
  auto models = nvidia_plugins(config);
  EXPECT_TRUE(models.ok()) << models.error().message();
  return models.ok() ? *models : std::vector<std::shared_ptr<const PluginModel>>();
}

std::string error_of(const NvidiaConfig& config) {
  const auto models = nvidia_plugins(config);
  return models.ok() ? "" : models.error().message();
}

std::vector<uint32_t> prefer(const PluginModel& model, std::vector<uint32_t> free, uint32_t size,
                             std::vector<uint32_t> must = {}, DeviceBits others = {}) {
  DeviceChoice choice{DeviceBits(model.count()), std::move(must), size, std::move(others)};
  for (const uint32_t i : free) choice.available[i] = true;
  return model.prefer(choice);
}

TEST(NvidiaModel, WholeGpusHaveStableIdsAndStayOnANumaNode) {
  const auto models = nvidia({.gpus = 8});
  ASSERT_EQ(models.size(), 1u);
  const PluginModel& gpu = *models[0];
  EXPECT_EQ(gpu.resource(), "nvidia.com/gpu");
  EXPECT_EQ(gpu.id("n", 3).size(), 40u);
  EXPECT_EQ(gpu.find("n", gpu.id("n", 3)), 3u);
  EXPECT_EQ(gpu.find("m", gpu.id("n", 3)), std::nullopt);
  EXPECT_FALSE(gpu.options().pre_start);
  EXPECT_TRUE(gpu.options().preferred_allocation);
  EXPECT_EQ(gpu.numa_nodes(3), 1u);
  EXPECT_EQ(gpu.numa_nodes(4), 2u);
  EXPECT_THAT(prefer(gpu, {0, 1, 2, 3, 4, 5, 6, 7}, 2), ElementsAre(0, 1));
  EXPECT_THAT(prefer(gpu, {3, 4, 5, 6, 7}, 2), ElementsAre(4, 5));
  EXPECT_THAT(prefer(gpu, {3, 4, 5, 6, 7}, 1), ElementsAre(3));  // the fuller node
  EXPECT_THAT(prefer(gpu, {2, 3, 4, 5}, 3), ElementsAre(2, 3, 4));
  const auto answer = gpu.allocate("n", {0, 1}, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(answer->envs, ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", gpu.id("n", 0) + "," + gpu.id("n", 1))));
}

TEST(NvidiaModel, TimeSlicingSpreadsReplicasOverGpus) {
  const auto models = nvidia({.gpus = 2, .replicas = 3, .rename_shared = true, .refuse_more_than_one = true});
  const PluginModel& shared = *models.at(0);
  EXPECT_EQ(shared.resource(), "nvidia.com/gpu.shared");
  EXPECT_EQ(shared.count(), 6u);
  EXPECT_THAT(shared.id("n", 4), HasSubstr("::1"));
  EXPECT_EQ(shared.chip(4), 1u);
  EXPECT_THAT(prefer(shared, {0, 1, 2, 3, 4, 5}, 2), ElementsAre(0, 3));
  EXPECT_THAT(prefer(shared, {1, 2, 3, 4, 5}, 1), ElementsAre(3));
  EXPECT_EQ(shared.allocate("n", {0, 3}, {}).error().message(),
            "invalid allocation request for \"nvidia.com/gpu.shared\": invalid request: maximum request size for "
            "shared resources is 1; found 2");
  const auto one = shared.allocate("n", {4}, {});
  EXPECT_THAT(one->envs, ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", device_uuid("GPU-", "n", kGpuResource, 1))));
  EXPECT_THAT(shared.hit_by(kGpuResource, 1, -1), ElementsAre(3, 4, 5));
}

TEST(NvidiaModel, MigSingleAndMixed) {
  const auto single = nvidia(
      {.gpus = 2, .gpu = "h100", .memory_mib = 81920, .mig = MigStrategy::kSingle, .mig_layout = {{"1g.10gb", 7}}});
  ASSERT_EQ(single.size(), 1u);
  EXPECT_EQ(single[0]->resource(), "nvidia.com/gpu");
  EXPECT_EQ(single[0]->count(), 14u);
  EXPECT_EQ(single[0]->id("n", 0).substr(0, 4), "MIG-");
  EXPECT_THAT(single[0]->hit_by(kGpuResource, 1, 48), ElementsAre(7, 8, 9, 10, 11, 12, 13));
  const auto mixed = nvidia({.gpus = 2,
                             .gpu = "a100",
                             .memory_mib = 40960,
                             .mig = MigStrategy::kMixed,
                             .mig_layout = {{"3g.20gb", 1}, {"1g.5gb", 4}}});
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(mixed[0]->resource(), "nvidia.com/mig-3g.20gb");
  EXPECT_EQ(mixed[1]->resource(), "nvidia.com/mig-1g.5gb");
  EXPECT_EQ(mixed[1]->count(), 8u);
  EXPECT_NE(mixed[0]->id("n", 0), mixed[1]->id("n", 0));
}

TEST(NvidiaModel, WhatAGpuCannotDoIsSaid) {
  NvidiaConfig c{.gpus = 1, .gpu = "l40s", .memory_mib = 46068, .mig = MigStrategy::kSingle};
  EXPECT_THAT(error_of(c), HasSubstr("\"l40s\" has no MIG"));
  c.gpu = "a100";
  c.memory_mib = 81920;
  EXPECT_THAT(error_of(c), HasSubstr("at least one profile is expected: 1g.10gb, 1g.20gb, 2g.20gb"));
  c.mig_layout = {{"1g.5gb", 7}};
  EXPECT_THAT(error_of(c), HasSubstr("mig profile \"1g.5gb\": a100 has 1g.10gb"));
  c.mig_layout = {{"3g.40gb", 3}};
  EXPECT_THAT(error_of(c), HasSubstr("3 a GPU: 1 to 2 are expected"));
  c.mig = MigStrategy::kMixed;
  c.mig_layout = {{"3g.40gb", 2}, {"1g.10gb", 1}};
  EXPECT_THAT(error_of(c), HasSubstr("7 compute and 9 memory slices: a GPU has 7 and 8"));
  c.mig = MigStrategy::kSingle;
  c.mig_layout = {{"3g.40gb", 1}, {"1g.10gb", 1}};
  EXPECT_THAT(error_of(c), HasSubstr("strategy single wants all devices of one profile"));
  EXPECT_THAT(error_of({.gpus = 1, .replicas = 129}), HasSubstr("129 replicas: 1 to 128 are expected"));
}

TEST(NvidiaModel, XidsThatApplicationsMakeDoNotCount) {
  const auto usual = XidRules::parse("", "");
  ASSERT_TRUE(usual.ok());
  for (const int xid : {13, 31, 43, 45, 68, 109}) EXPECT_FALSE(usual->is_fatal(xid)) << xid;
  for (const int xid : {48, 63, 74, 79, 94}) EXPECT_TRUE(usual->is_fatal(xid)) << xid;
  EXPECT_FALSE(XidRules::parse("79, 94", "")->is_fatal(94));
  EXPECT_TRUE(XidRules::parse("", "13")->is_fatal(13));
  EXPECT_FALSE(XidRules::parse("all", "")->is_fatal(79));
  EXPECT_FALSE(XidRules::parse("xids", "")->is_fatal(79));
  EXPECT_THAT(XidRules::parse("seventy", "").error().message(), HasSubstr("\"seventy\": all, xids, or XID numbers"));
}

TEST(NeuronModel, ChipsAreContiguousWhereTheyCanBe) {
  const auto chips =
      neuron_plugin(kNeuronResource, {.chips = 4, .cores_per_chip = 2, .contiguity = Contiguity::kFault});
  EXPECT_THAT(prefer(*chips, {0, 1, 2, 3}, 2), ElementsAre(0, 1));
  EXPECT_THAT(prefer(*chips, {0, 2}, 2), ElementsAre(0, 2));
  EXPECT_THAT(prefer(*chips, {0, 2, 3}, 2), ElementsAre(2, 3));
  EXPECT_THAT(prefer(*chips, {0, 2, 3}, 1), ElementsAre(0));  // the smallest gap
  EXPECT_THAT(prefer(*chips, {0, 1, 2, 3}, 2, {2}), ElementsAre(1, 2));
  EXPECT_EQ(chips->start_failure({1, 2}), "");
  EXPECT_EQ(chips->start_failure({3, 0}), "nrt_init failed: Neuron devices 0,3 are not contiguous");
  EXPECT_FALSE(chips->acceptable({0, 3}));
  EXPECT_FALSE(chips->insists());
  const auto answer = chips->allocate("n", {1, 2}, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(answer->envs, ElementsAre(Pair("NEURON_RT_VISIBLE_CORES", "2-5")));
  EXPECT_EQ(answer->nodes.at(1).host_path, "/dev/neuron2");
}

TEST(NeuronModel, CoresStayOnOneChip) {
  const auto cores = neuron_plugin(kNeuronCoreResource, {.chips = 2, .cores_per_chip = 4});
  EXPECT_EQ(cores->count(), 8u);
  EXPECT_THAT(prefer(*cores, {1, 2, 3, 4, 5, 6, 7}, 2), ElementsAre(1, 2));
  EXPECT_THAT(prefer(*cores, {3, 4, 5, 6, 7}, 2), ElementsAre(4, 5));
  EXPECT_THAT(prefer(*cores, {0, 1, 4, 5}, 2, {}, {true, false}), ElementsAre(4, 5));
  EXPECT_THAT(cores->hit_by(kNeuronResource, 1, -1), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(cores->hit_by(kNeuronCoreResource, 6, -1), ElementsAre(6));
  const auto chips = neuron_plugin(kNeuronResource, {.chips = 2, .cores_per_chip = 4});
  EXPECT_THAT(chips->hit_by(kNeuronCoreResource, 6, -1), ElementsAre(1));
  EXPECT_TRUE(chips->heals());
  EXPECT_THAT(neuron_neighbours(0, 16), ElementsAre(12, 3, 4, 1));
  EXPECT_THAT(neuron_neighbours(0, 2), ElementsAre(1));
  EXPECT_THAT(neuron_neighbours(0, 1), IsEmpty());
}

TEST(DeviceSetup, IsMadeFromTheCountsOfANode) {
  ResourcePairs capacity = {{"cpu", "4"},
                            {"aws.amazon.com/neuron", "4"},
                            {"aws.amazon.com/neuroncore", "16"},
                            {"vpc.amazonaws.com/efa", "2"},
                            {"vpc.amazonaws.com/pod-eni", "9"},
                            {"example.test/radio", "1"},
                            {"hugepages-2Mi", "0"}};
  const ResourcePairs before = capacity;
  const auto setup = make_device_setup({}, {}, &capacity);
  ASSERT_TRUE(setup.ok());
  EXPECT_EQ(capacity, before);
  ASSERT_EQ(setup->models.size(), 4u);
  EXPECT_EQ(setup->models[1]->chip(15), 3u);
  EXPECT_EQ(setup->models[2]->id("n", 1), "efa-1");
  EXPECT_EQ(setup->models[2]->numa_nodes(1), 2u);
  EXPECT_EQ(setup->models[2]->allocate("n", {1}, {})->nodes.at(0).host_path, "/dev/infiniband/uverbs1");
  EXPECT_EQ(setup->models[3]->id("n", 0), "radio-0");
}

TEST(DeviceSetup, MigAndAbsentPluginsChangeWhatTheNodeShows) {
  ResourcePairs capacity = {{"cpu", "4"}, {"nvidia.com/gpu", "2"}, {"vpc.amazonaws.com/efa", "2"}};
  DeviceConfig config;
  config.mig = MigStrategy::kMixed;
  config.mig_layout = {{"7g.80gb", 1}};
  config.absent = {"vpc.amazonaws.com/efa"};
  const auto setup = make_device_setup(config, {.gpu = "h100", .gpu_memory_mib = 81920}, &capacity);
  ASSERT_TRUE(setup.ok()) << setup.error().message();
  EXPECT_THAT(capacity, ElementsAre(Pair("cpu", "4"), Pair("nvidia.com/mig-7g.80gb", "2")));
}

TEST(DeviceControl, AnnotationsAreReadAndChecked) {
  const auto faults = parse_faults(" nvidia.com/gpu = 3,0:79,3 ; aws.amazon.com/neuron=1;");
  ASSERT_TRUE(faults.ok()) << faults.error().message();
  EXPECT_EQ(*faults, (std::vector<DeviceManager::Fault>{
                         {"nvidia.com/gpu", 3, -1}, {"nvidia.com/gpu", 0, 79}, {"aws.amazon.com/neuron", 1, -1}}));
  EXPECT_TRUE(parse_faults("")->empty());
  for (const char* text : {"gpu=1", "nvidia.com/gpu", "nvidia.com/gpu=x", "nvidia.com/gpu=-1", "nvidia.com/gpu=1:x",
                           "nvidia.com/gpu=1:", "nvidia.com/gpu=99999"}) {
    EXPECT_FALSE(parse_faults(text).ok()) << text;
  }
  EXPECT_THAT(*parse_outages("a.b/c=gone; a.b/d=lost"),
              ElementsAre(PluginOutage{"a.b/c", false}, PluginOutage{"a.b/d", true}));
  EXPECT_THAT(parse_outages("a.b/c=away").error().message(), HasSubstr("a.b/c: \"away\": gone or lost is expected"));
  EXPECT_FALSE(parse_faults(std::string(kMaxControl + 1, ' ')).ok());
  ResourcePairs capacity = {{"nvidia.com/gpu", "4"}};
  const auto setup = make_device_setup({}, {}, &capacity);
  EXPECT_TRUE(check_faults(*setup, {{"nvidia.com/gpu", 3, -1}}).ok());
  EXPECT_THAT(check_faults(*setup, {{"nvidia.com/gpu", 4, -1}}).message(), HasSubstr("\"4\": 0 to 3 are there"));
  EXPECT_THAT(check_faults(*setup, {{"a.b/c", 0, -1}}).message(),
              HasSubstr("no device plugin of this node gives a.b/c; there are: nvidia.com/gpu"));
  EXPECT_FALSE(check_outages(*setup, {{"a.b/c", false}}).ok());
}

}  // namespace
}  // namespace ghostfleet::agent
