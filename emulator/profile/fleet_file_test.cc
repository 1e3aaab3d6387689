#include "emulator/profile/fleet_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "emulator/fleet/fleet_images.h"

namespace ghostfleet::emulator {
namespace {

constexpr const char* kFleet = R"(apiVersion: ghostfleet.dev/v1alpha1
kind: Fleet
metadata: {name: demo}
spec:
  region: eu-west-1
  connections: shared
  registerRate: 500
  imageRules:
  - {match: "*slow*", pull: 5s}
  - {match: "*missing*", error: NotFound}
  groups:
  - name: train
    count: 10k
    profile: trn2.48xlarge
    nameTemplate: train-{index:5}
    zones: [eu-west-1a]
    labels: {team: a}
    taints:
    - {key: example.com/dedicated, value: train, effect: NoSchedule}
    maxPods: 50
  - {count: 3, profile: m5.large, name: sys}
)";

TEST(FleetFile, ReadsGroupsAndDefaults) {
  auto f = parse_fleet_file(kFleet, "fleet.yaml");
  ASSERT_TRUE(f.ok()) << f.error().message();
  ASSERT_EQ(f->groups.size(), 2u);
  EXPECT_EQ(f->groups[0].count, 10000);
  EXPECT_EQ(f->image_rules.size(), 2u);
  auto catalogue = ProfileCatalogue::load("");
  auto o = make_fleet_options(*f, *catalogue);
  ASSERT_TRUE(o.ok()) << o.error().message();
  EXPECT_EQ(o->groups[0].name_template, "train-{index:5}");
  EXPECT_EQ(o->groups[1].name_template, "demo-sys-{index}");
  EXPECT_EQ(o->groups[1].zones.size(), 3u);
  EXPECT_EQ(o->groups[1].zones[0], "eu-west-1a");
}

TEST(FleetFile, EventsOfLargeFleetsAreOffUnlessAskedFor) {
  const auto events = [](const std::string& count, const std::string& field) {
    auto f = parse_fleet_file("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n" +
                                  field + "  groups:\n  - {count: " + count + ", profile: m5.large}\n",
                              "f.yaml");
    if (!f.ok()) return std::string(f.error().message());
    auto o = make_fleet_options(*f, *ProfileCatalogue::load(""));
    static const char* const kNames[] = {"none", "few", "all"};
    return std::string(o.ok() ? kNames[static_cast<int>(o->events)] : "error");
  };
  EXPECT_EQ(events("20000", ""), "few");
  EXPECT_EQ(events("20001", ""), "none");
  EXPECT_EQ(events("20001", "  events: few\n"), "few");
  EXPECT_EQ(events("5", "  events: all\n"), "all");
  EXPECT_NE(events("5", "  events: some\n").find("one of few, none, all is expected"), std::string::npos);
}

TEST(FleetFile, AllComplaintsAtOnceWithLines) {
  auto bad = parse_fleet_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n  groups:\n  - count: -1\n    "
      "profil: p5.48xlarge\n    profile: x\n  - count: 10 "
      "million\n    profile: y\n    taints: [{key: a, effect: Never}]\n",
      "f.yaml");
  ASSERT_FALSE(bad.ok());
  const std::string& text = bad.error().message();
  EXPECT_NE(text.find("f.yaml:6: spec.groups[0].count: -1: a whole number from 1"), std::string::npos) << text;
  EXPECT_NE(text.find("f.yaml:7: spec.groups[0].profil: unknown field; did you mean profile?"), std::string::npos)
      << text;
  EXPECT_NE(text.find("spec.groups[1].count: \"10 million\""), std::string::npos) << text;
  EXPECT_NE(text.find("one of NoSchedule, PreferNoSchedule, NoExecute is expected"), std::string::npos) << text;
}

std::string complaint(const std::string& spec, const std::string& head = "") {
  const auto f = parse_fleet_file(
      head + "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n" + spec, "f.yaml",
      [](const std::string& path) -> Result<std::string> {
        if (path == "runs.txt") return std::string("10s 20s 3\n");
        if (path == "bad.txt") return std::string("10s 20s\n");
        return not_found(path + ": no such file");
      });
  return f.ok() ? "" : f.error().message();
}

