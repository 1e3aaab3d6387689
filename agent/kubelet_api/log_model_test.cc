#include "agent/kubelet_api/log_model.h"

#include <gtest/gtest.h>

#include "agent/kubelet_api/log_options.h"
#include "agent/kubelet_api/log_streams.h"
#include "agent/kubelet_api/test_backend.h"

namespace ghostfleet::kubelet_api {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

const WallTime kStart{1767607200000000000};  // 2026-01-05T10:00:00Z

LogModel model_of(const agent::PodView& pod) { return {pod, pod.containers[0], pod.containers[0].current, "n0"}; }

// A pod whose container has a command line that is understood.
agent::PodView command_pod(const std::string& text) {
  agent::PodView pod = test_pod(kStart);
  agent::CommandLine line;
  line.image = "busybox";
  line.command = {"sh", "-c", text};
  const agent::CommandModel model(line);
  agent::Script& script = pod.containers[0].script;
  for (const agent::CommandAttempt& a : model.plan()->attempts) {
    script.exits.push_back(a.exit.value_or(agent::kRunsOn));
    script.afters.push_back(a.after);
  }
  script.stop = model.plan()->stop;
  script.stop_after = model.plan()->stop_after;
  script.command_log = model.plan()->log;
  return pod;
}

std::vector<std::string> lines_of(const LogModel& model, WallTime now) {
  std::vector<std::string> out;
  for (uint64_t n = model.begin(now); n < model.end(now); ++n) {
    const LogLine line = model.line(n);
    out.push_back(format_duration(line.at - kStart) + (line.err ? " err " : line.open ? " open " : " ") + line.text);
  }
  return out;
}

TEST(LogModel, WhatTheCommandLineWrites) {
  using Lines = std::vector<std::string>;
  const LogModel model = model_of(command_pod("while true; do echo $(hostname) at $(date +%T); sleep 3; done"));
  EXPECT_EQ(lines_of(model, kStart + seconds(7)), (Lines{"0s p at 10:00:00", "3s p at 10:00:03", "6s p at 10:00:06"}));
  EXPECT_EQ(model.before(kStart + seconds(3)), 1u);
  EXPECT_EQ(model.time_of(3), kStart + seconds(9));
  // Much later the same numbers mean the same lines.
  EXPECT_EQ(model.end(kStart + hours(30)), 36001u);
  EXPECT_EQ(model.line(36000).text, "p at 16:00:00");
  EXPECT_GE(model.begin(kStart + hours(30)), 36001u - 20001u);
}

TEST(LogModel, LastWordsThatTheScriptDoesNotTell) {
  agent::PodView pod = test_pod(kStart);
  LogModel model = model_of(pod);
  model.end_at(kStart + seconds(6), 1, "/data/w: Input/output error");
  const LogLine last = model.line(model.end(kStart + hours(1)) - 1);
  EXPECT_EQ(last.text, "/data/w: Input/output error");
  EXPECT_TRUE(last.err);
  pod.containers[0].script.quiet = true;
  LogModel quiet = model_of(pod);
  quiet.end_at(kStart + seconds(6), 1, "/data/w: Input/output error");
  EXPECT_EQ(quiet.end(kStart + hours(1)), 1u);
}

TEST(LogModel, HowACommandLineEnds) {
  using Lines = std::vector<std::string>;
  const std::string text =
      "trap 'echo bye; exit 3' TERM; for i in 1 2 3; do echo $i; sleep 2; done; printf end; exit 1";
  LogModel itself = model_of(command_pod(text));
  itself.end_at(kStart + seconds(6), 1);
  EXPECT_EQ(lines_of(itself, kStart + hours(1)), (Lines{"0s 1", "2s 2", "4s 3", "6s open end"}));
  LogModel stopped = model_of(command_pod("trap 'echo bye; exit 3' TERM; while true; do echo x; sleep 2; done"));
  EXPECT_EQ(stopped.end(kStart + seconds(3)), 2u);
  stopped.end_at(kStart + seconds(3), 3);
  EXPECT_EQ(lines_of(stopped, kStart + hours(1)), (Lines{"0s x", "2s x", "3s bye"}));
  LogModel killed = model_of(command_pod("while true; do echo x; sleep 2; done"));
  killed.end_at(kStart + seconds(3), 137);
  EXPECT_EQ(lines_of(killed, kStart + hours(1)), (Lines{"0s x", "2s x"}));
  // Words of a behaviour count before the command line.
  agent::PodView pod = command_pod("echo x");
  pod.containers[0].script.log = {"word"};
  EXPECT_EQ(model_of(pod).line(0).text, "word");
}

TEST(LogModel, LinesAreInOrderAndTheSameAtEveryLook) {
  const LogModel model = model_of(test_pod(kStart));
  const uint64_t end = model.end(kStart + hours(1));
  EXPECT_GT(end, 700u);
  EXPECT_LT(end, 730u);
  for (uint64_t n = 1; n < end; ++n) ASSERT_LE(model.time_of(n - 1), model.time_of(n)) << n;
  EXPECT_EQ(model.line(77).text, model_of(test_pod(kStart)).line(77).text);
  EXPECT_EQ(model.end(kStart - seconds(1)), 0u);
  EXPECT_EQ(model.end(kStart), 1u);
}

TEST(LogModel, EndAndBeforeAgreeWithTheTimesOfLines) {
  const LogModel model = model_of(test_pod(kStart));
  for (int64_t ms = 0; ms < 60000; ms += 37) {
    const WallTime t = kStart + milliseconds(ms);
    const uint64_t end = model.end(t);
    ASSERT_TRUE(end == 0 || model.time_of(end - 1) <= t) << ms;
    ASSERT_GT(model.time_of(end), t) << ms;
    ASSERT_LE(model.before(t), end);
  }
}

TEST(LogModel, WordsGiveTextRateAndLastWords) {
  agent::PodView pod =
      test_pod(kStart, R"(log="tick {n} of {namespace}/{pod}" log="tock {x}" log-every=2s log-crash="panic\nbye")");
  LogModel model = model_of(pod);
  EXPECT_EQ(model.end(kStart + seconds(9)), 5u);
  EXPECT_EQ(model.line(0).text, "tick 0 of default/p");
  EXPECT_EQ(model.line(3).text, "tock {x}");
  model.end_at(kStart + seconds(3), 7);
  EXPECT_EQ(model.end(kStart + seconds(9)), 4u);
  EXPECT_EQ(model.line(2).text, "panic");
  EXPECT_TRUE(model.line(3).err);
  EXPECT_EQ(model.time_of(3), kStart + seconds(3));
}

TEST(LogModel, OnceAndNever) {
  EXPECT_EQ(model_of(test_pod(kStart, "log=a log=b log-every=0")).end(kStart + hours(5)), 2u);
  EXPECT_EQ(model_of(test_pod(kStart, "log=none")).end(kStart + hours(5)), 0u);
}

TEST(LogModel, ReachesBackOnlySoFar) {
  const LogModel model = model_of(test_pod(kStart, "log=x log-every=1ms"));
  const WallTime now = kStart + hours(1);
  EXPECT_EQ(model.end(now) - model.begin(now), LogModel::kMaxLines);
}

TEST(LogOptions, AreCheckedAsAKubeletDoes) {
  bool unprocessable = false;
  const auto good = parse_log_options("follow=true&tailLines=5&sinceSeconds=10&timestamps=true&limitBytes=3&previous",
                                      kStart, &unprocessable);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good->follow && good->timestamps && good->previous);
  EXPECT_EQ(good->tail_lines, 5);
  EXPECT_EQ(good->since, kStart - seconds(10));
  for (const char* query :
       {"tailLines=-1", "limitBytes=0", "sinceSeconds=0", "sinceSeconds=1&sinceTime=2026-01-05T10:00:00Z"}) {
    EXPECT_FALSE(parse_log_options(query, kStart, &unprocessable).ok()) << query;
    EXPECT_TRUE(unprocessable) << query;
  }
  EXPECT_FALSE(parse_log_options("tailLines=x", kStart, &unprocessable).ok());
  EXPECT_FALSE(unprocessable);
}

