// LogModel: what one attempt of a container has written, as a pure function of when it started and ended and of the
// words log=, log-every= and log-crash= of its script, or of its command line where that is known (agent/pod/
// command_log.h). Nothing is stored: line n is computed when it is read.
//
// Without words a container writes what a small service writes: three lines at the start, one each five seconds, one at
// the end. Like a kubelet's rotated file a log reaches back 100,000 lines at most.
// Places in words: {n} number of the line, {time}, {pod}, {namespace}, {container}, {node}.
// Thread rule: plain value. Ownership: keeps copies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/behavior/command_log.h"
#include "agent/pod/pod_view.h"
#include "base/clock.h"

namespace ghostfleet::kubelet_api {

struct LogLine {
  WallTime at;
  bool err = false;   // written to stderr
  std::string text;   // without the newline
  bool open = false;  // there is none
};

class LogModel {
 public:
  static constexpr uint64_t kMaxLines = 100000;

  LogModel(const agent::PodView& pod, const agent::ContainerView& container, const agent::AttemptView& attempt,
           std::string_view node);

  // Lines written until `now`, which are those with numbers below it; the first `begin()` of them are rotated away.
  uint64_t end(WallTime now) const;
  uint64_t begin(WallTime now) const;
  WallTime time_of(uint64_t n) const;
  LogLine line(uint64_t n) const;
  // The number of lines before `t`.
  uint64_t before(WallTime t) const;
  bool ended() const { return ended_; }
  // The attempt has ended meanwhile.
  // `last_words`: AttemptView::last_words
  void end_at(WallTime finished, int exit_code, std::string_view last_words = {});

 private:
  uint64_t running_lines(WallTime t) const;
  uint64_t end_lines() const { return ended_ ? last_words_.size() : 0; }
  std::string running_text(uint64_t n) const;
  std::string default_text(uint64_t n, WallTime at) const;
  std::string fill(std::string_view text, uint64_t n, WallTime at) const;
  void make_last_words(int exit_code, std::string_view told);
  // What the command line has written, as far as anything at `t` needs it.
  const agent::CommandTape& tape(WallTime t) const;
  void play_to_the_end(int exit_code);

  std::string ns_, pod_, container_, image_, node_, crash_;
  std::vector<std::string> lines_;
  bool quiet_ = false, ended_ = false;
  WallTime started_, finished_;
  uint64_t seed_ = 0;
  Duration every_{0};
  uint64_t first_lines_ = 0;  // written at the start, one after the other
  uint64_t before_end_ = 0;   // lines before the last words; only when ended
  std::vector<std::string> last_words_;
  agent::Script script_;  // of a command line; else empty
  uint32_t attempt_ = 0;
  std::string host_;
  mutable std::shared_ptr<const agent::CommandTape> tape_;
  Duration written_ = agent::CommandModel::kNeverEnds;  // what is written later than this age was not
  bool bad_end_ = false;
};

// "2026-01-05T10:00:00.123456789Z", as runtimes stamp lines.
std::string format_nano_time(WallTime t);

}  // namespace ghostfleet::kubelet_api
