#include "emulator/images/flows.h"

#include <algorithm>
#include <cmath>

namespace ghostfleet::emulator {
namespace {

constexpr double kLongest = 1e8;  // seconds; a transfer that takes longer is looked at again then

TimePoint on_grid(TimePoint t) {
  const int64_t grain = FlowModel::kGrain.count();
  const int64_t past = t.ns % grain;
  return past == 0 ? t : TimePoint{t.ns + grain - past};
}

TimePoint grid_before(TimePoint t) { return TimePoint{t.ns - t.ns % FlowModel::kGrain.count()}; }

double seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }

Duration from_seconds(double s) { return Duration(static_cast<int64_t>(std::min(s, kLongest) * 1e9) + 1); }

}  // namespace

FlowModel::FlowModel(TimePoint start, const std::vector<double>& zone_capacity) : time_(start) {
  zones_.resize(std::max<size_t>(zone_capacity.size(), 1));
  for (size_t i = 0; i < zones_.size(); ++i) {
    zones_[i].capacity = i < zone_capacity.size() ? zone_capacity[i] : INFINITY;
    zones_[i].at = start;
  }
}

// ---- from outside

FlowModel::Id FlowModel::begin(TimePoint now, const Transfer& transfer) {
  run_before(now);
  uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Slot& s = slots_[slot];
  s.transfer = transfer;
  s.transfer.zone = std::min<uint32_t>(transfer.zone, static_cast<uint32_t>(zones_.size() - 1));
  s.transfer.cap = std::max(transfer.cap, kLeastRate);
  ++s.generation;
  ++live_;
  wait(slot, std::max(now, time_) + std::max(transfer.lead, Duration(0)));
  return static_cast<Id>(s.generation) << 32 | (slot + 1);
}

FlowModel::Slot* FlowModel::find(Id id) {
  const uint64_t slot = (id & UINT32_MAX) - 1;
  if (id == 0 || slot >= slots_.size()) return nullptr;
  Slot& s = slots_[slot];
  return s.stage != Stage::kFree && s.generation == id >> 32 ? &s : nullptr;
}

void FlowModel::set_cap(TimePoint now, Id id, double cap) {
  run_before(now);
  Slot* s = find(id);
  cap = std::max(cap, kLeastRate);
  if (s == nullptr || s->transfer.cap == cap) return;
  const auto slot = static_cast<uint32_t>(s - slots_.data());
  if (s->stage == Stage::kMoving) {
    serve(&zones_[s->transfer.zone], time_);
    s->transfer.bytes = std::max(s->mark - s->in->second.served, 0.0);
    leave(slot);
    s->transfer.cap = cap;
    enter(slot);
  } else {
    s->transfer.cap = cap;
  }
}

void FlowModel::advance(TimePoint now, std::vector<FinishedTransfer>* finished) {
  run_to(now);
  finished->insert(finished->end(), finished_.begin(), finished_.end());
  finished_.clear();
}

TimePoint FlowModel::next_event() {
  compute_dirty();
  return finished_.empty() ? earliest() : time_;
}

double FlowModel::rate(Id id) {
  compute_dirty();
  const Slot* s = find(id);
  return s != nullptr && s->stage == Stage::kMoving ? s->in->second.rate : 0;
}

ZoneLoad FlowModel::load(uint32_t zone) {
  compute_dirty();
  Zone& z = zones_[zone];
  serve(&z, time_);
  ZoneLoad load{z.capacity, 0, z.moved, z.count};
  for (const auto& [cap, c] : z.classes) load.rate += c.rate * static_cast<double>(c.count);
  return load;
}

size_t FlowModel::groups() const {
  size_t n = 0;
  for (const Zone& zone : zones_) {
    for (const auto& [cap, c] : zone.classes) n += c.groups.size();
  }
  return n;
}

// ---- time

TimePoint FlowModel::earliest() {
  TimePoint t = kNever;
  if (!waits_.empty()) t.ns = waits_.begin()->first;
  for (const Zone& zone : zones_) t = std::min(t, zone.next);
  return t;
}

void FlowModel::run_to(TimePoint now) {
  run_before(now);
  while (true) {
    compute_dirty();
    const TimePoint t = earliest();
    if (t > time_ || t == kNever) return;
    play(time_);
  }
}

// Up to the grid before `now`; what happens at that very moment is not played yet, so that whoever begins or changes
// much at one moment has the rates computed once.
void FlowModel::run_before(TimePoint now) {
  const TimePoint end = grid_before(now);
  if (end <= time_) return;
  while (true) {
    compute_dirty();
    const TimePoint t = earliest();
    if (t >= end || t == kNever) break;
    time_ = std::max(time_, t);
    play(time_);
  }
  time_ = end;
}

