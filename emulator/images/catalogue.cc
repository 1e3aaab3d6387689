#include "emulator/images/catalogue.h"

#include <algorithm>

#include "agent/pod/images.h"
#include "base/glob.h"
#include "base/hash.h"

namespace ghostfleet::emulator {
namespace {

constexpr size_t kRemembered = 20000;  // names an index keeps; then it begins anew
// Of images that nobody described.
constexpr size_t kUsualLayers = 6;
constexpr double kUsualGrowth = 2.2;

std::vector<ImageLayer> made_up_layers(std::string_view name) {
  const int64_t size = agent::NodeImages::size_of(name);
  std::vector<ImageLayer> layers;
  int64_t left = size;
  for (size_t i = 0; i < kUsualLayers; ++i) {  // each half of what is left
    const int64_t part = i + 1 == kUsualLayers ? left : left / 2;
    left -= part;
    layers.push_back({"", part, static_cast<int64_t>(static_cast<double>(part) * kUsualGrowth)});
  }
  return layers;
}

// The same layer twice in an image is there once.
std::shared_ptr<const ImageInfo> finish(std::shared_ptr<ImageInfo> info) {
  const auto by_id = [](const LayerInfo& a, const LayerInfo& b) { return a.id < b.id; };
  const auto same = [](const LayerInfo& a, const LayerInfo& b) { return a.id == b.id; };
  std::sort(info->layers.begin(), info->layers.end(), by_id);
  info->layers.erase(std::unique(info->layers.begin(), info->layers.end(), same), info->layers.end());
  for (const LayerInfo& layer : info->layers) {
    info->compressed += layer.compressed;
    info->unpacked += layer.unpacked;
  }
  return info;
}

}  // namespace

const ImageEntry* ImageCatalogue::find(std::string_view image) const {
  const std::string whole = agent::normal_image_name(image);
  for (const ImageEntry& entry : entries) {
    if (glob_match(entry.match, image) || glob_match(entry.match, whole)) return &entry;
  }
  return nullptr;
}

std::shared_ptr<const ImageInfo> ImageIndex::find(std::string_view image) {
  std::string key(image);
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  return remember(std::move(key), make(image));
}

std::shared_ptr<const ImageInfo> ImageIndex::preloaded(std::string_view image, int64_t size) {
  std::string key(image);
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  auto info = std::make_shared<ImageInfo>();
  info->name = agent::normal_image_name(image);
  const auto unpacked = static_cast<int64_t>(static_cast<double>(size) * kUsualGrowth);
  info->layers.push_back({hash_text(info->name, 3), size, unpacked});
  return remember(std::move(key), finish(std::move(info)));
}

std::shared_ptr<const ImageInfo> ImageIndex::remember(std::string key, std::shared_ptr<const ImageInfo> info) {
  if (known_.size() >= kRemembered) known_.clear();
  return known_.emplace(std::move(key), std::move(info)).first->second;
}

std::shared_ptr<const ImageInfo> ImageIndex::make(std::string_view image) const {
  auto info = std::make_shared<ImageInfo>();
  info->name = agent::normal_image_name(image);
  const ImageEntry* entry = catalogue_ != nullptr ? catalogue_->find(image) : nullptr;
  const std::vector<ImageLayer> made_up = entry != nullptr ? std::vector<ImageLayer>() : made_up_layers(info->name);
  const std::vector<ImageLayer>& layers = entry != nullptr ? entry->layers : made_up;
  const uint64_t own = hash_text(info->name, 1);
  for (size_t i = 0; i < layers.size(); ++i) {
    const uint64_t id = layers[i].id.empty() ? hash_mix(own, i) : hash_text(layers[i].id, 2);
    info->layers.push_back({id, layers[i].compressed, layers[i].unpacked});
  }
  return finish(std::move(info));
}

}  // namespace ghostfleet::emulator
