#include "agent/behavior/behavior.h"

#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Behavior, ReadsEveryWord) {
  std::vector<std::string> problems;
  const Script s =
      parse_script(" exit=1,1,0 after=5s stop=3 stop-after=2s ready=10s live=1m30s started=250ms ", {}, &problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(s.exits, (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(s.exit_of(0), 1);
  EXPECT_EQ(s.exit_of(2), 0);
  EXPECT_EQ(s.exit_of(7), 0);
  EXPECT_EQ(s.after, seconds(5));
  EXPECT_EQ(s.stop, 3);
  EXPECT_EQ(s.stop_after, seconds(2));
  EXPECT_EQ(s.ready, seconds(10));
  EXPECT_EQ(s.live, seconds(90));
  EXPECT_EQ(s.started, milliseconds(250));
}

TEST(Behavior, NonsenseKeepsTheDefaultAndIsNamed) {
  Script defaults;
  defaults.exits = {7};
  defaults.after = seconds(4);
  std::vector<std::string> problems;
  const Script s = parse_script("exit=256 after=-1s stop=x ready=soon colour=red live after=", defaults, &problems);
  EXPECT_EQ(s.exits, std::vector<int>{7});
  EXPECT_EQ(s.after, seconds(4));
  EXPECT_EQ(s.stop, 0);
  ASSERT_EQ(problems.size(), 7u);
  EXPECT_EQ(problems[0], "exit=256: not an exit code from 0 to 255");
  EXPECT_EQ(problems[1], "after=-1s: not a duration such as 5s or 1m30s");
  EXPECT_EQ(problems[4],
            "colour=red: unknown word; known are exit, after, stop, stop-after, ready, live, started, log, log-every, "
            "log-crash, crash, crash-after, crash-exit, crash-attempts, cpu, memory, storage, logs, inodes, pids, "
            "volume:NAME, read, read-exit");
}

TEST(Behavior, FilesThatAreRead) {
  std::vector<std::string> problems;
  const Script s =
      parse_script(R"(read=1m:/b "read=0s:/c" read=2s:/a(1):x read="5s:/with blank" read-exit=74)", {}, &problems);
  EXPECT_EQ(problems.size(), 1u);  // a quote before a word
  ASSERT_EQ(s.reads.size(), 3u);
  EXPECT_EQ(s.reads[0].path, "/a(1):x");
  EXPECT_EQ(s.reads[1].path, "/with blank");
  EXPECT_EQ(s.reads[2].at, seconds(60));
  EXPECT_EQ(s.read_exit, 74);
  problems.clear();
  for (const char* bad :
       {"read=/a", "read=5s", "read=5s:a", "read=x:/a", "read-exit=0", "read-exit=256", "read=\"1s:/a\\nb\""}) {
    const Script none = parse_script(bad, {}, &problems);
    EXPECT_TRUE(none.reads.empty()) << bad;
    EXPECT_EQ(none.read_exit, 1) << bad;
  }
  EXPECT_EQ(problems.size(), 7u);
  EXPECT_EQ(problems.front(), "read=/a: AGE:PATH is expected, with a path from / on, e.g. read=30s:/data/weights");
  // What a pod says goes over what a rule said.
  Script rule;
  rule.reads = {{seconds(1), "/rule"}};
  EXPECT_EQ(parse_script("read=0s:/own", rule, nullptr).reads.size(), 1u);
}

TEST(Behavior, LogWordsMayBeQuoted) {
  std::vector<std::string> problems;
  const Script s =
      parse_script(R"(log="line {n}: \"x\"" log=plain log-every=2s log-crash="a\nb" exit=1)", {}, &problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(s.log, (std::vector<std::string>{"line {n}: \"x\"", "plain"}));
  EXPECT_EQ(s.log_every, seconds(2));
  EXPECT_EQ(s.log_crash, "a\nb");
  EXPECT_EQ(s.exits, std::vector<int>{1});
  EXPECT_TRUE(parse_script("log=none", {}, &problems).quiet);
  EXPECT_TRUE(problems.empty());
  EXPECT_TRUE(parse_script("log=\"never closed", {}, &problems).log.empty());
  EXPECT_EQ(problems, std::vector<std::string>{"log=never closed: the quote is not closed"});
  problems.clear();
  parse_script("log-every=1us", {}, &problems);
  EXPECT_EQ(problems, std::vector<std::string>{"log-every=1us: not a duration from 1ms on, or 0"});
}

TEST(Behavior, ExtremesAreRefused) {
  std::vector<std::string> problems;
  const Script s = parse_script("after=99999999h exit=, stop-after=0 exit=0,", {}, &problems);
  EXPECT_EQ(problems.size(), 3u);
  EXPECT_TRUE(s.exits.empty());
  EXPECT_EQ(s.stop_after, Duration(0));
}

