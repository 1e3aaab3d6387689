#include "agent/behavior/command_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/behavior/shell_script.h"

namespace ghostfleet::agent {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using Words = std::vector<std::string>;

CommandLine script(const std::string& text) {
  CommandLine line;
  line.image = "busybox:1.37";
  line.command = {"sh", "-c", text};
  return line;
}

// "exit 1 after 5s", "runs", or "unknown", one for each attempt.
std::string told(const CommandLine& line) {
  const CommandModel model(line);
  if (!model.plan()) return "unknown";
  std::string out;
  for (const CommandAttempt& a : model.plan()->attempts) {
    if (!out.empty()) out += ", ";
    out += a.exit ? "exit " + std::to_string(*a.exit) + " after " + format_duration(a.after) : "runs";
  }
  return out;
}

std::string told(const std::string& text) { return told(script(text)); }

std::string stops(const CommandLine& line) {
  const CommandModel model(line);
  if (!model.plan()) return "unknown";
  const CommandPlan& plan = *model.plan();
  const bool never = plan.stop_after == CommandModel::kNeverEnds;
  return never
             ? "killed"
             : "exit " + std::to_string(plan.stop) + " after " + format_duration(plan.stop_after.value_or(Duration(0)));
}

TEST(CommandModel, ProgramsAlone) {
  CommandLine line;
  line.image = "busybox";
  line.command = {"/bin/true"};
  EXPECT_EQ(told(line), "exit 0 after 0s");
  line.command = {"/bin/false"};
  EXPECT_EQ(told(line), "exit 1 after 0s");
  line.command = {"sleep"};
  line.args = {"1m", "30"};
  EXPECT_EQ(told(line), "exit 0 after 1m30s");
  line.args = {"infinity"};
  EXPECT_EQ(told(line), "runs");
  line.args = {"soon"};
  EXPECT_EQ(told(line), "unknown");
}

TEST(CommandModel, WhatImagesRun) {
  CommandLine line;
  line.image = "registry.k8s.io/pause:3.10";
  EXPECT_EQ(told(line), "runs");
  EXPECT_EQ(stops(line), "exit 0 after 0s");
  line.image = "registry.k8s.io/e2e-test-images/agnhost:2.63@sha256:00";
  line.args = {"netexec", "--http-port=8080"};
  EXPECT_EQ(told(line), "runs");
  EXPECT_EQ(stops(line), "exit 2 after 0s");
  line.args = {"mounttest", "--fs_type=/x"};
  EXPECT_EQ(told(line), "unknown");
  line.image = "registry.example/app:1";
  EXPECT_EQ(told(line), "unknown");
}

TEST(CommandModel, ListsAndConditions) {
  EXPECT_EQ(told("exit 3"), "exit 3 after 0s");
  EXPECT_EQ(told("sleep 5; exit 300"), "exit 44 after 5s");
  EXPECT_EQ(told("true && false"), "exit 1 after 0s");
  EXPECT_EQ(told("false || sleep 2"), "exit 0 after 2s");
  EXPECT_EQ(told("! false"), "exit 0 after 0s");
  EXPECT_EQ(told("sleep 10 & exit 1"), "exit 1 after 0s");
  EXPECT_EQ(told("(sleep 1; exit 4); exit $?"), "exit 4 after 1s");
  EXPECT_EQ(told("if false; then exit 1; elif true; then exit 2; else exit 3; fi"), "exit 2 after 0s");
  EXPECT_EQ(told("for i in 1 2 3; do sleep $i; done; exit 7"), "exit 7 after 6s");
  EXPECT_EQ(told("i=0\nwhile [ $i -lt 3 ]; do i=$((i+1)); sleep 2; done"), "exit 0 after 6s");
  EXPECT_EQ(told("until false; do break; done"), "exit 0 after 0s");
  EXPECT_EQ(told("leave() { return 5; }\nleave"), "exit 5 after 0s");
  EXPECT_EQ(told("# nothing\n"), "exit 0 after 0s");
  EXPECT_EQ(told(""), "exit 0 after 0s");
}

TEST(CommandModel, RunsUntilStopped) {
  EXPECT_EQ(told("while true; do echo polo; sleep 2; done"), "runs");
  EXPECT_EQ(told("while :; do :; done"), "runs");
  EXPECT_EQ(told("echo hi && tail -f /dev/null"), "runs");
  EXPECT_EQ(told("f() { f; }; f"), "unknown");
}

TEST(CommandModel, ErrorExit) {
  CommandLine line = script("false; exit 0");
  EXPECT_EQ(told(line), "exit 0 after 0s");
  line.command[1] = "-ec";
  EXPECT_EQ(told(line), "exit 1 after 0s");
  EXPECT_EQ(told("set -e; if false; then :; fi; false || true; sleep 1; false; exit 0"), "exit 1 after 1s");
}

TEST(CommandModel, NothingIsGuessed) {
  for (const char* text :
       {"wget http://x", "exit $RANDOM", "exit $(( $RANDOM / 16384 ))", "cat /etc/hosts", "echo *",
        "case x in x) ;; esac", "sleep $UNSET", "if [ -d /x ]; then exit 1; fi", "exit one", "[ 1 -eq", "echo `wget x`",
        "(", "if true", "echo 'a", "date &", "echo a >> /var/x", "trap true USR1"}) {
    EXPECT_EQ(told(text), "unknown") << text;
  }
  // What is never reached need not be known.
  EXPECT_EQ(told("true || wget http://x"), "exit 0 after 0s");
  EXPECT_EQ(told("exit 0; wget http://x"), "exit 0 after 0s");
}

TEST(CommandModel, FilesOfAContainerAreGoneAtItsNextStart) {
  const std::string text = "if [[ -r /data/foo ]]\nthen\n  exit 0\nelse\n  touch /data/foo\n  exit 1\nfi\n";
  CommandLine line = script(text);
  EXPECT_EQ(told(line), "unknown");  // /data may be part of the image
  line.volumes = {"/data"};
  EXPECT_EQ(told(line), "exit 1 after 0s, exit 0 after 0s");
  line.volumes.clear();
  line.mounts = {"/data"};
  EXPECT_EQ(told(line), "unknown");
  line = script("[ -f /tmp/foo ] && exit 0; touch /tmp/foo; exit 1");
  EXPECT_EQ(told(line), "exit 1 after 0s");
}

TEST(CommandModel, CountsItsStarts) {
  CommandLine line = script(R"(
f=/restart-count/restartCount
count=$(echo 'hello' >> $f ; wc -l $f | awk {'print $1'})
if [ $count -eq 1 ]; then
	exit 1
fi
if [ $count -eq 2 ]; then
	exit 0
fi
while true; do sleep 1; done
)");
  line.volumes = {"/restart-count"};
  EXPECT_EQ(told(line), "exit 1 after 0s, exit 0 after 0s, runs");
}

TEST(CommandModel, VariablesOfThePod) {
  CommandLine line = script("if [ $(expr ${INDEX} % 2) -ne 0 ]; then exit 1; else exit 0; fi");
  EXPECT_EQ(told(line), "unknown");
  line.env["INDEX"] = std::nullopt;
  EXPECT_EQ(told(line), "unknown");
  line.env["INDEX"] = "3";
  EXPECT_EQ(told(line), "exit 1 after 0s");
  line.env["INDEX"] = "4";
  EXPECT_EQ(told(line), "exit 0 after 0s");
  line.command = {"sleep", "$(INDEX)"};
  EXPECT_EQ(told(line), "exit 0 after 4s");
  line.command = {"sleep", "$$(INDEX)"};
  EXPECT_EQ(told(line), "unknown");
}

TEST(CommandModel, HowItStops) {
  EXPECT_EQ(stops(script("sleep 600")), "killed");
  EXPECT_EQ(stops(script("trap exit TERM; while true; do sleep 1; done")), "exit 0 after 0s");
  EXPECT_EQ(stops(script("_term(){\n sleep 5\n exit 143\n}\ntrap _term SIGTERM\nwhile true; do\n sleep 1\ndone")),
            "exit 143 after 5s");
  EXPECT_EQ(stops(script("trap 'sleep 30' TERM; while true; do sleep 1; done")), "killed");
  EXPECT_EQ(stops(script("trap 'wget x' TERM; while true; do sleep 1; done")), "killed");
}

TEST(CommandModel, TerminationMessages) {
  const auto message = [](const CommandLine& line) {
    const CommandModel model(line);
    return model.plan() ? model.plan()->attempts.front().message : "unknown";
  };
  EXPECT_EQ(message(script("echo -n DONE > /dev/termination-log")), "DONE");
  CommandLine line = script("/bin/echo -n DONE; /bin/false");
  EXPECT_EQ(message(line), "");
  line.message_from_log = true;
  EXPECT_EQ(message(line), "DONE");
  line.command[2] = "echo DONE";
  EXPECT_EQ(message(line), "");
  line.command[2] = "echo -n OK > /elsewhere";
  line.message_path = "/elsewhere";
  EXPECT_EQ(message(line), "OK");
}

TEST(CommandModel, ExecProbes) {
  const CommandModel model(script("echo ok >/tmp/health; sleep 10; rm -rf /tmp/health; sleep 600"));
  const auto window = [&](const Words& command, int timeout = 1) {
    const auto w = model.exec_probe(command, seconds(timeout));
    if (!w) return std::string("unknown");
    const std::string from = w->from == CommandModel::kNeverEnds ? "never" : format_duration(w->from);
    return from + (w->until == Duration(0) ? "" : " to " + format_duration(w->until));
  };
  EXPECT_EQ(window({"cat", "/tmp/health"}), "0s to 10s");
  EXPECT_EQ(window({"sh", "-c", "[ \"$(cat /tmp/health)\" = ok ]"}), "0s to 10s");
  EXPECT_EQ(window({"/bin/true"}), "0s");
  EXPECT_EQ(window({"/bin/false"}), "never");
  EXPECT_EQ(window({"/bin/sh", "-c", "sleep 10"}), "never");
  EXPECT_EQ(window({"/bin/sh", "-c", "sleep 10"}, 20), "0s");
  EXPECT_EQ(window({"/bin/sh", "-c", "sleep 10 & exit 1"}), "never");
  EXPECT_EQ(window({"curl", "localhost"}), "unknown");
  const CommandModel late(script("sleep 10; echo ok >/tmp/startup; sleep 600"));
  const auto w = late.exec_probe({"cat", "/tmp/startup"}, seconds(1));
  ASSERT_TRUE(w);
  EXPECT_EQ(w->from, seconds(10));
  EXPECT_EQ(w->until, Duration(0));
}

TEST(CommandModel, ProbesOverTheNetwork) {
  CommandLine line;
  line.image = "agnhost:2.63";
  line.args = {"liveness"};
  const CommandModel liveness(line);
  EXPECT_EQ(liveness.port_probe(8080, false, "/healthz")->until, seconds(10));
  EXPECT_EQ(liveness.port_probe(8080, false, "")->until, Duration(0));
  EXPECT_EQ(liveness.port_probe(81, false, "/healthz")->from, CommandModel::kNeverEnds);
  line.args = {"netexec", "--http-port", "83"};
  EXPECT_EQ(CommandModel(line).port_probe(83, false, "/")->from, Duration(0));
  line.args = {"grpc-health-checking"};
  const CommandModel grpc(line);
  EXPECT_EQ(grpc.port_probe(5000, true, "")->from, Duration(0));
  EXPECT_EQ(grpc.port_probe(2333, true, "")->from, CommandModel::kNeverEnds);
  EXPECT_EQ(grpc.port_probe(8080, true, "")->from, CommandModel::kNeverEnds);
  line.args = {"mounttest"};
  EXPECT_FALSE(CommandModel(line).port_probe(80, false, "/"));
}

TEST(CommandModel, Limits) {
  EXPECT_EQ(told(std::string(shell::kMaxScript + 1, ' ')), "unknown");
  EXPECT_EQ(told(std::string(shell::kMaxScript, ' ')), "exit 0 after 0s");
  EXPECT_EQ(told(std::string(shell::kMaxDepth + 1, '(') + "true" + std::string(shell::kMaxDepth + 1, ')')), "unknown");
  std::string files;
  for (size_t i = 0; i < CommandModel::kMaxFiles; ++i) files += "touch /tmp/" + std::to_string(i) + "\n";
  EXPECT_EQ(told(files), "exit 0 after 0s");
  EXPECT_EQ(told(files + "touch /tmp/more"), "unknown");
}

}  // namespace
}  // namespace ghostfleet::agent
