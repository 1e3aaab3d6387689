#include "emulator/images/node_images.h"

#include <algorithm>
#include <tuple>

#include "agent/node/json_scan.h"
#include "agent/pod/images.h"
#include "kube/api/json.h"

namespace ghostfleet::emulator {
namespace {

agent::NodeImage image_of(const ImageInfo& info, const std::vector<agent::NodeImage>& preloaded) {
  for (const agent::NodeImage& image : preloaded) {
    if (!image.names.empty() && agent::normal_image_name(image.names.front()) == info.name) return image;
  }
  agent::NodeImage image;
  image.names.push_back(agent::image_id(info.name));
  if (image.names.front() != info.name) image.names.push_back(info.name);
  image.size_bytes = info.compressed;
  return image;
}

void append_image(const agent::NodeImage& image, std::string* out) {
  *out += out->back() == '[' ? R"({"names":[)" : R"(,{"names":[)";
  for (const std::string& name : image.names) {
    if (out->back() != '[') out->push_back(',');
    kube::append_json_string(name, out);
  }
  *out += R"(],"sizeBytes":)" + std::to_string(image.size_bytes) + "}";
}

}  // namespace

std::string node_images_json(const ImageDisk& disk, const std::vector<agent::NodeImage>& preloaded) {
  std::vector<agent::NodeImage> images;
  for (const ImageDisk::Held& held : disk.images()) images.push_back(image_of(*held.image, preloaded));
  return node_images_json(std::move(images));
}

std::string node_images_json(std::vector<agent::NodeImage> images) {
  std::sort(images.begin(), images.end(), [](const auto& a, const auto& b) {
    return std::tie(b.size_bytes, b.names) < std::tie(a.size_bytes, a.names);
  });
  if (images.size() > kMostNodeImages) images.resize(kMostNodeImages);
  std::string out = "[";
  for (const agent::NodeImage& image : images) append_image(image, &out);
  return out + "]";
}

std::vector<std::string> images_of_node(std::string_view node_json) {
  std::vector<std::string> out;
  agent::ArrayScan images(agent::scan_path(node_json, {"status", "images"}));
  std::string_view image;
  while (images.next(&image)) {
    std::string_view name, chosen;
    agent::ArrayScan names(agent::scan_member(image, "names"));
    // A tag rather than a digest: it is what pods ask for.
    while (names.next(&name)) {
      if (chosen.empty() || chosen.find('@') != std::string_view::npos) chosen = agent::scan_string(name);
    }
    if (agent::valid_image_name(chosen)) out.emplace_back(chosen);
  }
  return out;
}

}  // namespace ghostfleet::emulator
