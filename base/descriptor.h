// Fd: an open file descriptor, closed at its end; and what goes with one.
//
// Thread rule: one owner. Errors of system calls become a Status by system_status(), the same way everywhere.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

// The errno of a failed call as a Status with "what: " in front.
Status system_status(const std::string& what, int error);
// All of the bytes, at the descriptor's own position; an error names the path.
Status write_all(int fd, std::string_view bytes, const std::string& path);

}  // namespace ghostfleet
