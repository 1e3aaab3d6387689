// The images of a node as its status tells them: largest first, at most 50, each by its digest and its tag.
//
// Thread rule: pure functions. Source: the Node of a kubelet 1.36.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/node/node_template.h"
#include "emulator/images/image_disk.h"

namespace ghostfleet::emulator {

inline constexpr size_t kMostNodeImages = 50;  // a kubelet's nodeStatusMaxImages

// A JSON list.
std::string node_images_json(std::vector<agent::NodeImage> images);
// The same of a disk. Those that came with the node have the names and sizes of its template.
std::string node_images_json(const ImageDisk& disk, const std::vector<agent::NodeImage>& preloaded);

// A name for each image that the status of a Node tells.
std::vector<std::string> images_of_node(std::string_view node_json);

}  // namespace ghostfleet::emulator