TEST(Behavior, MistakesOfNewcomers) {
  std::vector<std::string> problems;
  const Script twice = parse_script("exit=1 exit=2 log=a log=b", {}, &problems);
  EXPECT_EQ(twice.exits, std::vector<int>{1});
  EXPECT_EQ(twice.log.size(), 2u);
  parse_script("after=9000h exit=0", {}, &problems);
  parse_script("after=5s", {}, &problems);
  parse_script("exit=0 after=uniform(20s,5s)", {}, &problems);
  parse_script("exit=0 after=uniform(5s", {}, &problems);
  parse_script("exit=0 after=normal(5s, 1s)", {}, &problems);
  parse_script("exit=0 after=histogram(none)", {}, &problems);
  EXPECT_EQ(
      problems,
      (std::vector<std::string>{
          "exit=2: given twice; the first one counts",
          "after=9000h: longer than a year (8760h)",
          "after=5s: counts only with exit, e.g. exit=0",
          "after=uniform(20s,5s): 5s: below 20s",
          "after=uniform(5s: the parenthesis is not closed",
          "after=normal(5s, 1s): none of the known forms: 5s, uniform(5s, 20s), exponential(5s), exponential(5s, "
          "max=20s) or histogram(NAME)",
          "after=histogram(none): no histogram of that name (there are none; a fleet file names them under histograms)",
      }));
}

TEST(Behavior, OddsAndCurvesAreCheckedWhole) {
  std::vector<std::string> problems;
  parse_script("exit=odds(0:0.5,1:0.4)", {}, &problems);
  parse_script("exit=odds(0:0.5,300:0.5)", {}, &problems);
  parse_script("cpu=curve(0s:10%,0s:20%)", {}, &problems);
  parse_script("cpu=curve(0s:10%,1m:2)", {}, &problems);
  parse_script("memory=uniform(10%,1Gi)", {}, &problems);
  parse_script("memory=2Zi crash=2 crash-exit=0", {}, &problems);
  EXPECT_EQ(problems, (std::vector<std::string>{
                          "exit=odds(0:0.5,1:0.4): the probabilities make 0.9, 1 is expected",
                          "exit=odds(0:0.5,300:0.5): 300:0.5: CODE:PROBABILITY is expected, e.g. odds(0:0.9, 1:0.1)",
                          "cpu=curve(0s:10%,0s:20%): 0s:20%: an age above that of the point before is expected",
                          "cpu=curve(0s:10%,1m:2): 1m:2: all percentages or none",
                          "memory=uniform(10%,1Gi): 1Gi: both percentages or none",
                          "memory=2Zi: not an amount of memory such as 512Mi, 2Gi or 50%",
                          "crash=2: not a probability from 0 to 1",
                          "crash-exit=0: not an exit code from 1 to 255",
                      }));
}

TEST(Behavior, TheSameSeedDrawsTheSame) {
  std::vector<std::string> problems;
  const Script s =
      parse_script("exit=odds(0:0.5,3:0.5) after=exponential(10s, max=1m) ready=uniform(5s, 20s) cpu=uniform(10%, 90%)",
                   {}, &problems);
  ASSERT_TRUE(problems.empty()) << problems[0];
  const Script a = drawn_script(s, 7, 0, 0);
  const Script b = drawn_script(s, 7, 0, 0);
  EXPECT_EQ(a.after, b.after);
  EXPECT_EQ(a.exits, b.exits);
  EXPECT_EQ(a.ready, b.ready);
  EXPECT_EQ(a.cpu.at(seconds(1)), b.cpu.at(seconds(1)));
  EXPECT_EQ(a.draws, nullptr);
  EXPECT_NE(a.after, drawn_script(s, 8, 0, 0).after);  // another pod
  EXPECT_NE(a.after, drawn_script(s, 7, 1, 1).after);  // another attempt
  EXPECT_NE(a.after.count(), a.ready.count());
}

TEST(Behavior, DrawsFollowTheirDistributions) {
  const Script s =
      parse_script("exit=odds(0:0.8,3:0.2) after=exponential(10s) ready=uniform(5s,20s) started=exponential(1m,max=1m)",
                   {}, nullptr);
  constexpr int kDraws = 20000;
  double after = 0, ready = 0;
  int bad = 0, cut = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Script d = drawn_script(s, static_cast<uint64_t>(i), 0, 0);
    after += std::chrono::duration<double>(d.after).count();
    ready += std::chrono::duration<double>(d.ready).count();
    bad += d.exits == std::vector<int>{3} ? 1 : 0;
    cut += d.started == std::chrono::minutes(1) ? 1 : 0;
    ASSERT_GE(d.ready, seconds(5));
    ASSERT_LT(d.ready, seconds(20));
  }
  EXPECT_NEAR(after / kDraws, 10, 0.5);
  EXPECT_NEAR(ready / kDraws, 12.5, 0.2);
  EXPECT_NEAR(bad / double{kDraws}, 0.2, 0.02);
  EXPECT_NEAR(cut / double{kDraws}, 0.368, 0.02);  // 1/e
}

