#include "agent/behavior/command_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr WallTime kStart{1767607200000000000};  // Mon 2026-01-05 10:00:00 UTC

CommandLine script(const std::string& text, const std::string& flags = "-c") {
  CommandLine line;
  line.image = "busybox:1.37";
  line.command = {"sh", flags, text};
  return line;
}

// "0s out hello", one for each line that is there at that age.
std::vector<std::string> log_of(const CommandLine& line, Duration age, uint32_t attempt = 0) {
  const CommandModel model(line);
  if (!model.plan()) return {"unknown"};
  const auto tape = model.plan()->log->play(attempt, age);
  std::vector<std::string> out;
  for (const CommandTape::Line& l : tape->lines()) {
    if (l.at > age) break;
    out.push_back(format_duration(l.at) +
                  (l.err    ? " err "
                   : l.open ? " open "
                            : " out ") +
                  fill_marks(l.text, kStart, "pod-0"));
  }
  return out;
}
std::vector<std::string> log_of(const std::string& text, Duration age = hours(1)) { return log_of(script(text), age); }

TEST(CommandLog, LinesAtTheirTimes) {
  EXPECT_THAT(log_of("echo one; sleep 2; echo two; sleep 0.5; echo -n three; exit 1"),
              ElementsAre("0s out one", "2s out two", "2.5s open three"));
  EXPECT_THAT(log_of("echo one; sleep 2; echo two", seconds(1)), ElementsAre("0s out one"));
  EXPECT_THAT(log_of("for i in 1 2 3; do echo n=$i; sleep 1; done"),
              ElementsAre("0s out n=1", "1s out n=2", "2s out n=3"));
  EXPECT_THAT(log_of("while true; do echo tick; sleep 5; done", seconds(12)),
              ElementsAre("0s out tick", "5s out tick", "10s out tick"));
  CommandLine line;
  line.image = "busybox";
  line.command = {"echo"};
  line.args = {"a", "b"};
  EXPECT_THAT(log_of(line, seconds(1)), ElementsAre("0s out a b"));
}

TEST(CommandLog, DateAndHostName) {
  EXPECT_THAT(log_of("while true; do date; sleep 1; done", seconds(1)),
              ElementsAre("0s out Mon Jan  5 10:00:00 UTC 2026", "1s out Mon Jan  5 10:00:01 UTC 2026"));
  EXPECT_THAT(log_of("sleep 3; echo $(date) on $(hostname)"),
              ElementsAre("3s out Mon Jan 5 10:00:03 UTC 2026 on pod-0"));
  EXPECT_THAT(log_of("now=$(date +%s); sleep 2; echo \"$now $(date -u +%Y-%m-%dT%H:%M:%SZ) $HOSTNAME\""),
              ElementsAre("2s out 1767607200 2026-01-05T10:00:02Z pod-0"));
  // What the moment decides is not known.
  EXPECT_THAT(log_of("if [ $(date +%H) -gt 12 ]; then echo late; fi"), ElementsAre("unknown"));
  EXPECT_THAT(log_of("if [ \"$(hostname)\" = pod-0 ]; then echo first; fi"), ElementsAre("unknown"));
  EXPECT_THAT(log_of("for w in $(date); do echo $w; done"), ElementsAre("unknown"));
  EXPECT_THAT(log_of("date -d yesterday"), ElementsAre("unknown"));
}

TEST(CommandLog, Printf) {
  EXPECT_THAT(log_of("printf '%s=%03d|%-4s|%x\\n' a 7 b 255 c 8 d 16"),
              ElementsAre("0s out a=007|b   |ff", "0s out c=008|d   |10"));
  EXPECT_THAT(log_of("printf '100%%\\n'; printf 'a\\tb\\\\n\\n'"), ElementsAre("0s out 100%", "0s out a\tb\\n"));
  EXPECT_THAT(log_of("printf '%f\\n' 1"), ElementsAre("unknown"));
  EXPECT_THAT(log_of("printf '%d\\n' one"), ElementsAre("unknown"));
}

TEST(CommandLog, FilesPipesAndFields) {
  EXPECT_THAT(log_of("printf 'a b\\nc\\n' > /tmp/x; cat /tmp/x; echo $(cat /tmp/x); echo \"$(cat /tmp/x)\""),
              ElementsAre("0s out a b", "0s out c", "0s out a b c", "0s out a b", "0s out c"));
  EXPECT_THAT(log_of("for i in $(seq 2 2 6); do echo $i; done"), ElementsAre("0s out 2", "0s out 4", "0s out 6"));
  EXPECT_THAT(log_of("x='a   b'; echo $x; echo \"$x\"; echo `echo c`"),
              ElementsAre("0s out a b", "0s out a   b", "0s out c"));
  EXPECT_THAT(log_of("echo a | cat; echo b >/dev/null; echo c >/dev/stdout; touch /tmp/l; echo 1 >> /tmp/l; tail -f "
                     "/tmp/l"),
              ElementsAre("0s out a", "0s out c", "0s out 1"));
}

TEST(CommandLog, StandardError) {
  EXPECT_THAT(log_of("echo bad >&2; echo worse > /dev/stderr; x=$(echo seen >&2); echo \"[$x]\""),
              ElementsAre("0s err bad", "0s err worse", "0s err seen", "0s out []"));
  EXPECT_THAT(log_of("cat /tmp/none; cat /tmp/none 2>/dev/null; cat /tmp/none 2>&1; rm /tmp/none"),
              ElementsAre("0s err cat: can't open '/tmp/none': No such file or directory",
                          "0s out cat: can't open '/tmp/none': No such file or directory",
                          "0s err rm: can't remove '/tmp/none': No such file or directory"));
  EXPECT_THAT(log_of(script("i=1; echo \"a b\" $i", "-xc"), seconds(1)),
              ElementsAre("0s err + i=1", "0s err + echo 'a b' 1", "0s out a b 1"));
}

