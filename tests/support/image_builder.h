// Makes images for tests: tars, compressed layers, manifests, an eStargz, a zTOC. Tests only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/rough_registry.h"

namespace ghostfleet::tests {

struct TarFile {
  std::string name, content;
  char type = '0';
  std::string link;
  unsigned mode = 0644;
};
// With two zero blocks at the end. Names beyond 100 bytes come as pax headers.
std::string make_tar(const std::vector<TarFile>& files);
std::string gzip(std::string_view bytes, int level = 6);
std::string zstd(std::string_view bytes);
std::string digest(std::string_view bytes);
// Bytes that do not compress well; the same for the same seed.
std::string noise(size_t size, uint64_t seed);
// Bytes that compress to about a third.
std::string prose(size_t size, uint64_t seed);

struct LayerSpec {
  std::string tar, blob;
  std::string media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
  std::vector<std::pair<std::string, std::string>> annotations;
  std::string urls;  // a JSON list, or empty
};
LayerSpec gzip_layer(const std::vector<TarFile>& files);

struct BuiltImage {
  std::string manifest, digest, config;
};
// Puts layers, configuration and manifest on the shelf, the manifest under its digest and under `tag`.
BuiltImage put_image(Shelf* shelf, const std::string& tag, const std::vector<LayerSpec>& layers,
                     const std::string& more_manifest_fields = "");

// Each file (in pieces of `chunk`) a gzip member, the TOC behind them. Annotated with the digest of the TOC.
LayerSpec stargz_layer(const std::vector<TarFile>& files, size_t chunk);
// The same with zstd frames: a zstd:chunked, as containers/storage writes it. Of a file that is all zeros the TOC says
// so alone. `position`: the place of the TOC is in an annotation too.
LayerSpec chunked_layer(const std::vector<TarFile>& files, size_t chunk, bool position = true);
// The zTOC of a gzip layer: checkpoints at block ends at least `span` bytes of tar apart.
std::string make_ztoc(const LayerSpec& layer, const std::vector<TarFile>& files, size_t span);
// An image of one layer with its SOCI index (version 2), which the manifest names.
BuiltImage put_soci_image(Shelf* shelf, const std::string& tag, const LayerSpec& layer, const std::string& ztoc);
// Its index alone, of that version and about a manifest (`subject`; may be empty). What a list of referrers has of it.
std::string put_soci_index(Shelf* shelf, int version, const std::string& subject, const LayerSpec& layer,
                           const std::string& ztoc);

}  // namespace ghostfleet::tests
