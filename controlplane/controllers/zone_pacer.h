// ZonePacer: how fast NoExecute taints are put on nodes that went away: per zone, slower or not at all when most of a
// zone or everything is down, since then the fault is more likely here than there.
//
// Pure: time and the state of the zones are handed in. Source: kubernetes.io, Nodes (rate limits on eviction).
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace ghostfleet::controlplane::controllers {

struct ZoneRates {
  double normal = 0.1;
  double secondary = 0.01;
  int large_zone = 50;
  double unhealthy_share = 0.55;
};

enum class ZoneState : unsigned char { kInitial, kNormal, kPartial, kFull };

struct ZoneCount {
  int ready = 0;
  int not_ready = 0;
};

ZoneState zone_state(const ZoneCount& count, const ZoneRates& rates);

class ZonePacer {
 public:
  explicit ZonePacer(ZoneRates rates) : rates_(rates) {}

  enum class Verdict { kSame, kAllDown, kBackFromAllDown };
  // The zones as they are now. kAllDown: take the taints away and evict nothing; kBackFromAllDown: forget how long the
  // nodes were silent.
  Verdict update(const std::map<std::string, ZoneCount>& zones);

  void enqueue(const std::string& zone, const std::string& node);
  void cancel(const std::string& zone, const std::string& node);
  // Nodes whose turn has come.
  std::vector<std::string> take_due(TimePoint now);
  bool waiting() const;
  ZoneState state(const std::string& zone) const;

 private:
  struct Zone {
    ZoneState state = ZoneState::kInitial;
    double rate = 0;  // nodes per second
    bool used = false;
    TimePoint last;
    std::deque<std::string> queue;
  };
  double rate_of(ZoneState state, const ZoneCount& count) const;

  ZoneRates rates_;
  bool all_down_ = false;
  std::map<std::string, Zone> zones_;
};

}  // namespace ghostfleet::controlplane::controllers