void FlowModel::play(TimePoint t) {
  while (!waits_.empty() && waits_.begin()->first <= t.ns) {
    Ring& ring = waits_.begin()->second;
    const uint32_t slot = ring.first;
    const bool empty = unlink(&ring, slot);
    if (empty) waits_.erase(waits_.begin());
    if (slots_[slot].transfer.bytes > 0) {
      enter(slot);
    } else {
      finish(slot, t);
    }
  }
  for (Zone& zone : zones_) {
    if (zone.next <= t) end_groups(&zone, t);
  }
}

void FlowModel::serve(Zone* zone, TimePoint t) {
  const double dt = seconds(t - zone->at);
  zone->at = t;
  if (dt <= 0) return;
  for (auto& [cap, c] : zone->classes) {
    c.served += c.rate * dt;
    zone->moved += c.rate * dt * static_cast<double>(c.count);
  }
}

// Takes out what has all its bytes. A tenth of a microsecond's worth may be missing: that is rounding.
void FlowModel::end_groups(Zone* zone, TimePoint t) {
  serve(zone, t);
  zone->dirty = true;
  for (auto at = zone->classes.begin(); at != zone->classes.end();) {
    Class& c = at->second;
    while (!c.groups.empty() && c.groups.begin()->first <= c.served + c.rate * 1e-7 + 1e-3) {
      Ring ring = c.groups.begin()->second;
      c.groups.erase(c.groups.begin());
      for (bool empty = false; !empty;) {
        const uint32_t slot = ring.first;
        empty = unlink(&ring, slot);
        --c.count;
        --zone->count;
        finish(slot, t);
      }
    }
    at = c.count == 0 ? zone->classes.erase(at) : std::next(at);
  }
}

// ---- rates

void FlowModel::compute_dirty() {
  for (Zone& zone : zones_) {
    if (zone.dirty) compute(&zone);
  }
}

// Classes are in the order of their caps: the smallest are frozen first, and what they leave is shared by the others.
void FlowModel::compute(Zone* zone) {
  serve(zone, time_);
  zone->dirty = false;
  ++computed_;
  double left = zone->capacity;
  auto waiting = static_cast<double>(zone->count);
  double first = INFINITY;  // seconds until a group ends
  for (auto& [cap, c] : zone->classes) {
    const auto count = static_cast<double>(c.count);
    c.rate = std::min(cap, left / waiting);
    left = std::max(left - c.rate * count, 0.0);
    waiting -= count;
    if (c.rate > 0) first = std::min(first, std::max(c.groups.begin()->first - c.served, 0.0) / c.rate);
  }
  zone->next = std::isinf(first) ? kNever : on_grid(zone->at + from_seconds(first));
}

// ---- one transfer

void FlowModel::wait(uint32_t slot, TimePoint until) {
  Slot& s = slots_[slot];
  s.stage = Stage::kWaiting;
  s.due = on_grid(until);
  link(&waits_[s.due.ns], slot);
}

void FlowModel::enter(uint32_t slot) {
  Slot& s = slots_[slot];
  Zone& zone = zones_[s.transfer.zone];
  serve(&zone, time_);
  const auto at = zone.classes.try_emplace(s.transfer.cap).first;
  Class& c = at->second;
  s.in = at;
  s.mark = c.served + s.transfer.bytes;
  s.stage = Stage::kMoving;
  ++c.count;
  ++zone.count;
  zone.dirty = true;
  link(&c.groups[s.mark], slot);
}

void FlowModel::leave(uint32_t slot) {
  Slot& s = slots_[slot];
  Zone& zone = zones_[s.transfer.zone];
  Class& c = s.in->second;
  const auto group = c.groups.find(s.mark);
  if (unlink(&group->second, slot)) c.groups.erase(group);
  --c.count;
  --zone.count;
  zone.dirty = true;
  if (c.count == 0) zone.classes.erase(s.in);
}

void FlowModel::finish(uint32_t slot, TimePoint t) {
  const Transfer& transfer = slots_[slot].transfer;
  finished_.push_back({transfer.tag, transfer.port, t});
  slots_[slot].stage = Stage::kFree;
  free_.push_back(slot);
  --live_;
}

void FlowModel::link(Ring* ring, uint32_t slot) {
  Slot& s = slots_[slot];
  if (ring->first == kNone) {
    ring->first = s.previous = s.next = slot;
    return;
  }
  Slot& first = slots_[ring->first];
  s.next = ring->first;
  s.previous = first.previous;
  slots_[first.previous].next = slot;
  first.previous = slot;
}

bool FlowModel::unlink(Ring* ring, uint32_t slot) {
  Slot& s = slots_[slot];
  if (s.next == slot) {
    ring->first = kNone;
    return true;
  }
  slots_[s.previous].next = s.next;
  slots_[s.next].previous = s.previous;
  if (ring->first == slot) ring->first = s.next;
  return false;
}

}  // namespace ghostfleet::emulator
