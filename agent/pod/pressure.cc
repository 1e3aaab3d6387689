#include "agent/pod/pressure.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "kube/api/quantity.h"

namespace ghostfleet::agent {

using kube::Quantity;

namespace {

// In the order of EvictionSignal.
constexpr std::string_view kSignals[kEvictionSignals] = {"memory.available", "nodefs.available",  "imagefs.available",
                                                         "pid.available",    "nodefs.inodesFree", "imagefs.inodesFree"};

constexpr int64_t kBytesPerInode = 16384;     // mke2fs.conf, inode_ratio
constexpr int64_t kSystemInodes = 128 << 10;  // of an operating system; of a small disk a thirty-second at most

std::optional<EvictionSignal> find_signal(std::string_view name) {
  const auto* at = std::find(std::begin(kSignals), std::end(kSignals), name);
  if (at == std::end(kSignals)) return std::nullopt;
  return static_cast<EvictionSignal>(at - std::begin(kSignals));
}

Status unknown_signal(std::string_view name) {
  return invalid_argument(fmt::format("eviction signal \"{}\": known are {}", name,
                                      fmt::join(std::begin(kSignals), std::end(kSignals), ", ")));
}

// Calls `read` with both sides of each NAME<sign>VALUE.
template <class Read>
Status read_list(std::string_view text, char sign, Read read) {
  while (!trimmed(text).empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const size_t at = item.find(sign);
    if (at == std::string_view::npos) {
      return invalid_argument(fmt::format("\"{}\": SIGNAL{}VALUE is expected", item, sign));
    }
    GF_RETURN_IF_ERROR(read(trimmed(item.substr(0, at)), trimmed(item.substr(at + 1))));
  }
  return Status();
}

// "100Mi" or "10%".
struct Limit {
  int64_t amount = 0;
  std::string text;
  float share = 0;
};

// nullopt: neither a quantity nor a share.
std::optional<Limit> read_limit(std::string_view value) {
  Limit out;
  if (!value.ends_with('%')) {
    const Result<Quantity> amount = Quantity::parse(value);
    if (!amount.ok() || amount->sign() < 0) return std::nullopt;
    out.amount = amount->value();
    out.text = amount->to_string();
    return out;
  }
  const Result<Quantity> percent = Quantity::parse(value.substr(0, value.size() - 1));
  if (!percent.ok() || percent->sign() < 0 || percent->milli_value() > 100000) return std::nullopt;
  out.share = static_cast<float>(percent->milli_value()) / 1000 / 100;
  return out;
}

std::string_view resource_of(EvictionSignal signal) {
  switch (signal) {
    case EvictionSignal::kMemory: return "memory";
    case EvictionSignal::kPid: return "pids";
    case EvictionSignal::kNodeInodes:
    case EvictionSignal::kImageInodes: return "inodes";
    case EvictionSignal::kNodeFs:
    case EvictionSignal::kImageFs: break;
  }
  return "ephemeral-storage";
}

int condition_of(EvictionSignal signal) {
  if (signal == EvictionSignal::kMemory) return 0;
  return signal == EvictionSignal::kPid ? 2 : 1;
}

int64_t part_of(int64_t capacity, float share) {
  return static_cast<int64_t>(static_cast<double>(capacity) * static_cast<double>(share));
}

int64_t limit_of(const EvictionThreshold& t, const Observation& seen) {
  return t.share == 0 ? t.amount : part_of(seen.capacity, t.share);
}

int64_t reclaim_of(const EvictionThreshold& t, const Observation& seen) {
  return t.reclaim_share == 0 ? t.reclaim_amount : part_of(seen.capacity, t.reclaim_share);
}

Starved starved_by(const EvictionThreshold& t, const Observation& seen) {
  const std::string text =
      t.share == 0 ? t.text : Quantity::from_value(limit_of(t, seen), Quantity::Format::kBinarySI).to_string();
  return {t.signal, resource_of(t.signal), text, seen.available, t.grace == Duration(0)};
}

const EvictionThreshold* hard_threshold(const EvictionRules& rules, EvictionSignal signal) {
  for (const EvictionThreshold& t : rules.thresholds) {
    if (t.signal == signal && t.grace == Duration(0)) return &t;
  }
  return nullptr;
}

std::optional<Observation> observe(const EvictionThreshold* hard, int64_t capacity, int64_t allocatable, int64_t used) {
  if (allocatable == 0) return std::nullopt;
  int64_t whole = allocatable;
  if (hard != nullptr && hard->share == 0) whole += hard->amount;
  if (hard != nullptr && hard->share > 0 && hard->share < 1)
    whole = static_cast<int64_t>(static_cast<double>(allocatable) / (1 - static_cast<double>(hard->share)));
  if (capacity > 0) whole = std::min(whole, capacity);
  return Observation{std::max<int64_t>(whole - used, 0), std::max(whole, capacity)};
}

Observation observe_inodes(int64_t disk, int64_t used) {
  const int64_t inodes = disk / kBytesPerInode;
  const int64_t system = std::min(kSystemInodes, inodes / 32);
  return {std::max<int64_t>(inodes - system - used, 0), inodes};
}

}  // namespace

std::string_view signal_name(EvictionSignal signal) { return kSignals[static_cast<int>(signal)]; }

ResourceUse& ResourceUse::operator+=(const ResourceUse& more) {
  memory += more.memory;
  storage += more.storage;
  logs += more.logs;
  inodes += more.inodes;
  pids += more.pids;
  return *this;
}

Observations observations_of(const EvictionRules& rules, const NodeAmounts& capacity, const NodeAmounts& allocatable,
                             const ResourceUse& used) {
  Observations seen;
  const auto at = [&seen](EvictionSignal signal) -> std::optional<Observation>& {
    return seen[static_cast<size_t>(signal)];
  };
  at(EvictionSignal::kMemory) =
      observe(hard_threshold(rules, EvictionSignal::kMemory), capacity.memory, allocatable.memory, used.memory);
  const auto disk =
      observe(hard_threshold(rules, EvictionSignal::kNodeFs), capacity.storage, allocatable.storage, used.disk());
  at(EvictionSignal::kNodeFs) = at(EvictionSignal::kImageFs) = disk;
  if (disk)
    at(EvictionSignal::kNodeInodes) = at(EvictionSignal::kImageInodes) = observe_inodes(disk->capacity, used.inodes);
  at(EvictionSignal::kPid) = Observation{std::max<int64_t>(kMostPids - used.pids, 0), kMostPids};
  return seen;
}

Result<std::vector<EvictionThreshold>> parse_thresholds(std::string_view text) {
  std::vector<EvictionThreshold> out;
  const Status read = read_list(text, '<', [&](std::string_view name, std::string_view value) {
    const std::optional<EvictionSignal> signal = find_signal(name);
    if (!signal) return unknown_signal(name);
    const std::optional<Limit> limit = read_limit(value);
    if (!limit || (limit->amount == 0 && !value.ends_with('%'))) {
      return invalid_argument(
          fmt::format("eviction threshold {}<{}: a quantity like 100Mi or a share like 10% is expected", name, value));
    }
    // A share of 0 % or 100 % turns a threshold off.
    if (limit->amount == 0 && (limit->share == 0 || limit->share == 1)) return Status();
    EvictionThreshold t{*signal, limit->amount, limit->text, limit->share, Duration(0)};
    const auto twice = [&](const EvictionThreshold& other) { return other.signal == t.signal; };
    if (std::any_of(out.begin(), out.end(), twice)) {
      return invalid_argument(fmt::format("eviction signal {} is given twice", name));
    }
    out.push_back(std::move(t));
    return Status();
  });
  if (!read.ok()) return read;
  return out;
}

Status parse_soft_grace(std::string_view text, std::vector<EvictionThreshold>* soft) {
  GF_RETURN_IF_ERROR(read_list(text, '=', [&](std::string_view name, std::string_view value) {
    const std::optional<EvictionSignal> signal = find_signal(name);
    if (!signal) return unknown_signal(name);
    Duration grace{0};
    if (!parse_duration(value, &grace) || grace <= Duration(0)) {
      return invalid_argument(
          fmt::format("eviction grace period {}={}: a duration like 1m30s is expected", name, value));
    }
    for (EvictionThreshold& t : *soft) {
      if (t.signal == *signal) t.grace = grace;
    }
    return Status();
  }));
  for (const EvictionThreshold& t : *soft) {
    if (t.grace > Duration(0)) continue;
    return invalid_argument(
        fmt::format("soft eviction threshold {}: a grace period is needed for it", signal_name(t.signal)));
  }
  return Status();
}

Status parse_minimum_reclaim(std::string_view text, std::vector<EvictionThreshold>* thresholds) {
  return read_list(text, '=', [&](std::string_view name, std::string_view value) {
    const std::optional<EvictionSignal> signal = find_signal(name);
    if (!signal) return unknown_signal(name);
    const std::optional<Limit> limit = read_limit(value);
    if (!limit || (limit->share == 0 && value.ends_with('%'))) {
      return invalid_argument(fmt::format(
          "eviction minimum reclaim {}={}: a quantity like 500Mi or a share like 5% is expected", name, value));
    }
    for (EvictionThreshold& t : *thresholds) {
      if (t.signal != *signal) continue;
      t.reclaim_amount = limit->amount;
      t.reclaim_text = limit->text;
      t.reclaim_share = limit->share;
    }
    return Status();
  });
}

std::string pressure_names(unsigned pressure) {
  constexpr std::string_view kNames[] = {"MemoryPressure", "DiskPressure", "PIDPressure"};
  std::string out;
  for (int i = 0; i < kPressures; ++i) {
    if ((pressure >> i & 1) == 0) continue;
    if (!out.empty()) out += ' ';
    out += kNames[i];
  }
  return out;
}

std::optional<Starved> PressureMonitor::look(const EvictionRules& rules, const Observations& seen, TimePoint now) {
  met_since_.resize(rules.thresholds.size(), kNotMet);
  acted_on_.resize(rules.thresholds.size(), false);
  std::optional<Starved> worst;
  for (size_t i = 0; i < rules.thresholds.size(); ++i) {
    const EvictionThreshold& t = rules.thresholds[i];
    const std::optional<Observation>& at = seen[static_cast<size_t>(t.signal)];
    const int64_t wanted = !at ? 0 : limit_of(t, *at) + (acted_on_[i] ? reclaim_of(t, *at) : 0);
    acted_on_[i] = false;
    if (!at || at->available >= wanted) {
      met_since_[i] = kNotMet;
      continue;
    }
    if (met_since_[i] == kNotMet) met_since_[i] = now;
    last_met_[static_cast<size_t>(condition_of(t.signal))] = now;
    if (now - met_since_[i] < t.grace) continue;
    acted_on_[i] = true;
    // Memory comes first, hard thresholds before soft ones.
    const bool first = !worst || (t.signal == EvictionSignal::kMemory && worst->signal != EvictionSignal::kMemory);
    if (first) worst = starved_by(t, *at);
  }
  pressure_ = 0;
  for (int i = 0; i < kPressures; ++i) {
    TimePoint& last = last_met_[static_cast<size_t>(i)];
    if (last == kNotMet) continue;
    if (now - last < rules.transition) {
      pressure_ |= 1U << i;
    } else {
      last = kNotMet;
    }
  }
  return worst;
}

bool PressureMonitor::at_rest() const {
  return pressure_ == 0 && std::all_of(met_since_.begin(), met_since_.end(), [](TimePoint t) { return t == kNotMet; });
}

}  // namespace ghostfleet::agent
