#include "agent/pod/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

// From the pod's JSON to script and probes.
TEST(CommandLine, AppliesToATemplate) {
  const auto pod = [](const std::string& annotations) {
    auto json = kube::parse_json(R"({"metadata":{"name":"p","annotations":{)" + annotations + R"(}},"spec":{
      "volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","image":"busybox","command":["sh","-c"],
      "args":["if [ -f /data/$(NAME) ]; then sleep 60; else touch /data/$NAME; exit 42; fi"],
      "env":[{"name":"NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
      "volumeMounts":[{"name":"v","mountPath":"/data/"}],
      "livenessProbe":{"exec":{"command":["/bin/false"]}},"readinessProbe":{"tcpSocket":{"port":80}}}]}})");
    return *json;
  };
  const auto with = make_template(pod(""), true);
  const ContainerSpec& c = with->containers[0];
  EXPECT_THAT(c.script.exits, ElementsAre(42, 0));
  EXPECT_THAT(c.script.afters, ElementsAre(Duration(0), Duration(seconds(60))));
  EXPECT_EQ(c.script.stop, 137);
  ASSERT_TRUE(c.probes[static_cast<int>(ProbeKind::kLiveness)].window);
  EXPECT_EQ(c.probes[static_cast<int>(ProbeKind::kLiveness)].window->from, CommandModel::kNeverEnds);
  EXPECT_EQ(c.probes[static_cast<int>(ProbeKind::kReadiness)].window->from, CommandModel::kNeverEnds);
  EXPECT_TRUE(make_template(pod(""))->containers[0].script.exits.empty());
  const auto told_otherwise = make_template(pod(R"("behavior.ghostfleet.dev/c":"exit=5")"), true);
  EXPECT_THAT(told_otherwise->containers[0].script.exits, ElementsAre(5));
  EXPECT_FALSE(told_otherwise->containers[0].probes[static_cast<int>(ProbeKind::kLiveness)].window);
}

TEST(CommandLine, LabelsInVariables) {
  const auto json =
      kube::parse_json(R"({"metadata":{"name":"p","labels":{"batch.kubernetes.io/job-completion-index":"3"}},
      "spec":{"containers":[{"name":"c","image":"busybox","command":["sh","-c"],"args":[
      "\n\tif [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then\n\t\texit 1\n\telse\n\t\texit 0\n\tfi\n"],
      "env":[{"name":"JOB_COMPLETION_INDEX","valueFrom":{"fieldRef":
      {"fieldPath":"metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]}]}})");
  EXPECT_THAT(make_template(*json, true)->containers[0].script.exits, ElementsAre(1));
}

// Pods that differ only in what a variable holds do not share a template, when that may matter.
TEST(CommandLine, PodsWithTheirOwnVariables) {
  const auto pod = [](const std::string& name, const std::string& env) {
    return *kube::parse_json(R"({"metadata":{"name":")" + name +
                             R"("},"spec":{"containers":[{"name":"c","image":"busybox",
      "command":["true"],"env":[)" +
                             env + "]}]}}");
  };
  const std::string field = R"({"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}})";
  EXPECT_NE(intern_template(pod("a", field), true).get(), intern_template(pod("b", field), true).get());
  const auto a = intern_template(pod("a", field));
  EXPECT_EQ(a.get(), intern_template(pod("b", field)).get());
  const auto b = intern_template(pod("a", ""), true);
  EXPECT_EQ(b.get(), intern_template(pod("b", ""), true).get());
}

}  // namespace
}  // namespace ghostfleet::agent
