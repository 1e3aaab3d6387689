// ImageDisk: the images and layers on one node's disk: what a pull still needs, how full the disk is, and what garbage
// collection takes away: images by least recent use, none that is in use or younger than the minimum age, until the
// disk is at the low threshold.
//
// As the kubelet does, an image counts for what it is as compressed when it is freed, though its layers may be larger
// on the disk, or stay because another image has them.
// Units: bytes. Thread rule: one owner. Ownership: the options outlive it. Cost: 32 bytes for each image; questions are
// O(images × log layers).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "emulator/images/catalogue.h"
#include "emulator/images/image_collection.h"
#include "emulator/images/pull_options.h"

namespace ghostfleet::emulator {

// What one round of garbage collection came to.
struct ImageCollection {
  int64_t wanted = 0, freed = 0;  // wanted 0: the disk was below the high threshold
  size_t removed = 0;
  std::string failure;  // the kubelet's words, when it freed too little
};

class ImageDisk {
 public:
  struct Held {
    std::shared_ptr<const ImageInfo> image;
    TimePoint since, used;
    bool pinned = false;  // never collected
  };

  explicit ImageDisk(const PullOptions& options) : options_(&options) {}

  // `name` with registry and tag.
  bool has(std::string_view name) const;
  void use(std::string_view name, TimePoint now);
  bool has_layer(uint64_t id) const;
  // An image whose layers are all there now.
  void add(std::shared_ptr<const ImageInfo> image, TimePoint now, bool pinned = false);
  // Layers of a pull that is not done yet; they are forgotten with drop_loose() unless an image has them.
  void add_loose(const std::vector<LayerInfo>& layers);
  void drop_loose();

  int64_t size_of(const LayerInfo& layer) const;  // on the disk
  // What pods use of the disk, beside images and what is always used by others.
  void set_used_by_pods(int64_t bytes) { used_by_pods_ = bytes; }
  int64_t capacity() const { return options_->disk_capacity; }
  int64_t used_by_images() const { return used_; }
  int64_t used() const { return options_->disk_other + used_ + used_by_pods_; }
  int64_t available() const { return options_->disk_capacity > used() ? options_->disk_capacity - used() : 0; }
  int usage_percent() const;
  bool above_threshold() const { return usage_percent() >= options_->gc_high_percent; }
  // `in_use` is asked for names with registry and tag.
  ImageCollection collect(TimePoint now, const std::function<bool(std::string_view)>& in_use);
  // All that may go; how many did.
  size_t remove_unused(TimePoint now, const std::function<bool(std::string_view)>& in_use);

  const std::vector<Held>& images() const { return images_; }

 private:
  Held* find(std::string_view name);
  void free(TimePoint now, const std::function<bool(std::string_view)>& in_use, ImageCollection* round);
  CollectionRules rules() const {
    return {options_->gc_high_percent, options_->gc_low_percent, options_->gc_minimum_age};
  }
  void measure();

  const PullOptions* options_;
  std::vector<Held> images_;
  std::vector<LayerInfo> loose_;
  int64_t used_ = 0;  // by layers
  int64_t used_by_pods_ = 0;
};

}  // namespace ghostfleet::emulator