TEST(FleetFile, GroupsMustBeToldApart) {
  EXPECT_EQ(complaint("  groups:\n  - {count: 5, profile: m5.large, nameTemplate: \"n-{index}\"}\n  - {count: 5, "
                      "profile: m5.large, nameTemplate: \"n-{index}\"}\n"),
            "f.yaml:7: spec.groups[1].nameTemplate: n-{index}: its nodes would be named as those of groups[0]: another "
            "name or nameTemplate is expected");
  EXPECT_EQ(complaint("  groups:\n  - {count: 5, profile: m5.large}\n  - {count: 5, profile: m5.large}\n"),
            "f.yaml:7: spec.groups[1].name: its nodes would be named as those of groups[0]: another name or "
            "nameTemplate is expected");
  EXPECT_EQ(complaint("  groups:\n  - {count: 5, profile: m5.large, name: a}\n  - {count: 5, profile: m5.large, name: "
                      "a, nameTemplate: \"x{index}\"}\n"),
            "f.yaml:7: spec.groups[1].name: a: groups[0] has this name already");
}

TEST(FleetFile, NamesMustNotCollide) {
  auto f = parse_fleet_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n  groups:\n  - {count: 50, "
      "profile: m5.large, nameTemplate: \"n-{index}\"}\n  - {count: 1, profile: m5.large, nameTemplate: n-7}\n",
      "f.yaml");
  ASSERT_TRUE(f.ok()) << f.error().message();
  auto catalogue = ProfileCatalogue::load("");
  EXPECT_FALSE(make_fleet_options(*f, *catalogue).ok());
}

TEST(FleetFile, ZonesHaveNames) {
  auto f = parse_fleet_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n  zones: [a, \"\"]\n  groups:\n"
      "  - {count: 5, profile: m5.large}\n",
      "f.yaml");
  ASSERT_TRUE(f.ok()) << f.error().message();
  EXPECT_EQ(make_fleet_options(*f, *ProfileCatalogue::load("")).error().message(),
            "zone \"\": a name like us-west-2a is expected");
}

TEST(FleetFile, KeysThatAreThereTwiceAndSecondDocuments) {
  EXPECT_EQ(complaint("  seed: 1\n  groups:\n  - {count: 5, profile: m5.large}\n  seed: 2\n"),
            "f.yaml:8: key \"seed\" is there twice: keep one of them");
  EXPECT_EQ(complaint("  groups:\n  - {count: 5, count: 6, profile: m5.large}\n"),
            "f.yaml:6: key \"count\" is there twice: keep one of them");
  EXPECT_EQ(complaint("  groups:\n  - {count: 5, profile: m5.large}\n---\nkind: Fleet\n"),
            "f.yaml:7: a second document begins here: a file holds one");
  EXPECT_EQ(complaint("  groups:\n  - {count: 5, profile: m5.large}\n---\n", "# mine\n---\n"), "");
}

TEST(FleetFile, BehaviorRules) {
  auto f = parse_fleet_file(R"(apiVersion: ghostfleet.dev/v1alpha1
kind: Fleet
metadata: {name: demo}
spec:
  seed: 7
  eventRate: 200
  histograms: {runs: runs.txt}
  behaviorRules:
  - match: {namespace: "team-*", labels: "app=train", owner: Job, image: "*/train:*", container: main}
    behavior:
      after: histogram(runs)
      exit: {0: 0.95, 1: 0.05}
      ready: uniform(5s, 20s)
      stopAfter: 2s
      log: ["step {n}", done]
      logEvery: 1s
      crash: 0.1
      crashAfter: exponential(1h)
      cpu: curve(0s:10%, 1m:80%)
  - behavior: {exit: [1, 1, 0]}
  groups:
  - {count: 5, profile: m5.large}
)",
                            "f.yaml", [](const std::string&) { return std::string("10s 20s 3\n"); });
  ASSERT_TRUE(f.ok()) << f.error().message();
  auto o = make_fleet_options(*f, *ProfileCatalogue::load(""));
  ASSERT_TRUE(o.ok()) << o.error().message();
  EXPECT_EQ(o->pods.seed, 7u);
  EXPECT_EQ(o->event_rate, 200);
  const auto pod = [](const std::string& ns) {
    return kube::parse_json(R"({"metadata":{"namespace":")" + ns + R"(","labels":{"app":"train"},
        "ownerReferences":[{"kind":"Job","controller":true}]},"spec":{"containers":[{"name":"main","image":"r/train:1"}]}})")
        .value();
  };
  const agent::BehaviorRules& rules = *o->pods.behaviors;
  const auto rule_of = [&](const std::string& ns) {
    const kube::Json p = pod(ns);
    return rules.find(p, kube::get_array(p, "spec.containers")->at(0));
  };
  EXPECT_EQ(rule_of("team-a"), 0);
  EXPECT_EQ(rule_of("other"), 1);
  const agent::Script first = rules.apply(0, {});
  ASSERT_NE(first.draws, nullptr);
  EXPECT_EQ(first.draws->odds.size(), 2u);
  EXPECT_EQ(first.draws->crash, 0.1);
  EXPECT_EQ(first.log.size(), 2u);
  EXPECT_EQ(first.stop_after, std::chrono::seconds(2));
  EXPECT_EQ(rules.apply(1, {}).exits, (std::vector<int>{1, 1, 0}));
}

