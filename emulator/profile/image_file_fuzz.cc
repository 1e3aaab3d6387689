// Feeds image catalogues that make no sense to their reader, and what it accepts to an index.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "emulator/profile/image_file.h"

using namespace ghostfleet::emulator;

std::vector<std::string> fuzz_seeds();
std::vector<std::string> fuzz_seeds() {
  return {
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nmetadata: {name: x}\nspec:\n  images:\n  - match: '*'\n"
      "    layers:\n    - {id: a, compressed: 600M, unpacked: 1.5Gi}\n    - {compressed: 3}\n",
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nspec: {images: [{match: a?b*, compressed: 1e3, layerCount: "
      "127}, {match: '', layers: []}]}\n",
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nspec:\n  images: &a\n  - {match: c, compressed: 1Ti, "
      "unpacked: "
      "0}\n  - {match: c, compressed: -1}\n  more: *a\n",
      "apiVersion: ghostfleet.dev/v1alpha1\nkind: Images\nspec:\n  settings: {puller: lazy, diskMBps: 1e3, diskSize: "
      "5Gi, registries: [{match: x, requestsPerSecond: 5}]}\n",
  };
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 8192) return 0;
  const auto model = parse_image_file(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!model.ok()) return 0;
  ImageIndex index(std::make_shared<const ImageCatalogue>(ImageCatalogue{model->images}));
  for (const char* image : {"a", "acb", "registry.example/x:1", ""}) {
    const auto info = index.find(image);
    if (info->layers.size() > kMostLayers || info->compressed < 0 || info->unpacked < 0) std::abort();
  }
  return 0;
}
