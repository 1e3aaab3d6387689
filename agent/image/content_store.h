// ContentStore: what was pulled, in a folder. Everything arrives under a temporary name and is renamed when it is
// whole and its digest is right: what has a name here is complete.
//
//   lock                      held shared by pulls, alone by rm and while images are removed (a lock of the open file,
//                             F_OFD_SETLK)
//   blobs/sha256/HEX          as the registry has them
//   ingest/HEX.part, .done    a blob on its way, and which chunks of it are there: a pull goes on where one was cut
//   layers/HEX/root, marks    an unpacked layer, by the digest of its tar (diff id)
//   rootfs/HEX                layers merged, by chain id; hard links to those in layers/
//   spans/HEX/NAME            pieces of a layer read lazily
//   images/HEX.json           a record for each reference
//   pulled/                   whose credentials images were pulled with (pull_records.h)
//   tmp/                      on its way
//
// Thread rule: any thread. Several processes may use one folder. Mode 0700: files inside have the owners and bits of
// their images. Limits: a record of 4 MiB. Errors name the path.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/image/root_folder.h"
#include "base/status.h"

namespace ghostfleet::image {

struct ImageRecord {
  std::string reference, manifest, config, chain;  // digests; chain empty while only read lazily
  std::string target;  // what the registry answered for the name: the manifest, or an index it is in; empty: not known
  std::string platform, puller;
  std::vector<std::string> layers, diffs;  // digests of blobs and of their tars, bottom first
  std::vector<std::string> extra;          // other blobs that belong to it (tables of contents)
  uint64_t size = 0;                       // bytes of the blobs
  std::string pulled;                      // when, RFC 3339
  bool plain_http = false;                 // how it was reached, for reading on
};

class ContentStore {
 public:
  enum class Lock : unsigned char { kShared, kAlone };
  // Makes the folder when it is not there. kAlone: ResourceExhausted when somebody uses it (it does not wait).
  static Result<std::unique_ptr<ContentStore>> open(const std::string& folder, Lock lock);
  ~ContentStore();

  std::string blob_path(std::string_view digest) const;
  std::string layer_path(std::string_view diff) const;
  std::string rootfs_path(std::string_view chain) const;
  std::string ingest_path(std::string_view digest) const;  // without ".part"
  std::string span_path(std::string_view layer, std::string_view name) const;

  bool has_blob(std::string_view digest) const;
  bool has_layer(std::string_view diff) const;
  bool has_rootfs(std::string_view chain) const;

  // The digest must be that of the bytes.
  Status put_blob(std::string_view digest, const std::string& bytes);
  // Checked again: a disk may lie too.
  Result<std::string> read_blob(std::string_view digest, size_t limit) const;
  Status put_span(std::string_view layer, std::string_view name, const std::string& bytes);
  bool has_span(std::string_view layer, std::string_view name) const;
  // Empty when it is not there.
  std::string read_span(std::string_view layer, std::string_view name, size_t limit) const;

  // A folder of our own to make something in; whoever asks renames or removes it.
  Result<std::string> temporary_folder(std::string_view name);
  // To its place; somebody else's being there already is fine, ours goes then.
  Status move_in(const std::string& temporary, const std::string& place);

  Status put_image(const ImageRecord& record);
  Result<ImageRecord> find_image(const std::string& reference) const;  // NotFound names the reference
  Result<std::vector<ImageRecord>> images() const;
  Status remove_image(const std::string& reference);

  struct Collected {
    uint64_t blobs = 0, layers = 0, roots = 0, bytes = 0;
  };
  // Removes what no image refers to, and what was left half-made. Needs Lock::kAlone.
  Result<Collected> collect();
  // Takes images away by their names, and then what no image refers to any more, beside threads of this process that
  // pull and read. What they make or count on is to be pinned. ResourceExhausted, and nothing is done: another process
  // uses the folder.
  Result<Collected> remove_images(const std::vector<std::string>& references);
  // As long as somebody has it, what these digests name (blobs, layers, roots; there or to come) is not removed.
  using Pin = std::shared_ptr<const void>;
  Pin pin(const std::vector<std::string>& digests);
  // Bytes of cut pulls that a further pull would go on with.
  uint64_t unfinished_bytes() const;

 private:
  ContentStore(std::string folder, Fd lock, Lock kind)
      : folder_(std::move(folder)), lock_(std::move(lock)), kind_(kind) {}
  Status make_folders() const;
  // Holds the folder alone until the end of the scope.
  class Alone;
  struct Kept;
  Result<Kept> kept_by_images() const;
  Status sweep(const std::string& folder, const std::set<std::string>& keep, uint64_t* count, uint64_t* bytes);
  Status sweep_unused(Collected* out);
  bool take_out(const std::string& path, const std::string& name, const std::string& place);
  Status write_in_one(const std::string& path, const std::string& bytes, bool durable);

  std::string folder_;
  Fd lock_;
  Lock kind_;
  std::mutex mutex_;                 // guards what follows
  std::multiset<std::string> pins_;  // digests without their algorithm
  std::set<std::string> sticky_;     // that were pinned at any time since the present sweep began
  bool sweeping_ = false;
};

}  // namespace ghostfleet::image
