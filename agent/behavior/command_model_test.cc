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
  for (const char* text : {"wget http://x",
                           "exit $RANDOM",
                           "exit $(( $RANDOM / 16384 ))",
                           "cat /etc/hosts",
                           "echo *",
                           "case x in x) exit 1",
                           "sleep $UNSET",
                           "x=a; while true; do x=$x$x; done; exit ${#x}",
                           "if [ -d /x ]; then exit 1; fi",
                           "exit one",
                           "[ 1 -eq",
                           "echo `wget x`",
                           "(",
                           "if true",
                           "echo 'a",
                           "cat <<E\nnever ends",
                           "case $UNSET in *) exit 1;; esac",
                           "exit ${RANDOM:-1}",
                           "date &",
                           "echo a >> /var/x",
                           "trap true USR1"}) {
    EXPECT_EQ(told(text), "unknown") << text;
  }
  // What is never reached need not be known.
  EXPECT_EQ(told("true || wget http://x"), "exit 0 after 0s");
  EXPECT_EQ(told("exit 0; wget http://x"), "exit 0 after 0s");
}

TEST(CommandModel, Case) {
  EXPECT_EQ(told("case x in x) exit 3;; esac"), "exit 3 after 0s");
  EXPECT_EQ(told("case web-1 in\n  db-*) exit 1 ;;\n  web-[0-9]|other) exit 2 ;;\n  *) exit 3\nesac"),
            "exit 2 after 0s");
  EXPECT_EQ(told("case x in (y) exit 1;; esac; exit $?"), "exit 0 after 0s");
  EXPECT_EQ(told("case '*' in \"*\") exit 4;; esac"), "exit 4 after 0s");
  EXPECT_EQ(told("case ab in '*') exit 4;; a?) exit 5;; esac"), "exit 5 after 0s");
  EXPECT_EQ(told("p='a*'; case abc in $p) exit 6;; esac"), "exit 6 after 0s");
  EXPECT_EQ(told("case x in x) case y in y) sleep 2;; esac; exit 1;; esac"), "exit 1 after 2s");
  EXPECT_EQ(told("for i in 1 2 3; do case $i in 2) break;; esac; sleep 1; done"), "exit 0 after 1s");
  EXPECT_EQ(told("case x in esac; exit 7"), "exit 7 after 0s");
}

TEST(CommandModel, HereDocuments) {
  const auto file = [](const std::string& text) {
    const CommandModel model(script(text));
    return !model.plan() || model.plan()->attempts[0].files.empty() ? "unknown"
                                                                    : model.plan()->attempts[0].files[0].text;
  };
  EXPECT_EQ(file("x=1\ncat > /tmp/a <<EOF\nx is $x, \"quoted\" \\$x $(echo y) $((x+1))\nEOF\n"),
            "x is 1, \"quoted\" $x y 2\n");
  EXPECT_EQ(file("cat <<'EOF' > /tmp/a\n$x `y`\nEOF"), "$x `y`\n");
  EXPECT_EQ(file("cat > /tmp/a <<-E\n\t\tindented\n\tE\n"), "indented\n");
  EXPECT_EQ(file("cat <<A >/tmp/a; cat <<B\none\nA\ntwo\nB\n"), "one\n");
  EXPECT_EQ(file("{ echo a; echo b; } > /tmp/a"), "a\nb\n");
  EXPECT_EQ(told("cat <<E | wc -l > /tmp/n\na\nb\nE\n[ $(cat /tmp/n) -eq 2 ] && exit 3"), "exit 3 after 0s");
}

TEST(CommandModel, Arithmetic) {
  EXPECT_EQ(told("x=3; exit $(( (x + 1) * 2 - 10 % 4 ))"), "exit 6 after 0s");
  EXPECT_EQ(told("x=3; exit $(($x<4 ? 1+${x} : 9/0))"), "exit 4 after 0s");
  EXPECT_EQ(told("exit $((1/0))"), "unknown");
  EXPECT_EQ(told("exit $((0x10 | 1 << 1))"), "exit 18 after 0s");
}

TEST(CommandModel, ParameterExpansion) {
  EXPECT_EQ(told("exit ${CODE:-3}"), "exit 3 after 0s");
  EXPECT_EQ(told("CODE=; exit ${CODE:-3}${CODE-4}"), "exit 3 after 0s");
  EXPECT_EQ(told("exit ${CODE:=5}; exit $CODE"), "exit 5 after 0s");
  EXPECT_EQ(told(": ${CODE:=5}; exit $CODE"), "exit 5 after 0s");
  EXPECT_EQ(told("CODE=1; exit ${CODE:+6}"), "exit 6 after 0s");
  EXPECT_EQ(told("exit 1${CODE:+6}"), "exit 1 after 0s");
  EXPECT_EQ(told("f=a.tar.gz; [ ${f%.*} = a.tar ] && [ ${f%%.*} = a ] && [ ${f#*.} = tar.gz ] && [ ${f##*.} = gz ] && "
                 "exit ${#f}"),
            "exit 8 after 0s");
  EXPECT_EQ(told("a=1; exit ${b:-${a}2}"), "exit 12 after 0s");
  EXPECT_EQ(told("A=1; unset A; exit ${A-7}"), "exit 7 after 0s");
  CommandLine line = script("exit ${CODE:-3}");
  line.env["CODE"] = "9";
  EXPECT_EQ(told(line), "exit 9 after 0s");
  line.env["CODE"] = std::nullopt;
  EXPECT_EQ(told(line), "unknown");
  line.env.clear();
  line.image = "registry.example/app:1";  // its image may say what CODE is
  EXPECT_EQ(told(line), "unknown");
}

TEST(CommandModel, FunctionsHaveParametersAndLocalVariables) {
  EXPECT_EQ(told("f() { local x=$2; sleep $1; return $x; }\nx=9; f 3 4; exit $((x + $?))"), "exit 13 after 3s");
  EXPECT_EQ(told("f() { exit $#; }; f a 'b c' d"), "exit 3 after 0s");
  EXPECT_EQ(told("f() { for i in \"$@\"; do n=$((n+1)); done; exit $n; }; n=0; f a 'b c'"), "exit 2 after 0s");
  EXPECT_EQ(told("f() { shift; exit $1; }; f 1 2"), "exit 2 after 0s");
  EXPECT_EQ(told("set -- 5 6; exit $2"), "exit 6 after 0s");
  EXPECT_EQ(told("f() { g $1; }; g() { exit $1; }; f 8"), "exit 8 after 0s");
  CommandLine line = script("exit $1");
  line.command.insert(line.command.end(), {"name", "4"});
  EXPECT_EQ(told(line), "exit 4 after 0s");
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
