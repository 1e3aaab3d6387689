#include "controlplane/store/kind_store.h"

#include <algorithm>
#include <utility>

namespace ghostfleet::controlplane {
namespace {

constexpr size_t kRevisionDigits = 16;
constexpr size_t kMaxOverlays = 8;
constexpr size_t kEncodedEvents = 2048;

void patch_revision(std::string* json, size_t offset, Revision revision) {
  for (size_t i = offset + kRevisionDigits; i-- > offset; revision /= 10) {
    (*json)[i] = static_cast<char>('0' + revision % 10);
  }
}

// What an event costs: itself, and the version it replaced, which nobody else needs.
size_t history_cost(const Event& event) {
  constexpr size_t kEvent = sizeof(Event) + sizeof(Object) + 64;
  return kEvent + (event.previous ? event.previous->json.size() + event.previous->key.size() : 0);
}

Status expired_status(Revision asked, Revision compacted) {
  return Status(Code::kExpired, "revision " + std::to_string(asked) +
                                    " is older than the history, which begins after " + std::to_string(compacted));
}

// Collects items in order until the limit; knows whether there were more.
class PageBuilder {
 public:
  PageBuilder(const ListOptions& options, ListResult* result) : options_(options), result_(result) {}
  // False when the page is full and one more item is known.
  bool add(const ObjectRef& object) {
    // A full page has more behind it when there is any object left, also one the filter would not let pass.
    if (options_.limit > 0 && result_->items.size() >= options_.limit) {
      result_->more = true;
      return false;
    }
    if (options_.filter && !options_.filter(*object)) return true;
    result_->items.push_back(object);
    return true;
  }

