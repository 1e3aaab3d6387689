// Addresses of unix domain sockets as clients and servers write them: "unix:/run/x.sock". The kernel's own form holds
// 107 bytes of path and a zero.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::kube::http {

inline constexpr std::string_view kUnixScheme = "unix:";
inline constexpr size_t kMaxUnixPath = 107;  // unix(7): sun_path less its zero

inline bool is_unix_address(std::string_view host) { return host.substr(0, kUnixScheme.size()) == kUnixScheme; }
// "/run/x.sock"
inline std::string_view unix_path(std::string_view address) { return address.substr(kUnixScheme.size()); }

struct UnixAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// Refused: a path that is not absolute, longer than kMaxUnixPath, or with a zero byte in it.
Result<UnixAddress> parse_unix_address(std::string_view address);

// A listening socket at that path, mode `mode` (the file is never seen with more). A socket file that nobody listens on
// is replaced; kAlreadyExists when somebody does, or when the path is something else than a socket.
Result<int> listen_unix(std::string_view address, unsigned mode);

// kAlreadyExists, as listen_unix would say it, when somebody listens at that path or it is something else than a
// socket.
Status check_unix_free(std::string_view address);

// Which file a path is, so that only one's own is removed.
struct FileIdentity {
  unsigned long long device = 0, inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity file_identity(std::string_view path);
// Removes the socket file unless another has taken its place.
void remove_socket_file(std::string_view path, const FileIdentity& own);

}  // namespace ghostfleet::kube::http
