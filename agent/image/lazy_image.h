// LazyImage: reads single files of an image that is not there yet. Each layer is known by a table of contents (the TOC
// of an eStargz or a zstd:chunked, a SOCI zTOC); only the pieces that hold the file are fetched, checked and kept in
// the store. A layer without a table is fetched whole when a search gets to it, and read through.
//
// Thread rule: one owner; calls block. Ownership: registry and store outlive it.
// Everything that is given out was checked: zTOC by the digest in the SOCI index, which the manifest names, or which is
// about it as the registry says (referrers); spans by the digests in the zTOC; the TOC of an eStargz or a zstd:chunked
// by the annotation of its layer (without it: read as a whole layer); its pieces by the digests in the TOC. Limits:
// those of lazy_table.h; a span or piece of 64 MiB; 40 links in a path. Source: soci-snapshotter, stargz-snapshotter
// and containers/storage; case C065 (a registry that refuses later: an error for this read, asked again with the next
// one).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/image/content_store.h"
#include "agent/image/lazy_table.h"
#include "agent/image/puller.h"
#include "agent/image/registry.h"
#include "base/status.h"

namespace ghostfleet::image {

class LazyLayer;

class LazyImage {
 public:
  LazyImage(Registry* registry, ContentStore* store, const ResolvedImage& image, UnpackLimits limits);
  ~LazyImage();

  // Fetches the tables of all layers that have one; an index that the manifest does not name is asked for anew.
  Status prepare();
  // Blobs of tables that were fetched.
  const std::vector<std::string>& tables() const { return tables_; }

  // A regular file, links followed as if the image were the machine's root. NotFound: the image has no such file (and
  // never: the registry has not what is needed of it); InvalidArgument: it is no regular file.
  Status read(std::string_view path, const ByteSink& sink);

  // Fetches the next piece that is not in the store yet, without anybody having asked for it. False: all are.
  Result<bool> fetch_next();

 private:
  struct Found {
    size_t layer = 0;
    const TableFile* file = nullptr;
  };
  Result<LazyLayer*> layer(size_t index);
  Result<std::unique_ptr<LazyLayer>> open_layer(size_t index);
  Result<std::unique_ptr<LazyLayer>> open_soci(const Descriptor& blob, const Descriptor& ztoc);
  // Null when the layer is none.
  Result<std::unique_ptr<LazyLayer>> open_stargz(const Descriptor& blob);
  Result<std::unique_ptr<LazyLayer>> open_chunked(const Descriptor& blob);
  Status read_soci_index();
  Result<std::string> find_soci_index(bool anew);
  // What stands at a path, top layer first; NotFound.
  Result<Found> find(const std::string& path);
  // Follows links on the way and at the end.
  Result<Found> resolve(std::string_view path);

  Registry* registry_;
  ContentStore* store_;
  std::string digest_;  // of the manifest
  Manifest manifest_;
  std::vector<std::string> diffs_;
  UnpackLimits limits_;
  bool index_read_ = false;
  std::vector<Descriptor> ztocs_;
  std::vector<std::unique_ptr<LazyLayer>> layers_;
  std::vector<std::string> tables_;
  std::vector<ContentStore::Pin> pins_;     // of tables, until the image has a record that names them
  size_t next_layer_ = 0, next_piece_ = 0;  // of fetch_next()
};

}  // namespace ghostfleet::image
