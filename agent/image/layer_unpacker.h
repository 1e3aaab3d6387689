// LayerUnpacker: the tar of one layer to files in a folder of its own, and what it says about layers below it
// (whiteouts, opaque folders). merge_layer() puts a layer on top of others by hard links, whiteouts applied.
//
// Thread rule: one owner. Nothing is written outside the folder (RootFolder). Devices, names and links that lead out
// and what exceeds UnpackLimits are errors that name the entry. Owners, set-user-id bits and capabilities are set as
// far as the process may; they are counted when not.
// The files of a merged root are those of its layers: nobody may write to them in place.
// Source: soci-snapshotter's parallel pull mode; OCI image-spec layer.md (whiteouts: ".wh.NAME", ".wh..wh..opq").
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/image/root_folder.h"
#include "agent/image/tar_reader.h"
#include "base/status.h"

namespace ghostfleet::image {

struct UnpackLimits {
  uint64_t max_entries = 4'000'000;
  uint64_t max_bytes = 256ull << 30;  // of the tar
  // Of the tar to its compressed form, once it is larger than `ratio_from`: a file of zeros is about 1000.
  uint64_t max_ratio = 2000;
  uint64_t ratio_from = 1ull << 30;
};

// What a layer says beside its files. Paths are below the root, without a slash in front.
struct LayerMarks {
  std::vector<std::string> whiteouts;  // removed from below
  std::vector<std::string> opaque;     // folders of which nothing is left from below
  std::vector<std::string> implied;    // folders that only stand in the names of others; "" for the root
};
std::string marks_to_json(const LayerMarks& marks);
Result<LayerMarks> marks_from_json(std::string_view bytes);

struct UnpackCounts {
  uint64_t entries = 0, files = 0, bytes = 0;
  uint64_t skipped_attributes = 0;  // owners and extended attributes that could not be set
};

// ".wh.NAME" and ".wh..wh..opq": what the last part of a name means.
enum class WhiteoutKind : unsigned char { kNone, kWhiteout, kOpaque, kOther };
WhiteoutKind whiteout_kind(std::string_view name);
inline constexpr std::string_view kWhiteoutPrefix = ".wh.";

class LayerUnpacker final : public TarSink {
 public:
  LayerUnpacker(RootFolder root, UnpackLimits limits);

  Status on_entry(const TarEntry& entry) override;
  Status on_content(std::string_view bytes) override;
  Status on_entry_end() override;
  // After the last entry: modes and times of folders.
  Status finish();

  const LayerMarks& marks() const { return marks_; }
  const UnpackCounts& counts() const { return counts_; }

 private:
  struct Attributes {
    uint32_t mode = 0755;
    uint64_t uid = 0, gid = 0;
    int64_t seconds = 0;
    uint32_t nanoseconds = 0;
    std::vector<std::pair<std::string, std::string>> xattrs;
  };

  Status make(const TarEntry& entry, const std::vector<std::string>& parts);
  Status make_folder(const TarEntry& entry, int holder, const std::string& name, const std::string& path);
  Status make_file(const TarEntry& entry, int holder, const std::string& name);
  Status make_symlink(const TarEntry& entry, int holder, const std::string& name);
  Status make_hardlink(const TarEntry& entry, const std::vector<std::string>& parts);
  Status take_whiteout(const TarEntry& entry, const std::vector<std::string>& parts);
  Status make_room(int holder, const std::string& name, bool folder_stays);
  void set_owner(int fd, const Attributes& a);
  void set_xattrs(int fd, const Attributes& a);
  Status set_attributes(int fd, const std::string& path, const Attributes& a);
  Status set_link_attributes(int holder, const std::string& name, const Attributes& a);
  static Attributes attributes_of(const TarEntry& entry);

  RootFolder root_;
  UnpackLimits limits_;
  bool privileged_;
  LayerMarks marks_;
  UnpackCounts counts_;
  std::set<std::string> implied_;
  std::map<std::string, Attributes> folders_;  // set at the end, deepest first
  Fd file_;
  std::string file_path_;
  Attributes file_attributes_;
};

// Puts the unpacked layer in `layer` on top of `root`.
Status merge_layer(const RootFolder& layer, const LayerMarks& marks, RootFolder* root);

}  // namespace ghostfleet::image
