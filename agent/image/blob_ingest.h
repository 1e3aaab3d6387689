// BlobIngest: one blob on its way into the store, chunk by chunk in any order, read in order meanwhile. Which chunks
// are whole is kept beside it, so that a later pull goes on where this one was cut.
//
// Thread rule: several threads write, each its own chunk; one reads. Ownership: the store outlives it.
// What is on the disk is not trusted: whoever reads computes the digest of everything, and discard()s what is wrong.
// Limits: a file lock keeps other pulls of the same blob waiting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/image/content_store.h"
#include "agent/image/http.h"
#include "agent/image/manifest.h"
#include "base/status.h"

namespace ghostfleet::image {

class BlobIngest {
 public:
  // Waits while somebody else pulls the blob. `chunk` 0: the blob is one chunk.
  static Result<std::unique_ptr<BlobIngest>> open(const ContentStore& store, const Descriptor& blob, uint64_t chunk,
                                                  CancelFlag* cancel);
  ~BlobIngest();

  const Descriptor& blob() const { return blob_; }
  size_t chunks() const { return chunks_.size(); }
  uint64_t first_of(size_t chunk) const { return chunk * chunk_bytes_; }
  uint64_t length_of(size_t chunk) const;
  bool whole(size_t chunk) const;
  uint64_t resumed() const { return resumed_; }  // bytes that were there when it was opened

  // Appends to a chunk.
  Status write(size_t chunk, std::string_view bytes);
  // The same, to wherever the blob has been written without a gap (a registry without ranges).
  Status write_in_order(std::string_view bytes);
  uint64_t contiguous() const;

  // At least one byte from `offset`, once it is there; 0 at the end. The error of fail().
  Result<size_t> read(uint64_t offset, char* out, size_t size);
  void fail(const Status& why);

  // To its place in the store, on the disk for good.
  Status commit();
  // Removes it.
  void discard();

 private:
  struct Chunk {
    uint64_t written = 0;
  };
  BlobIngest(const ContentStore& store, const Descriptor& blob, uint64_t chunk);
  Status lock(CancelFlag* cancel);
  Status read_marks();
  Status mark_whole(size_t chunk);
  uint64_t available(uint64_t offset) const;

  const ContentStore& store_;
  Descriptor blob_;
  uint64_t chunk_bytes_;
  std::string path_;
  Fd file_, marks_;
  uint64_t resumed_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable grown_;
  std::vector<Chunk> chunks_;
  Status failure_;
};

}  // namespace ghostfleet::image
