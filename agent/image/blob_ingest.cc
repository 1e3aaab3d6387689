#include "agent/image/blob_ingest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ghostfleet::image {
namespace {

constexpr size_t kHeaderBytes = 64;
constexpr auto kLockWait = std::chrono::milliseconds(50);

// First line of the marks file: chunks of another size are of no use.
std::string header_of(uint64_t size, uint64_t chunk) {
  std::string text = fmt::format("ghostfleet ingest 1 {} {}", size, chunk);
  text.resize(kHeaderBytes - 1, ' ');
  return text + "\n";
}

Status write_at(int fd, std::string_view bytes, uint64_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_status("writing " + path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return Status();
}

}  // namespace

BlobIngest::BlobIngest(const ContentStore& store, const Descriptor& blob, uint64_t chunk)
    : store_(store),
      blob_(blob),
      chunk_bytes_(chunk == 0 ? std::max<uint64_t>(blob.size, 1) : chunk),
      path_(store.ingest_path(blob.digest)) {
  chunks_.resize((blob.size + chunk_bytes_ - 1) / chunk_bytes_);
}

BlobIngest::~BlobIngest() = default;

Result<std::unique_ptr<BlobIngest>> BlobIngest::open(const ContentStore& store, const Descriptor& blob, uint64_t chunk,
                                                     CancelFlag* cancel) {
  std::unique_ptr<BlobIngest> ingest(new BlobIngest(store, blob, chunk));
  GF_RETURN_IF_ERROR(ingest->lock(cancel));
  GF_RETURN_IF_ERROR(ingest->read_marks());
  return ingest;
}

// The lock is on the file itself; whoever had it may have renamed or removed the file meanwhile.
Status BlobIngest::lock(CancelFlag* cancel) {
  const std::string part = path_ + ".part";
  while (true) {
    file_ = Fd(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file_.valid()) return system_status(part, errno);
    if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return system_status(part, errno);
      if (!cancel->sleep(kLockWait)) return Status(Code::kCancelled, "cancelled");
      continue;
    }
    struct stat ours {
    }, named{};
    const bool same = fstat(file_.get(), &ours) == 0 && stat(part.c_str(), &named) == 0 && ours.st_ino == named.st_ino;
    if (same) break;
  }
  marks_ = Fd(::open((path_ + ".done").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  return marks_.valid() ? Status() : system_status(path_ + ".done", errno);
}

Status BlobIngest::read_marks() {
  const std::string wanted = header_of(blob_.size, chunk_bytes_);
  std::string found(kHeaderBytes + chunks_.size(), '\0');
  const ssize_t n = pread(marks_.get(), found.data(), found.size(), 0);
  struct stat info {};
  const bool sized = fstat(file_.get(), &info) == 0 && static_cast<uint64_t>(info.st_size) == blob_.size;
  if (n == static_cast<ssize_t>(found.size()) && found.starts_with(wanted) && sized) {
    for (size_t i = 0; i < chunks_.size(); ++i) {
      if (found[kHeaderBytes + i] != '1') continue;
      chunks_[i].written = length_of(i);
      resumed_ += length_of(i);
    }
    return Status();
  }
  if (ftruncate(file_.get(), 0) != 0 || ftruncate(marks_.get(), 0) != 0) return system_status(path_, errno);
  if (ftruncate(file_.get(), static_cast<off_t>(blob_.size)) != 0) return system_status("writing " + path_, errno);
  // The room is taken now: a disk that is too small is told before the download.
  if (blob_.size > 0 && fallocate(file_.get(), 0, 0, static_cast<off_t>(blob_.size)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    const int error = errno;
    discard();
    return system_status(fmt::format("room for {} bytes in {}", blob_.size, path_), error);
  }
  return write_at(marks_.get(), wanted + std::string(chunks_.size(), '0'), 0, path_);
}

uint64_t BlobIngest::length_of(size_t chunk) const { return std::min(chunk_bytes_, blob_.size - first_of(chunk)); }

bool BlobIngest::whole(size_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunks_[chunk].written == length_of(chunk);
}

Status BlobIngest::write(size_t chunk, std::string_view bytes) {
  uint64_t at = 0;
  {
    const std::lock_guard lock(mutex_);
    at = chunks_[chunk].written;
  }
  if (at + bytes.size() > length_of(chunk)) return internal_error("more bytes than the chunk has");
  GF_RETURN_IF_ERROR(write_at(file_.get(), bytes, first_of(chunk) + at, path_));
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    chunks_[chunk].written += bytes.size();
    done = chunks_[chunk].written == length_of(chunk);
  }
  grown_.notify_all();
  return done ? mark_whole(chunk) : Status();
}

Status BlobIngest::write_in_order(std::string_view bytes) {
  while (!bytes.empty()) {
    const uint64_t at = contiguous();
    if (at >= blob_.size) return internal_error("more bytes than the blob has");
    const size_t chunk = at / chunk_bytes_;
    const size_t n = std::min<uint64_t>(bytes.size(), first_of(chunk) + length_of(chunk) - at);
    GF_RETURN_IF_ERROR(write(chunk, bytes.substr(0, n)));
    bytes.remove_prefix(n);
  }
  return Status();
}

uint64_t BlobIngest::contiguous() const {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i].written < length_of(i)) return first_of(i) + chunks_[i].written;
  }
  return blob_.size;
}

Status BlobIngest::mark_whole(size_t chunk) { return write_at(marks_.get(), "1", kHeaderBytes + chunk, path_); }

// With mutex_ held.
uint64_t BlobIngest::available(uint64_t offset) const {
  const size_t chunk = offset / chunk_bytes_;
  const uint64_t end = first_of(chunk) + chunks_[chunk].written;
  return end > offset ? end - offset : 0;
}

Result<size_t> BlobIngest::read(uint64_t offset, char* out, size_t size) {
  if (offset >= blob_.size) return size_t{0};
  {
    std::unique_lock lock(mutex_);
    grown_.wait(lock, [&] { return !failure_.ok() || available(offset) > 0; });
    if (!failure_.ok()) return failure_;
    size = std::min<uint64_t>(size, available(offset));
  }
  ssize_t n = 0;
  do {
    n = pread(file_.get(), out, size, static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return system_status("reading " + path_, errno);
  if (n == 0) return Status(Code::kDataLoss, path_ + ": shorter than it was written");
  return static_cast<size_t>(n);
}

void BlobIngest::fail(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
  }
  grown_.notify_all();
}

Status BlobIngest::commit() {
  if (fdatasync(file_.get()) != 0) return system_status("writing " + path_, errno);
  const std::string place = store_.blob_path(blob_.digest);
  if (rename((path_ + ".part").c_str(), place.c_str()) != 0) return system_status("moving to " + place, errno);
  unlink((path_ + ".done").c_str());
  return Status();
}

void BlobIngest::discard() {
  unlink((path_ + ".part").c_str());
  unlink((path_ + ".done").c_str());
}

}  // namespace ghostfleet::image
