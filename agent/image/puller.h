// Puller: pulls images into a ContentStore: manifest, configuration, layers by chunk from many connections at once,
// unpacked side by side while they come, merged to a root file system.
//
// agent/image is the one part of agent/ that is real: it has sockets, threads and files. Everything else of a node is a
// state machine or a model.
//
// Thread rule: pull() blocks; it starts its own threads and joins them. Several pulls may run at once and share the
// limits of the Puller. Ownership: the store and the cancel flag outlive the pull.
// Errors: those of Registry, unpack_layer() and ContentStore; after one nothing of the image is there but whole layers
// and the bytes a later pull goes on with.
// Source: containerd's and soci-snapshotter's settings (names and defaults); cases C057, C059, C063, C066.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/image/content_store.h"
#include "agent/image/layer_unpacker.h"
#include "agent/image/registry.h"
#include "base/status.h"

namespace ghostfleet::image {

enum class PullMode : unsigned char {
  kDefault,   // three whole layers at a time, unpacked one after the other: what containerd does
  kParallel,  // chunks of layers, unpacked side by side
  kLazy,      // tables of contents only; files when they are read
};
Result<PullMode> parse_pull_mode(std::string_view text);
std::string_view pull_mode_name(PullMode mode);

struct PullSettings {
  PullMode mode = PullMode::kDefault;
  int max_concurrent_downloads = -1;  // -1: no limit
  int max_concurrent_downloads_per_image = 3;
  uint64_t concurrent_download_chunk_size = 0;  // 0: whole layers
  int max_concurrent_unpacks = -1;
  int max_concurrent_unpacks_per_image = 1;
  bool discard_unpacked_layers = false;
};
// What the mode stands for: 20 downloads of 16 MiB and 12 unpacks when parallel.
PullSettings settings_of(PullMode mode);
// "16mb", "8MiB", "" or a number of bytes; the units of the setting are powers of 1024.
Result<uint64_t> parse_size(std::string_view text);

struct PullOptions {
  PullSettings settings;
  Platform platform = host_platform();
  bool strict_media_types = false;
  HttpLimits http;
  std::string ca_file;
  RegistryOptions registry;
  UnpackLimits limits;
};

struct LayerReport {
  std::string digest, state;  // state: pulled, present, foreign, lazy
  uint64_t size = 0, tar_bytes = 0, files = 0, resumed = 0;
};

struct PullReport {
  std::string reference, manifest, platform, mode, rootfs;
  std::vector<LayerReport> layers;
  uint64_t bytes = 0, unpacked_bytes = 0, files = 0, skipped_attributes = 0;
  uint64_t requests = 0, repeats = 0, throttled = 0, logins = 0, redirects = 0, stalls = 0;
  double seconds = 0, seconds_to_manifest = 0;
};

// At most `limit` holders at a time; none or a negative one: no limit.
class Gate {
 public:
  explicit Gate(int limit) : free_(limit), limited_(limit >= 0) {}
  void enter();
  void leave();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
  bool limited_;
};

// The manifest of an image for one platform, with its configuration; both are in the store afterwards, and pinned.
struct ResolvedImage {
  std::string manifest_digest, manifest_bytes;
  std::string target_digest;  // of what the registry answered first: the manifest, or its index; empty: not known
  Manifest manifest;
  ImageConfig config;
  ContentStore::Pin pin;  // of these, of the layers and of what is made of them
};
Result<ResolvedImage> resolve_image(Registry* registry, const Reference& reference, const Platform& platform,
                                    ContentStore* store);
// The manifest and the configuration of an image that is in the store.
Result<ResolvedImage> stored_image(const ImageRecord& record, const ContentStore& store);

class Puller {
 public:
  Puller(ContentStore* store, PullOptions options);
  ~Puller();
  // `outer` ends it early.
  Result<PullReport> pull(const Reference& reference, CancelFlag* outer);
  // With other credentials and another way to the registry than those of the options.
  Result<PullReport> pull(const Reference& reference, const RegistryOptions& how, CancelFlag* outer);

 private:
  ContentStore* store_;
  PullOptions options_;
  HttpClient http_;
  Gate downloads_, unpacks_;
};

}  // namespace ghostfleet::image
