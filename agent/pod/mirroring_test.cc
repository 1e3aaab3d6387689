// Static pods and their mirrors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/pod/static_pod.h"
#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using agent::Verb;
using kube::get_string;
using kube::Json;
using test::FakeCluster;
using test::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string manifest(std::string_view image = "registry.example/etcd:3", std::string_view annotations = "{}") {
  return "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"etcd\",\"namespace\":\"default\","
         "\"annotations\":" +
         std::string(annotations) + "},\"spec\":{\"hostNetwork\":true,\"containers\":[{\"name\":\"c\",\"image\":\"" +
         std::string(image) + "\"}]}}";
}

Result<Json> made(std::string_view text, std::string_view source = "/m/etcd.yaml") {
  return agent::make_static_pod(json(text), source, "oracle-0", WallTime{1767607200123000000});
}

TEST(StaticPod, IsMadeAsAKubeletDoes) {
  const Json pod = made(manifest()).value();
  EXPECT_EQ(get_string(pod, "metadata.name"), "etcd-oracle-0");
  EXPECT_EQ(get_string(pod, "spec.nodeName"), "oracle-0");
  EXPECT_EQ(get_string(pod, "spec.restartPolicy"), "Always");
  const std::string uid(get_string(pod, "metadata.uid"));
  EXPECT_EQ(uid.size(), 32u);
  EXPECT_EQ(uid.find_first_not_of("0123456789abcdef"), std::string::npos);
  const Json& notes = *kube::find_path(pod, "metadata.annotations");
  EXPECT_EQ(kube::find_key(notes, "kubernetes.io/config.hash")->get_string(), uid);
  EXPECT_EQ(kube::find_key(notes, "kubernetes.io/config.seen")->get_string(), "2026-01-05T10:00:00.123Z");
  EXPECT_EQ(kube::find_key(notes, "kubernetes.io/config.source")->get_string(), "file");
  EXPECT_EQ(kube::to_json(*kube::find_path(pod, "spec.tolerations")),
            R"([{"effect":"NoExecute","operator":"Exists"}])");
  // The same file again, another file, other content.
  EXPECT_EQ(get_string(made(manifest()).value(), "metadata.uid"), uid);
  EXPECT_NE(get_string(made(manifest(), "/m/other.yaml").value(), "metadata.uid"), uid);
  EXPECT_NE(get_string(made(manifest("x:2")).value(), "metadata.uid"), uid);
}

TEST(StaticPod, WhatItsMirrorIs) {
  const Json pod = made(manifest()).value();
  const Json mirror = agent::make_mirror_pod(pod, "oracle-0", "node-uid");
  EXPECT_EQ(agent::mirror_hash(mirror), get_string(pod, "metadata.uid"));
  EXPECT_EQ(agent::mirror_hash(pod), "");
  EXPECT_EQ(get_string(mirror, "metadata.uid"), get_string(pod, "metadata.uid"));  // the API server gives its own
  EXPECT_EQ(kube::to_json(*kube::find_path(mirror, "metadata.ownerReferences")),
            R"([{"apiVersion":"v1","kind":"Node","name":"oracle-0","uid":"node-uid","controller":true}])");
}

TEST(StaticPod, NonsenseIsNamed) {
  const auto said = [](std::string_view text) {
    const auto pod = made(text);
    return pod.ok() ? std::string() : std::string(pod.error().message());
  };
  EXPECT_THAT(said("[]"), HasSubstr("/m/etcd.yaml: a manifest with apiVersion: v1 and kind: Pod is expected"));
  EXPECT_THAT(said(R"({"apiVersion":"v1","kind":"Pod"})"), HasSubstr("metadata.name \"\": is required"));
  EXPECT_THAT(said(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"A_b"}})"),
              HasSubstr("metadata.name \"A_b\""));
  EXPECT_THAT(said(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}})"),
              HasSubstr("spec.containers: at least one"));
  EXPECT_THAT(said(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
      "spec":{"serviceAccountName":"x","containers":[{"name":"c"}]}})"),
              HasSubstr("spec.serviceAccountName: a static pod has none"));
}

class MirrorTest : public ::testing::TestWithParam<bool> {
 protected:
  static FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    return o;
  }
  void set(const std::vector<std::string>& texts) {
    std::vector<agent::StaticManifest> list;
    for (const std::string& text : texts) list.push_back({"/m/etcd.yaml", json(text)});
    cluster_.manager().set_static_pods(std::move(list));
  }
  std::string uid() { return std::string(cluster_.text(kName, "metadata.uid")); }

  static constexpr const char* kName = "etcd-oracle-0";
  FakeCluster cluster_{options()};
};

