#include "agent/image/layer_unpacker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "kube/api/json.h"

namespace ghostfleet::image {
namespace {

constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr size_t kMaxMarks = 4'000'000;

std::string shown(std::string_view path) { return std::string(path.substr(0, 200)); }

timespec time_of(int64_t seconds, uint32_t nanoseconds) {
  return {static_cast<time_t>(seconds), static_cast<long>(nanoseconds)};
}

kube::JsonArray array_of(const std::vector<std::string>& all) {
  kube::JsonArray out;
  for (const std::string& one : all) out.emplace_back(one);
  return out;
}

Status read_array(const kube::Json& json, std::string_view field, std::vector<std::string>* out) {
  const kube::JsonArray* items = kube::get_array(json, field);
  if (items == nullptr || items->size() > kMaxMarks) return Status(Code::kDataLoss, "a layer's marks cannot be read");
  for (const kube::Json& one : *items) {
    if (one.is_string()) out->emplace_back(std::string_view(one.get_string()));
  }
  return Status();
}

}  // namespace

std::string marks_to_json(const LayerMarks& marks) {
  return kube::to_json(kube::JsonObject{{"whiteouts", array_of(marks.whiteouts)},
                                        {"opaque", array_of(marks.opaque)},
                                        {"implied", array_of(marks.implied)}});
}

Result<LayerMarks> marks_from_json(std::string_view bytes) {
  auto json = kube::parse_json(bytes, {.max_depth = 8});
  if (!json.ok()) return json.error();
  LayerMarks out;
  GF_RETURN_IF_ERROR(read_array(*json, "whiteouts", &out.whiteouts));
  GF_RETURN_IF_ERROR(read_array(*json, "opaque", &out.opaque));
  GF_RETURN_IF_ERROR(read_array(*json, "implied", &out.implied));
  return out;
}

WhiteoutKind whiteout_kind(std::string_view name) {
  if (!name.starts_with(kWhiteoutPrefix)) return WhiteoutKind::kNone;
  if (name == kOpaque) return WhiteoutKind::kOpaque;
  return name.starts_with(".wh..wh.") ? WhiteoutKind::kOther : WhiteoutKind::kWhiteout;
}

LayerUnpacker::LayerUnpacker(RootFolder root, UnpackLimits limits)
    : root_(std::move(root)), limits_(limits), privileged_(geteuid() == 0) {}

LayerUnpacker::Attributes LayerUnpacker::attributes_of(const TarEntry& entry) {
  return {entry.mode, entry.uid, entry.gid, entry.mtime_seconds, entry.mtime_nanoseconds, entry.xattrs};
}

Status LayerUnpacker::on_entry(const TarEntry& entry) {
  if (++counts_.entries > limits_.max_entries)
    return Status(Code::kResourceExhausted, fmt::format("more than {} entries", limits_.max_entries));
  auto parts = split_path(entry.name);
  if (!parts.ok()) return parts.error();
  if (parts->empty()) {  // the root itself
    if (entry.type != TarType::kDirectory)
      return invalid_argument(fmt::format("\"{}\": a name is expected", shown(entry.name)));
    folders_[""] = attributes_of(entry);
    return Status();
  }
  return make(entry, *parts).with_context(shown(entry.name));
}

Status LayerUnpacker::make(const TarEntry& entry, const std::vector<std::string>& parts) {
  if (whiteout_kind(parts.back()) != WhiteoutKind::kNone) return take_whiteout(entry, parts);
  const auto implied = [this](const std::string& path) {
    implied_.insert(path);
    folders_.try_emplace(path);
  };
  auto holder = root_.parent(parts, RootFolder::Links::kInside, true, implied);
  if (!holder.ok()) return holder.error();
  const std::string& name = parts.back();
  switch (entry.type) {
    case TarType::kDirectory: return make_folder(entry, *holder, name, join_parts(parts, parts.size()));
    case TarType::kFile: return make_file(entry, *holder, name);
    case TarType::kSymlink: return make_symlink(entry, *holder, name);
    case TarType::kHardlink: return make_hardlink(entry, parts);
    case TarType::kFifo:
      GF_RETURN_IF_ERROR(make_room(*holder, name, false));
      if (mkfifoat(*holder, name.c_str(), entry.mode & 0777) != 0) return system_status("making a FIFO", errno);
      return set_link_attributes(*holder, name, attributes_of(entry));
    default: return invalid_argument("device files are not taken");
  }
}

// What stood there in this layer gives way, as the later of two entries counts.
Status LayerUnpacker::make_room(int holder, const std::string& name, bool folder_stays) {
  struct stat info {};
  if (fstatat(holder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? Status() : system_status("looking", errno);
  if (folder_stays && S_ISDIR(info.st_mode)) return Status();
  root_.forget();
  return remove_tree(holder, name);
}

Status LayerUnpacker::make_folder(const TarEntry& entry, int holder, const std::string& name, const std::string& path) {
  GF_RETURN_IF_ERROR(make_room(holder, name, true));
  if (mkdirat(holder, name.c_str(), 0700) != 0 && errno != EEXIST) return system_status("making a folder", errno);
  implied_.erase(path);
  folders_[path] = attributes_of(entry);
  return Status();
}

Status LayerUnpacker::make_file(const TarEntry& entry, int holder, const std::string& name) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  file_ = Fd(openat(holder, name.c_str(), kFlags, 0600));
  if (!file_.valid() && errno == EEXIST) {
    GF_RETURN_IF_ERROR(make_room(holder, name, false));
    file_ = Fd(openat(holder, name.c_str(), kFlags, 0600));
  }
  if (!file_.valid()) return system_status("making a file", errno);
  // Early where the disk is too small; a file system that cannot is none the worse for it.
  if (entry.size > (1u << 20) && fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(entry.size)) != 0 &&
      errno == ENOSPC)
    return system_status("making a file", ENOSPC);
  file_path_ = entry.name;
  file_attributes_ = attributes_of(entry);
  ++counts_.files;
  return Status();
}

Status LayerUnpacker::make_symlink(const TarEntry& entry, int holder, const std::string& name) {
  if (entry.link.empty()) return invalid_argument("a link without a target");
  GF_RETURN_IF_ERROR(make_room(holder, name, false));
  if (symlinkat(entry.link.c_str(), holder, name.c_str()) != 0) return system_status("making a link", errno);
  root_.forget();
  return set_link_attributes(holder, name, attributes_of(entry));
}

Status LayerUnpacker::make_hardlink(const TarEntry& entry, const std::vector<std::string>& parts) {
  const auto context = [&](const Status& s) {
    return s.with_context(fmt::format("hard link to \"{}\"", shown(entry.link)));
  };
  auto target = split_path(entry.link);
  if (!target.ok()) return context(target.error());
  if (target->empty()) return context(invalid_argument("a file is expected"));
  const std::string& name = parts.back();
  auto from = root_.parent(*target, RootFolder::Links::kInside, false, nullptr);
  if (!from.ok() && from.error().code() == Code::kNotFound) return context(not_found("it is not in this layer"));
  if (!from.ok()) return context(from.error());
  const Fd from_folder(dup(*from));  // the next parent() ends this one
  auto to = root_.parent(parts, RootFolder::Links::kInside, false, nullptr);
  if (!to.ok()) return to.error();
  struct stat info {};
  if (fstatat(from_folder.get(), target->back().c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return context(not_found("it is not in this layer"));
  if (S_ISDIR(info.st_mode)) return context(invalid_argument("it is a folder"));
  struct stat old {};
  const bool same = fstatat(*to, name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == info.st_ino &&
                    old.st_dev == info.st_dev;
  if (same) return Status();
  GF_RETURN_IF_ERROR(make_room(*to, name, false));
  if (linkat(from_folder.get(), target->back().c_str(), *to, name.c_str(), 0) != 0)
    return context(system_status("making it", errno));
  ++counts_.files;
  return Status();
}

Status LayerUnpacker::take_whiteout(const TarEntry& entry, const std::vector<std::string>& parts) {
  const std::string folder = join_parts(parts, parts.size() - 1);
  switch (whiteout_kind(parts.back())) {
    case WhiteoutKind::kOpaque: marks_.opaque.push_back(folder); return Status();
    case WhiteoutKind::kOther: return Status();  // records of an old file system
    default: break;
  }
  const std::string name = parts.back().substr(kWhiteoutPrefix.size());
  if (name.empty() || name == "." || name == "..")
    return invalid_argument(fmt::format("\"{}\" removes nothing that can be named", shown(entry.name)));
  marks_.whiteouts.push_back(folder.empty() ? name : folder + "/" + name);
  return Status();
}

Status LayerUnpacker::on_content(std::string_view bytes) {
  if (!file_.valid()) return Status();  // of a whiteout
  counts_.bytes += bytes.size();
  return write_all(file_.get(), bytes, shown(file_path_));
}

Status LayerUnpacker::on_entry_end() {
  if (!file_.valid()) return Status();
  const Status s = set_attributes(file_.get(), file_path_, file_attributes_);
  file_ = Fd();
  return s;
}

void LayerUnpacker::set_owner(int fd, const Attributes& a) {
  const bool done = privileged_ && fchown(fd, static_cast<uid_t>(a.uid), static_cast<gid_t>(a.gid)) == 0;
  if (!done && (a.uid != geteuid() || a.gid != getegid())) ++counts_.skipped_attributes;
}

void LayerUnpacker::set_xattrs(int fd, const Attributes& a) {
  for (const auto& [name, value] : a.xattrs) {
    const bool taken = name.starts_with("user.") || name == "security.capability";
    const bool done = taken && fsetxattr(fd, name.c_str(), value.data(), value.size(), 0) == 0;
    if (!done) ++counts_.skipped_attributes;
  }
}

Status LayerUnpacker::set_attributes(int fd, const std::string& path, const Attributes& a) {
  set_owner(fd, a);  // before the mode: a change of owner takes set-user-id bits away
  if (fchmod(fd, static_cast<mode_t>(a.mode)) != 0) return system_status(shown(path), errno);
  set_xattrs(fd, a);
  const timespec times[2] = {{0, UTIME_OMIT}, time_of(a.seconds, a.nanoseconds)};
  if (futimens(fd, times) != 0 && errno != EINVAL) return system_status(shown(path), errno);
  return Status();
}

Status LayerUnpacker::set_link_attributes(int holder, const std::string& name, const Attributes& a) {
  if (privileged_ &&
      fchownat(holder, name.c_str(), static_cast<uid_t>(a.uid), static_cast<gid_t>(a.gid), AT_SYMLINK_NOFOLLOW) != 0)
    ++counts_.skipped_attributes;
  const timespec times[2] = {{0, UTIME_OMIT}, time_of(a.seconds, a.nanoseconds)};
  if (utimensat(holder, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0 && errno != EINVAL)
    return system_status(shown(name), errno);
  return Status();
}

Status LayerUnpacker::finish() {
  root_.forget();
  if (!folders_.contains("")) implied_.insert("");
  marks_.implied.assign(implied_.begin(), implied_.end());
  // A path sorts after those it begins with: from the end, the deepest come first.
  for (auto it = folders_.rbegin(); it != folders_.rend(); ++it) {
    auto parts = split_path(it->first);
    if (!parts.ok()) return parts.error();
    auto real = root_.resolve(*parts, RootFolder::Links::kInside);
    if (!real.ok()) continue;  // replaced by something else later in the layer
    auto fd = root_.folder(*real);
    if (!fd.ok()) continue;
    GF_RETURN_IF_ERROR(set_attributes(fd->get(), it->first, it->second));
  }
  return Status();
}

namespace {

class Merger {
 public:
  Merger(const LayerMarks& marks, RootFolder* root)
      : root_(root), implied_(marks.implied.begin(), marks.implied.end()) {}

  // `keep`: the folder stays as the layer below has it, as this one only names it.
  Status merge(int from, int to, const std::string& path, size_t depth, bool keep) {
    if (depth > RootFolder::kMaxDepth) return Status(Code::kResourceExhausted, shown(path) + ": too deep");
    auto names = names_in(from);
    if (!names.ok()) return names.error();
    for (const std::string& name : *names) {
      const std::string inside = path.empty() ? name : path + "/" + name;
      GF_RETURN_IF_ERROR(merge_one(from, to, name, inside, depth));
    }
    return keep ? Status() : copy_attributes(from, to, path);
  }

 private:
  Status merge_one(int from, int to, const std::string& name, const std::string& path, size_t depth) {
    struct stat above {};
    if (fstatat(from, name.c_str(), &above, AT_SYMLINK_NOFOLLOW) != 0) return system_status(shown(path), errno);
    if (S_ISDIR(above.st_mode)) return merge_folder(from, to, name, path, depth);
    if (linkat(from, name.c_str(), to, name.c_str(), 0) == 0) return Status();
    if (errno != EEXIST) return system_status("linking " + shown(path), errno);
    GF_RETURN_IF_ERROR(remove_tree(to, name));
    if (linkat(from, name.c_str(), to, name.c_str(), 0) != 0) return system_status("linking " + shown(path), errno);
    return Status();
  }

  Status merge_folder(int from, int to, const std::string& name, const std::string& path, size_t depth) {
    const Fd source(openat(from, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!source.valid()) return system_status(shown(path), errno);
    struct stat below {};
    const bool there = fstatat(to, name.c_str(), &below, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISLNK(below.st_mode) && implied_.contains(path))
      return merge_through_link(source.get(), path, depth);
    if (there && !S_ISDIR(below.st_mode)) GF_RETURN_IF_ERROR(remove_tree(to, name));
    if (mkdirat(to, name.c_str(), 0700) != 0 && errno != EEXIST) return system_status(shown(path), errno);
    const Fd target(openat(to, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!target.valid()) return system_status(shown(path), errno);
    const bool keep = there && S_ISDIR(below.st_mode) && implied_.contains(path);
    return merge(source.get(), target.get(), path, depth + 1, keep);
  }

  // "bin/tool" on top of a layer whose bin is a link to usr/bin goes to usr/bin.
  Status merge_through_link(int source, const std::string& path, size_t depth) {
    auto parts = split_path(path);
    if (!parts.ok()) return parts.error();
    auto real = root_->resolve(*parts, RootFolder::Links::kContain);
    if (!real.ok()) return real.error();
    auto target = root_->folder(*real);
    if (!target.ok()) return target.error();
    auto names = names_in(source);
    if (!names.ok()) return names.error();
    for (const std::string& name : *names)
      GF_RETURN_IF_ERROR(merge_one(source, target->get(), name, path + "/" + name, depth + 1));
    return Status();
  }

  Status copy_attributes(int from, int to, const std::string& path) {
    struct stat info {};
    if (fstat(from, &info) != 0) return system_status(shown(path), errno);
    if (geteuid() == 0) (void)fchown(to, info.st_uid, info.st_gid);
    if (fchmod(to, info.st_mode & 07777) != 0) return system_status(shown(path), errno);
    const timespec times[2] = {{0, UTIME_OMIT}, info.st_mtim};
    return futimens(to, times) == 0 ? Status() : system_status(shown(path), errno);
  }

  RootFolder* root_;
  std::set<std::string> implied_;
};

// Removes what the layers below had at a path; nothing there is fine.
Status apply_whiteout(const std::string& path, RootFolder* root) {
  auto parts = split_path(path);
  if (!parts.ok()) return parts.error();
  if (parts->empty()) return Status();
  auto holder = root->parent(*parts, RootFolder::Links::kContain, false, nullptr);
  if (!holder.ok()) return holder.error().code() == Code::kNotFound ? Status() : holder.error();
  return remove_tree(*holder, parts->back());
}

Status apply_opaque(const std::string& path, RootFolder* root) {
  auto parts = split_path(path);
  if (!parts.ok()) return parts.error();
  auto real = root->resolve(*parts, RootFolder::Links::kContain);
  if (!real.ok()) return real.error().code() == Code::kNotFound ? Status() : real.error();
  auto folder = root->folder(*real);
  if (!folder.ok()) return folder.error().code() == Code::kNotFound ? Status() : folder.error();
  return empty_folder(folder->get());
}

}  // namespace

Status merge_layer(const RootFolder& layer, const LayerMarks& marks, RootFolder* root) {
  for (const std::string& path : marks.whiteouts) {
    root->forget();
    GF_RETURN_IF_ERROR(apply_whiteout(path, root));
  }
  root->forget();
  const bool keep_root = std::find(marks.implied.begin(), marks.implied.end(), "") != marks.implied.end();
  for (const std::string& path : marks.opaque) GF_RETURN_IF_ERROR(apply_opaque(path, root));
  return Merger(marks, root).merge(layer.fd(), root->fd(), "", 0, keep_root);
}

}  // namespace ghostfleet::image
