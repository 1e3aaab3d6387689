// Manifests, indexes (manifest lists) and configurations of images, read from untrusted bytes.
//
// Thread rule: plain values. Limits: kMaxManifestBytes, kMaxConfigBytes, kMaxLayers, kMaxManifests; a descriptor's size
// at most 1 TiB. Beyond them and for wrong fields: an error that names the field and the value.
// Source: OCI image-spec, manifest.md and image-index.md; the SOCI index; case C063.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ghostfleet::image {

inline constexpr size_t kMaxManifestBytes = 4u << 20;
inline constexpr size_t kMaxConfigBytes = 8u << 20;
inline constexpr size_t kMaxLayers = 1000;
inline constexpr size_t kMaxManifests = 1000;

struct Platform {
  std::string os, architecture, variant;
  std::string to_string() const;  // "linux/arm64/v8"
};
// "linux/amd64" or "linux/arm64/v8".
Result<Platform> parse_platform(std::string_view text);
// That of this machine.
Platform host_platform();

struct Descriptor {
  std::string media_type, artifact_type, digest;
  uint64_t size = 0;
  std::vector<std::string> urls;
  std::vector<std::pair<std::string, std::string>> annotations;
  Platform platform;  // of an index's entries; empty when not told
  // Empty when there is none.
  std::string_view annotation(std::string_view key) const;
};

struct Manifest {
  std::string media_type, artifact_type;
  Descriptor config;
  std::string subject;  // digest of the manifest that this one is about; empty: none
  std::vector<Descriptor> layers;
  std::vector<std::pair<std::string, std::string>> annotations;
  std::string_view annotation(std::string_view key) const;
};

// What a registry answers for a name: a manifest, or an index of manifests.
struct Document {
  bool is_index = false;
  Manifest manifest;                  // !is_index
  std::vector<Descriptor> manifests;  // is_index
};

enum class Compression : unsigned char { kNone, kGzip, kZstd };
struct LayerKind {
  Compression compression = Compression::kNone;
  bool foreign = false;  // not to be fetched from this registry
};

// The Accept header of a manifest request: all four types, the new ones first.
std::string_view manifest_accept();
// `content_type` decides what it is when the bytes do not say. Schema 1 is refused.
Result<Document> parse_document(std::string_view bytes, std::string_view content_type);
// The entry for a platform; an entry of the same architecture without a variant fits any variant. NotFound names what
// there is.
Result<Descriptor> choose_platform(const std::vector<Descriptor>& manifests, const Platform& platform);
// `strict` refuses what no specification has, such as zstd inside Docker's types, which containerd takes.
Result<LayerKind> layer_kind(std::string_view media_type, bool strict);

struct ImageConfig {
  Platform platform;
  std::vector<std::string> diff_ids;  // of the uncompressed layers, bottom first
};
Result<ImageConfig> parse_config(std::string_view bytes);
// The name of a stack of layers: of one layer its diff id, of more the digest of "CHAIN DIFF".
std::string chain_id(const std::vector<std::string>& diff_ids);

}  // namespace ghostfleet::image