TEST(CommandLog, ProgramsThatSayNothing) {
  EXPECT_TRUE(log_of("sleep 3600").empty());
  CommandLine line;
  line.image = "registry.k8s.io/pause:3.10";
  EXPECT_TRUE(log_of(line, hours(1)).empty());
}

TEST(CommandLog, WhatAnAttemptFoundInItsVolume) {
  CommandLine line = script("if [ -f /data/x ]; then echo again; else echo first; touch /data/x; exit 1; fi");
  line.volumes = {"/data"};
  EXPECT_THAT(log_of(line, seconds(1), 0), ElementsAre("0s out first"));
  EXPECT_THAT(log_of(line, seconds(1), 1), ElementsAre("0s out again"));
  EXPECT_THAT(log_of(line, seconds(1), 5), ElementsAre("0s out again"));
}

TEST(CommandLog, TheLastWordsOfATrap) {
  const CommandModel model(
      script("trap 'echo bye; sleep 1; echo gone; exit 0' TERM; while true; do echo tick; sleep 2; done"));
  ASSERT_TRUE(model.plan());
  const auto tape = model.plan()->log->play(0, seconds(6), seconds(5));
  std::vector<std::string> out;
  for (const auto& l : tape->lines()) out.push_back(format_duration(l.at) + " " + l.text);
  EXPECT_THAT(out, ElementsAre("0s tick", "2s tick", "4s tick", "5s bye", "6s gone"));
}

// A loop in which nothing changes is not gone through round by round; numbers of lines stay what they are.
TEST(CommandLog, LongRuns) {
  const CommandModel model(script("echo start; while true; do date +%s; sleep 1; done"));
  const auto tape = model.plan()->log->play(0, hours(24 * 30));
  constexpr uint64_t kSeconds = 24 * 30 * 3600;
  ASSERT_GT(tape->first(), 0u);
  EXPECT_GE(tape->lines().size(), CommandTape::kKeptLines);
  const auto& lines = tape->lines();
  const auto last = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.at > hours(24 * 30); });
  ASSERT_NE(last, lines.end());
  EXPECT_EQ(tape->first() + static_cast<uint64_t>(last - lines.begin()), kSeconds + 2);  // "start", and second 0 too
  EXPECT_EQ(fill_marks(std::prev(last)->text, kStart, ""), std::to_string(kStart.seconds() + int64_t{kSeconds}));
  // One that counts is gone through, as far as the limit allows.
  const CommandModel counts(script("i=0; while true; do i=$((i+1)); echo $i; sleep 1; done"));
  const auto counted = counts.plan()->log->play(0, hours(2));
  const auto& n = counted->lines();
  const auto end = std::find_if(n.begin(), n.end(), [](const auto& l) { return l.at > hours(2); });
  EXPECT_EQ(std::prev(end)->text, "7201");
}

TEST(CommandLog, ReadersShareWhatWasPlayed) {
  const CommandModel model(script("while true; do echo x; sleep 1; done"));
  const auto a = model.plan()->log->play(0, minutes(10));
  EXPECT_EQ(a.get(), model.plan()->log->play(0, minutes(12)).get());
  EXPECT_NE(a.get(), model.plan()->log->play(0, minutes(5)).get());
  EXPECT_NE(a.get(), model.plan()->log->play(0, hours(3)).get());
}

TEST(CommandTape, Limits) {
  const CommandModel model(script("while true; do echo x; done"));  // no time passes
  const auto tape = model.plan()->log->play(0, hours(1));
  EXPECT_LE(tape->lines().size(), 2 * CommandTape::kKeptLines);
  EXPECT_GT(tape->count(), 10000u);
  CommandTape long_line(seconds(1), seconds(1));
  long_line.write(Duration(0), false, std::string(CommandTape::kMaxLine + 1, 'x') + "\ny\n");
  EXPECT_EQ(long_line.lines()[0].text.size(), CommandTape::kMaxLine);
  EXPECT_EQ(long_line.lines()[1].text, "y");
  // In two writes too.
  long_line.write(Duration(0), false, std::string(CommandTape::kMaxLine - 1, 'x'));
  long_line.write(Duration(0), false, std::string(CommandTape::kMaxLine, 'x') + "\n");
  EXPECT_EQ(long_line.lines().back().text.size(), CommandTape::kMaxLine);
}

TEST(Marks, WhatIsCutOffIsLeftOut) {
  const std::string mark = *date_mark(seconds(1), "%H:%M:%S");
  EXPECT_EQ(fill_marks("a " + mark + " b", kStart, ""), "a 10:00:01 b");
  EXPECT_EQ(fill_marks(mark.substr(3) + " b", kStart, ""), " b");
  EXPECT_EQ(fill_marks("a " + mark.substr(0, 4), kStart, ""), "a ");
  EXPECT_FALSE(date_mark(seconds(1), "%Q"));
  // A script cannot forge one.
  EXPECT_THAT(log_of("echo '\x02H\x03'"), ElementsAre("unknown"));
}

}  // namespace
}  // namespace ghostfleet::agent
