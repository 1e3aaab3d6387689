// unpack_layer: a blob, as it comes, to files: read and decompressed in one thread, hashed and written in another. Both
// digests are computed on the way: the blob's and that of its tar.
//
// Thread rule: the caller's thread, and one more inside. Limits: UnpackLimits; 8 MiB between the two threads.
// Errors: what the source, the archive or the disk says; DataLoss names both digests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/image/layer_unpacker.h"
#include "agent/image/manifest.h"
#include "base/status.h"

namespace ghostfleet::image {

// At least one byte of a blob from `offset`, or 0 at its end.
using BlobSource = std::function<Result<size_t>(uint64_t offset, char* out, size_t size)>;

struct LayerTask {
  std::string digest, diff;  // of the blob and of its tar
  uint64_t size = 0;         // of the blob
  Compression compression = Compression::kNone;
  UnpackLimits limits;
};

struct LayerResult {
  LayerMarks marks;
  UnpackCounts counts;
  uint64_t tar_bytes = 0;
};

// Files go to `folder`, which is there and empty. After an error it may hold anything.
Result<LayerResult> unpack_layer(const LayerTask& task, const BlobSource& source, const std::string& folder);

}  // namespace ghostfleet::image