TEST(FleetFile, MistakesInBehaviorRules) {
  const std::string tail = "  groups:\n  - {count: 5, profile: m5.large}\n";
  EXPECT_EQ(complaint("  histograms: {a: none.txt, b: bad.txt, C: runs.txt}\n" + tail),
            "f.yaml:5: spec.histograms.a: none.txt: none.txt: no such file\n"
            "f.yaml:5: spec.histograms.b: bad.txt:1: 10s: a line FROM TO WEIGHT is expected, e.g. 5s 10s 12\n"
            "f.yaml:5: spec.histograms.C: a name of lower-case letters, digits and - is expected");
  EXPECT_EQ(
      complaint("  behaviorRules:\n  - match: {labels: \"a in (\", owner: job}\n    behavior:\n      after: soon\n"
                "      exit: {0: 0.5}\n      crashExit: 3\n      redy: 5s\n  - behavior: {}\n" +
                tail),
      "f.yaml:6: spec.behaviorRules[0].match.labels: \"a in (\": a label selector such as app=train,tier in (a, b) "
      "is expected\n"
      "f.yaml:6: spec.behaviorRules[0].match.owner: job: a kind such as Job or ReplicaSet, or None, is expected\n"
      "f.yaml:8: spec.behaviorRules[0].behavior.after: \"soon\": not a duration such as 5s or 1m30s\n"
      "f.yaml:9: spec.behaviorRules[0].behavior.exit: \"odds(0:0.5)\": the probabilities make 0.5, 1 is expected\n"
      "f.yaml:10: spec.behaviorRules[0].behavior.crashExit: counts only with crash, the probability that an "
      "attempt crashes\n"
      "f.yaml:11: spec.behaviorRules[0].behavior.redy: unknown field; did you mean ready?\n"
      "f.yaml:12: spec.behaviorRules[1].behavior: at least one of exit, after, ready, log, crash, cpu ... is "
      "expected");
}

TEST(FleetFile, WhatNodesDoBesides) {
  const std::string tail = "  groups:\n  - {count: 5, profile: m5.large}\n";
  const auto f = parse_fleet_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: d}\nspec:\n  devicePlugins: true\n"
      "  evictionHard: memory.available<1Gi,pid.available<10%\n  evictionMinimumReclaim: memory.available=2Gi\n"
      "  evictionPressureTransitionPeriod: 30s\n  secondPodCIDR: fd00::/48\n  primaryFamily: ipv6\n" +
          tail,
      "f.yaml");
  ASSERT_TRUE(f.ok()) << f.error().message();
  EXPECT_TRUE(f->device_plugins);
  ASSERT_EQ(f->eviction.thresholds.size(), 2u);
  EXPECT_EQ(f->eviction.thresholds[0].text, "1Gi");
  EXPECT_EQ(f->eviction.thresholds[0].reclaim_amount, 2LL << 30);
  EXPECT_EQ(f->eviction.transition, std::chrono::seconds(30));
  EXPECT_EQ(f->second_pod_cidr, "fd00::/48");
  EXPECT_TRUE(f->second_is_primary);
  EXPECT_NE(complaint("  evictionHard: memory<1Gi\n" + tail).find("spec.evictionHard"), std::string::npos);
  EXPECT_NE(complaint("  evictionMinimumReclaim: memory.available=much\n" + tail).find("spec.evictionMinimumReclaim"),
            std::string::npos);
  EXPECT_NE(complaint("  primaryFamily: ipv6\n" + tail).find("secondPodCIDR with an IPv6 network is needed"),
            std::string::npos);
}

