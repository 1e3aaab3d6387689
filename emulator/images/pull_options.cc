#include "emulator/images/pull_options.h"

#include <algorithm>

namespace ghostfleet::emulator {
namespace {

// Latencies are drawn from so many steps: nodes with the same luck stay in one group of the model.
constexpr int kLatencySteps = 8;

int64_t parallel_unpackers(const PullOptions& o, size_t layers) {
  const int64_t most = std::min(o.parallel_unpackers, static_cast<int64_t>(layers));
  return std::max<int64_t>(std::min(most, o.cpus / 2), 1);
}

}  // namespace

double pull_cap(const PullOptions& o, size_t layers) {
  const bool one_by_one = o.puller == Puller::kDefault;
  const auto connections = static_cast<double>(one_by_one ? o.default_connections : o.parallel_connections);
  const auto unpackers = static_cast<double>(one_by_one ? 1 : parallel_unpackers(o, layers));
  return std::min({connections * o.connection_rate, o.network_rate, o.disk_rate, unpackers * o.unpack_rate});
}

double node_cap(const PullOptions& o) {
  const auto cpus = static_cast<double>(std::max<int64_t>(o.cpus, 1));
  return std::min({o.network_rate, o.disk_rate, cpus * o.unpack_rate});
}

double level_of(double node_cap, const double* caps, size_t count) {
  // Those with a cap below the level get their cap; what they leave raises the level for the others.
  double level = node_cap / static_cast<double>(std::max<size_t>(count, 1));
  for (size_t round = 0; round < count; ++round) {
    double left = node_cap;
    size_t above = 0;
    for (size_t i = 0; i < count; ++i) {
      if (caps[i] <= level) {
        left -= caps[i];
      } else {
        ++above;
      }
    }
    if (above == 0) return level;
    const double next = left / static_cast<double>(above);
    if (next <= level * (1 + 1e-12)) return level;
    level = next;
  }
  return level;
}

Duration pull_latency(const PullOptions& o, double draw) {
  const int step = std::clamp(static_cast<int>(draw * kLatencySteps), 0, kLatencySteps - 1);
  const Duration width = std::max(o.latency_high - o.latency_low, Duration(0));
  return o.latency_low + width * step / (kLatencySteps - 1);
}

Duration layers_overhead(const PullOptions& o, size_t layers) {
  const auto count = static_cast<int64_t>(layers);
  if (o.puller == Puller::kLazy) return o.layer_overhead * count;  // mounted one by one
  const int64_t at_once = o.puller == Puller::kDefault ? o.default_connections : parallel_unpackers(o, layers);
  return o.layer_overhead * ((count + at_once - 1) / std::max<int64_t>(at_once, 1));
}

double first_use_rate(const PullOptions& o) {
  const double seconds = static_cast<double>(kSpanRoundTrip.count()) * 1e-9 + kSpan / o.connection_rate;
  return std::min(kSpan / seconds, o.network_rate);
}

}  // namespace ghostfleet::emulator
