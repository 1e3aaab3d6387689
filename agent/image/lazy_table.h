// What a table of contents says about a layer, for reading single files of it: the TOC of an eStargz or a zstd:chunked
// at the end of the blob, a SOCI zTOC beside it, or one made by reading a layer through.
//
// Thread rule: plain values. Parsed from untrusted bytes: limits kMaxTableBytes and kMaxTableFiles, every offset
// inside the blob.
// Source: soci-snapshotter, ztoc.fbs (zTOC: FlatBuffers, checkpoints of 32 KiB windows; its field numbers);
// stargz-snapshotter, docs/estargz.md (eStargz: footer of 51 bytes, stargz.index.json); containers/storage,
// pkg/chunked (zstd:chunked: its annotations, the TOC and a footer of 40 or 64 bytes in skippable frames).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/image/tar_reader.h"
#include "base/status.h"

namespace ghostfleet::image {

inline constexpr size_t kMaxTableBytes = 256u << 20;
inline constexpr size_t kMaxTableFiles = 4'000'000;

// A piece of a file by a TOC: a gzip member or a zstd frame in the blob.
struct TocPiece {
  uint64_t blob_first = 0, blob_end = 0;  // of the member, and of what may follow in it
  uint64_t inner = 0;                     // where the piece begins in what the member holds
  uint64_t file_offset = 0, size = 0;
  std::string digest;  // of the piece
  bool zeros = false;  // it is nothing else, and not in the blob
};

struct TableFile {
  TarType type = TarType::kFile;
  std::string link;
  uint64_t size = 0;
  uint32_t mode = 0;
  uint64_t tar_offset = 0;       // of the content in the tar; zTOC and whole layers
  std::vector<TocPiece> pieces;  // eStargz, zstd:chunked
};

// A file's name to what it is; whiteouts are apart.
struct LayerTable {
  std::map<std::string, TableFile> files;  // paths without a slash in front
  std::set<std::string> whiteouts, opaque;

  // Takes an entry under its name in the tar. Names that lead out are errors.
  Status add(std::string_view name, TableFile file);
};

// The begin of a span of a gzip blob, and what is needed to go on from there.
struct Checkpoint {
  uint64_t blob = 0, tar = 0;
  int bits = 0;  // of the byte before `blob` that belong to the span
  std::string window;
};

struct Ztoc {
  LayerTable table;
  uint64_t blob_bytes = 0, tar_bytes = 0;
  std::vector<Checkpoint> checkpoints;
  std::vector<std::string> span_digests;

  uint64_t span_first(size_t span) const { return checkpoints[span].blob - (checkpoints[span].bits != 0 ? 1 : 0); }
  uint64_t span_end(size_t span) const;  // may share its last byte with the next span
  size_t span_at(uint64_t tar_offset) const;
};
// Unimplemented: another compression than gzip.
Result<Ztoc> parse_ztoc(std::string_view bytes);

inline constexpr size_t kStargzFooter = 51;
// Where the TOC begins in the blob; NotFound when the bytes are no footer of an eStargz.
Result<uint64_t> parse_stargz_footer(std::string_view footer);
// The JSON of the TOC, of a zstd:chunked as well; pieces end at `toc_offset` at the latest.
Result<LayerTable> parse_stargz_toc(std::string_view json, uint64_t toc_offset);

// Where the TOC of a zstd:chunked is, and how large it is as packed and unpacked.
struct ChunkedToc {
  uint64_t offset = 0, packed = 0, unpacked = 0;
};
inline constexpr size_t kChunkedFooter = 72;  // the most bytes of the blob's end that tell it
// The annotation "OFFSET:PACKED:UNPACKED:1" of a layer of `blob_bytes`. DataLoss: it lies outside of the layer;
// Unimplemented: another kind of TOC than 1; ResourceExhausted: beyond kMaxTableBytes.
Result<ChunkedToc> parse_chunked_position(std::string_view text, uint64_t blob_bytes);
// The same from the end of the blob (kChunkedFooter bytes of it, or all); NotFound when that is no footer.
Result<ChunkedToc> parse_chunked_footer(std::string_view tail, uint64_t blob_bytes);

}  // namespace ghostfleet::image