// ---- followed logs

struct Reader {
  std::string text;
  bool finished = false, gone = false, takes = true;
  size_t waiting = 0;
  std::function<void()> drained;
};

class ReaderSink final : public LogSink {
 public:
  explicit ReaderSink(Reader& reader) : reader_(reader) {}
  bool write(SharedBytes bytes) override {
    reader_.text += *bytes;
    if (!reader_.takes) reader_.waiting += bytes->size();
    return !reader_.gone;
  }
  size_t backlog() const override { return reader_.waiting; }
  void when_drained(size_t, std::function<void()> callback) override { reader_.drained = std::move(callback); }
  void finish() override { reader_.finished = true; }
  bool closed() const override { return reader_.gone; }

 private:
  Reader& reader_;
};

class Follow : public ::testing::Test {
 protected:
  void open(Reader& reader, LogOptions options) {
    const agent::PodView& pod = backend.pods[0][0];
    logs.open({0, "default", "p", "uid-1", "c", 0}, model_of(pod), options, std::make_unique<ReaderSink>(reader));
  }
  ManualClock clock{kStart};
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  TestBackend backend{*timers};
  LogStreams logs{backend, clock, timers};
};

TEST_F(Follow, LinesComeWhenTheyAreDueAndEndWithTheContainer) {
  backend.pods[0] = {test_pod(kStart, R"(log="{n}" log-every=1s log-crash=dead)")};
  LogOptions options;
  options.follow = true;
  Reader reader;
  open(reader, options);
  EXPECT_EQ(reader.text, "0\n");
  timers->run(milliseconds(3500));
  EXPECT_EQ(reader.text, "0\n1\n2\n3\n");
  auto& attempt = backend.pods[0][0].containers[0].current;
  attempt.ended = true;
  attempt.finished = clock.wall_now();
  attempt.exit_code = 3;
  timers->run(milliseconds(1300));
  EXPECT_EQ(reader.text, "0\n1\n2\n3\ndead\n");
  EXPECT_TRUE(reader.finished);
  EXPECT_EQ(logs.open_count(), 0u);
}

