#include "base/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace ghostfleet {
namespace {

// Bucket i covers (2^((i-1)/4), 2^(i/4)] µs; here in ns. No logarithm for each record: there are two in a renewal.
const std::array<double, Histogram::kBuckets> kUpperNs = [] {
  std::array<double, Histogram::kBuckets> upper{};
  for (int i = 0; i < Histogram::kBuckets; ++i) upper[static_cast<size_t>(i)] = std::exp2(i / 4.0) * 1e3;
  return upper;
}();

int bucket_of(int64_t ns) {
  if (ns <= 1000) return 0;
  // The power of two below gives the place but for the last two bits of the exponent.
  int i = 4 * (std::bit_width(static_cast<uint64_t>(ns) / 1000) - 1);
  while (i < Histogram::kBuckets - 1 && static_cast<double>(ns) > kUpperNs[static_cast<size_t>(i)]) ++i;
  return std::min(i, Histogram::kBuckets - 1);
}

std::string label_text(const MetricLabels& labels, std::string_view extra_name = {},
                       std::string_view extra_value = {}) {
  std::string out;
  auto add = [&out](std::string_view name, std::string_view value) {
    out += out.empty() ? "{" : ",";
    out += fmt::format("{}=\"", name);
    for (const char c : value) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else {
        out += c;
      }
    }
    out += '"';
  };
  for (const auto& [name, value] : labels) add(name, value);
  if (!extra_name.empty()) add(extra_name, extra_value);
  if (!out.empty()) out += '}';
  return out;
}

struct Merged {
  std::string help;
  char type = 'c';
  std::map<MetricLabels, double> values;
  std::map<MetricLabels, Histogram> histograms;
};

void write_histogram(std::string_view name, const MetricLabels& labels, const Histogram& h, std::string* out) {
  uint64_t below = 0;
  // Every fourth edge (a doubling) is enough for a dashboard.
  for (int i = 0; i < Histogram::kBuckets; ++i) {
    below += h.bucket(i);
    if (i % 4 != 0) continue;
    *out += fmt::format("{}_bucket{} {}\n", name,
                        label_text(labels, "le", fmt::format("{:g}", Histogram::bucket_upper_seconds(i))), below);
  }
  *out += fmt::format("{}_bucket{} {}\n", name, label_text(labels, "le", "+Inf"), h.count());
  *out += fmt::format("{}_sum{} {:g}\n", name, label_text(labels), h.sum_seconds());
  *out += fmt::format("{}_count{} {}\n", name, label_text(labels), h.count());
}

}  // namespace

double Histogram::bucket_upper_seconds(int i) { return std::exp2(i / 4.0) * 1e-6; }

void Histogram::record(Duration d) {
  const int64_t ns = std::max<int64_t>(d.count(), 0);
  auto& bucket = buckets_[static_cast<size_t>(bucket_of(ns))];
  bucket.store(bucket.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  sum_ns_.store(sum_ns_.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
  if (ns > max_ns_.load(std::memory_order_relaxed)) max_ns_.store(ns, std::memory_order_relaxed);
}

double Histogram::quantile(double q) const {
  const uint64_t total = count();
  if (total == 0) return 0;
  const auto wanted = static_cast<uint64_t>(std::ceil(q * static_cast<double>(total)));
  uint64_t below = 0;
  for (int i = 0; i < kBuckets; ++i) {
    below += bucket(i);
    if (below >= wanted) return std::min(bucket_upper_seconds(i), max_seconds());
  }
  return max_seconds();
}

void Histogram::merge_into(Histogram* other) const {
  for (size_t i = 0; i < buckets_.size(); ++i) other->buckets_[i] += buckets_[i].load(std::memory_order_relaxed);
  other->count_ += count();
  other->sum_ns_ += sum_ns_.load(std::memory_order_relaxed);
  other->max_ns_ = std::max(other->max_ns_.load(), max_ns_.load(std::memory_order_relaxed));
}

void Histogram::clear() {
  for (auto& b : buckets_) b = 0;
  count_ = 0;
  sum_ns_ = 0;
  max_ns_ = 0;
}

MetricsRegistry::Family& MetricsRegistry::family(std::string_view name, std::string_view help, char type) {
  Family& f = families_[std::string(name)];
  if (f.series.empty()) {
    f.help = help;
    f.type = type;
  }
  return f;
}

Counter& MetricsRegistry::counter(std::string_view name, std::string_view help, MetricLabels labels) {
  const std::lock_guard lock(mutex_);
  void*& slot = family(name, help, 'c').series[std::move(labels)];
  if (slot == nullptr) slot = &counters_.emplace_back();
  return *static_cast<Counter*>(slot);
}

Gauge& MetricsRegistry::gauge(std::string_view name, std::string_view help, MetricLabels labels) {
  const std::lock_guard lock(mutex_);
  void*& slot = family(name, help, 'g').series[std::move(labels)];
  if (slot == nullptr) slot = &gauges_.emplace_back();
  return *static_cast<Gauge*>(slot);
}

Histogram& MetricsRegistry::histogram(std::string_view name, std::string_view help, MetricLabels labels) {
  const std::lock_guard lock(mutex_);
  void*& slot = family(name, help, 'h').series[std::move(labels)];
  if (slot == nullptr) slot = &histograms_.emplace_back();
  return *static_cast<Histogram*>(slot);
}

std::string MetricsRegistry::expose(const std::vector<const MetricsRegistry*>& registries) {
  std::map<std::string, Merged> merged;
  for (const MetricsRegistry* registry : registries) {
    const std::lock_guard lock(registry->mutex_);
    for (const auto& [name, family] : registry->families_) {
      Merged& m = merged[name];
      m.help = family.help;
      m.type = family.type;
      for (const auto& [labels, series] : family.series) {
        if (family.type == 'c') m.values[labels] += static_cast<double>(static_cast<Counter*>(series)->value());
        if (family.type == 'g') m.values[labels] += static_cast<Gauge*>(series)->value();
        if (family.type == 'h') static_cast<Histogram*>(series)->merge_into(&m.histograms[labels]);
      }
    }
  }
  std::string out;
  for (const auto& [name, m] : merged) {
    const std::string_view type = m.type == 'c' ? "counter" : m.type == 'g' ? "gauge" : "histogram";
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, m.help, name, type);
    for (const auto& [labels, value] : m.values) out += fmt::format("{}{} {:.10g}\n", name, label_text(labels), value);
    for (const auto& [labels, histogram] : m.histograms) write_histogram(name, labels, histogram, &out);
  }
  return out;
}

}  // namespace ghostfleet
