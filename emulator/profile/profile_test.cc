#include "emulator/profile/profile.h"

#include <gtest/gtest.h>

#include "kube/api/quantity.h"

namespace ghostfleet::emulator {
namespace {

std::string value(const StringPairs& pairs, std::string_view key) {
  for (const auto& [k, v] : pairs) {
    if (k == key) return v;
  }
  return "";
}

struct Row {
  const char* type;
  int64_t cpu_milli, memory_mib;
};

// Allocatable as the cloud's autoscaler publishes it for these types (karpenter-provider-aws,
// instance types reference).
constexpr Row kRows[] = {
    {"p4d.24xlarge", 95690, 1082712},   {"p5.48xlarge", 191450, 1938410},      {"p5e.48xlarge", 191450, 1938410},
    {"p5en.48xlarge", 191450, 1937332}, {"p6-b200.48xlarge", 191450, 1937332}, {"p6-b300.48xlarge", 191450, 3877198},
    {"trn1.32xlarge", 127610, 481894},  {"trn1n.32xlarge", 127610, 481894},    {"trn2.48xlarge", 191450, 1938410},
    {"inf2.48xlarge", 191450, 718987},  {"g5.48xlarge", 191450, 723299},       {"g6e.48xlarge", 191450, 1449132},
    {"m5.large", 1930, 6903},           {"m7i.xlarge", 3920, 14162},           {"c7i.large", 1930, 3114},
    {"c7i.xlarge", 3920, 6584},         {"c7i.2xlarge", 7910, 14162},          {"c7i.4xlarge", 15890, 27381},
    {"c7i.8xlarge", 31850, 57691},      {"c7i.12xlarge", 47810, 88002},        {"c7i.16xlarge", 63770, 112779},
    {"c7i.24xlarge", 95690, 173400},    {"c7i.48xlarge", 191450, 355262}};

TEST(Profile, AllocatableFollowsTheBootstrapFormulas) {
  auto catalogue = ProfileCatalogue::load("");
  ASSERT_TRUE(catalogue.ok()) << catalogue.error().to_string();
  for (const Row& row : kRows) {
    auto profile = catalogue->find(row.type);
    ASSERT_TRUE(profile.ok()) << row.type;
    const agent::NodeTemplate t = make_node_template(*profile, {});
    EXPECT_EQ(kube::Quantity::parse(value(t.allocatable, "cpu"))->milli_value(), row.cpu_milli) << row.type;
    EXPECT_EQ(kube::Quantity::parse(value(t.allocatable, "memory"))->value(), row.memory_mib * 1024 * 1024) << row.type;
    EXPECT_TRUE(agent::check_template(t).ok()) << row.type;
  }
}

TEST(Profile, CarriesAcceleratorsAndNetworkDevices) {
  auto catalogue = ProfileCatalogue::load("");
  const agent::NodeTemplate t = make_node_template(*catalogue->find("trn2.48xlarge"), {});
  EXPECT_EQ(value(t.capacity, "aws.amazon.com/neuron"), "16");
  EXPECT_EQ(value(t.capacity, "aws.amazon.com/neuroncore"), "64");
  EXPECT_EQ(value(t.capacity, "vpc.amazonaws.com/efa"), "16");
  EXPECT_EQ(value(t.capacity, "pods"), "100");
  EXPECT_EQ(value(t.labels, "node.kubernetes.io/instance-type"), "trn2.48xlarge");
}

TEST(Profile, UnknownNameSuggestsTheNearest) {
  auto catalogue = ProfileCatalogue::load("");
  auto missing = catalogue->find("p5.48xlage");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message().find("did you mean p5.48xlarge?"), std::string::npos)
      << missing.error().message();
}

TEST(Profile, ComplaintsNameLineFieldAndValue) {
  auto bad = parse_profile(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: NodeProfile\nmetadata: {name: x}\nspec:\n  cpu: many\n  memoryMiB: "
      "1024\n  extendedResources:\n    "
      "nvidia.com/gpu: lots\n  taint: []\n",
      "mine.yaml");
  ASSERT_FALSE(bad.ok());
  const std::string& text = bad.error().message();
  EXPECT_NE(text.find("mine.yaml:5: spec.cpu: \"many\": a whole number"), std::string::npos) << text;
  EXPECT_NE(text.find("mine.yaml:8: spec.extendedResources.nvidia.com/gpu: \"lots\": a quantity"), std::string::npos)
      << text;
  EXPECT_NE(text.find("mine.yaml:9: spec.taint: unknown field; did you mean taints?"), std::string::npos) << text;
}

TEST(Profile, CapacityFlag) {
  auto t = node_template_from_capacity("cpu=16,memory=64Gi,pods=110,nvidia.com/gpu=8");
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(value(t->capacity, "nvidia.com/gpu"), "8");
  EXPECT_EQ(value(t->capacity, "memory"), "64Gi");
  EXPECT_FALSE(node_template_from_capacity("cpu").ok());
  EXPECT_FALSE(node_template_from_capacity("cpu=lots").ok());
}

TEST(Count, Suffixes) {
  EXPECT_EQ(parse_count("10k"), 10000);
  EXPECT_EQ(parse_count("1m"), 1000000);
  EXPECT_EQ(parse_count("2.5k"), 2500);
  EXPECT_EQ(parse_count("100_000"), 100000);
  for (const char* bad : {"", "k", "ten", "1.5", "10kk", "1e3", " 5"})
    EXPECT_FALSE(parse_count(bad).has_value()) << bad;
}

}  // namespace
}  // namespace ghostfleet::emulator
