#include "controlplane/store/store.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <shared_mutex>
#include <unordered_map>

#include "controlplane/store/kind_store.h"

namespace ghostfleet::controlplane {
namespace {

class StoreWatch final : public Watch {
 public:
  StoreWatch(KindStore& kind, WatchQueueRef queue) : kind_(kind), queue_(std::move(queue)) {}
  ~StoreWatch() override { kind_.unwatch(queue_); }
  bool next(size_t max, std::vector<Event>* events) override { return queue_->pull(max, events); }
  Revision progress() const override { return kind_.progress(*queue_); }

 private:
  KindStore& kind_;
  WatchQueueRef queue_;
};

class MemoryStore final : public Store {
 public:
  MemoryStore(StoreOptions options, const Clock& clock)
      : options_(options), clock_(clock), revision_(static_cast<Revision>(clock.wall_now().ns / 1000)) {}

  KindId add_kind(KindConfig config) override {
    std::unique_lock lock(mutex_);
    auto known = ids_.find(config.name);
    if (known != ids_.end()) return known->second;
    const auto id = static_cast<KindId>(kinds_.size());
    ids_.emplace(config.name, id);
    kinds_.push_back(std::make_unique<KindStore>(std::move(config), options_, clock_, &revision_));
    return id;
  }

  Revision revision() const override { return revision_.load(); }
  Revision compacted(KindId kind) const override { return at(kind).compacted(); }
  ObjectRef get(KindId kind, std::string_view key) const override { return at(kind).get(key); }
  Result<ListResult> list(KindId kind, const ListOptions& options) const override { return at(kind).list(options); }
  size_t count(KindId kind, std::string_view prefix) const override { return at(kind).count(prefix); }

  Result<ObjectRef> put(KindId kind, std::string_view key, const ObjectRef& expected, EncodedObject object) override {
    return at(kind).put(key, expected, std::move(object));
  }
  Result<ObjectRef> remove(KindId kind, std::string_view key, const ObjectRef& expected) override {
    return at(kind).remove(key, expected);
  }

  Result<std::unique_ptr<Watch>> watch(KindId kind, WatchOptions options) override {
    KindStore& store = at(kind);
    Result<WatchQueueRef> queue = store.watch(std::move(options));
    if (!queue.ok()) return queue.error();
    return std::unique_ptr<Watch>(std::make_unique<StoreWatch>(store, *queue));
  }
  Result<std::unique_ptr<Watch>> list_and_watch(KindId kind, const ListOptions& list, WatchOptions options,
                                                ListResult* initial) override {
    KindStore& store = at(kind);
    Result<WatchQueueRef> queue = store.list_and_watch(list, std::move(options), initial);
    if (!queue.ok()) return queue.error();
    return std::unique_ptr<Watch>(std::make_unique<StoreWatch>(store, *queue));
  }

 private:
  KindStore& at(KindId kind) const {
    std::shared_lock lock(mutex_);
    return *kinds_[kind];
  }

  const StoreOptions options_;
  const Clock& clock_;
  std::atomic<Revision> revision_;
  mutable std::shared_mutex mutex_;
  std::deque<std::unique_ptr<KindStore>> kinds_;
  std::unordered_map<std::string, KindId> ids_;
};

}  // namespace

std::string_view Object::name() const {
  const std::string_view k = key;
  const size_t slash = k.find('/');
  return slash == std::string_view::npos ? k : k.substr(slash + 1);
}

std::string_view Object::ns() const {
  const std::string_view k = key;
  const size_t slash = k.find('/');
  return slash == std::string_view::npos ? std::string_view() : k.substr(0, slash);
}

std::unique_ptr<Store> Store::create(StoreOptions options, const Clock& clock) {
  return std::make_unique<MemoryStore>(options, clock);
}

std::string format_revision(Revision revision) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0 && revision > 0; revision /= 10) text[i] = static_cast<char>('0' + revision % 10);
  return text;
}

}  // namespace ghostfleet::controlplane
