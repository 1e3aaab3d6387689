// ImageReader: files of images that are in a store, read for somebody who must not wait: from the unpacked root of an
// image, or, of one that was pulled lazily, piece by piece from its registry when they are read for the first time. The
// rest of such an image is fetched in the background.
//
// Thread rule: submit(), fetch_rest() and forget() from any thread; a Done is called on a thread of the reader, once
// for each read, and hands over to its owner's thread. Ownership: the store outlives the reader. The destructor cancels
// what is on its way and waits for that; reads that are cancelled so, or never began, are not told.
// One read of an image at a time; kMostThreads images at once. An image is kept open until kMostOpen others were used
// since.
// Errors of reads: NotFound (the image has no such file), InvalidArgument (it is no regular file), all others: what is
// needed of it is not here and cannot be had. A registry that refuses is asked for a new login once for each read, with
// each of the credentials that have a user for it.
// Source: soci-snapshotter: config/config.go and fs/backgroundfetcher (background_fetch: its names and defaults; what
// cannot be fetched leaves the queue), case C065.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/image/content_store.h"
#include "agent/image/http.h"
#include "agent/image/lazy_image.h"
#include "agent/image/puller.h"
#include "agent/image/registry.h"
#include "agent/image/users.h"
#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::image {

// A file of an image whose root is in the store.
Status read_unpacked(const ContentStore& store, const ImageRecord& image, const std::string& path,
                     const ByteSink& sink);

struct ReadSettings {
  HttpLimits http{std::chrono::seconds(3), std::chrono::seconds(30)};
  bool background = true;
  Duration silence = std::chrono::seconds(30);       // without fetching after an image came
  Duration period = std::chrono::milliseconds(500);  // a piece each
};

struct ReadWork {
  ImageRecord image;
  std::string path;
  std::vector<DockerConfig> credentials;  // of whoever reads, before those of the source
};

struct ReadStats {
  std::atomic<uint64_t> requests{0}, logins{0}, background_pieces{0};
};

class ImageReader {
 public:
  static constexpr size_t kMostThreads = 16, kMostOpen = 16, kMostQueued = 300;
  using Done = std::function<void(Status)>;

  // `plain_http`: registries (HOST:PORT) that are reached without TLS.
  ImageReader(ContentStore* store, const PullOptions& options, std::vector<std::string> plain_http, UserSource users,
              ReadSettings settings);
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  void submit(ReadWork work, Done done);
  // Fetches what is missing of a lazily pulled image, later and slowly. An error ends it, until the next call.
  void fetch_rest(const ImageRecord& image, std::vector<DockerConfig> credentials);
  // The image (its manifest) goes: nothing of it is fetched any more.
  void forget(std::string_view manifest);
  const ReadStats& stats() const { return stats_; }

 private:
  struct Open;
  struct Task {
    ReadWork work;
    Done done;
  };
  struct Rest {
    ImageRecord image;
    std::vector<DockerConfig> credentials;
  };

  void run();
  void run_background();
  bool take(Task* out);
  Status perform(const ReadWork& work);
  Result<bool> with_users(const ImageRecord& image, const std::vector<DockerConfig>& credentials,
                          const std::function<Result<bool>(LazyImage&)>& what);
  Result<std::shared_ptr<Open>> open(const ImageRecord& image, const Reference& reference);

  ContentStore* store_;
  RegistryOptions registry_;
  UnpackLimits limits_;
  std::vector<std::string> plain_http_;
  UserSource users_;
  ReadSettings settings_;
  HttpClient http_;
  CancelFlag cancel_;
  ReadStats stats_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::list<Task> queue_;
  std::set<std::string, std::less<>> busy_;  // manifests that are being read
  std::map<std::string, std::shared_ptr<Open>, std::less<>> open_;
  uint64_t uses_ = 0;
  std::deque<Rest> rests_;
  std::string fetching_;  // the manifest of the one a piece is fetched of; empty: none, or it was forgotten
  TimePoint quiet_until_;
  size_t idle_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;  // as many as were ever needed at once
  std::thread background_;
};

}  // namespace ghostfleet::image
