#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/descriptor.h"

namespace ghostfleet {
Result<std::string> read_file(const std::string& path, size_t limit) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return system_status("reading " + path, errno);
  std::string out;
  char buffer[16384];
  while (true) {
    const ssize_t n = read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_status("reading " + path, errno);
    if (n == 0) return out;
    out.append(buffer, static_cast<size_t>(n));
    if (out.size() > limit)
      return Status(Code::kResourceExhausted, "reading " + path + ": larger than " + std::to_string(limit) + " bytes");
  }
}

Status write_file(const std::string& path, const std::string& content, unsigned mode, bool durable) {
  const std::string temporary = path + ".new-" + std::to_string(getpid());
  Status status;
  {
    const Fd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
    if (!file.valid()) return system_status("writing " + path, errno);
    status = write_all(file.get(), content, path);
    if (status.ok() && durable && fsync(file.get()) != 0) status = system_status("writing " + path, errno);
  }
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = system_status("writing " + path, errno);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

Status make_directories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return system_status("making folder " + part, errno);
  }
  return Status();
}

bool file_exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string expand_home(const std::string& path) {
  if (path.rfind("~/", 0) != 0) return path;
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + path.substr(1);
}

std::string parent_directory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string join_path(const std::string& directory, const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  return directory == "/" ? directory + path : directory + "/" + path;
}

}  // namespace ghostfleet
