#include "emulator/vpc/claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/descriptor.h"

namespace ghostfleet::emulator {
namespace {

using agent::Cidr;

constexpr size_t kMaxBytes = 16u << 20;

struct Line {
  Cidr part;
  std::string fleet;
};

// The open, locked file.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path, bool create) : path_(path) {
    Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600));
    if (!file.valid()) return;
    while (::flock(file.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return;
    }
    fd_ = std::move(file);
  }

  bool is_open() const { return fd_.valid(); }
  Status failure(std::string_view what) const {
    return Status(Code::kUnavailable, fmt::format("{}: {}: {}", path_, what, std::strerror(errno)));
  }

  Result<std::string> read() const {
    std::string text;
    char buffer[65536];
    while (true) {
      const ssize_t n = ::pread(fd_.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failure("cannot be read");
      if (n == 0) return text;
      text.append(buffer, static_cast<size_t>(n));
      if (text.size() > kMaxBytes)
        return Status(Code::kResourceExhausted, fmt::format("{}: larger than {} bytes", path_, kMaxBytes));
    }
  }

  Status write(std::string_view text, off_t at) const {
    if (::ftruncate(fd_.get(), at) != 0) return failure("cannot be written");
    while (!text.empty()) {
      const ssize_t n = ::pwrite(fd_.get(), text.data(), text.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failure("cannot be written");
      text.remove_prefix(static_cast<size_t>(n));
      at += n;
    }
    return Status();
  }

 private:
  std::string path_;
  Fd fd_;  // closed with the lock
};

// A last line without its end was cut off by a full disk: it is left out, and overwritten by the next.
Result<std::vector<Line>> parse(const std::string& path, std::string_view text, size_t* good) {
  std::vector<Line> lines;
  *good = 0;
  for (size_t number = 1, end = 0; (end = text.find('\n', *good)) != std::string_view::npos; ++number) {
    const std::string_view line = text.substr(*good, end - *good);
    *good = end + 1;
    if (line.empty() || line.front() == '#') continue;
    const size_t space = line.find(' ');
    Line l;
    if (space == std::string_view::npos || !agent::parse_cidr(line.substr(0, space), &l.part) ||
        space + 1 == line.size()) {
      return invalid_argument(
          fmt::format("{}:{}: \"{}\": a range and the name of its fleet are expected, like "
                      "10.0.0.0/22 test",
                      path, number, line.substr(0, 60)));
    }
    l.fleet = line.substr(space + 1);
    lines.push_back(std::move(l));
  }
  return lines;
}

}  // namespace

Result<std::unique_ptr<Claims>> Claims::open(std::string path, std::string fleet) {
  const LockedFile file(path, true);
  if (!file.is_open()) return file.failure("cannot be opened");
  auto text = file.read();
  if (!text.ok()) return text.error();
  size_t good = 0;
  auto lines = parse(path, *text, &good);
  if (!lines.ok()) return lines.error();
  return std::unique_ptr<Claims>(new Claims(std::move(path), std::move(fleet)));
}

Result<bool> Claims::claim_in_file(const Cidr& part) {
  const LockedFile file(path_, true);
  if (!file.is_open()) return file.failure("cannot be opened");
  auto text = file.read();
  if (!text.ok()) return text.error();
  size_t good = 0;
  auto lines = parse(path_, *text, &good);
  if (!lines.ok()) return lines.error();
  for (const Line& line : *lines) {
    if (!line.part.overlaps(part)) continue;
    if (line.fleet != fleet_) return false;
    if (line.part.contains(part)) return true;
  }
  GF_RETURN_IF_ERROR(file.write(fmt::format("{} {}\n", format_cidr(part), fleet_), static_cast<off_t>(good)));
  return true;
}

bool Claims::claim(const Cidr& part) {
  auto got = claim_in_file(part);
  if (got.ok()) return *got;
  status_ = got.error();
  return false;
}

Status Claims::remove(const std::string& path, const std::string& fleet) {
  const LockedFile file(path, false);
  if (!file.is_open()) return errno == ENOENT ? Status() : file.failure("cannot be opened");
  auto text = file.read();
  if (!text.ok()) return text.error();
  size_t good = 0;
  auto lines = parse(path, *text, &good);
  if (!lines.ok()) return lines.error();
  std::string rest;
  for (const Line& line : *lines) {
    if (line.fleet != fleet) rest += fmt::format("{} {}\n", format_cidr(line.part), line.fleet);
  }
  return file.write(rest, 0);
}

}  // namespace ghostfleet::emulator
