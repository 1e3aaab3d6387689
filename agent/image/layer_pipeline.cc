#include "agent/image/layer_pipeline.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "agent/image/decompress.h"
#include "agent/image/digest.h"

namespace ghostfleet::image {
namespace {

constexpr size_t kReadBytes = 512 * 1024;
constexpr size_t kMaxQueued = 8u << 20;

// Pieces of a tar on their way from one thread to another.
class PieceQueue {
 public:
  // False when the other end has given up.
  bool push(std::string_view bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || queued_ < kMaxQueued; });
    if (stopped_) return false;
    std::string piece;
    if (!free_.empty()) {
      piece = std::move(free_.back());
      free_.pop_back();
    }
    lock.unlock();
    piece.assign(bytes);
    lock.lock();
    queued_ += piece.size();
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
    return true;
  }
  // False at the end.
  bool pop(std::string* piece) {
    std::unique_lock lock(mutex_);
    if (piece->capacity() > 0) free_.push_back(std::move(*piece));
    changed_.wait(lock, [&] { return ended_ || !pieces_.empty(); });
    if (pieces_.empty()) return false;
    *piece = std::move(pieces_.front());
    pieces_.pop_front();
    queued_ -= piece->size();
    changed_.notify_all();
    return true;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  std::vector<std::string> free_;
  size_t queued_ = 0;
  bool ended_ = false, stopped_ = false;
};

// The second half: hash and files. Its thread ends with the queue.
class TarConsumer {
 public:
  TarConsumer(LayerUnpacker* unpacker, bool hash) : unpacker_(unpacker), reader_(unpacker), hash_(hash) {}

  void run() {
    std::string piece;
    while (queue_.pop(&piece)) {
      if (hash_) sha_.update(piece);
      status_ = reader_.feed(piece);
      if (!status_.ok()) {
        queue_.stop();
        return;
      }
    }
  }
  PieceQueue& queue() { return queue_; }
  // After the thread was joined.
  Status finish() {
    GF_RETURN_IF_ERROR(status_);
    GF_RETURN_IF_ERROR(reader_.finish());
    return unpacker_->finish();
  }
  const Status& status() const { return status_; }
  std::string diff() { return sha_.finish(); }

 private:
  LayerUnpacker* unpacker_;
  TarReader reader_;
  bool hash_;
  Sha256 sha_;
  PieceQueue queue_;
  Status status_;
};

// The first half: read, hash, decompress.
class BlobProducer {
 public:
  BlobProducer(const LayerTask& task, const BlobSource& source, PieceQueue* queue)
      : task_(task), source_(source), queue_(queue), decompressor_(make_decompressor(task.compression)) {}

  Status run() {
    std::vector<char> buffer(kReadBytes);
    const auto sink = [this](std::string_view bytes) { return pass_on(bytes); };
    while (true) {
      const auto n = source_(read_, buffer.data(), buffer.size());
      if (!n.ok()) return n.error();
      if (*n == 0) break;
      read_ += *n;
      sha_.update({buffer.data(), *n});
      // After an error the rest is still hashed: a blob that is not what was asked for is told as that.
      if (failure_.ok()) failure_ = decompressor_->feed({buffer.data(), *n}, sink);
      if (failure_.code() == Code::kResourceExhausted) return failure_;
    }
    if (read_ != task_.size) return Status(Code::kDataLoss, fmt::format("{} of {} bytes came", read_, task_.size));
    GF_RETURN_IF_ERROR(compare_digests("blob", task_.digest, sha_.finish()));
    return failure_.ok() ? decompressor_->finish() : failure_;
  }
  uint64_t made() const { return made_; }

 private:
  Status pass_on(std::string_view bytes) {
    made_ += bytes.size();
    const UnpackLimits& l = task_.limits;
    if (made_ > l.max_bytes)
      return Status(Code::kResourceExhausted, fmt::format("unpacks to more than {} bytes", l.max_bytes));
    if (made_ > l.ratio_from && made_ / l.max_ratio > task_.size)
      return Status(Code::kResourceExhausted, fmt::format("unpacks to more than {} times its size", l.max_ratio));
    return queue_->push(bytes) ? Status() : Status(Code::kCancelled, "the archive was refused");
  }

  const LayerTask& task_;
  const BlobSource& source_;
  PieceQueue* queue_;
  std::unique_ptr<Decompressor> decompressor_;
  Sha256 sha_;
  Status failure_;
  uint64_t read_ = 0, made_ = 0;
};

}  // namespace

Result<LayerResult> unpack_layer(const LayerTask& task, const BlobSource& source, const std::string& folder) {
  auto root = RootFolder::open(folder);
  if (!root.ok()) return root.error();
  LayerUnpacker unpacker(std::move(*root), task.limits);
  const bool plain = task.compression == Compression::kNone;  // then both digests are of the same bytes
  TarConsumer consumer(&unpacker, !plain);
  BlobProducer producer(task, source, &consumer.queue());
  std::thread thread([&] { consumer.run(); });
  const Status produced = producer.run();
  consumer.queue().end();
  thread.join();
  if (!produced.ok() && produced.code() != Code::kCancelled) return produced;
  if (!consumer.status().ok()) return consumer.status();
  if (!produced.ok()) return produced;
  GF_RETURN_IF_ERROR(compare_digests("tar", task.diff, plain ? task.digest : consumer.diff()));
  GF_RETURN_IF_ERROR(consumer.finish());
  return LayerResult{unpacker.marks(), unpacker.counts(), producer.made()};
}

}  // namespace ghostfleet::image
