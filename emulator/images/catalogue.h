// ImageCatalogue: which layers images have. An entry is a glob over names and its layers; the first entry that matches
// counts. A layer with an id is the same layer wherever that id stands; one without belongs to its image alone. What no
// entry matches gets layers of a made-up size (20 to 720 MB), the same at every start.
//
// ImageIndex looks images up by the name a pod gives, and remembers what it found.
// Units: bytes; `compressed` is what comes over the network, `unpacked` what lies on the disk.
// Thread rule: a catalogue is immutable; an index has one owner, what it gives out is immutable.
// Limits: kMostImages, kMostLayers (limits.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ghostfleet::emulator {

inline constexpr size_t kMostImages = 10000;
inline constexpr size_t kMostLayers = 127;  // as many as an overlay filesystem takes

struct ImageLayer {
  std::string id;  // empty: of this image alone
  int64_t compressed = 0, unpacked = 0;
};

struct ImageEntry {
  std::string match;
  std::vector<ImageLayer> layers;
};

struct ImageCatalogue {
  std::vector<ImageEntry> entries;
  const ImageEntry* find(std::string_view image) const;  // as named, or with registry and tag
};

// A layer as a node knows it.
struct LayerInfo {
  uint64_t id = 0;
  int64_t compressed = 0, unpacked = 0;
};

struct ImageInfo {
  std::string name;               // with registry and tag: "docker.io/library/nginx:latest"
  std::vector<LayerInfo> layers;  // by id
  int64_t compressed = 0, unpacked = 0;
};

class ImageIndex {
 public:
  explicit ImageIndex(std::shared_ptr<const ImageCatalogue> catalogue) : catalogue_(std::move(catalogue)) {}
  std::shared_ptr<const ImageInfo> find(std::string_view image);
  // An image that a node has from the beginning, of the size its profile says: one layer, unless it was found before.
  std::shared_ptr<const ImageInfo> preloaded(std::string_view image, int64_t size);

 private:
  std::shared_ptr<const ImageInfo> remember(std::string key, std::shared_ptr<const ImageInfo> info);
  std::shared_ptr<const ImageInfo> make(std::string_view image) const;

  std::shared_ptr<const ImageCatalogue> catalogue_;
  std::unordered_map<std::string, std::shared_ptr<const ImageInfo>> known_;
};

}  // namespace ghostfleet::emulator
