#include "agent/image/pull_pool.h"

#include <algorithm>
#include <utility>

namespace ghostfleet::image {
namespace {

// What another user may be given: registries call an image that somebody may not see "not found".
bool depends_on_user(Code code) {
  return code == Code::kUnauthenticated || code == Code::kPermissionDenied || code == Code::kNotFound;
}

}  // namespace

ImageRecord untagged(ImageRecord record) {
  auto reference = parse_reference(record.reference);
  record.reference.clear();
  if (!reference.ok() || record.target.empty()) return record;
  reference->tag.clear();
  reference->digest = record.target;
  record.reference = reference->to_string();
  return record;
}

RegistrySource::RegistrySource(ContentStore* store, PullOptions options, std::vector<std::string> plain_http,
                               UserSource users, PullRecords* records)
    : store_(store),
      registry_(options.registry),
      plain_http_(std::move(plain_http)),
      users_(users ? std::move(users) : [own = options.registry.credentials] { return own; }),
      records_(records),
      puller_(store, std::move(options)) {}

Result<ImageRecord> RegistrySource::pull(const PullWork& work, CancelFlag* cancel) {
  if (records_ != nullptr) records_->begun(work.reference);
  int used = -1;
  auto record = pull_with_users(work, cancel, &used);
  if (records_ == nullptr) return record;
  if (record.ok()) {
    records_->pulled(work.reference, *record, used >= 0 ? &work.secrets[static_cast<size_t>(used)] : nullptr);
  } else {
    records_->failed(work.reference);
  }
  return record;
}

Result<ImageRecord> RegistrySource::pull_with_users(const PullWork& work, CancelFlag* cancel, int* used) {
  const Reference& image = work.reference;
  RegistryOptions how = registry_;
  how.plain_http = std::find(plain_http_.begin(), plain_http_.end(), image.registry) != plain_http_.end();
  const auto before = store_->find_image(image.to_string());
  Status failure;
  std::vector<DockerConfig> given;
  for (const PodSecret& secret : work.secrets) given.push_back(secret.config);
  for (RegistryUser& user : users_for(image, given, users_())) {
    *used = user.given;
    how.credentials = std::move(user.config);
    const auto report = puller_.pull(image, how, cancel);
    if (report.ok()) return pulled(image, before);
    failure = report.error();
    if (!depends_on_user(failure.code())) break;
  }
  return failure;
}

Result<ImageRecord> RegistrySource::pulled(const Reference& image, const Result<ImageRecord>& before) {
  auto record = store_->find_image(image.to_string());
  if (!record.ok() || !before.ok() || before->target == record->target) return record;
  const ImageRecord old = untagged(*before);
  if (old.reference.empty()) return record;
  if (Status s = store_->put_image(old); !s.ok()) return s;
  return record;
}

PullPool::PullPool(ImageSource* source, PullLimits limits)
    : source_(source), limits_(limits), rate_(limits.per_second, std::max(limits.burst, 1)) {}

PullPool::~PullPool() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    queue_.clear();
  }
  cancel_.cancel();
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PullPool::submit(PullWork work, Done done) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({std::move(work), std::move(done)});
  if (queue_.size() > idle_ && threads_.size() < static_cast<size_t>(std::max(limits_.parallel, 1)))
    threads_.emplace_back([this] { run(); });
  changed_.notify_one();
}

void PullPool::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return over_ || !queue_.empty(); });
    --idle_;
    if (over_) return;
    const Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    PullOutcome outcome = perform(task.work);
    const bool told = !cancel_.cancelled();
    if (told) task.done(std::move(outcome));
    lock.lock();
  }
}

PullOutcome PullPool::perform(const PullWork& work) {
  const TimePoint start = SystemClock::instance().now();
  if (!may_begin(start)) return {Status(Code::kResourceExhausted, "pull QPS exceeded"), Duration(0), true};
  PullOutcome out{source_->pull(work, &cancel_)};
  out.own = SystemClock::instance().now() - start;
  return out;
}

bool PullPool::may_begin(TimePoint now) {
  const std::lock_guard lock(mutex_);
  return rate_.take(now);
}

}  // namespace ghostfleet::image
