#include "agent/image/root_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ghostfleet::image {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kMaxTree = 2000;

std::string shown(std::string_view path) { return std::string(path.substr(0, 200)); }

Status remove_in(int folder, const std::string& name, int depth);

Status empty_in(int folder, int depth) {
  auto names = names_in(folder);
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) GF_RETURN_IF_ERROR(remove_in(folder, name, depth));
  return Status();
}

Status remove_in(int folder, const std::string& name, int depth) {
  if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return Status();
  if (errno != EISDIR && errno != EPERM) return system_status("removing " + shown(name), errno);
  if (depth > kMaxTree) return Status(Code::kResourceExhausted, "removing " + shown(name) + ": too deep");
  {
    Fd inside(openat(folder, name.c_str(), kFolderFlags));
    if (!inside.valid() && errno == EACCES && fchmodat(folder, name.c_str(), 0700, 0) == 0)
      inside = Fd(openat(folder, name.c_str(), kFolderFlags));
    if (!inside.valid()) return system_status("removing " + shown(name), errno);
    (void)fchmod(inside.get(), 0700);  // one that may not be written to cannot be emptied
    GF_RETURN_IF_ERROR(empty_in(inside.get(), depth + 1));
  }
  if (unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return Status();
  return system_status("removing " + shown(name), errno);
}

// The target of a link; empty when it is none.
std::string link_at(int folder, const std::string& name) {
  char target[PATH_MAX];
  const ssize_t n = readlinkat(folder, name.c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : std::string();
}

// Parts of a link's target; ".." stays.
std::vector<std::string> raw_parts(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") out.emplace_back(part);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> split_path(std::string_view path) {
  if (path.find('\0') != std::string_view::npos)
    return invalid_argument(fmt::format("path \"{}\": holds a zero byte", shown(path.substr(0, path.find('\0')))));
  std::vector<std::string> parts = raw_parts(path);
  for (const std::string& part : parts) {
    if (part == "..") return invalid_argument(fmt::format("path \"{}\" leads out of the image", shown(path)));
    if (part.size() > NAME_MAX)
      return invalid_argument(fmt::format("path \"{}\": a name of {} bytes", shown(path), part.size()));
  }
  if (parts.size() > RootFolder::kMaxDepth)
    return invalid_argument(fmt::format("path \"{}\": deeper than {} folders", shown(path), RootFolder::kMaxDepth));
  return parts;
}

std::string join_parts(const std::vector<std::string>& parts, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += '/';
    out += parts[i];
  }
  return out;
}

Result<RootFolder> RootFolder::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return system_status(path, errno);
  return RootFolder(std::move(fd), path);
}

// Goes down part by part; a link's target takes the place of the link.
Result<std::vector<std::string>> RootFolder::walk(std::vector<std::string> parts, Links links, bool make, bool last_too,
                                                  const OnMade& on_made) const {
  std::vector<std::string> done;
  std::vector<Fd> folders;  // one for each part of `done`
  const std::string asked = join_parts(parts, parts.size());
  int followed = 0;
  for (size_t at = 0; at < parts.size();) {
    const bool last = at + 1 == parts.size();
    const std::string part = parts[at];
    if (part == "..") {  // of a link
      if (done.empty() && links == Links::kInside)
        return invalid_argument(fmt::format("path \"{}\" leads through a link out of the image", shown(asked)));
      if (!done.empty()) {
        done.pop_back();
        folders.pop_back();
      }
      ++at;
      continue;
    }
    const int here = folders.empty() ? root_.get() : folders.back().get();
    const std::string target = last && !last_too ? std::string() : link_at(here, part);
    if (!target.empty()) {
      if (++followed > kMaxLinks)
        return invalid_argument(fmt::format("path \"{}\": more than {} links", shown(asked), kMaxLinks));
      if (target[0] == '/') {
        if (links == Links::kInside)
          return invalid_argument(fmt::format("path \"{}\" leads through the link {} -> {} out of the image",
                                              shown(asked), shown(part), shown(target)));
        done.clear();
        folders.clear();
      }
      std::vector<std::string> next = raw_parts(target);
      next.insert(next.end(), parts.begin() + static_cast<std::ptrdiff_t>(at) + 1, parts.end());
      if (next.size() > kMaxDepth * 2) return invalid_argument(fmt::format("path \"{}\": too deep", shown(asked)));
      parts = std::move(next);
      at = 0;
      continue;
    }
    if (last) {
      done.push_back(part);
      return done;
    }
    Fd next(openat(here, part.c_str(), kFolderFlags));
    if (!next.valid() && errno == ENOENT && make) {
      if (mkdirat(here, part.c_str(), 0755) != 0) return system_status(shown(asked), errno);
      next = Fd(openat(here, part.c_str(), kFolderFlags));
      done.push_back(part);
      if (next.valid() && on_made) on_made(join_parts(done, done.size()));
      done.pop_back();
    }
    if (!next.valid()) return system_status(shown(asked), errno);
    done.push_back(part);
    folders.push_back(std::move(next));
    ++at;
  }
  return done;
}