constexpr const char* kVpc = R"(apiVersion: ghostfleet.dev/v1alpha1
kind: VPC
metadata: {name: net}
spec:
  cidrs: [172.31.0.0/16]
  subnets: [{name: a, zone: us-west-2a, cidr: 172.31.0.0/20}]
  ipam: {IPAM}
)";

Result<FleetOptions> on_network(const std::string& spec, const std::string& ipam = "") {
  const auto load = [&ipam](const std::string& path) -> Result<std::string> {
    if (path != "net.yaml") return not_found(path + ": No such file");
    std::string text = kVpc;
    return text.replace(text.find("IPAM"), 4, ipam);
  };
  auto f = parse_fleet_file("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n" + spec,
                            "f.yaml", load);
  if (!f.ok()) return f.error();
  return make_fleet_options(*f, *ProfileCatalogue::load(""));
}

Result<FleetOptions> with_groups(const std::string& spec) {
  const auto f = parse_fleet_file(
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: d}\nspec:\n" + spec, "f.yaml");
  if (!f.ok()) return f.error();
  return make_fleet_options(*f, *ProfileCatalogue::load(""));
}

bool has_resource(const FleetGroup& group, std::string_view resource) {
  const auto same = [resource](const auto& r) { return r.first == resource; };
  return std::any_of(group.node.capacity.begin(), group.node.capacity.end(), same) ||
         std::any_of(group.node.allocatable.begin(), group.node.allocatable.end(), same);
}

