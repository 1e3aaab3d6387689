#include "controlplane/informer/kind_watch.h"

#include "base/log.h"

namespace ghostfleet::controlplane {

namespace {
constexpr size_t kEventsPerPull = 128;
constexpr Duration kSlice = std::chrono::milliseconds(4);
constexpr Duration kBatch = std::chrono::milliseconds(1);
constexpr Duration kListRetry = std::chrono::milliseconds(200);
}  // namespace

struct KindWatch::Shared {
  KindWatch* owner = nullptr;  // loop thread only
  std::atomic<bool> posted{false};
};

KindWatch::KindWatch(Store& store, KindId kind, EventLoop& loop, std::string prefix)
    : store_(store), kind_(kind), loop_(loop), prefix_(std::move(prefix)), shared_(std::make_shared<Shared>()) {
  shared_->owner = this;
}

KindWatch::~KindWatch() { shared_->owner = nullptr; }

void KindWatch::subscribe(Change change) {
  static const ObjectRef kNone;
  for (const auto& [key, object] : objects_) change(kNone, object);
  changes_.push_back(std::move(change));
}

void KindWatch::when_synced(std::function<void()> done) {
  if (synced_) return done();
  waiting_.push_back(std::move(done));
}

void KindWatch::start() { relist(); }

ObjectRef KindWatch::get(std::string_view key) const {
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : it->second;
}

void KindWatch::relist() {
  ListOptions list;
  list.prefix = prefix_;
  WatchOptions options;
  options.prefix = prefix_;
  options.max_backlog = 1000000;
  options.nudge = [shared = shared_, loop = &loop_] {
    if (shared->posted.exchange(true)) return;
    loop->post([shared] {
      if (shared->owner != nullptr) shared->owner->run_slice();
    });
  };
  ListResult result;
  Result<std::unique_ptr<Watch>> watch = store_.list_and_watch(kind_, list, std::move(options), &result);
  if (!watch.ok()) {
    log_warn("informer", watch.error().with_context("list and watch").to_string());
    loop_.run_after(kListRetry, [shared = shared_] {
      if (shared->owner != nullptr) shared->owner->relist();
    });
    return;
  }
  watch_ = std::move(*watch);
  initial_ = std::move(result.items);
  initial_next_ = 0;
  listing_ = true;
  schedule();
}

void KindWatch::schedule() {
  shared_->posted.store(true);
  loop_.post([shared = shared_] {
    if (shared->owner != nullptr) shared->owner->run_slice();
  });
}

void KindWatch::run_slice() {
  if (watch_ == nullptr) return;
  if (listing_) take_initial();
  if (listing_) return schedule();
  Taken taken = take_events();
  if (taken == Taken::kNothing) {
    shared_->posted.store(false);
    taken = take_events();  // what came before that store has nudged nobody
    if (taken == Taken::kNothing) return;
    shared_->posted.store(true);
  }
  if (taken == Taken::kSome) return look_again();
  watch_.reset();
  relist();
}

KindWatch::Taken KindWatch::take_events() {
  const TimePoint end = loop_.now() + kSlice;
  std::vector<Event> events;
  for (Taken taken = Taken::kNothing;; taken = Taken::kSome) {
    events.clear();
    if (!watch_->next(kEventsPerPull, &events)) return Taken::kCut;
    if (events.empty()) return taken;
    for (const Event& event : events) apply(event);
    if (loop_.now() >= end) return Taken::kSome;
  }
}

// While events come, they are fetched by the clock and not by a wake-up for each.
void KindWatch::look_again() {
  loop_.run_after(kBatch, [shared = shared_] {
    if (shared->owner != nullptr) shared->owner->run_slice();
  });
}

// Hands out the list; at its end what we knew and the list does not have is gone.
void KindWatch::take_initial() {
  const TimePoint end = loop_.now() + kSlice;
  while (initial_next_ < initial_.size()) {
    observe(initial_[initial_next_++]);
    if (initial_next_ % 64 == 0 && loop_.now() >= end) return;
  }
  if (objects_.size() != initial_.size()) {
    StringMap<bool> listed;
    for (const ObjectRef& object : initial_) listed.emplace(object->key, true);
    std::vector<ObjectRef> gone;
    for (const auto& [key, object] : objects_) {
      if (!listed.contains(key)) gone.push_back(object);
    }
    for (const ObjectRef& object : gone) {
      objects_.erase(object->key);
      tell(object, nullptr);
    }
  }
  initial_.clear();
  initial_.shrink_to_fit();
  listing_ = false;
  if (synced_) return;
  synced_ = true;
  std::vector<std::function<void()>> waiting = std::move(waiting_);
  for (const auto& done : waiting) done();
}

void KindWatch::apply(const Event& event) {
  if (event.type != EventType::kDeleted) return observe(event.object);
  const auto removed = removed_.find(event.object->key);
  if (removed != removed_.end() && removed->second <= event.revision) removed_.erase(removed);
  const auto it = objects_.find(event.object->key);
  if (it == objects_.end() || it->second->revision > event.revision) return;
  const ObjectRef old = it->second;
  objects_.erase(it);
  tell(old, nullptr);
}

void KindWatch::observe(const ObjectRef& object) {
  if (!object || object->revision == 0) return;
  if (!removed_.empty()) {
    const auto removed = removed_.find(object->key);
    if (removed != removed_.end()) {
      if (removed->second >= object->revision) return;
      removed_.erase(removed);
    }
  }
  ObjectRef& slot = objects_[object->key];
  if (slot && slot->revision >= object->revision) return;
  const ObjectRef old = slot;
  slot = object;
  tell(old, object);
}

void KindWatch::observe_removed(const ObjectRef& object) {
  if (!object) return;
  const auto it = objects_.find(object->key);
  if (it == objects_.end() || it->second->revision > object->revision) return;
  removed_[object->key] = object->revision;
  const ObjectRef old = it->second;
  objects_.erase(it);
  tell(old, nullptr);
}

void KindWatch::tell(const ObjectRef& old, const ObjectRef& now) {
  for (size_t i = 0; i < changes_.size(); ++i) changes_[i](old, now);
}

}  // namespace ghostfleet::controlplane