TEST(Behavior, CrashesEndAnAttemptEarly) {
  const Script always = parse_script("exit=0 after=1m crash=1 crash-after=5s crash-exit=139", {}, nullptr);
  EXPECT_EQ(drawn_script(always, 1, 0, 0).exits, std::vector<int>{139});
  EXPECT_EQ(drawn_script(always, 1, 0, 0).after, seconds(5));
  const Script late = parse_script("exit=0 after=1s crash=1 crash-after=5s", {}, nullptr);
  EXPECT_EQ(drawn_script(late, 1, 0, 0).exits, std::vector<int>{0});  // over by then
  const Script twice = parse_script("crash=1 crash-attempts=2", {}, nullptr);
  EXPECT_EQ(drawn_script(twice, 1, 1, 1).exits, std::vector<int>{1});
  EXPECT_TRUE(drawn_script(twice, 1, 2, 2).exits.empty());  // runs on
}

TEST(Behavior, AConstantWordReplacesADrawnDefault) {
  const Script rule = parse_script("exit=odds(0:0.5,1:0.5) after=uniform(5s,10s) log=a log=b", {}, nullptr);
  const Script s = parse_script("exit=7 after=3s log=c", rule, nullptr);
  EXPECT_EQ(s.draws, nullptr);
  EXPECT_EQ(s.exits, std::vector<int>{7});
  EXPECT_EQ(s.after, seconds(3));
  EXPECT_EQ(s.log, std::vector<std::string>{"c"});
}

TEST(Behavior, CurvesAndTheirSums) {
  const Script s = parse_script("cpu=curve(0s:1,10s:3,20s:3,30s:0)", {}, nullptr);
  EXPECT_DOUBLE_EQ(s.cpu.at(seconds(5)), 2);
  EXPECT_DOUBLE_EQ(s.cpu.at(seconds(15)), 3);
  EXPECT_DOUBLE_EQ(s.cpu.at(seconds(100)), 0);
  EXPECT_DOUBLE_EQ(s.cpu.sum(seconds(10)), 20);
  EXPECT_DOUBLE_EQ(s.cpu.sum(seconds(30)), 65);
  EXPECT_DOUBLE_EQ(s.cpu.sum(seconds(1000)), 65);
  double last = 0;
  for (int i = 1; i < 40; ++i) {
    EXPECT_GE(s.cpu.sum(seconds(i)), last);
    last = s.cpu.sum(seconds(i));
  }
}

TEST(ValueHistogram, IsDrawnAsRecorded) {
  auto h = ValueHistogram::parse("# run times\n0 10s 1\n10s 20s 3  # most\n\n60s 60s 1\n", "h.txt");
  ASSERT_TRUE(h.ok()) << h.error().message();
  EXPECT_TRUE(h->durations());
  EXPECT_DOUBLE_EQ(h->at(0), 0);
  EXPECT_DOUBLE_EQ(h->at(0.1), 5);
  EXPECT_DOUBLE_EQ(h->at(0.5), 15);
  EXPECT_DOUBLE_EQ(h->at(0.99), 60);
  const Histograms known = {{"runs", std::make_shared<const ValueHistogram>(*h)}};
  std::vector<std::string> problems;
  const Script s = parse_script("exit=0 after=histogram(runs)", {}, &problems, &known);
  EXPECT_TRUE(problems.empty());
  EXPECT_LE(drawn_script(s, 3, 0, 0).after, seconds(60));
  parse_script("cpu=histogram(runs)", {}, &problems, &known);
  parse_script("exit=0 after=histogram(run)", {}, &problems, &known);
  EXPECT_EQ(problems, (std::vector<std::string>{"cpu=histogram(runs): histogram runs holds durations",
                                                "after=histogram(run): no histogram of that name (there are: runs)"}));
}

TEST(ValueHistogram, ComplaintsNameTheLine) {
  const auto wrong = [](const char* text) { return ValueHistogram::parse(text, "h.txt").error().message(); };
  EXPECT_EQ(wrong("1s 2s 1\n5s 1s 2\n"), "h.txt:2: 1s: TO is below FROM (5s)");
  EXPECT_EQ(wrong("1s 2s\n"), "h.txt:1: 1s: a line FROM TO WEIGHT is expected, e.g. 5s 10s 12");
  EXPECT_EQ(wrong("\n1s soon 1\n"), "h.txt:2: soon: a duration such as 5s or a number such as 0.5 is expected");
  EXPECT_EQ(wrong("1s 2 1\n"), "h.txt:1: 2: a duration is expected, as in the lines before");
  EXPECT_EQ(wrong("1 2 -1\n"), "h.txt:1: -1: a weight of 0 or more is expected");
  EXPECT_EQ(wrong("1 2 0\n"), "h.txt: no line FROM TO WEIGHT with a weight above 0");
}

}  // namespace
}  // namespace ghostfleet::agent