TEST(FleetFile, AcceleratorsOfADraDriver) {
  auto o = with_groups(
      "  devices: {dra: true}\n  groups:\n  - {name: a, count: 1, profile: p5.48xlarge}\n"
      "  - {name: b, count: 1, profile: trn2.48xlarge}\n  - {name: c, count: 1, profile: m5.large}\n"
      "  - {name: d, count: 1, profile: p5.48xlarge, devices: {dra: false}}\n"
      "  - {name: e, count: 1, profile: p4d.24xlarge, capacity: {nvidia.com/gpu: 4}}\n");
  ASSERT_TRUE(o.ok()) << o.error().message();
  ASSERT_NE(o->groups[0].dra, nullptr);
  EXPECT_EQ(o->groups[0].dra->product, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(o->groups[0].dra->count, 8u);
  EXPECT_FALSE(has_resource(o->groups[0], "nvidia.com/gpu"));
  EXPECT_TRUE(has_resource(o->groups[0], "vpc.amazonaws.com/efa"));
  ASSERT_NE(o->groups[1].dra, nullptr);
  EXPECT_EQ(o->groups[1].dra->count, 16u);
  EXPECT_FALSE(has_resource(o->groups[1], "aws.amazon.com/neuroncore"));
  EXPECT_EQ(o->groups[2].dra, nullptr);
  EXPECT_EQ(o->groups[3].dra, nullptr);
  EXPECT_TRUE(has_resource(o->groups[3], "nvidia.com/gpu"));
  EXPECT_EQ(o->groups[4].dra->count, 4u);
  EXPECT_EQ(o->groups[4].dra->product, "NVIDIA A100-SXM4-40GB");
  o = with_groups("  groups: [{count: 1, profile: p5.48xlarge, devices: {dra: true}}]\n");
  ASSERT_TRUE(o.ok());
  EXPECT_NE(o->groups[0].dra, nullptr);
}

TEST(FleetFile, MistakesInDra) {
  const auto said = [](const std::string& spec) {
    const auto o = with_groups(spec);
    return o.ok() ? std::string() : std::string(o.error().message());
  };
  EXPECT_EQ(said("  devices: {dra: true}\n  groups: [{count: 1, profile: m5.large}]\n"),
            "devices.dra: no group has accelerators with a DRA driver: a profile with some, like p5.48xlarge or "
            "trn2.48xlarge, is expected");
  EXPECT_NE(said("  groups: [{name: g, count: 1, profile: m5.large, devices: {dra: true}}]\n")
                .find("group g: devices.dra: profile m5.large: it has no accelerator with a DRA driver"),
            std::string::npos);
  EXPECT_NE(said("  devices: {dra: yes please}\n  groups: [{count: 1, profile: m5.large}]\n").find("spec.devices.dra"),
            std::string::npos);
}

TEST(FleetFile, PodsOnANetwork) {
  auto o = on_network(
      "  network: {ipam: vpc, file: net.yaml}\n  zones: [us-west-2a]\n  groups:\n"
      "  - {name: a, count: 1, profile: m5.large}\n"
      "  - {name: b, count: 1, profile: m5.large, maxPods: 110, network: {ipam: vpc}}\n"
      "  - {name: c, count: 1, profile: m5.large, zones: [elsewhere], network: {ipam: range}}\n");
  ASSERT_TRUE(o.ok()) << o.error().message();
  ASSERT_NE(o->network, nullptr);
  ASSERT_EQ(o->network->groups.size(), 3u);
  EXPECT_EQ(o->network->groups[0]->max_pods, 29);
  EXPECT_EQ(o->network->groups[1]->max_pods, 110);
  EXPECT_EQ(o->network->groups[2], nullptr);
  ASSERT_EQ(o->network->remarks.size(), 1u);
  EXPECT_EQ(o->network->remarks[0],
            "group b: m5.large allows 110 pods, but its interfaces hold 27 addresses: pods beyond them wait "
            "(FailedCreatePodSandBox); maxPods: 29 keeps the scheduler from placing them");
  o = on_network(
      "  network: {ipam: vpc, file: net.yaml}\n  zones: [us-west-2a]\n  groups: [{count: 1, profile: m5.large}]\n",
      "enablePrefixDelegation: true");
  ASSERT_TRUE(o.ok()) << o.error().message();
  ASSERT_EQ(o->network->remarks.size(), 1u);
  EXPECT_NE(
      o->network->remarks[0].find("allows 29 pods, the figure of single addresses; with prefixes EKS recommends 110"),
      std::string::npos)
      << o->network->remarks[0];
  o = on_network("  network: {ipam: range}\n  groups: [{count: 1, profile: m5.large}]\n");
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(o->network, nullptr);
}

TEST(FleetFile, MistakesInNetworks) {
  const std::string groups = "  groups: [{count: 1, profile: m5.large}]\n";
  const auto said = [&groups](const std::string& spec, const std::string& ipam = "", const std::string& own = "") {
    const auto o = on_network(spec + (own.empty() ? groups : own), ipam);
    return o.ok() ? std::string() : std::string(o.error().message());
  };
  EXPECT_EQ(said("  network: {ipam: vpc}\n"),
            "f.yaml:5: spec.network.file: the path of a VPC file (docs/network.md) is required");
  EXPECT_EQ(said("  network: {ipam: range, file: net.yaml}\n"),
            "f.yaml:5: spec.network.file: \"net.yaml\": is of ipam: vpc; a range needs no file");
  EXPECT_EQ(said("  network: {ipam: vpc, file: no.yaml}\n"),
            "f.yaml:5: spec.network.file: \"no.yaml\": no.yaml: No such file");
  EXPECT_NE(said("  network: {ipam: cilium, file: net.yaml}\n").find("one of vpc, range is expected"),
            std::string::npos);
  EXPECT_NE(said("  network: {ipam: vpc, files: net.yaml}\n").find("did you mean file?"), std::string::npos);
  EXPECT_NE(said("  network: {ipam: vpc, file: net.yaml}\n", "enablePrefixDelgation: true").find("net.yaml:7: "),
            std::string::npos);
  EXPECT_EQ(
      said("  network: {ipam: vpc, file: net.yaml}\n"),
      "network: fleet demo: zone us-west-2b: VPC net has no subnet in it, but in us-west-2a: give the nodes these "
      "zones, or the VPC a subnet there");
  EXPECT_EQ(said("", "", "  groups: [{count: 1, profile: m5.large, network: {ipam: vpc}}]\n"),
            "f.yaml:5: spec.groups[0].network.ipam: vpc: spec.network {ipam: vpc, file: PATH} is needed for it");
  EXPECT_NE(said("  network: {ipam: vpc, file: net.yaml}\n  secondPodCIDR: fd00:10:64::/48\n").find("one family"),
            std::string::npos);
}

TEST(BehaviorRulesFile, OfItsOwn) {
  EXPECT_TRUE(parse_behavior_rules("behaviorRules:\n- {behavior: {after: 5s}}\n", "r.yaml").ok());
  EXPECT_EQ(parse_behavior_rules("- {behavior: {after: 5s}}\n", "r.yaml").error().message(),
            "r.yaml: a mapping with behaviorRules (a list) and perhaps histograms is expected");
  EXPECT_EQ(parse_behavior_rules("behaviourRules: []\n", "r.yaml").error().message(),
            "r.yaml:1: behaviourRules: unknown field; did you mean behaviorRules?");
}

TEST(ImageRules, EitherPullOrError) {
  EXPECT_TRUE(parse_image_rules("- {match: '*', pull: 5s}\n", "r.yaml").ok());
  EXPECT_FALSE(parse_image_rules("- {match: '*', pull: soon}\n", "r.yaml").ok());
  EXPECT_FALSE(parse_image_rules("- {match: '*', pull: 5s, error: X}\n", "r.yaml").ok());
  EXPECT_FALSE(parse_image_rules("match: x\n", "r.yaml").ok());
  EXPECT_FALSE(parse_image_rules("", "r.yaml").ok());
}

TEST(FleetFile, HowImagesArePulledByTheFleetAndByItsGroups) {
  const std::string head =
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n"
      "  images: {puller: parallel, diskMBps: 240, storeMBps: 50, catalogue: [{match: mine, compressed: 5M}]}\n";
  const auto f = parse_fleet_file(
      head +
          "  groups:\n  - {count: 5, profile: p5.48xlarge, name: a}\n"
          "  - {count: 5, profile: m5.large, name: b, images: {puller: lazy, registryPullQPS: 0, diskSize: 50Gi}}\n",
      "f.yaml");
  ASSERT_TRUE(f.ok()) << f.error().message();
  const auto o = make_fleet_options(*f, *ProfileCatalogue::load(""));
  ASSERT_TRUE(o.ok()) << o.error().message();
  ASSERT_NE(o->images, nullptr);
  EXPECT_DOUBLE_EQ(o->images->store_rate, 50e6);
  EXPECT_EQ(o->images->images.front().match, "mine");
  EXPECT_GT(o->images->images.size(), 10u);
  const FleetImages images(*o->images, o->groups, TimePoint{1});
  const PullOptions& first = *images.options[0];
  EXPECT_EQ(first.puller, Puller::kParallel);
  EXPECT_DOUBLE_EQ(first.disk_rate, 240e6);
  EXPECT_EQ(first.cpus, 192);
  EXPECT_DOUBLE_EQ(first.network_rate, 400e9);  // 3,200 Gbit/s
  EXPECT_GT(first.disk_capacity, int64_t{25} << 40);
  const PullOptions& second = *images.options[1];
  EXPECT_EQ(second.puller, Puller::kLazy);
  EXPECT_DOUBLE_EQ(second.pull_qps, 0);
  EXPECT_DOUBLE_EQ(second.disk_rate, 240e6);
  EXPECT_EQ(second.cpus, 2);
  EXPECT_EQ(second.disk_capacity, int64_t{50} << 30);
  EXPECT_EQ(make_fleet_options(*parse_fleet_file(kFleet, "f.yaml"), *ProfileCatalogue::load(""))->images, nullptr);
}

TEST(FleetFile, MistakesInHowImagesArePulled) {
  const std::string group = "  groups:\n  - {count: 5, profile: m5.large}\n";
  EXPECT_EQ(complaint("  images: {puller: eager}\n" + group),
            "f.yaml:5: spec.images.puller: \"eager\": one of default, parallel, lazy is expected");
  EXPECT_EQ(complaint("  groups:\n  - {count: 5, profile: m5.large, images: {}}\n"),
            "f.yaml:6: spec.groups[0].images: spec.images is needed for it: images: {} has the usual settings");
  // What belongs to all nodes cannot be said of some.
  EXPECT_NE(complaint("  images: {}\n  groups:\n  - {count: 5, profile: m5.large, images: {storeMBps: 5}}\n")
                .find("f.yaml:7: spec.groups[0].images.storeMBps: unknown field"),
            std::string::npos);
  EXPECT_NE(complaint("  images: {imageGCHighThresholdPercent: 70}\n" + group).find("imageGCLowThresholdPercent"),
            std::string::npos);
}

}  // namespace
}  // namespace ghostfleet::emulator
