// CommandLog: what a container's command line writes, and when, as far as the command model knows its commands: echo,
// printf, cat, date, seq and the like in scripts of any control flow. Nothing is stored: the script is gone through
// again in the head when somebody reads the log, up to the age the container has.
//
// What only the moment or the pod tells (the output of date, the host name) stands in the text as a mark until it is
// read: all pods of a template share one log.
// Thread rule: play() from any thread. Ownership: shared by scripts; what was played is shared by its readers.
// Limits: kMaxSteps commands of an attempt (a loop in which nothing changes is skipped over), kKeptLines lines and
// kKeptBytes bytes behind the age that is asked for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/behavior/command_model.h"
#include "base/clock.h"

namespace ghostfleet::agent {

// ---- marks

// Bytes that a script itself must not hold.
inline constexpr char kMarkBegin = '\x02', kMarkEnd = '\x03', kMarkBlank = '\x04', kMarkLine = '\x05';
inline constexpr char kFieldEnd = '\x1f';  // between the fields that an expansion was split into

bool has_mark(std::string_view text);
// The output of date at that age, without its newline; nothing when the format is not known.
std::optional<std::string> date_mark(Duration at, std::string_view format);
std::string host_mark();
// As the fields of an unquoted expansion joined by one blank each.
std::string squeezed_marks(std::string_view text);
// `started`: when the age is zero.
std::string fill_marks(std::string_view text, WallTime started, std::string_view host);

// ---- the log

// What is written by one run of a script, line by line.
class CommandTape {
 public:
  static constexpr size_t kKeptLines = 10000, kKeptBytes = 1 << 20, kMaxLine = 16 * 1024;

  struct Line {
    Duration at{0};
    bool err = false;
    bool open = false;  // the last one, without a newline
    std::string text;
  };

  // Lines up to `until` are of interest, and kKeptLines of those before `age`.
  CommandTape(Duration age, Duration until) : age_(age), until_(until) {}

  void write(Duration at, bool err, std::string_view text);
  void close(Duration at);  // what has no newline is a line too
  Duration until() const { return until_; }
  void run_on() { until_ = CommandModel::kNeverEnds; }
  Duration age() const { return age_; }
  uint64_t first() const { return first_; }  // the number of lines before those that are kept
  const std::deque<Line>& lines() const { return lines_; }
  uint64_t count() const { return first_ + lines_.size(); }
  // From `at` on the same `lines` lines come every `period`: how far the script may go on without being gone through.
  Duration skip(Duration at, Duration period, uint64_t lines);

 private:
  void add(Line line);

  Duration age_, until_;
  uint64_t first_ = 0;
  size_t bytes_ = 0;
  std::deque<Line> lines_;
  std::string open_[2];
};

class CommandLog {
 public:
  static constexpr int kMaxSteps = 200000;
  using Files = std::map<std::string, std::string>;

  // `starts`: the files each attempt begins with, the last for all later ones.
  CommandLog(CommandLine line, std::vector<Files> starts);

  // What attempt number `attempt` has written at `age`, and what it writes a while longer. `stopped`: it was sent
  // SIGTERM at that age.
  std::shared_ptr<const CommandTape> play(uint32_t attempt, Duration age, std::optional<Duration> stopped = {}) const;

 private:
  CommandLine line_;
  std::vector<Files> starts_;
  struct Played {
    uint32_t attempt = 0;
    std::weak_ptr<const CommandTape> tape;
  };
  mutable std::mutex mutex_;
  mutable std::vector<Played> played_;  // guarded by mutex_; of running attempts
};

}  // namespace ghostfleet::agent
