#include "kube/http/unix_address.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kube/http/transport.h"

namespace ghostfleet::kube::http {
namespace {

constexpr int kBacklog = 4096;

class OwnedSocket {
 public:
  OwnedSocket() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  ~OwnedSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  OwnedSocket(const OwnedSocket&) = delete;
  OwnedSocket& operator=(const OwnedSocket&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

const sockaddr* raw(const UnixAddress& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }

// Why the path that is taken already may be replaced (OK) or not.
Status check_stale(const UnixAddress& address, const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return Status();
  if (!S_ISSOCK(info.st_mode)) {
    return Status(Code::kAlreadyExists, "the path exists and is not a socket: remove it or choose another");
  }
  const OwnedSocket probe;
  if (::connect(probe.get(), raw(address), address.size) == 0 || errno == EAGAIN) {
    return Status(Code::kAlreadyExists, "another process listens on this socket");
  }
  if (errno != ECONNREFUSED && errno != ENOENT) {
    return Status(errno == EACCES ? Code::kPermissionDenied : Code::kUnavailable, errno_text(errno));
  }
  return Status();
}

Status listen_at(int fd, const UnixAddress& address) {
  if (::bind(fd, raw(address), address.size) == 0) return Status();
  const Code code = errno == EADDRINUSE ? Code::kAlreadyExists
                    : errno == EACCES   ? Code::kPermissionDenied
                                        : Code::kUnavailable;
  return Status(code, errno_text(errno));
}

}  // namespace

Result<UnixAddress> parse_unix_address(std::string_view address) {
  const std::string_view path = unix_path(address);
  if (path.empty() || path[0] != '/') {
    return invalid_argument("\"" + std::string(path) + "\" is no absolute path of a unix socket");
  }
  if (path.size() > kMaxUnixPath) {
    return invalid_argument("the path \"" + std::string(path) + "\" has " + std::to_string(path.size()) +
                            " bytes; a unix socket's has at most " + std::to_string(kMaxUnixPath));
  }
  if (path.find('\0') != std::string_view::npos) return invalid_argument("the path of a unix socket has a zero byte");
  UnixAddress out;
  auto& un = reinterpret_cast<sockaddr_un&>(out.storage);
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.data(), path.size());
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return out;
}

Result<int> listen_unix(std::string_view address, unsigned mode) {
  const std::string where = "listen on " + std::string(address);
  const Result<UnixAddress> parsed = parse_unix_address(address);
  if (!parsed.ok()) return parsed.error().with_context(where);
  const std::string path(unix_path(address));
  OwnedSocket socket;
  if (socket.get() < 0) return unavailable(where + ": " + errno_text(errno));
  // The file gets the mode of the socket, less the umask: it is never open to more than `mode` says.
  ::fchmod(socket.get(), mode);
  Status status = listen_at(socket.get(), *parsed);
  if (status.code() == Code::kAlreadyExists) {
    const Status stale = check_stale(*parsed, path);
    if (!stale.ok()) return stale.with_context(where);
    ::unlink(path.c_str());
    status = listen_at(socket.get(), *parsed);
  }
  if (!status.ok()) return status.with_context(where);
  if (::chmod(path.c_str(), mode) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return unavailable(where + ": " + errno_text(errno));
  }
  return socket.release();
}

Status check_unix_free(std::string_view address) {
  const std::string where = "listen on " + std::string(address);
  const Result<UnixAddress> parsed = parse_unix_address(address);
  if (!parsed.ok()) return parsed.error().with_context(where);
  return check_stale(*parsed, std::string(unix_path(address))).with_context(where);
}

FileIdentity file_identity(std::string_view path) {
  struct stat info {};
  if (::lstat(std::string(path).c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

void remove_socket_file(std::string_view path, const FileIdentity& own) {
  if (own.inode == 0 || file_identity(path) != own) return;
  ::unlink(std::string(path).c_str());
}

}  // namespace ghostfleet::kube::http
