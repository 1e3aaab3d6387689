// Which images a kubelet's garbage collection takes away: when the disk is at the high threshold, the least recently
// used first, none that is in use or younger than the minimum age, until it is at the low one; and what it tells of a
// round that freed too little.
//
// Units: bytes. Thread rule: plain values.
// Source: kubernetes.io, Garbage collection of images; pkg/kubelet/images/image_gc_manager.go and kubelet.go
// (StartGarbageCollection) of Kubernetes 1.36.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ghostfleet::emulator {

inline constexpr Duration kImageCollectionPeriod = std::chrono::minutes(5);

struct CollectionRules {
  int high_percent = 85, low_percent = 80;  // of the disk; high 100: never
  Duration minimum_age = std::chrono::minutes(2);
};

struct Collectable {
  int64_t size = 0;
  TimePoint since, used;  // first seen; last used
  bool stays = false;     // whatever happens
};

// As a kubelet rounds it.
int usage_percent(int64_t capacity, int64_t available);
// What a round must free; 0: nothing.
int64_t bytes_to_free(const CollectionRules& rules, int64_t capacity, int64_t available);

struct ChosenImages {
  std::vector<size_t> images;  // by their place in the list
  int64_t freed = 0;
};
ChosenImages choose_images(const std::vector<Collectable>& images, TimePoint now, Duration minimum_age, int64_t wanted);

// The kubelet's words for a round that freed too little; empty: it did not.
std::string collection_failure(int64_t wanted, int64_t freed);

// The events of rounds, about the Node.
class CollectionNews {
 public:
  using Warn = std::function<void(std::string_view reason, const std::string& message)>;
  // `failure`: empty, or of a round that freed too little.
  void round(const std::string& failure, const Warn& warn);

 private:
  bool failed_ = false;  // the last one
};

}  // namespace ghostfleet::emulator