Result<int> RootFolder::parent(const std::vector<std::string>& parts, Links links, bool make, const OnMade& on_made) {
  if (parts.size() == 1) return root_.get();
  const std::string path = join_parts(parts, parts.size() - 1);
  if (remembered_ && last_path_ == path) return last_.get();
  auto real = walk(parts, links, make, false, on_made);
  if (!real.ok()) return real.error();
  real->pop_back();
  auto opened = folder(*real);
  if (!opened.ok()) return opened.error();
  last_ = std::move(*opened);
  last_path_ = path;
  remembered_ = true;
  return last_.get();
}

Result<std::vector<std::string>> RootFolder::resolve(const std::vector<std::string>& parts, Links links) const {
  auto real = walk(parts, links, false, true, nullptr);
  if (!real.ok() || real->empty()) return real;
  auto holder = folder({real->begin(), real->end() - 1});
  if (!holder.ok()) return holder.error();
  struct stat info {};
  if (fstatat(holder->get(), real->back().c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return system_status(shown(join_parts(parts, parts.size())), errno);
  return real;
}

Result<Fd> RootFolder::folder(const std::vector<std::string>& parts) const {
  Fd here(openat(root_.get(), ".", kFolderFlags));
  for (const std::string& part : parts) {
    if (!here.valid()) break;
    here = Fd(openat(here.get(), part.c_str(), kFolderFlags));
  }
  if (!here.valid()) return system_status(shown(join_parts(parts, parts.size())), errno);
  return here;
}

Result<Fd> RootFolder::file(std::string_view path) const {
  auto parts = split_path(path);
  if (!parts.ok()) return parts.error();
  auto real = resolve(*parts, Links::kContain);
  if (!real.ok()) return real.error();
  if (real->empty()) return invalid_argument(fmt::format("{} is a folder", shown(path)));
  auto holder = folder({real->begin(), real->end() - 1});
  if (!holder.ok()) return holder.error();
  // Not blocking: what was made a FIFO must not hold us.
  Fd fd(openat(holder->get(), real->back().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return system_status(shown(path), errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return system_status(shown(path), errno);
  if (!S_ISREG(info.st_mode)) return invalid_argument(fmt::format("{} is no regular file", shown(path)));
  return fd;
}

Status remove_tree(int folder, const std::string& name) { return remove_in(folder, name, 0); }
Status remove_tree(const std::string& path) { return remove_in(AT_FDCWD, path, 0); }
Status empty_folder(int folder) { return empty_in(folder, 0); }

Result<std::vector<std::string>> names_in(int folder) {
  const int copy = openat(folder, ".", kFolderFlags);
  if (copy < 0) return system_status("reading a folder", errno);
  DIR* dir = fdopendir(copy);
  if (dir == nullptr) {
    close(copy);
    return system_status("reading a folder", errno);
  }
  std::vector<std::string> out;
  errno = 0;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") out.emplace_back(name);
  }
  const int error = errno;
  closedir(dir);
  if (error != 0) return system_status("reading a folder", error);
  return out;
}

}  // namespace ghostfleet::image
