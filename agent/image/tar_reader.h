// TarReader: a tar archive, pushed in as it comes, to entries. Understands ustar, pax and GNU's long names and
// numbers; no sparse files.
//
// Thread rule: one owner. Shapes: feed() takes any piece of the archive; a file's content is passed on without a copy.
// Limits: a name or link of 4,096 bytes, pax headers of 1 MiB an entry, a file of 1 TiB. Errors: DataLoss (cut or
// corrupt), InvalidArgument and Unimplemented name the entry.
// Source: POSIX pax interchange format; GNU tar's manual ("Basic Tar Format").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ghostfleet::image {

enum class TarType : unsigned char { kFile, kDirectory, kSymlink, kHardlink, kCharDevice, kBlockDevice, kFifo };

struct TarEntry {
  std::string name;  // as it stands in the archive
  std::string link;
  TarType type = TarType::kFile;
  uint64_t size = 0;  // of the content that follows; 0 but for files
  uint32_t mode = 0;  // the twelve permission bits
  uint64_t uid = 0, gid = 0;
  int64_t mtime_seconds = 0;
  uint32_t mtime_nanoseconds = 0;
  uint64_t content_offset = 0;  // in the archive
  std::vector<std::pair<std::string, std::string>> xattrs;
};

class TarSink {
 public:
  virtual ~TarSink() = default;
  virtual Status on_entry(const TarEntry& entry) = 0;
  virtual Status on_content(std::string_view bytes) = 0;  // of the last entry; in all its size
  virtual Status on_entry_end() = 0;
};

class TarReader {
 public:
  static constexpr size_t kMaxName = 4096;
  static constexpr size_t kMaxPax = 1u << 20;
  static constexpr uint64_t kMaxFile = 1ull << 40;

  explicit TarReader(TarSink* sink) : sink_(sink) {}
  Status feed(std::string_view bytes);
  // The archive ended: an error when it was in the middle of an entry.
  Status finish() const;
  uint64_t position() const { return position_; }

 private:
  enum class State : unsigned char { kHeader, kContent, kPadding, kPax, kGlobalPax, kLongName, kLongLink, kEnd };

  Status on_header(const char* block);
  Status on_extension(State kind, uint64_t size);
  Status extension_done();
  Status begin_entry(const char* block, char type, uint64_t size);
  Status apply_pax(std::string_view records);
  Status apply_pax_record(std::string_view key, std::string_view value);
  Status end_content();
  Status take(std::string_view* bytes);

  TarSink* sink_;
  State state_ = State::kHeader;
  State extension_ = State::kHeader;
  std::string buffer_;      // a header, or an extension, in the making
  uint64_t remaining_ = 0;  // of content or extension
  uint64_t padding_ = 0;
  uint64_t position_ = 0;
  TarEntry pending_;  // what extensions said about the next entry
  bool has_name_ = false, has_link_ = false, has_size_ = false, has_uid_ = false, has_gid_ = false, has_mtime_ = false;
  size_t pax_bytes_ = 0;
};

}  // namespace ghostfleet::image
