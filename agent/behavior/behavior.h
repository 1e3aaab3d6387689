// What a container "does": a script in the annotation `behavior.ghostfleet.dev/CONTAINER` of its pod, in words like
// "exit=1,1,0 after=5s stop=0 stop-after=2s ready=10s live=30s started=3s" (docs/pods.md explains each). A value with
// spaces is quoted: log="one line {n}"; inside quotes \n, \t, \" and \\ are known. Rules for many pods are made of the
// same words (behavior_rules.h).
//
// Where a word takes a duration or an amount it takes any figure (behavior_figure.h); what is not constant is drawn for
// each attempt, from the seed of the fleet, the pod's and the container's name and the attempt: the same again in every
// run.
//
// Thread rule: plain values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/behavior/behavior_figure.h"
#include "base/clock.h"

namespace ghostfleet::agent {

class CommandLog;

inline constexpr std::string_view kBehaviorPrefix = "behavior.ghostfleet.dev/";

inline constexpr int kRunsOn = -1;  // instead of an exit code: this attempt runs until it is stopped

// How much of a resource a container uses as it grows older: straight lines between the points, level after the last.
struct UseCurve {
  struct Point {
    Duration at{0};
    double value = 0;  // cores or bytes, or a share of what is requested
  };
  bool share = false;
  std::vector<Point> points;  // empty: the node's own model

  bool empty() const { return points.empty(); }
  double at(Duration age) const;
  double sum(Duration age) const;  // of value and seconds from the start on
};

// What is drawn anew for each attempt.
struct Draws {
  std::optional<Figure> after, ready, live, started, stop_after, cpu, memory;
  std::vector<std::pair<int, double>> odds;  // exit codes and their probabilities; empty: Script::exits
  // With this probability an attempt ends early: `crash_after` its start, with `crash_exit`. Only the first
  // `crash_attempts`; 0: all.
  double crash = 0;
  Figure crash_after;
  int crash_exit = 1;
  uint32_t crash_attempts = 0;

  bool empty() const {
    return !after && !ready && !live && !started && !stop_after && !cpu && !memory && odds.empty() && crash == 0;
  }
};

// A file of its image that a container reads, whole, at an age.
struct ReadStep {
  Duration at{0};
  std::string path;  // from / on
};

struct Script {
  std::vector<int> exits;                  // exit code of each attempt, the last repeats; empty: runs until stopped
  Duration after{0};                       // how long an attempt runs; counts only when `exits` is not empty
  std::vector<Duration> afters;            // the same of each attempt, the last repeats; empty: `after`
  std::vector<std::string> messages;       // termination message of each attempt, the last repeats
  int stop = 0;                            // exit code when stopped
  std::vector<std::string> log;            // lines the container writes again and again; empty: default ones
  bool quiet = false;                      // writes nothing
  std::optional<Duration> log_every;       // one line each; zero: each line once, at the start
  std::string log_crash;                   // written when an attempt ends with a code that is not 0
  std::optional<Duration> stop_after;      // how long a stop takes; absent: PodOptions::stop_after_default
  Duration ready{0}, live{0}, started{0};  // since the start: probes begin to succeed (live: to fail, 0 is never)
  UseCurve cpu, memory;
  UseCurve storage, logs, inodes;  // its writable layer, its logs beside it, and the files of both
  UseCurve pids;
  // emptyDir volumes by name, and what lies in them; ages count from the pod's start.
  std::vector<std::pair<std::string, UseCurve>> volumes;
  std::vector<ReadStep> reads;                    // of each attempt, by age
  int read_exit = 1;                              // exit code when one of them fails
  std::shared_ptr<const CommandLog> command_log;  // what the command line writes; null: the words above tell
  std::shared_ptr<const Draws> draws;             // null: nothing is left to chance

  // The exit code of an attempt, or kRunsOn; only when `exits` is not empty.
  int exit_of(uint32_t attempt) const { return exits[attempt < exits.size() ? attempt : exits.size() - 1]; }
  Duration after_of(uint32_t attempt) const {
    return afters.empty() ? after : afters[attempt < afters.size() ? attempt : afters.size() - 1];
  }
  std::string_view message_of(uint32_t attempt) const {
    if (messages.empty()) return {};
    return messages[attempt < messages.size() ? attempt : messages.size() - 1];
  }
};

// The script of one attempt with everything drawn. `line`: which of the attempts since all containers began anew.
Script drawn_script(const Script& script, uint64_t seed, uint32_t attempt, uint32_t line);

// Takes words one by one over the defaults.
class ScriptReader {
 public:
  explicit ScriptReader(Script defaults, const Histograms* histograms = nullptr);

  // What is wrong with a word; empty: it was understood.
  std::string take(std::string_view key, std::string_view value);
  Script finish();

 private:
  std::string take_exit(std::string_view value);
  std::string take_figure(std::string_view value, std::optional<Figure>* drawn, Duration* out);
  std::string take_use(std::string_view value, FigureUnit unit, std::optional<Figure>* drawn, UseCurve* out);
  std::string take_constant_use(std::string_view value, UseCurve* out);
  std::string take_volume(std::string_view volume, std::string_view value);
  std::string take_log(std::string_view key, std::string_view value);
  std::string take_crash(std::string_view key, std::string_view value);
  std::string take_read(std::string_view value);

  Script script_;
  Draws draws_;
  const Histograms* histograms_;
  bool own_log_ = false;
  bool own_reads_ = false;
};

// All words that ScriptReader takes, in the order of the documentation.
const std::vector<std::string>& behavior_words();

// Reads the words over the defaults. A word that makes no sense keeps its default and adds a line to `problems`
// ("exit=x: not an exit code from 0 to 255").
Script parse_script(std::string_view text, Script defaults, std::vector<std::string>* problems,
                    const Histograms* histograms = nullptr);

}  // namespace ghostfleet::agent
