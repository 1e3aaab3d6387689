#include "emulator/images/image_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

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

int ImageDisk::usage_percent() const {
  if (options_->disk_capacity <= 0) return 0;
  return 100 - static_cast<int>(static_cast<double>(available()) * 100 / static_cast<double>(options_->disk_capacity));
}

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
  const bool off = options_->gc_high_percent >= 100;
  if (off || !above_threshold()) return round;
  const auto keep_free = static_cast<double>(options_->disk_capacity) * (100 - options_->gc_low_percent) / 100;
  round.wanted = static_cast<int64_t>(keep_free) - available();
  free(now, in_use, &round);
  if (round.freed < round.wanted) {
    round.failure = fmt::format(
        "Failed to garbage collect required amount of images. Attempted to free {} bytes, but only found {} bytes "
        "eligible to free.",
        round.wanted, round.freed);
  }
  return round;
}

size_t ImageDisk::remove_unused(TimePoint now, const std::function<bool(std::string_view)>& in_use) {
  ImageCollection round;
  round.wanted = INT64_MAX;
  free(now, in_use, &round);
  return round.removed;
}

void ImageDisk::free(TimePoint now, const std::function<bool(std::string_view)>& in_use, ImageCollection* round) {
  for (Held& held : images_) {
    if (in_use(held.image->name)) held.used = now;
  }
  std::stable_sort(images_.begin(), images_.end(),
                   [](const Held& a, const Held& b) { return std::tie(a.used, a.since) < std::tie(b.used, b.since); });
  std::erase_if(images_, [&](const Held& held) {
    const bool stays = held.pinned || held.used >= now || now - held.since < options_->gc_minimum_age;
    if (round->freed >= round->wanted || stays) return false;
    round->freed += held.image->compressed;
    ++round->removed;
    return true;
  });
  if (round->removed > 0) measure();
}

}  // namespace ghostfleet::emulator
