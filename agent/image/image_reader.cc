#include "agent/image/image_reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/image/root_folder.h"
#include "base/log.h"

namespace ghostfleet::image {
namespace {

constexpr size_t kReadBytes = 256 * 1024;

bool refused(Code code) { return code == Code::kUnauthenticated || code == Code::kPermissionDenied; }

Status nothing(std::string_view) { return Status(); }

}  // namespace

Status read_unpacked(const ContentStore& store, const ImageRecord& image, const std::string& path,
                     const ByteSink& sink) {
  auto root = RootFolder::open(store.rootfs_path(image.chain));
  if (!root.ok()) return Status(Code::kDataLoss, root.error().message());
  auto file = root->file(path);
  if (!file.ok()) return file.error();
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const ssize_t n = read(file->get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_status(path, errno);
    if (n == 0) return Status();
    GF_RETURN_IF_ERROR(sink({buffer.data(), static_cast<size_t>(n)}));
  }
}

// A lazily pulled image and its registry.
struct ImageReader::Open {
  Open(HttpClient* http, ContentStore* store, const Reference& reference, RegistryOptions how,
       const ResolvedImage& image, UnpackLimits limits, CancelFlag* cancel)
      : registry(http, reference, std::move(how), cancel), lazy(&registry, store, image, limits) {}
  Registry registry;
  LazyImage lazy;
  uint64_t used = 0;
};

ImageReader::ImageReader(ContentStore* store, const PullOptions& options, std::vector<std::string> plain_http,
                         UserSource users, ReadSettings settings)
    : store_(store),
      registry_(options.registry),
      limits_(options.limits),
      plain_http_(std::move(plain_http)),
      users_(std::move(users)),
      settings_(settings),
      http_(settings_.http, options.ca_file, "ghostfleet") {}

ImageReader::~ImageReader() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    queue_.clear();
  }
  cancel_.cancel();
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (background_.joinable()) background_.join();
}

void ImageReader::submit(ReadWork work, Done done) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(work), std::move(done)});
  if (queue_.size() > idle_ && threads_.size() < kMostThreads) threads_.emplace_back([this] { run(); });
  changed_.notify_all();
}

// The first whose image nobody else reads.
bool ImageReader::take(Task* out) {
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    if (busy_.contains(it->work.image.manifest)) continue;
    *out = std::move(*it);
    queue_.erase(it);
    busy_.insert(out->work.image.manifest);
    return true;
  }
  return false;
}

void ImageReader::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Task task;
    ++idle_;
    changed_.wait(lock, [&] { return over_ || take(&task); });
    --idle_;
    if (over_) return;
    lock.unlock();
    const Status status = perform(task.work);
    if (!status.ok() && !cancel_.cancelled())
      log_warn("image",
               fmt::format("reading {} of {}: {}", task.work.path, task.work.image.reference, status.message()));
    if (!cancel_.cancelled()) task.done(status);
    lock.lock();
    busy_.erase(task.work.image.manifest);
    changed_.notify_all();
  }
}

Status ImageReader::perform(const ReadWork& work) {
  if (!work.image.chain.empty()) return read_unpacked(*store_, work.image, work.path, nothing);
  const auto read = with_users(work.image, work.credentials, [&](LazyImage& lazy) -> Result<bool> {
    const Status s = lazy.read(work.path, nothing);
    if (!s.ok()) return s;
    return true;
  });
  return read.ok() ? Status() : read.error();
}

Result<bool> ImageReader::with_users(const ImageRecord& image, const std::vector<DockerConfig>& credentials,
                                     const std::function<Result<bool>(LazyImage&)>& what) {
  auto reference = parse_reference(image.reference);
  if (!reference.ok()) return reference.error();
  auto opened = open(image, *reference);
  if (!opened.ok()) return Status(Code::kDataLoss, opened.error().message());
  Open& from = **opened;
  const uint64_t requests = from.registry.stats().requests, logins = from.registry.stats().logins;
  Result<bool> result = false;
  for (RegistryUser& user : users_for(*reference, credentials, users_())) {
    from.registry.set_credentials(std::move(user.config));
    result = what(from.lazy);
    if (result.ok() || !refused(result.error().code())) break;
  }
  stats_.requests += from.registry.stats().requests - requests;
  stats_.logins += from.registry.stats().logins - logins;
  return result;
}

