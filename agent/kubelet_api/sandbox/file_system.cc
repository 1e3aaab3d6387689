#include "agent/kubelet_api/sandbox/file_system.h"

#include <algorithm>

namespace ghostfleet::kubelet_api {
namespace {

std::string parent_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string below(const std::string& directory) { return directory == "/" ? directory : directory + "/"; }

}  // namespace

std::string_view file_error_text(FileError error) {
  switch (error) {
    case FileError::kOk: return "";
    case FileError::kNoEntry: return "No such file or directory";
    case FileError::kIsDirectory: return "Is a directory";
    case FileError::kNotDirectory: return "Not a directory";
    case FileError::kExists: return "File exists";
    case FileError::kNoSpace: return "No space left on device";
    case FileError::kReadOnly: return "Read-only file system";
    case FileError::kNotEmpty: return "Directory not empty";
    case FileError::kDenied: return "Permission denied";
  }
  return "";
}

FileSystem::FileSystem() { entries_["/"] = FileEntry{nullptr, 0755, {}, false, false}; }

std::string FileSystem::resolve(std::string_view directory, std::string_view path) {
  std::string joined = path.starts_with('/') ? std::string(path) : std::string(directory) + "/" + std::string(path);
  std::vector<std::string_view> parts;
  std::string_view rest = joined;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string out;
  for (const std::string_view part : parts) out.append("/").append(part);
  return out.empty() ? "/" : out;
}

const FileEntry* FileSystem::find(const std::string& path) const {
  const auto it = entries_.find(path);
  return it == entries_.end() ? nullptr : &it->second;
}

const FileEntry* FileSystem::parent_of(const std::string& path) const { return find(parent_path(path)); }

std::vector<std::string> FileSystem::list(const std::string& directory) const {
  const std::string prefix = below(directory);
  std::vector<std::string> names;
  for (auto it = entries_.lower_bound(prefix); it != entries_.end() && it->first.starts_with(prefix); ++it) {
    const std::string name = it->first.substr(prefix.size());
    if (!name.empty() && name.find('/') == std::string::npos) names.push_back(name);
  }
  return names;
}

std::vector<std::string> FileSystem::walk(const std::string& path) const {
  std::vector<std::string> out;
  if (find(path) == nullptr) return out;
  out.push_back(path);
  const std::string prefix = below(path);
  for (auto it = entries_.lower_bound(prefix); it != entries_.end() && it->first.starts_with(prefix); ++it) {
    if (it->first != path) out.push_back(it->first);
  }
  return out;
}

void FileSystem::provide_directory(const std::string& path, WallTime modified, bool read_only) {
  if (path != "/") provide_directory(parent_path(path), modified, false);
  const auto [it, fresh] = entries_.try_emplace(path, FileEntry{nullptr, 0755, modified, read_only, false});
  if (!fresh && read_only) it->second.read_only = true;
}

void FileSystem::provide(const std::string& path, std::string content, WallTime modified, bool read_only) {
  provide_directory(parent_path(path), modified);
  entries_[path] = FileEntry{share(std::move(content)), 0644, modified, read_only, false};
}

void FileSystem::provide_hidden(const std::string& path, WallTime modified) {
  provide_directory(parent_path(path), modified);
  entries_[path] = FileEntry{share(""), 0600, modified, true, true};
}

FileError FileSystem::write(const std::string& path, std::string_view content, bool append, WallTime now) {
  const auto it = entries_.find(path);
  if (it != entries_.end() && it->second.directory()) return FileError::kIsDirectory;
  if (it != entries_.end() && it->second.read_only) return FileError::kReadOnly;
  const FileEntry* parent = parent_of(path);
  if (parent == nullptr) return FileError::kNoEntry;
  if (!parent->directory()) return FileError::kNotDirectory;
  if (parent->read_only) return FileError::kReadOnly;
  const size_t old = it == entries_.end() ? 0 : it->second.size();
  const size_t size = (append ? old : 0) + content.size();
  if (size > kMaxBytes || used_ - std::min(used_, old) + size > kMaxBytes || path.size() > kMaxPath)
    return FileError::kNoSpace;
  if (it == entries_.end() && ++written_ > kMaxFiles) return FileError::kNoSpace;
  std::string text = append && it != entries_.end() ? *it->second.content : std::string();
  text += content;
  const uint32_t mode = it == entries_.end() ? 0644 : it->second.mode;
  used_ = used_ - std::min(used_, old) + size;
  entries_[path] = FileEntry{share(std::move(text)), mode, now, false, false};
  changed_ = true;
  return FileError::kOk;
}

FileError FileSystem::make_directory(const std::string& path, bool parents, WallTime now) {
  if (const FileEntry* there = find(path)) {
    return parents && there->directory() ? FileError::kOk : FileError::kExists;
  }
  if (parents) {
    const FileError error = make_directory(parent_path(path), true, now);
    if (error != FileError::kOk) return error == FileError::kExists ? FileError::kNotDirectory : error;
  }
  const FileEntry* parent = parent_of(path);
  if (parent == nullptr) return FileError::kNoEntry;
  if (!parent->directory()) return FileError::kNotDirectory;
  if (parent->read_only) return FileError::kReadOnly;
  if (++written_ > kMaxFiles || path.size() > kMaxPath) return FileError::kNoSpace;
  entries_[path] = FileEntry{nullptr, 0755, now, false, false};
  changed_ = true;
  return FileError::kOk;
}

FileError FileSystem::remove(const std::string& path, bool recursive) {
  const FileEntry* entry = find(path);
  if (entry == nullptr) return FileError::kNoEntry;
  if (path == "/" || entry->read_only) return FileError::kReadOnly;
  if (entry->directory() && !recursive) return FileError::kIsDirectory;
  for (const std::string& each : walk(path)) {
    if (find(each)->read_only) return FileError::kReadOnly;
  }
  for (const std::string& each : walk(path)) {
    const FileEntry* gone = find(each);
    if (!gone->directory()) used_ -= std::min(used_, gone->size());
    entries_.erase(each);
  }
  changed_ = true;
  return FileError::kOk;
}

FileError FileSystem::set_mode(const std::string& path, uint32_t mode) {
  const auto it = entries_.find(path);
  if (it == entries_.end()) return FileError::kNoEntry;
  if (it->second.read_only) return FileError::kReadOnly;
  it->second.mode = mode;
  changed_ = true;
  return FileError::kOk;
}

FileError FileSystem::read(const std::string& path, SharedBytes* out) const {
  const FileEntry* entry = find(path);
  if (entry == nullptr) {
    const FileEntry* parent = parent_of(path);
    return parent != nullptr && !parent->directory() ? FileError::kNotDirectory : FileError::kNoEntry;
  }
  if (entry->directory()) return FileError::kIsDirectory;
  if (entry->hidden) return FileError::kDenied;
  *out = entry->content;
  return FileError::kOk;
}

}  // namespace ghostfleet::kubelet_api
