// PullPool: pulls of images on threads of their own, a few at a time and first come, first served, for somebody who
// must not wait: what came of a pull is told by a callback.
//
// Thread rule: submit() from any thread; a Done is called on a thread of the pool, once for each pull, and hands over
// to its owner's thread. Ownership: the source outlives the pool. The destructor cancels what is on its way and waits
// for that; pulls that are cancelled so, or never began, are not told. Limits: PullLimits. A pull beyond the rate fails
// at once, as by a kubelet (registryPullQPS, registryBurst).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/image/pull_records.h"
#include "agent/image/puller.h"
#include "agent/image/users.h"
#include "base/clock.h"
#include "base/token_bucket.h"

namespace ghostfleet::image {

struct PullWork {
  Reference reference;
  std::vector<PodSecret> secrets;  // of whoever wants the image, before those of the source
};

// Where images come from.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // Blocks until the image is there or it is cancelled; from several threads at once.
  virtual Result<ImageRecord> pull(const PullWork& work, CancelFlag* cancel) = 0;
};

// The record that is left of an image whose name is another image's by now: it is known by its digest alone, as with
// containerd. Its reference is empty when it cannot be named so.
ImageRecord untagged(ImageRecord record);

// Registries, by a Puller, into its store. What a name stood for before stays in the store, untagged. A registry that
// refuses (401, 403, 404) is asked again with the next credentials that have a user for it, those of the options last;
// without any it is asked as nobody.
//
// Thread rule: any thread. Ownership: the store and the records outlive it.
class RegistrySource final : public ImageSource {
 public:
  // `plain_http`: registries (HOST:PORT) that are reached without TLS; `users`: instead of those of the options;
  // `records`: where it is written down whose credentials were used, null: nowhere.
  RegistrySource(ContentStore* store, PullOptions options, std::vector<std::string> plain_http,
                 UserSource users = nullptr, PullRecords* records = nullptr);
  Result<ImageRecord> pull(const PullWork& work, CancelFlag* cancel) override;

 private:
  Result<ImageRecord> pull_with_users(const PullWork& work, CancelFlag* cancel, int* used);
  Result<ImageRecord> pulled(const Reference& image, const Result<ImageRecord>& before);

  ContentStore* store_;
  RegistryOptions registry_;
  std::vector<std::string> plain_http_;
  UserSource users_;
  PullRecords* records_;
  Puller puller_;
};

struct PullLimits {
  int parallel = 5;       // 1: one after the other
  double per_second = 5;  // pulls that begin; 0: no limit
  int burst = 10;
};

struct PullOutcome {
  Result<ImageRecord> image = Status(Code::kCancelled, "cancelled");
  Duration own{0};         // of the pull itself, without the time it waited for its turn
  bool over_rate = false;  // it never began
};

class PullPool {
 public:
  using Done = std::function<void(PullOutcome)>;

  PullPool(ImageSource* source, PullLimits limits);
  ~PullPool();
  PullPool(const PullPool&) = delete;
  PullPool& operator=(const PullPool&) = delete;

  void submit(PullWork work, Done done);

 private:
  struct Task {
    PullWork work;
    Done done;
  };
  void run();
  PullOutcome perform(const PullWork& work);
  bool may_begin(TimePoint now);

  ImageSource* source_;
  PullLimits limits_;
  CancelFlag cancel_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  TokenBucket rate_;
  std::deque<Task> queue_;
  size_t idle_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;  // as many as were ever needed at once
};

}  // namespace ghostfleet::image
