#include "agent/pod/pressure.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/api/quantity.h"

namespace ghostfleet::agent {

using kube::Quantity;

namespace {

struct SignalName {
  std::string_view name;
  std::optional<EvictionSignal> signal;  // none: known, not modelled
};
constexpr SignalName kSignals[] = {{"memory.available", EvictionSignal::kMemory},
                                   {"nodefs.available", EvictionSignal::kNodeFs},
                                   {"imagefs.available", EvictionSignal::kImageFs},
                                   {"pid.available", EvictionSignal::kPid},
                                   {"nodefs.inodesFree", std::nullopt},
                                   {"imagefs.inodesFree", std::nullopt}};

const SignalName* find_signal(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kSignals), std::end(kSignals), [name](const SignalName& s) { return s.name == name; });
  return at == std::end(kSignals) ? nullptr : at;
}

Status unknown_signal(std::string_view name) {
  return invalid_argument(fmt::format(
      "eviction signal \"{}\": known are memory.available, nodefs.available, imagefs.available, pid.available", name));
}

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") + 1 - from);
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

Status read_limit(std::string_view name, std::string_view value, EvictionThreshold* out) {
  const auto bad = [&] {
    return invalid_argument(
        fmt::format("eviction threshold {}<{}: a quantity like 100Mi or a share like 10% is expected", name, value));
  };
  if (!value.ends_with('%')) {
    const Result<Quantity> amount = Quantity::parse(value);
    if (!amount.ok() || amount->sign() <= 0) return bad();
    out->amount = amount->value();
    out->text = amount->to_string();
    return Status();
  }
  const Result<Quantity> percent = Quantity::parse(value.substr(0, value.size() - 1));
  if (!percent.ok() || percent->sign() < 0 || percent->milli_value() > 100000) return bad();
  out->share = static_cast<float>(percent->milli_value()) / 1000 / 100;
  return Status();
}

std::string_view resource_of(EvictionSignal signal) {
  if (signal == EvictionSignal::kMemory) return "memory";
  return signal == EvictionSignal::kPid ? "pids" : "ephemeral-storage";
}

int condition_of(EvictionSignal signal) {
  if (signal == EvictionSignal::kMemory) return 0;
  return signal == EvictionSignal::kPid ? 2 : 1;
}

int64_t limit_of(const EvictionThreshold& t, const Observation& seen) {
  if (t.share == 0) return t.amount;
  return static_cast<int64_t>(static_cast<double>(seen.capacity) * static_cast<double>(t.share));
}

Starved starved_by(const EvictionThreshold& t, const Observation& seen) {
  const std::string text =
      t.share == 0 ? t.text : Quantity::from_value(limit_of(t, seen), Quantity::Format::kBinarySI).to_string();
  return {t.signal, resource_of(t.signal), text, seen.available, t.grace == Duration(0)};
}

}  // namespace

Result<std::vector<EvictionThreshold>> parse_thresholds(std::string_view text) {
  std::vector<EvictionThreshold> out;
  const Status read = read_list(text, '<', [&](std::string_view name, std::string_view value) {
    const SignalName* known = find_signal(name);
    if (known == nullptr) return unknown_signal(name);
    EvictionThreshold t;
    GF_RETURN_IF_ERROR(read_limit(name, value, &t));
    // A share of 0 % or 100 % turns a threshold off.
    if (!known->signal || (t.amount == 0 && (t.share == 0 || t.share == 1))) return Status();
    t.signal = *known->signal;
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
    const SignalName* known = find_signal(name);
    if (known == nullptr) return unknown_signal(name);
    Duration grace{0};
    if (!parse_duration(value, &grace) || grace <= Duration(0)) {
      return invalid_argument(
          fmt::format("eviction grace period {}={}: a duration like 1m30s is expected", name, value));
    }
    for (EvictionThreshold& t : *soft) {
      if (known->signal == t.signal) t.grace = grace;
    }
    return Status();
  }));
  for (const EvictionThreshold& t : *soft) {
    if (t.grace > Duration(0)) continue;
    return invalid_argument(fmt::format("soft eviction threshold {}: a grace period is needed for it",
                                        kSignals[static_cast<int>(t.signal)].name));
  }
  return Status();
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
  std::optional<Starved> worst;
  for (size_t i = 0; i < rules.thresholds.size(); ++i) {
    const EvictionThreshold& t = rules.thresholds[i];
    const std::optional<Observation>& at = seen[static_cast<size_t>(t.signal)];
    if (!at || at->available >= limit_of(t, *at)) {
      met_since_[i] = kNotMet;
      continue;
    }
    if (met_since_[i] == kNotMet) met_since_[i] = now;
    last_met_[static_cast<size_t>(condition_of(t.signal))] = now;
    if (now - met_since_[i] < t.grace) continue;
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
