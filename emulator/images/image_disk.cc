#include "emulator/images/image_disk.h"

#include <algorithm>

namespace ghostfleet::emulator {
namespace {

bool contains(const ImageInfo& image, uint64_t id) {
  const auto at = std::lower_bound(image.layers.begin(), image.layers.end(), id,
                                   [](const LayerInfo& layer, uint64_t wanted) { return layer.id < wanted; });
  return at != image.layers.end() && at->id == id;
}

}  // namespace

ImageDisk::Held* ImageDisk::find(std::string_view name) {
  for (Held& held : images_) {
    if (held.image->name == name) return &held;
  }
  return nullptr;
}

bool ImageDisk::has(std::string_view name) const { return const_cast<ImageDisk*>(this)->find(name) != nullptr; }

void ImageDisk::use(std::string_view name, TimePoint now) {
  if (Held* held = find(name)) held->used = now;
}

bool ImageDisk::has_layer(uint64_t id) const {
  return std::any_of(loose_.begin(), loose_.end(), [id](const LayerInfo& layer) { return layer.id == id; }) ||
         std::any_of(images_.begin(), images_.end(), [id](const Held& held) { return contains(*held.image, id); });
}

void ImageDisk::add(std::shared_ptr<const ImageInfo> image, TimePoint now, bool pinned) {
  if (Held* held = find(image->name)) {
    held->used = now;
    return;
  }
  for (const LayerInfo& layer : image->layers) {
    if (!has_layer(layer.id)) used_ += size_of(layer);
  }
  std::erase_if(loose_, [&image](const LayerInfo& layer) { return contains(*image, layer.id); });
  images_.push_back({std::move(image), now, now, pinned});
}

void ImageDisk::add_loose(const std::vector<LayerInfo>& layers) {
  for (const LayerInfo& layer : layers) {
    if (has_layer(layer.id)) continue;
    used_ += size_of(layer);
    loose_.push_back(layer);
  }
}

void ImageDisk::drop_loose() {
  if (loose_.empty()) return;
  loose_.clear();
  measure();
}

int64_t ImageDisk::size_of(const LayerInfo& layer) const {
  return layer.unpacked + (options_->keep_compressed ? layer.compressed : 0);
}

int ImageDisk::usage_percent() const { return emulator::usage_percent(options_->disk_capacity, available()); }

// Every layer once.
void ImageDisk::measure() {
  std::vector<LayerInfo> all = loose_;
  for (const Held& held : images_) all.insert(all.end(), held.image->layers.begin(), held.image->layers.end());
  std::sort(all.begin(), all.end(), [](const LayerInfo& a, const LayerInfo& b) { return a.id < b.id; });
  used_ = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i].id != all[i - 1].id) used_ += size_of(all[i]);
  }
}

ImageCollection ImageDisk::collect(TimePoint now, const std::function<bool(std::string_view)>& in_use) {
  ImageCollection round;
  round.wanted = bytes_to_free(rules(), options_->disk_capacity, available());
  if (round.wanted == 0) return round;
  free(now, in_use, &round);
  round.failure = collection_failure(round.wanted, round.freed);
  return round;
}

size_t ImageDisk::remove_unused(TimePoint now, const std::function<bool(std::string_view)>& in_use) {
  ImageCollection round;
  round.wanted = INT64_MAX;
  free(now, in_use, &round);
  return round.removed;
}

void ImageDisk::free(TimePoint now, const std::function<bool(std::string_view)>& in_use, ImageCollection* round) {
  std::vector<Collectable> all;
  for (Held& held : images_) {
    if (in_use(held.image->name)) held.used = now;
    all.push_back({held.image->compressed, held.since, held.used, held.pinned});
  }
  ChosenImages chosen = choose_images(all, now, options_->gc_minimum_age, round->wanted);
  round->freed = chosen.freed;
  round->removed = chosen.images.size();
  std::sort(chosen.images.rbegin(), chosen.images.rend());  // from behind
  for (const size_t i : chosen.images) images_.erase(images_.begin() + static_cast<std::ptrdiff_t>(i));
  if (round->removed > 0) measure();
}

}  // namespace ghostfleet::emulator