// With the image marked busy: nobody else opens it.
Result<std::shared_ptr<ImageReader::Open>> ImageReader::open(const ImageRecord& image, const Reference& reference) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = open_.find(image.manifest);
    if (it != open_.end()) {
      it->second->used = ++uses_;
      return it->second;
    }
  }
  auto resolved = stored_image(image, *store_);
  if (!resolved.ok()) return resolved.error();
  RegistryOptions how = registry_;
  how.plain_http =
      image.plain_http || std::find(plain_http_.begin(), plain_http_.end(), reference.registry) != plain_http_.end();
  auto out = std::make_shared<Open>(&http_, store_, reference, std::move(how), *resolved, limits_, &cancel_);
  const std::lock_guard lock(mutex_);
  out->used = ++uses_;
  open_[image.manifest] = out;
  while (open_.size() > kMostOpen) {
    open_.erase(std::min_element(open_.begin(), open_.end(),
                                 [](const auto& a, const auto& b) { return a.second->used < b.second->used; }));
  }
  return out;
}

void ImageReader::fetch_rest(const ImageRecord& image, std::vector<DockerConfig> credentials) {
  if (!settings_.background || !image.chain.empty()) return;
  const std::lock_guard lock(mutex_);
  quiet_until_ = SystemClock::instance().now() + settings_.silence;
  std::erase_if(rests_, [&](const Rest& r) { return r.image.manifest == image.manifest; });
  if (rests_.size() == kMostQueued) return;  // as in SOCI the newest is left out
  rests_.push_back({image, std::move(credentials)});
  if (!background_.joinable()) background_ = std::thread([this] { run_background(); });
  changed_.notify_all();
}

void ImageReader::forget(std::string_view manifest) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rests_, [&](const Rest& r) { return r.image.manifest == manifest; });
  if (fetching_ == manifest) fetching_.clear();
  if (const auto it = open_.find(manifest); it != open_.end()) open_.erase(it);
}

// A piece of one image after the other.
void ImageReader::run_background() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return over_ || !rests_.empty(); });
    if (over_) return;
    const Duration quiet = quiet_until_ - SystemClock::instance().now();
    lock.unlock();
    cancel_.sleep(std::max(quiet, settings_.period));
    lock.lock();
    if (over_) return;
    const bool too_early = SystemClock::instance().now() < quiet_until_;
    if (too_early || rests_.empty() || busy_.contains(rests_.front().image.manifest)) continue;
    Rest rest = std::move(rests_.front());
    rests_.pop_front();
    busy_.insert(rest.image.manifest);
    fetching_ = rest.image.manifest;
    lock.unlock();
    const Result<bool> more =
        with_users(rest.image, rest.credentials, [](LazyImage& lazy) { return lazy.fetch_next(); });
    if (!more.ok() && !cancel_.cancelled())
      log_warn("image", fmt::format("{}: the rest is not fetched in the background: {}", rest.image.reference,
                                    more.error().message()));
    if (more.ok() && *more) ++stats_.background_pieces;
    lock.lock();
    busy_.erase(rest.image.manifest);
    changed_.notify_all();
    const bool again = std::any_of(rests_.begin(), rests_.end(),
                                   [&](const Rest& r) { return r.image.manifest == rest.image.manifest; });
    if (more.ok() && *more && !again && !std::exchange(fetching_, {}).empty()) rests_.push_back(std::move(rest));
  }
}

}  // namespace ghostfleet::image
