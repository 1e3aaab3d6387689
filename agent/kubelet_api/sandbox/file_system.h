// FileSystem: the files of one container as exec sees them: what its image and mounts pretend to hold, and what was
// written since. It is memory only; no file of the machine is read or written.
//
// Thread rule: plain value. Limits: kMaxBytes of content and kMaxFiles entries of what was written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"

namespace ghostfleet::kubelet_api {

enum class FileError : unsigned char {
  kOk,
  kNoEntry,
  kIsDirectory,
  kNotDirectory,
  kExists,
  kNoSpace,
  kReadOnly,
  kNotEmpty,
  kDenied
};
// "No such file or directory" and so on.
std::string_view file_error_text(FileError error);

struct FileEntry {
  SharedBytes content;  // null: a directory
  uint32_t mode = 0644;
  WallTime modified;
  bool read_only = false;
  bool hidden = false;  // there, but not to be read
  bool directory() const { return content == nullptr; }
  size_t size() const { return content ? content->size() : 4096; }
};

class FileSystem {
 public:
  static constexpr size_t kMaxBytes = 8 * 1024 * 1024;
  static constexpr size_t kMaxFiles = 4096;
  static constexpr size_t kMaxPath = 1024;

  FileSystem();

  // An absolute path without "." and "..".
  static std::string resolve(std::string_view directory, std::string_view path);

  const FileEntry* find(const std::string& path) const;
  // Names in a directory, sorted.
  std::vector<std::string> list(const std::string& directory) const;
  // All paths below, the directory itself first.
  std::vector<std::string> walk(const std::string& path) const;

  // For the facts of image and mounts: makes directories on the way and counts for nothing.
  void provide(const std::string& path, std::string content, WallTime modified, bool read_only = false);
  void provide_directory(const std::string& path, WallTime modified, bool read_only = false);
  void provide_hidden(const std::string& path, WallTime modified);

  FileError write(const std::string& path, std::string_view content, bool append, WallTime now);
  FileError make_directory(const std::string& path, bool parents, WallTime now);
  FileError remove(const std::string& path, bool recursive);
  FileError set_mode(const std::string& path, uint32_t mode);
  FileError read(const std::string& path, SharedBytes* out) const;

  bool changed() const { return changed_; }
  size_t used_bytes() const { return used_; }

 private:
  const FileEntry* parent_of(const std::string& path) const;

  std::map<std::string, FileEntry> entries_;
  size_t used_ = 0, written_ = 0;
  bool changed_ = false;
};

}  // namespace ghostfleet::kubelet_api
