// PullOptions: how the nodes of a group pull images: the kubelet's settings, the puller of the container runtime, and
// what the machine can do. The rates of the model follow from them.
//
// Units: bytes, bytes a second OF COMPRESSED IMAGE (what comes over the network), except disk_capacity.
// Source: defaults of containerd 2.1 and soci-snapshotter; pulls published in AWS's karpenter-blueprints. unpack_rate
// and disk_rate are set so that one node takes the published times for an image of 10.78 GB: 112 s by default, 60 s
// with parallel unpacking (disk_rate 240e6: 45 s). Thread rule: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ghostfleet::emulator {

// kDefault: containerd's own. kParallel: chunks of layers side by side, several layers unpacked at once (SOCI's
// parallel mode). kLazy: a container starts when an index of the image is there; its bytes come when they are read
// (SOCI's index mode).
enum class Puller : unsigned char { kDefault, kParallel, kLazy };

struct PullOptions {
  // The kubelet's.
  bool serialize = false;    // one pull after the other; the kubelet's default is true, that of EKS nodes false
  int64_t max_parallel = 0;  // 0: no limit
  double pull_qps = 5;       // 0: no limit
  int64_t pull_burst = 10;
  int gc_high_percent = 85, gc_low_percent = 80;
  Duration gc_minimum_age = std::chrono::minutes(2);

  // The runtime's.
  Puller puller = Puller::kDefault;
  int64_t default_connections = 3;
  int64_t parallel_connections = 20, parallel_unpackers = 12;
  bool keep_compressed = false;  // the EKS image discards layers that are unpacked
  Duration progress_timeout = std::chrono::minutes(5);
  Duration latency_low = std::chrono::milliseconds(300);  // of the registry's answers before the first byte
  Duration latency_high = std::chrono::seconds(1);
  Duration layer_overhead = std::chrono::milliseconds(200);
  double first_use = 0.1;    // lazy: the share of an image that its containers read
  double stalled_share = 0;  // of pulls whose transfer stops for good half-way

  // The machine's.
  int64_t cpus = 4;
  double network_rate = 1.25e9;
  double disk_rate = 180e6;
  double unpack_rate = 96e6;  // of one thread
  double connection_rate = 90e6;
  int64_t disk_capacity = int64_t{20} << 30;  // of the filesystem the images are on
  int64_t disk_other = int64_t{3} << 30;      // used by something else
};

// What one pull of an image with that many layers may take of its node.
double pull_cap(const PullOptions& options, size_t layers);
// What all pulls of a node together may take.
double node_cap(const PullOptions& options);
// The rate of each of several pulls of one node, when nothing else limits them: max-min fair below node_cap.
double level_of(double node_cap, const double* caps, size_t count);
// The time that a pull takes whatever the rate. `draw` in [0, 1) stands for the luck of it.
Duration pull_latency(const PullOptions& options, double draw);
Duration layers_overhead(const PullOptions& options, size_t layers);

// Lazy pulling.
inline constexpr double kSpan = 4.0 * 1024 * 1024;                   // what is fetched at a time
inline constexpr int64_t kLeastIndexed = int64_t{10} * 1024 * 1024;  // smaller layers are pulled whole
inline constexpr double kIndexShare =
    1.0 / 100;  // of a layer: its index, of which a 32 KiB window for each span is most
inline constexpr double kBackgroundRate = 2 * kSpan;  // two spans a second
inline constexpr Duration kBackgroundDelay = std::chrono::seconds(30);
inline constexpr Duration kSpanRoundTrip = std::chrono::milliseconds(20);  // before the bytes of a span come
// The rate at which a container reads what is not there yet.
double first_use_rate(const PullOptions& options);

}  // namespace ghostfleet::emulator
