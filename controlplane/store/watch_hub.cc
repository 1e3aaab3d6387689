#include "controlplane/store/watch_hub.h"

#include <algorithm>

namespace ghostfleet::controlplane {

SharedBytes FrameCache::get(int slot, const std::function<SharedBytes()>& encode) {
  std::lock_guard lock(mutex_);
  SharedBytes& bytes = slots_[slot];
  if (!bytes) bytes = encode();
  return bytes;
}

void FrameCache::drop() {
  std::lock_guard lock(mutex_);
  for (SharedBytes& bytes : slots_) bytes.reset();
}

bool WatchQueue::push(const std::shared_ptr<const Event>& event) {
  std::lock_guard lock(mutex_);
  if (cut_) return false;
  if (events_.size() >= options_.max_backlog) {
    cut_ = true;
    const bool was_empty = events_.empty();
    events_.clear();
    return was_empty;
  }
  events_.push_back(event);
  return events_.size() == 1;
}

bool WatchQueue::pull(size_t max, std::vector<Event>* events) {
  std::lock_guard lock(mutex_);
  if (cut_) return false;
  const size_t n = std::min(max, events_.size());
  for (size_t i = 0; i < n; i++) {
    events->push_back(*events_.front());
    handed_out_ = events_.front()->revision;
    events_.pop_front();
  }
  return true;
}

Revision WatchQueue::progress(Revision current) const {
  std::lock_guard lock(mutex_);
  return events_.empty() && !cut_ ? std::max(current, handed_out_) : handed_out_;
}

void WatchQueue::nudge() {
  std::lock_guard lock(nudge_mutex_);
  if (!closed_ && options_.nudge) options_.nudge();
}

void WatchQueue::close() {
  {
    std::lock_guard lock(nudge_mutex_);
    closed_ = true;
  }
  std::lock_guard lock(mutex_);
  cut_ = true;
  events_.clear();
}

WatchHub::Bucket& WatchHub::bucket_of(const WatchOptions& options) {
  if (!options.key.empty()) return by_key_[options.key];
  if (!options.index_value.empty() && index_field_ >= 0) return by_index_[options.index_value];
  if (!options.prefix.empty()) return by_prefix_[options.prefix];
  return all_;
}

void WatchHub::add(const WatchQueueRef& queue) {
  bucket_of(queue->options()).push_back(queue);
  count_++;
}

void WatchHub::remove(const WatchQueueRef& queue) {
  const WatchOptions& options = queue->options();
  Bucket& bucket = bucket_of(options);
  auto it = std::find(bucket.begin(), bucket.end(), queue);
  if (it != bucket.end()) {
    *it = std::move(bucket.back());
    bucket.pop_back();
    count_--;
  }
  if (!bucket.empty() || &bucket == &all_) return;
  if (!options.key.empty()) {
    by_key_.erase(options.key);
  } else if (!options.index_value.empty() && index_field_ >= 0) {
    by_index_.erase(options.index_value);
  } else {
    by_prefix_.erase(options.prefix);
  }
}

std::string_view WatchHub::index_value(const ObjectRef& object) const {
  if (index_field_ < 0 || !object) return {};
  const auto field = static_cast<size_t>(index_field_);
  return field < object->fields.size() ? std::string_view(object->fields[field]) : std::string_view();
}

bool WatchHub::concerns(const WatchOptions& options, const Event& event) const {
  const std::string& key = event.object->key;
  if (!options.key.empty()) return key == options.key;
  if (!key.starts_with(options.prefix)) return false;
  if (options.index_value.empty() || index_field_ < 0) return true;
  return index_value(event.object) == options.index_value || index_value(event.previous) == options.index_value;
}

void WatchHub::publish_to(const Bucket& bucket, const std::shared_ptr<const Event>& event,
                          std::vector<WatchQueueRef>* nudges) const {
  for (const WatchQueueRef& queue : bucket) {
    if (!event->object->key.starts_with(queue->options().prefix)) continue;
    if (queue->push(event)) nudges->push_back(queue);
  }
}

void WatchHub::publish_to(const Buckets& buckets, std::string_view key, const std::shared_ptr<const Event>& event,
                          std::vector<WatchQueueRef>* nudges) const {
  if (buckets.empty()) return;
  auto it = buckets.find(std::string(key));
  if (it != buckets.end()) publish_to(it->second, event, nudges);
}

void WatchHub::publish(const std::shared_ptr<const Event>& event, std::vector<WatchQueueRef>* nudges) const {
  publish_to(all_, event, nudges);
  const std::string_view key = event->object->key;
  publish_to(by_key_, key, event, nudges);
  const size_t slash = key.find('/');
  if (slash != std::string_view::npos) publish_to(by_prefix_, key.substr(0, slash + 1), event, nudges);
  if (by_index_.empty()) return;
  const std::string_view now = index_value(event->object), before = index_value(event->previous);
  if (!now.empty()) publish_to(by_index_, now, event, nudges);
  if (!before.empty() && before != now) publish_to(by_index_, before, event, nudges);
}

}  // namespace ghostfleet::controlplane
