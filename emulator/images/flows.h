// FlowModel: how fast very many transfers go that share the stores of their zones: max-min fair by progressive filling
// (all rates rise together; a transfer is frozen when its own cap is reached, or its zone is full).
//
// A transfer waits (`lead`), moves its bytes and is finished; with no bytes it is only a timer. What its node allows is
// in its cap, which may change on the way.
//
// Cost: transfers of one zone with one cap are a class and have one rate; those of a class that began and end together
// are a group. Time moves class by class, and a transfer is looked at when it begins, ends, or leaves its group because
// its cap changed. What begins and ends does so on a grid of kGrain, so that a zone's rates are computed at most twenty
// times a second, however many groups there are. Memory: 88 bytes for each transfer.
// Units: bytes, bytes a second. Thread rule: one owner; times come in from outside and never go back.
// Source: max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"

namespace ghostfleet::emulator {

struct Transfer {
  uint32_t zone = 0;
  uint32_t port = 0;  // with `tag`: whose it is; handed back when it is finished
  uint64_t tag = 0;
  double bytes = 0;
  double cap = 0;  // bytes a second; at least kLeastRate is used
  Duration lead{0};
};

struct FinishedTransfer {
  uint64_t tag = 0;
  uint32_t port = 0;
  TimePoint at;
};

// What is going on in a zone.
struct ZoneLoad {
  double capacity = 0, rate = 0;  // bytes a second; rate: what all of its transfers take together
  double moved = 0;               // bytes since the beginning
  uint64_t transfers = 0;         // that move bytes
};

class FlowModel {
 public:
  using Id = uint64_t;  // 0: none
  static constexpr Duration kGrain = std::chrono::milliseconds(50);
  static constexpr double kLeastRate = 1;
  static constexpr TimePoint kNever{INT64_MAX};

  // A capacity for each zone, infinity is one; no zones: one without a limit.
  FlowModel(TimePoint start, const std::vector<double>& zone_capacity);

  Id begin(TimePoint now, const Transfer& transfer);
  // Of a transfer that is finished already: nothing happens.
  void set_cap(TimePoint now, Id id, double cap);
  // Plays everything up to `now`, and appends what has finished since the last call.
  void advance(TimePoint now, std::vector<FinishedTransfer>* finished);
  // The next moment at which something begins or ends; kNever: nothing is on its way.
  TimePoint next_event();

  double rate(Id id);  // 0: it waits, or is finished
  ZoneLoad load(uint32_t zone);
  size_t zones() const { return zones_.size(); }
  uint64_t transfers() const { return live_; }
  size_t groups() const;                               // of transfers that move bytes
  uint64_t computations() const { return computed_; }  // of the rates of a zone

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum class Stage : unsigned char { kFree, kWaiting, kMoving };
  // A ring of transfers, in the order they came.
  struct Ring {
    uint32_t first = kNone;
  };
  struct Class {
    double rate = 0;
    double served = 0;  // bytes each of its transfers would have been given since the class began
    uint64_t count = 0;
    std::map<double, Ring> groups;  // by what `served` is when they end
  };
  using Classes = std::map<double, Class>;  // by cap
  struct Zone {
    double capacity = 0, moved = 0;
    Classes classes;
    uint64_t count = 0;
    TimePoint at;  // of every `served`
    TimePoint next{INT64_MAX};
    bool dirty = false;
  };
  struct Slot {
    Transfer transfer;
    Classes::iterator in;  // while it moves
    double mark = 0;       // its group
    TimePoint due;         // while it waits
    uint32_t generation = 0;
    uint32_t previous = kNone, next = kNone;
    Stage stage = Stage::kFree;
  };

  void run_to(TimePoint now);
  void run_before(TimePoint now);
  TimePoint earliest();
  void play(TimePoint t);
  void serve(Zone* zone, TimePoint t);
  void end_groups(Zone* zone, TimePoint t);
  void compute(Zone* zone);
  void compute_dirty();
  void wait(uint32_t slot, TimePoint until);
  void enter(uint32_t slot);
  void leave(uint32_t slot);
  void finish(uint32_t slot, TimePoint t);
  void link(Ring* ring, uint32_t slot);
  bool unlink(Ring* ring, uint32_t slot);  // true: the ring is empty now
  Slot* find(Id id);

  TimePoint time_;
  std::vector<Zone> zones_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::map<int64_t, Ring> waits_;  // by time
  std::vector<FinishedTransfer> finished_;
  uint64_t live_ = 0, computed_ = 0;
};

}  // namespace ghostfleet::emulator