 private:
  const ListOptions& options_;
  ListResult* result_;
};

std::string list_begin(const ListOptions& options) {
  if (options.start_after.empty() || options.start_after < options.prefix) return options.prefix;
  return options.start_after + '\0';
}

}  // namespace

KindStore::KindStore(KindConfig config, const StoreOptions& options, const Clock& clock,
                     std::atomic<Revision>* revision)
    : config_(std::move(config)),
      options_(options),
      clock_(clock),
      revision_(*revision),
      compacted_(revision->load()),
      hub_(config_.watch_index_field) {}

Revision KindStore::compacted() const {
  std::shared_lock lock(mutex_);
  return compacted_;
}

ObjectRef KindStore::get(std::string_view key) const {
  std::shared_lock lock(mutex_);
  const ObjectRef* found = index_.find(key);
  return found ? *found : nullptr;
}

size_t KindStore::count(std::string_view prefix) const {
  std::shared_lock lock(mutex_);
  if (prefix.empty()) return index_.size();
  return index_.rank(index_.lower_bound(prefix_end(prefix))) - index_.rank(index_.lower_bound(prefix));
}

std::shared_ptr<Object> KindStore::make_object(std::string_view key, EncodedObject encoded) const {
  auto object = std::make_shared<Object>();
  object->key = key;
  object->json = std::move(encoded.json);
  object->revision_offset = encoded.revision_offset;
  if (config_.extract) config_.extract(object->json, object.get());
  return object;
}

Status KindStore::check_expected(const ObjectRef* current, std::string_view key, const ObjectRef& expected) const {
  const auto what = [&] { return config_.name + " \"" + std::string(key) + "\""; };
  if (!expected) return current ? Status(Code::kAlreadyExists, what() + " exists") : Status();
  if (!current) return Status(Code::kNotFound, what() + " does not exist");
  if ((*current)->revision != expected->revision) return Status(Code::kConflict, what() + " has changed");
  return Status();
}

Result<ObjectRef> KindStore::put(std::string_view key, const ObjectRef& expected, EncodedObject encoded) {
  if (encoded.json.size() > options_.max_object_bytes) {
    return Status(Code::kResourceExhausted, "the object is larger than " + std::to_string(options_.max_object_bytes));
  }
  if (encoded.revision_offset + kRevisionDigits > encoded.json.size()) {
    return internal_error("the object has no room for its revision");
  }
  std::shared_ptr<Object> object = make_object(key, std::move(encoded));
  auto event = std::make_shared<Event>();
  Aftermath after;
  ObjectRef stored = object;
  {
    std::unique_lock lock(mutex_);
    ObjectRef* current = index_.find(key);
    if (Status status = check_expected(current, key, expected); !status.ok()) return status;
    object->revision = revision_.fetch_add(1) + 1;
    object->create_revision = current ? (*current)->create_revision : object->revision;
    object->committed = clock_.now();
    patch_revision(&object->json, object->revision_offset, object->revision);
    event->type = current ? EventType::kModified : EventType::kAdded;
    event->revision = object->revision;
    event->object = stored;
    if (current) event->previous = *current;
    reindex(current ? current->get() : nullptr, stored.get());
    if (current) {
      *current = stored;
    } else {
      index_.put(stored);
    }
    commit(std::move(event), &after);
  }
  after.settle();
  return stored;
}

Result<ObjectRef> KindStore::remove(std::string_view key, const ObjectRef& expected) {
  std::shared_ptr<Object> last;
  auto event = std::make_shared<Event>();
  Aftermath after;
  {
    std::unique_lock lock(mutex_);
    const ObjectRef* current = index_.find(key);
    if (!current) return Status(Code::kNotFound, config_.name + " \"" + std::string(key) + "\" does not exist");
    if (expected && (*current)->revision != expected->revision) {
      return Status(Code::kConflict, config_.name + " \"" + std::string(key) + "\" has changed");
    }
    last = std::make_shared<Object>(**current);
    last->revision = revision_.fetch_add(1) + 1;
    last->committed = clock_.now();
    patch_revision(&last->json, last->revision_offset, last->revision);
    event->type = EventType::kDeleted;
    event->revision = last->revision;
    event->object = last;
    event->previous = *current;
    reindex(current->get(), nullptr);
    index_.erase(last->key);
    commit(std::move(event), &after);
  }
  after.settle();
  return ObjectRef(last);
}

void KindStore::Aftermath::settle() {
  for (const WatchQueueRef& queue : nudges) queue->nudge();
  forgotten.clear();
}

void KindStore::commit(std::shared_ptr<const Event> event, Aftermath* after) {
  if (!hub_.empty()) {
    // Only now is the event shared; nobody else sees it being changed.
    std::const_pointer_cast<Event>(event)->frames = std::make_shared<FrameCache>();
    hub_.publish(event, &after->nudges);
  }
  const TimePoint now = event->object->committed;
  history_bytes_ += history_cost(*event);
  history_.push_back(std::move(event));
  // Encodings are for those who follow closely; kept for the whole history they would double it.
  if (history_.size() > kEncodedEvents) {
    const Event& passed = *history_[history_.size() - 1 - kEncodedEvents];
    if (passed.frames) passed.frames->drop();
  }
  compact(now, after);
}

void KindStore::compact(TimePoint now, Aftermath* after) {
  const TimePoint oldest = now - options_.history;
  while (!history_.empty()) {
    const Event& event = *history_.front();
    const bool small = history_.size() <= options_.history_events && history_bytes_ <= options_.history_bytes;
    if (small && event.object->committed >= oldest) break;
    compacted_ = event.revision;
    history_bytes_ -= history_cost(event);
    after->forgotten.push_back(std::move(history_.front()));
    history_.pop_front();
  }
  while (!overlays_.empty() && overlays_.begin()->first < compacted_) overlays_.erase(overlays_.begin());
}

size_t KindStore::first_event_after(Revision revision) const {
  auto it = std::upper_bound(history_.begin(), history_.end(), revision,
                             [](Revision r, const std::shared_ptr<const Event>& e) { return r < e->revision; });
  return static_cast<size_t>(it - history_.begin());
}

Result<ListResult> KindStore::list(const ListOptions& options) {
  if (options.revision == 0) {
    std::shared_lock lock(mutex_);
    return list_current(options);
  }
  std::unique_lock lock(mutex_);
  if (options.revision < compacted_) return expired_status(options.revision, compacted_);
  if (first_event_after(options.revision) == history_.size()) {
    ListResult result = list_current(options);
    result.revision = options.revision;
    return result;
  }
  return list_at(options);
}

std::string_view KindStore::index_value(const Object& object) const {
  const auto field = static_cast<size_t>(config_.watch_index_field);
  return field < object.fields.size() ? std::string_view(object.fields[field]) : std::string_view();
}

void KindStore::reindex(const Object* before, const Object* after) {
  if (config_.watch_index_field < 0) return;
  const std::string_view from = before ? index_value(*before) : "", to = after ? index_value(*after) : "";
  if (from == to) return;
  if (!from.empty()) {
    auto it = by_index_.find(std::string(from));
    if (it != by_index_.end()) {
      it->second.erase(before->key);
      if (it->second.empty()) by_index_.erase(it);
    }
  }
  if (!to.empty()) by_index_[std::string(to)].insert(after->key);
}

ListResult KindStore::list_current(const ListOptions& options) const {
  ListResult result;
  result.revision = revision_.load();
  PageBuilder page(options, &result);
  const auto add_key = [&](const std::string& key) {
    const ObjectRef* found = key.starts_with(options.prefix) && key > options.start_after ? index_.find(key) : nullptr;
    return !found || page.add(*found);
  };
  if (!options.key.empty()) {
    add_key(options.key);
    return result;
  }
  if (!options.index_value.empty() && config_.watch_index_field >= 0) {
    const auto keys = by_index_.find(options.index_value);
    if (keys == by_index_.end()) return result;
    for (const std::string& key : keys->second) {
      if (!add_key(key)) break;
    }
    return result;
  }
  const std::string end = prefix_end(options.prefix);
  SortedIndex::Position at = index_.lower_bound(list_begin(options));
  for (; !index_.at_end(at); index_.advance(&at)) {
    const ObjectRef& object = index_.at(at);
    if (!end.empty() && object->key >= end) break;
    if (!page.add(object)) break;
  }
  if (result.more && !options.filter) {
    const size_t last = end.empty() ? index_.size() : index_.rank(index_.lower_bound(end));
    result.remaining = last - index_.rank(at);
  }
  return result;
}

KindStore::Overlay& KindStore::overlay_at(Revision revision) {
  if (overlays_.size() >= kMaxOverlays && !overlays_.contains(revision)) overlays_.erase(overlays_.begin());
  Overlay& overlay = overlays_[revision];
  for (size_t i = first_event_after(std::max(revision, overlay.covered)); i < history_.size(); i++) {
    overlay.then.try_emplace(history_[i]->object->key, history_[i]->previous);
  }
  if (!history_.empty()) overlay.covered = std::max(overlay.covered, history_.back()->revision);
  return overlay;
}

// Merges the present with what was different then; both are in key order.
ListResult KindStore::list_at(const ListOptions& options) {
  ListResult result;
  result.revision = options.revision;
  const Overlay& overlay = overlay_at(options.revision);
  PageBuilder page(options, &result);
  const std::string begin = list_begin(options), end = prefix_end(options.prefix);
  auto past = overlay.then.lower_bound(begin);
  const auto past_end = end.empty() ? overlay.then.end() : overlay.then.lower_bound(end);
  SortedIndex::Position at = index_.lower_bound(begin);
  const auto now_done = [&] { return index_.at_end(at) || (!end.empty() && index_.at(at)->key >= end); };
  while (past != past_end || !now_done()) {
    const bool take_past = past != past_end && (now_done() || past->first <= index_.at(at)->key);
    const ObjectRef& object = take_past ? past->second : index_.at(at);
    if (object && !page.add(object)) break;
    if (!take_past || (!now_done() && index_.at(at)->key == past->first)) index_.advance(&at);
    if (take_past) ++past;
  }
  if (!result.more || options.filter) return result;
  // What is left now, put right by what was different then.
  result.remaining = (end.empty() ? index_.size() : index_.rank(index_.lower_bound(end))) - index_.rank(at);
  for (; past != past_end; ++past) {
    if (past->second) result.remaining++;
    if (index_.find(past->first)) result.remaining--;
  }
  return result;
}

Result<WatchQueueRef> KindStore::watch(WatchOptions options) {
  std::unique_lock lock(mutex_);
  if (options.after < compacted_) return expired_status(options.after, compacted_);
  auto queue = std::make_shared<WatchQueue>(std::move(options), 0);
  for (size_t i = first_event_after(queue->options().after); i < history_.size(); i++) {
    if (hub_.concerns(queue->options(), *history_[i])) queue->push(history_[i]);
  }
  hub_.add(queue);
  return queue;
}

Result<WatchQueueRef> KindStore::list_and_watch(const ListOptions& list, WatchOptions options, ListResult* initial) {
  std::unique_lock lock(mutex_);
  *initial = list_current(list);
  options.after = initial->revision;
  auto queue = std::make_shared<WatchQueue>(std::move(options), initial->revision);
  hub_.add(queue);
  return queue;
}

void KindStore::unwatch(const WatchQueueRef& queue) {
  {
    std::unique_lock lock(mutex_);
    hub_.remove(queue);
  }
  queue->close();
}

Revision KindStore::progress(const WatchQueue& queue) const {
  std::shared_lock lock(mutex_);
  return queue.progress(revision_.load());
}

}  // namespace ghostfleet::controlplane
