// Metrics in Prometheus' words. A Registry belongs to a component or shard; several are merged at exposition, so a hot
// path adds to its own counter without a lock.
//
// Thread rule: a Counter, Gauge or Histogram is written by one thread and may be read (a little stale) by any.
// Ownership: the Registry owns its series; pointers it returns stay valid as long as it lives.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ghostfleet {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void add(uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double v) { value_.store(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Durations in buckets that grow by 2^(1/4) from 1 µs to about 1.2 hours: percentiles are right within 19 %. 1 KiB
// each.
class Histogram {
 public:
  static constexpr int kBuckets = 128;
  void record(Duration d);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  double sum_seconds() const { return static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9; }
  double max_seconds() const { return static_cast<double>(max_ns_.load(std::memory_order_relaxed)) * 1e-9; }
  // Seconds below which the share q (0..1) of the records lies; the upper edge of its bucket, never above the maximum.
  double quantile(double q) const;
  void merge_into(Histogram* other) const;
  void clear();
  uint64_t bucket(int i) const { return buckets_[static_cast<size_t>(i)].load(std::memory_order_relaxed); }
  static double bucket_upper_seconds(int i);

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> count_{0};
  std::atomic<int64_t> sum_ns_{0};
  std::atomic<int64_t> max_ns_{0};
};

class MetricsRegistry {
 public:
  MetricsRegistry() = default;
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // The series of that name and labels, made on first use. `help` is kept from the first use.
  Counter& counter(std::string_view name, std::string_view help, MetricLabels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, MetricLabels labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, MetricLabels labels = {});

  // Prometheus text format of several registries together; series of the same name and labels are added up.
  static std::string expose(const std::vector<const MetricsRegistry*>& registries);

 private:
  struct Family {
    std::string help;
    char type = 'c';  // c, g, h
    std::map<MetricLabels, void*> series;
  };
  Family& family(std::string_view name, std::string_view help, char type);

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
  std::deque<Counter> counters_;
  std::deque<Gauge> gauges_;
  std::deque<Histogram> histograms_;
};

}  // namespace ghostfleet