TEST_F(Follow, AReaderThatTakesNothingHoldsOnePieceAndDelaysNobody) {
  backend.pods[0] = {test_pod(kStart, R"(log="a line of some length that fills pieces {n}" log-every=1ms)")};
  LogOptions options;
  options.follow = true;
  Reader slow, quick;
  slow.takes = false;
  open(slow, options);
  open(quick, options);
  timers->run(seconds(60));
  EXPECT_LE(slow.text.size(), LogStreams::kHighWater + 2 * LogStreams::kPiece);
  EXPECT_GT(quick.text.size(), slow.text.size());
  const size_t before = slow.text.size();
  slow.waiting = 0;
  slow.takes = true;
  while (slow.drained) std::exchange(slow.drained, nullptr)();
  EXPECT_GT(slow.text.size(), before);
  slow.gone = true;
  timers->run(seconds(2));
  EXPECT_EQ(logs.open_count(), 1u);
}

TEST_F(Follow, ManyThatAreDueTogetherAreOneQuestion) {
  backend.pods[0] = {test_pod(kStart)};
  LogOptions options;
  options.follow = true;
  std::deque<Reader> readers(500);
  for (Reader& r : readers) open(r, options);
  backend.questions_ = 0;
  timers->run(seconds(5));
  EXPECT_LE(backend.questions_, 51);
  EXPECT_EQ(logs.open_count(), 500u);
}

TEST_F(Follow, TailTimestampsAndLimit) {
  backend.pods[0] = {test_pod(kStart, R"(log="{n}" log-every=1s)")};
  clock.advance(seconds(9));
  LogOptions options;
  options.tail_lines = 2;
  options.timestamps = true;
  Reader reader;
  open(reader, options);
  EXPECT_EQ(reader.text, "2026-01-05T10:00:08.000000000Z 8\n2026-01-05T10:00:09.000000000Z 9\n");
  EXPECT_TRUE(reader.finished);
  LogOptions limited;
  limited.limit_bytes = 3;
  Reader cut;
  open(cut, limited);
  EXPECT_EQ(cut.text, "0\n1");
  LogOptions late;
  late.since = kStart + seconds(8);
  Reader last;
  open(last, late);
  EXPECT_EQ(last.text, "8\n9\n");
}

}  // namespace
}  // namespace ghostfleet::kubelet_api
