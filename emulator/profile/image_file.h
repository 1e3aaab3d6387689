// Image catalogue files (kind: Images), and the settings of the image model as a fleet file will hold them.
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

Result<std::vector<ImageEntry>> parse_image_file(std::string_view text, std::string file);
// The images that come with the program.
const std::vector<ImageEntry>& built_in_images();
// With them behind the model's own.
std::shared_ptr<const ImageModel> with_built_in_images(const ImageModel& model);
// The object `images` (docs/images.md).
void read_image_model(ObjectReader* reader, ImageModel* model);

}  // namespace ghostfleet::emulator