INSTANTIATE_TEST_SUITE_P(Fidelity, MirrorTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Light"; });

TEST_P(MirrorTest, IsMadeAndTold) {
  set({manifest()});
  cluster_.run_for(std::chrono::seconds(5));
  ASSERT_NE(cluster_.pod(kName), nullptr);
  EXPECT_EQ(cluster_.text(kName, "status.phase"), "Running");
  EXPECT_EQ(cluster_.text(kName, "status.podIP"), "192.0.2.2");
  EXPECT_EQ(get_string(*cluster_.condition(kName, "Ready"), "status"), "True");
  EXPECT_EQ(kube::find_path(*cluster_.pod(kName), "status.observedGeneration"), nullptr);
  EXPECT_EQ(cluster_.count(Verb::kPost, "/pods"), 1u);
  EXPECT_THAT(cluster_.events(kName), Contains("Normal Started x1 spec.containers{c}: Container started"));
}

TEST_P(MirrorTest, ComesBackWhenSomebodyDeletesIt) {
  set({manifest()});
  cluster_.run_for(std::chrono::seconds(5));
  const std::string first = uid();
  cluster_.remove(kName);
  cluster_.run_for(std::chrono::seconds(12));
  ASSERT_NE(cluster_.pod(kName), nullptr);
  EXPECT_NE(uid(), first);
  EXPECT_EQ(cluster_.text(kName, "status.phase"), "Running");
  // Its containers know nothing of it.
  EXPECT_THAT(cluster_.events(kName), ::testing::Not(Contains(HasSubstr("Killing"))));
  const std::string second = uid();
  cluster_.remove_by_force(kName);
  cluster_.run_for(std::chrono::seconds(12));
  ASSERT_NE(cluster_.pod(kName), nullptr);
  EXPECT_NE(uid(), second);
  EXPECT_EQ(cluster_.text(kName, "status.phase"), "Running");
}

TEST_P(MirrorTest, GoesWithItsManifest) {
  set({manifest()});
  cluster_.run_for(std::chrono::seconds(5));
  set({});
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.pod(kName), nullptr);
  EXPECT_EQ(cluster_.manager().pod_count(), 0u);
  EXPECT_THAT(cluster_.events(kName), Contains("Normal Killing x1 spec.containers{c}: Stopping container c"));
}

TEST_P(MirrorTest, AnotherManifestReplacesIt) {
  set({manifest()});
  cluster_.run_for(std::chrono::seconds(5));
  const std::string first = uid();
  set({manifest("registry.example/etcd:4")});
  cluster_.run_for(std::chrono::seconds(10));
  ASSERT_NE(cluster_.pod(kName), nullptr);
  EXPECT_NE(uid(), first);
  EXPECT_EQ(get_string(kube::get_array(*cluster_.pod(kName), "spec.containers")->at(0), "image"),
            "registry.example/etcd:4");
  EXPECT_EQ(cluster_.text(kName, "status.phase"), "Running");
  EXPECT_EQ(cluster_.manager().pod_count(), 1u);
}

TEST_P(MirrorTest, OneWithoutStaticPodIsTakenAway) {
  set({manifest()});
  cluster_.run_for(std::chrono::seconds(5));
  const std::string first = uid();
  cluster_.restart_agent();
  // The static pod comes back in time: its mirror stays.
  set({manifest()});
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(uid(), first);
  EXPECT_EQ(cluster_.text(kName, "status.phase"), "Running");
  cluster_.restart_agent();
  cluster_.run_for(std::chrono::seconds(5));
  EXPECT_EQ(cluster_.pod(kName), nullptr);
}

TEST_P(MirrorTest, IsTriedAgainWhenTheServerFails) {
  int refused = 0;
  cluster_.intercept = [&](const agent::ApiRequest& r) -> std::optional<agent::ApiResponse> {
    if (r.verb != Verb::kPost || !r.target.ends_with("/pods") || refused == 2) return std::nullopt;
    ++refused;
    return agent::ApiResponse{503, {}, Duration(0)};
  };
  set({manifest()});
  cluster_.run_for(std::chrono::seconds(40));
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(cluster_.text(kName, "status.phase"), "Running");
}

}  // namespace
}  // namespace ghostfleet
