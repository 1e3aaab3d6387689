// Files of images and how they are pulled (kind: Images), and the same in a fleet file.
//
// Format: docs/images.md. Strict, as profiles and fleet files are: every complaint names file, line, field, value and
// what would be right. Thread rule: plain values. Limits: kMostImages, kMostLayers; sizes up to 1 TiB.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "emulator/images/image_model.h"
#include "emulator/profile/object_reader.h"

namespace ghostfleet::emulator {

Result<ImageModel> parse_image_file(std::string_view text, std::string file);
// The images that come with the program.
const std::vector<ImageEntry>& built_in_images();
// With them behind the model's own.
std::shared_ptr<const ImageModel> with_built_in_images(const ImageModel& model);
// The object `images` of a fleet file: settings and a catalogue.
void read_image_model(ObjectReader* reader, ImageModel* model);
// The same object of a group: the settings that belong to a node; what is not there stays as it is.
void read_pull_options(ObjectReader* reader, PullOptions* options);

}  // namespace ghostfleet::emulator
