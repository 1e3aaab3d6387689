// The flags of real image pulls for `agent`: which folder, and how registries are reached.
//
// Thread rule: main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "emulator/fleet/store_puller.h"

namespace CLI {
class App;
}

namespace ghostfleet::cmd {

struct ImageStoreFlags {
  std::string store, puller, ca_file, docker_config, platform;
  std::vector<std::string> insecure;
  int parallel = 0;  // 0: not given
  bool serialize = false;
  bool no_background_fetch = false;
  std::string background_fetch_delay, minimum_ttl, verification;
  std::vector<std::string> allowlist;
  int gc_high = -1, gc_low = -1;  // -1: not given
};

void add_image_store_flags(CLI::App& command, ImageStoreFlags* flags);
// Null: without --image-store. Makes the folder when it is not there, and tries whether it can be used.
Result<std::shared_ptr<const emulator::ImageStoreOptions>> image_store_options(const ImageStoreFlags& flags);

}  // namespace ghostfleet::cmd
