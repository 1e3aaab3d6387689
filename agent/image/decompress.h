// Decompressor: a layer's bytes, pushed in as they come, to the bytes of its tar. gzip of any number of members
// (isa-l, several times faster than zlib) and zstd of any number of frames.
//
// Thread rule: one owner. Limits: a zstd window of 128 MiB; how much comes out is the sink's to limit. Errors: DataLoss
// (corrupt, wrong checksum, cut off), and what the sink says.
// Source: RFC 1952, RFC 8878.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "agent/image/manifest.h"
#include "base/status.h"

namespace ghostfleet::image {

class Decompressor {
 public:
  using Sink = std::function<Status(std::string_view)>;
  virtual ~Decompressor() = default;
  virtual Status feed(std::string_view bytes, const Sink& sink) = 0;
  // The input ended: an error when it was in the middle of something.
  virtual Status finish() = 0;
};

std::unique_ptr<Decompressor> make_decompressor(Compression compression);

// One raw deflate stream that begins inside a byte and refers back to `window` (of 32 KiB at most): `bits` of the first
// byte of `bytes` belong to it (0: it begins at a byte). Gives what lies `skip` bytes after its begin, `length` bytes,
// to the sink.
Status inflate_from(std::string_view bytes, int bits, std::string_view window, uint64_t skip, uint64_t length,
                    const Decompressor::Sink& sink);

}  // namespace ghostfleet::image
