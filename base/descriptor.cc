#include "base/descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ghostfleet {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) close(fd_);
  fd_ = other.release();
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

int Fd::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

Status system_status(const std::string& what, int error) {
  Code code = Code::kInternal;
  if (error == ENOENT || error == ENOTDIR) code = Code::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = Code::kPermissionDenied;
  if (error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE || error == EMLINK || error == EFBIG)
    code = Code::kResourceExhausted;
  if (error == EEXIST) code = Code::kAlreadyExists;
  return Status(code, what + ": " + std::strerror(error));
}

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_status("writing " + path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Status();
}

}  // namespace ghostfleet
