// What a container "does": a script in the annotation `behavior.ghostfleet.dev/CONTAINER` of its pod, in words like
// "exit=1,1,0 after=5s stop=0 stop-after=2s ready=10s live=30s started=3s" (docs/pods.md explains each).
//
// Thread rule: plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kBehaviorPrefix = "behavior.ghostfleet.dev/";

struct Script {
  std::vector<int> exits;                  // exit code of each attempt, the last repeats; empty: runs until stopped
  Duration after{0};                       // how long an attempt runs; counts only when `exits` is not empty
  int stop = 0;                            // exit code when stopped
  std::optional<Duration> stop_after;      // how long a stop takes; absent: PodOptions::stop_after_default
  Duration ready{0}, live{0}, started{0};  // since the start: probes begin to succeed (live: to fail, 0 is never)

  // The exit code of an attempt; only when `exits` is not empty.
  int exit_of(uint32_t attempt) const { return exits[attempt < exits.size() ? attempt : exits.size() - 1]; }
};

// Reads the words over the defaults. A word that makes no sense keeps its default and adds a line to `problems`
// ("exit=x: not an exit code from 0 to 255").
Script parse_script(std::string_view text, Script defaults, std::vector<std::string>* problems);

}  // namespace ghostfleet::agent
